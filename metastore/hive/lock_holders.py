"""Who holds a lock in the service: the mark that a process leaves with its lock, and what a mark proves. Linux.

A killed process leaves its locks until the service forgets them, minutes later. A mark names the process beyond doubt:
by the boot of its machine, its namespace of process numbers, its number, and the moment it began. So another process
of the same machine can tell for certain that it is dead; of anybody else's lock nothing is concluded. The mark's end is
the lock's own, by which its holder finds it when the service's answer is lost.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

_MARK: Final = re.compile(r"metastore/([0-9a-f-]{36})/(\d+)/(\d+)/(\d+)(?:/[0-9a-f]{16})?")
_UNKNOWN: Final = "metastore"
_PROC: Final = Path("/proc")
_STATE, _BEGAN = 0, 19
"""Places in ``/proc/<pid>/stat`` after the name of the program."""


@dataclass(frozen=True)
class Holder:
    """One process, by what tells it from every other that ran on its machine."""

    boot: str
    namespace: int
    pid: int
    began: int

    def __str__(self) -> str:
        return f"metastore/{self.boot}/{self.namespace}/{self.pid}/{self.began}"

    @classmethod
    def parse(cls, mark: str | None) -> Holder | None:
        """The process that left ``mark``; None for the mark of another program."""
        found = _MARK.fullmatch(mark or "")
        return None if found is None else cls(found.group(1), *map(int, found.groups()[1:]))

    @classmethod
    def this_process(cls) -> Holder | None:
        """This process; None where the system does not tell."""
        try:
            boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
            namespace = re.sub(r"\D", "", os.readlink(_PROC / "self/ns/pid"))
            began = _began(os.getpid())
        except OSError:
            return None
        return None if began is None else cls(boot, int(namespace), os.getpid(), began)

    def is_dead(self, witness: Holder | None) -> bool:
        """Whether ``witness``, this process, sees for certain that the process has ended."""
        if witness is None or (self.boot, self.namespace) != (witness.boot, witness.namespace):
            return False
        return _began(self.pid) != self.began


def own_mark() -> str:
    """What this process leaves with a lock: another mark each time."""
    return f"{Holder.this_process() or _UNKNOWN}/{secrets.token_hex(8)}"


def left_by_the_dead(locks: Iterable[Any]) -> list[int]:
    """The ids of those ``locks``, as the service shows them, whose holder has certainly ended."""
    witness = Holder.this_process()
    holders = ((lock.lockid, Holder.parse(lock.agentInfo)) for lock in locks)
    return sorted({lock for lock, holder in holders if holder is not None and holder.is_dead(witness)})


def described(locks: Iterable[Any]) -> str:
    """Who holds ``locks``, for people."""
    return "; ".join(sorted({_described(lock) for lock in locks})) or "its holder is not told"


def _described(lock: Any) -> str:
    holder = Holder.parse(lock.agentInfo)
    process = f", process {holder.pid}" if holder is not None else ""
    at = lock.acquiredat
    since = f", since {datetime.fromtimestamp(at / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC" if at else ""
    return f"lock {lock.lockid} of {lock.user} on {lock.hostname}{process}{since}"


def _began(pid: int) -> int | None:
    """When the process began, in the kernel's ticks; None if there is none, or one that only waits to be buried."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[_STATE] in "ZX" else int(fields[_BEGAN])
