"""Writers of one machine take turns at a table: this saves work and is fair, but safety does not depend on it.

Without turns, a writer with warm caches wins race after race, while the others read its changes and prepare commits in
vain. A writer waits for its turn as long as commits continue, however many wait and however slow the machine is. If
nothing happens for longer than its patience, because the holder was stopped, for example, it goes on without its turn.
Then the commit itself decides, as between machines.
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

    One writer at a time waits for the turn; the others wait to be that one. A writer that has just had its turn goes to
    the back, so one process cannot take turn after turn, however many threads it has. It goes on without the turn if no
    file was created in the folder or removed from it for :data:`PATIENCE_S` seconds, and at the time ``until``. It does
    not wait if the folder does not exist yet, or on a file system without locks.
    """
    with _open_folder(folder) as own:
        if own is not None:
            with _open_folder(os.path.dirname(folder)) as first_in_line:
                for lock in (first_in_line, own):
                    if lock is not None:
                        _wait_for(lock, own, monotonic, pause, until)
        yield


@contextmanager
def _open_folder(folder: str) -> Iterator[int | None]:
    """Yield a descriptor to lock, open within the block; None if the folder does not exist."""
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
    """Take ``lock``, waiting as long as files are created in or removed from the folder ``commits``."""
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
    """Try to take the turn; returns whether another writer has it. False on a file system without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _begin_anew() -> None:
    """Release what the parent holds, in a forked child: the lock would last as long as either process."""
    for descriptor in _open_folders:
        os.close(descriptor)
    _open_folders.clear()
    _opening.release()


os.register_at_fork(before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_begin_anew)
