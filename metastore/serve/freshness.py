"""Keeps published tables fresh: a load looks at the folder first, unless somebody has just done so.

Place in the flow: ``served_catalog`` asks before it answers the load of a published table. One look at a table runs at
a time, in a thread of its own. A load waits for it within a bound, and a look that takes longer goes on for later ones.

Promises: a load that is answered without an age has the rows of the folder, not older than the setting says. Whatever
stops a look stops no answer: the last publication is served, with its age and the reason.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from metastore.errors import MetastoreError

_log: Final = logging.getLogger(__name__)

_THREADS: Final = 4
"""Looks of all tables that run at a time; others wait for their turn."""

_LATE: Final = "the look at the folder has not ended yet"

Renew = Callable[[str, str | None], object]
"""Analyzes the source of a published table and publishes what changed; gets the names of both.

Without the second name, it only analyzes.
"""


@dataclass(frozen=True)
class StalePublication:
    """Why a publication may be behind its folder. It was as the folder at ``known_ms``, if that is known."""

    reason: str
    known_ms: int | None


@dataclass
class _Looks:
    """The looks at one table: the last one that began, and when the last one that succeeded did."""

    last: Future[str | None]
    began: float
    began_ms: int
    known_ms: int | None = None


class FolderLooks:
    """Looks at a folder if the last look is older than ``age``; a load waits for it for ``wait`` at most.

    ``monotonic`` counts seconds, ``now_ms`` gives the time. Threads may share it. ``close`` begins no more looks.
    """

    def __init__(
        self,
        renew: Renew,
        age: timedelta,
        wait: timedelta,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._renew = renew
        self._age_s = age.total_seconds()
        self._wait_s = wait.total_seconds()
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._threads = ThreadPoolExecutor(_THREADS, "serve-freshness")
        self._tables: dict[tuple[str, str | None], _Looks] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Begin no more looks; one that runs is left behind, and its commit is whole or has not happened."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def look(self, source: str, name: str | None) -> StalePublication | None:
        """Bring the published table ``name`` up to date with ``source``; returns why it may not be.

        Without ``name``, bring the metadata of ``source`` up to date.
        """
        with self._lock:
            looks = self._looks(source, name)
            left = looks.began + self._wait_s - self._monotonic()
        try:
            reason = looks.last.result(max(0.0, left))
        except LateError:
            return StalePublication(_LATE, looks.known_ms)
        if reason is not None:
            return StalePublication(reason, looks.known_ms)
        looks.known_ms = looks.began_ms
        return None

    def _looks(self, source: str, name: str | None) -> _Looks:
        """Returns the looks at a table; a new one begins if the last has ended and is too old."""
        key = (source, name)
        known = self._tables.get(key)
        if known is not None:
            if known.last.done() and known.last.result() is None:
                known.known_ms = known.began_ms
            if not known.last.done() or self._monotonic() - known.began < self._age_s:
                return known
        began, began_ms = self._monotonic(), self._now_ms()
        last = self._threads.submit(self._reason, source, name)
        self._tables[key] = _Looks(last, began, began_ms, None if known is None else known.known_ms)
        return self._tables[key]

    def _reason(self, source: str, name: str | None) -> str | None:
        """Renew the table; returns why that failed."""
        try:
            self._renew(source, name)
        except MetastoreError as error:
            _log.warning("%s may be behind %s: %s", name or "its metadata", source, error)
            return str(error)
        except Exception as error:  # noqa: BLE001 - a defect costs freshness, not the answer; its traceback is in the log
            _log.exception("%s may be behind %s: %s", name or "its metadata", source, type(error).__name__)
            return "the look at the folder failed; the server's log says why"
        return None
