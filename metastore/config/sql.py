"""Limits of the query of one SQL statement on this machine: time, memory and threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from metastore.config.section import Section
from metastore.config.units import parse_duration, parse_size
from metastore.errors import InvalidRequestError

_NAMES: Final = ("timeout", "memory", "threads")


@dataclass(frozen=True)
class SqlSettings:
    """``timeout`` None: no limit. ``memory`` in bytes: more goes to temporary files. ``threads`` 0: one per core."""

    timeout: timedelta | None = None
    memory: int = 1 << 30
    threads: int = 0

    def with_limits(self, options: Mapping[str, Any]) -> SqlSettings:
        """Returns the limits of one call: those of ``options`` by name, the others as here.

        A timeout is a timedelta, seconds or text such as ``10 min``; memory is bytes or text such as ``2 GiB``.
        Raises InvalidRequestError for another name or value.
        """
        for name in options.keys() - frozenset(_NAMES):
            raise InvalidRequestError(f"a statement has no limit {name!r}; there are {', '.join(_NAMES)}")
        timeout, memory = options.get("timeout", self.timeout), options.get("memory", self.memory)
        try:
            if isinstance(timeout, str):
                timeout = parse_duration(timeout)
            elif isinstance(timeout, (int, float)) and not isinstance(timeout, bool):
                timeout = timedelta(seconds=timeout)
            memory = parse_size(memory) if isinstance(memory, str) else memory
        except (ValueError, OverflowError) as error:
            raise InvalidRequestError(f"a limit of the statement is not valid: {error}") from error
        threads = options.get("threads", self.threads)
        if not (timeout is None or (isinstance(timeout, timedelta) and timeout > timedelta())):
            raise InvalidRequestError(f"timeout={timeout!r} is no time above zero; write seconds, or text as '10 min'")
        if not _is_whole(memory) or memory < 1:
            raise InvalidRequestError(f"memory={memory!r} is no size above zero; write bytes, or text as '2 GiB'")
        if not _is_whole(threads) or threads < 0:
            raise InvalidRequestError(f"threads={threads!r} is no whole number from 0 on")
        return SqlSettings(timeout, memory, threads)


def sql_settings(section: Section) -> SqlSettings:
    """Read the settings below ``drill.metastore.sql``. Raises ConfigError for a negative number."""
    return SqlSettings(
        timeout=section.duration("timeout"),
        memory=section.require("memory", section.size("memory")),
        threads=section.require("threads", section.whole("threads", least=0)),
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
