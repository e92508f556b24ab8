"""The holder of a lock in the service: the mark that a process leaves with its lock, and what it proves. Linux only.

A killed process leaves its locks until the service drops them, minutes later. A mark identifies the process uniquely:
by the boot of its machine, its namespace of process numbers, its number, and its start time. So another process of the
same machine can be certain that it has ended. For locks of other programs and machines nothing is concluded. The last
part of the mark identifies the lock: its holder finds the lock by it when the service's answer is lost.
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
"""Indexes in ``/proc/<pid>/stat`` after the name of the program."""


@dataclass(frozen=True)
class Holder:
    """The unique identity of one process on its machine."""

    boot: str
    namespace: int
    pid: int
    began: int

    def __str__(self) -> str:
        return f"metastore/{self.boot}/{self.namespace}/{self.pid}/{self.began}"

    @classmethod
    def parse(cls, mark: str | None) -> Holder | None:
        """Returns the process that left ``mark``, or None for the mark of another program."""
        found = _MARK.fullmatch(mark or "")
        return None if found is None else cls(found.group(1), *map(int, found.groups()[1:]))

    @classmethod
    def this_process(cls) -> Holder | None:
        """Returns this process, or None if the system does not provide its identity."""
        try:
            boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
            namespace = re.sub(r"\D", "", os.readlink(_PROC / "self/ns/pid"))
            began = _began(os.getpid())
        except OSError:
            return None
        return None if began is None else cls(boot, int(namespace), os.getpid(), began)

    def is_dead(self, witness: Holder | None) -> bool:
        """Returns whether ``witness``, this process, is certain that the process has ended."""
        if witness is None or (self.boot, self.namespace) != (witness.boot, witness.namespace):
            return False
        return _began(self.pid) != self.began


def own_mark() -> str:
    """Returns a new mark, which this process leaves with one lock."""
    return f"{Holder.this_process() or _UNKNOWN}/{secrets.token_hex(8)}"


def left_by_the_dead(locks: Iterable[Any]) -> list[int]:
    """Returns the ids of those ``locks``, objects of the service, whose holders have certainly ended."""
    witness = Holder.this_process()
    holders = ((lock.lockid, Holder.parse(lock.agentInfo)) for lock in locks)
    return sorted({lock for lock, holder in holders if holder is not None and holder.is_dead(witness)})


def describe_locks(locks: Iterable[Any]) -> str:
    """Returns text about the holders of ``locks``, for messages."""
    return "; ".join(sorted({_describe_lock(lock) for lock in locks})) or "its holder is unknown"


def _describe_lock(lock: Any) -> str:
    holder = Holder.parse(lock.agentInfo)
    process = f", process {holder.pid}" if holder is not None else ""
    at = lock.acquiredat
    since = f", since {datetime.fromtimestamp(at / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC" if at else ""
    return f"lock {lock.lockid} of {lock.user} on {lock.hostname}{process}{since}"


def _began(pid: int) -> int | None:
    """Returns the start time of the process, in clock ticks of the kernel; None if it does not exist or is a zombie."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[_STATE] in "ZX" else int(fields[_BEGAN])
