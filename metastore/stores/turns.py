"""Writers of one machine take turns at a table: a courtesy that saves work and is fair, not what safety rests on.

Without it the writer that is warm and near wins one race after the other, while those who must first read what it
changed prepare commits in vain. Turns are waited for as long as commits go on, however many wait on however slow a
machine. When nothing happens for longer than they are ready to wait, since the one whose turn it is was stopped, say,
it is passed by: then the commit itself decides, as it does between machines.
"""

from __future__ import annotations

import fcntl
import math
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

PATIENCE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 0.004

_open_folders: Final[set[int]] = set()
_opening: Final = threading.Lock()


@contextmanager
def turn(
    folder: str, monotonic: Callable[[], float], pause: Callable[[float], object], until: float = math.inf
) -> Iterator[None]:
    """Hold the turn at ``folder`` of the local disk.

    One writer at a time waits for the turn, the others wait to be that one: who just had a turn stands behind it, and
    cannot take the next before it, however many threads it has. Goes on without the turn when no file came to the
    folder or left it for :data:`PATIENCE_S` seconds, and at the time ``until``. Nobody is waited for where the folder
    is not there yet, or on a file system without locks.
    """
    with _opened(folder) as own:
        if own is not None:
            with _opened(os.path.dirname(folder)) as first_in_line:
                for lock in (first_in_line, own):
                    if lock is not None:
                        _wait_for(lock, own, monotonic, pause, until)
        yield


@contextmanager
def _opened(folder: str) -> Iterator[int | None]:
    """A descriptor that a lock can be held by, until this ends; None for a folder that is not there."""
    descriptor: int | None = None
    with _opening, suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        _open_folders.add(descriptor)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            with _opening:
                _open_folders.discard(descriptor)
                os.close(descriptor)


def _wait_for(
    lock: int, commits: int, monotonic: Callable[[], float], pause: Callable[[float], object], until: float
) -> None:
    """Take ``lock``, for as long as files come to the folder ``commits`` or leave it."""
    touched = None
    deadline = until
    while _others_hold(lock):
        now = monotonic()
        if (latest := os.fstat(commits).st_mtime_ns) != touched:
            touched, deadline = latest, min(now + PATIENCE_S, until)
        if now >= deadline:
            return
        pause(random.uniform(_LONGEST_PAUSE_S / 4, _LONGEST_PAUSE_S))  # noqa: S311 - jitter, not a secret


def _others_hold(descriptor: int) -> bool:
    """Take the turn unless somebody else has it; a file system without locks has nobody."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _begin_anew() -> None:
    """A forked child lets go of what its parent holds: the lock would last as long as either of them."""
    for descriptor in _open_folders:
        os.close(descriptor)
    _open_folders.clear()
    _opening.release()


os.register_at_fork(before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_begin_anew)
