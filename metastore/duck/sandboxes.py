"""In-memory databases of DuckDB for queries of other people. Each is opened once, and emptied after every query.

Opening one costs 10 ms of CPU, emptying one 0.7 ms; a small SELECT costs little more. A query shares its database with
no other: it has it alone, as a catalog of its own in a session of its own, and both end with the query. What a query
leaves behind is therefore nothing: no table, no macro, no variable, no random seed. Its settings are locked. A database
with limited memory spills into a folder of its own, which only this user can read.

A forked child has none of them: their threads exist in the parent only.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from contextlib import suppress
from tempfile import mkdtemp
from threading import Lock
from typing import Any, Final
from weakref import finalize

from metastore.duck.session import SANDBOX, settings_of_release
from metastore.ground.optional import library
from metastore.ground.quoting import text_constant

_NO_SPILL: Final = "SET temp_directory = ''"
_SETTINGS: Final = ("SET GLOBAL TimeZone = 'UTC'", *SANDBOX)

_CATALOG: Final = "query"
"""The catalog of a query, which DuckDB shows in plans."""

_MOST_IDLE: Final = 4
"""The most databases of one kind that wait for a query. Each keeps its threads, which sleep."""

_Kind = tuple[tuple[str, ...], int | None]
"""Settings and memory."""


class Sandbox:
    """A database for one query at a time: ``connection`` is that of the present query."""

    def __init__(self, settings: tuple[str, ...], memory: int | None) -> None:
        self._duckdb = library("duckdb", "sql")
        self._kind: _Kind = settings, memory
        self._database = self._duckdb.connect(":memory:")
        room: tuple[str, ...] = (_NO_SPILL,)
        if memory is not None:
            folder = mkdtemp(prefix="metastore-sql-")
            finalize(self, _remove_own, folder, os.getpid())
            room = room_for(memory, folder)
        for setting in (*settings_of_release(), *room, *settings, *_SETTINGS):
            self._database.execute(setting)
        self.connection: Any = None

    @classmethod
    def take(cls, settings: tuple[str, ...], memory: int | None = None) -> Sandbox:
        """Returns an empty database with the global ``settings``, statements of DuckDB. The caller gives it back.

        What exceeds ``memory``, in bytes, goes to temporary files. None: nothing does, and DuckDB's own limit applies.
        """
        found = _idle.take((settings, memory)) or cls(settings, memory)
        found._begin()  # noqa: SLF001 - of this class
        return found

    def give_back(self, *, ended: bool) -> None:
        """End the query's session and drop its catalog. If it may not have ``ended``, the database is closed, too."""
        with suppress(self._duckdb.Error):
            self.connection.close()
            if ended:
                self._database.execute(f"DETACH {_CATALOG}")
                if _idle.keep(self._kind, self):
                    return
            self._database.close()

    def close(self) -> None:
        """Close the database, which no query has."""
        self._database.close()

    def _begin(self) -> None:
        self.connection = self._database.cursor()
        self.connection.execute(f"ATTACH ':memory:' AS {_CATALOG}")
        self.connection.execute(f"USE {_CATALOG}")


def room_for(memory: int, folder: str) -> tuple[str, ...]:
    """Returns the settings of a database with ``memory`` bytes, which spills into ``folder``."""
    return f"SET memory_limit = '{memory}B'", f"SET temp_directory = {text_constant(folder)}"


def _remove_own(folder: str, process: int) -> None:
    """Remove the folder of a database, unless a forked child ends: its parent still spills there."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


class _Idle:
    """The databases that wait for a query, by their kind."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: defaultdict[_Kind, list[Sandbox]] = defaultdict(list)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._close_before_fork, after_in_parent=self._lock.release, after_in_child=self._lock.release
            )

    def take(self, kind: _Kind) -> Sandbox | None:
        with self._lock:
            waiting = self._waiting[kind]
            return waiting.pop() if waiting else None

    def keep(self, kind: _Kind, sandbox: Sandbox) -> bool:
        """Keep ``sandbox`` for the next query; returns whether there is room."""
        with self._lock:
            waiting = self._waiting[kind]
            if len(waiting) == _MOST_IDLE:
                return False
            waiting.append(sandbox)
            return True

    def _close_before_fork(self) -> None:
        """Close all, and let nothing wait until the process has forked."""
        self._lock.acquire()
        for waiting in self._waiting.values():
            while waiting:
                waiting.pop().close()


_idle: Final = _Idle()
