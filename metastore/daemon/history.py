"""The history of runs: when each action last began on each table, and how it ended.

It is kept as the component ``runs``. So it survives the process, and the next leader continues where this one ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Final

from metastore.components.expiration.handler import ExpirationHandler
from metastore.components.expiration.policy import ExpirationPolicy, is_yet_to_come
from metastore.components.runs import Runs
from metastore.daemon.decide import LastRun
from metastore.daemon.policy import Action, TableName
from metastore.errors import MetastoreError
from metastore.ground.clock import Clock
from metastore.model.run_unit import RunUnit

_log: Final = logging.getLogger(__name__)

_MOST_VERSIONS: Final = 60
_KEPT_VERSIONS: Final = 20
"""Each run makes a version of the component. Above the first number of versions, all but the second number expire."""

_LONGEST_UNWRITTEN_MS: Final = 5_000
_MOST_WRITING: Final = 20
"""A write takes the longer, the more runs the day has: the next one waits this many times as long as the last took.

Runs that are not written yet are known to this process only. One that dies then has them made again, harmlessly.
"""

Key = tuple[str, str]
"""A table and an action, by their names."""


class History:
    """Reads and writes the runs. ``now_ms`` is the clock; ``keep`` is how long a run is kept."""

    def __init__(self, runs: Runs, now_ms: Callable[[], int], keep: timedelta) -> None:
        self._runs = runs
        self._now_ms = now_ms
        self._keep = keep
        self._last: dict[Key, LastRun] = {}
        self._unwritten: list[RunUnit] = []
        self._patience_ms = _LONGEST_UNWRITTEN_MS
        self._forgotten = ""
        self.trouble: str | None = None
        """Why the newest run could not be written; None when it was."""

    @property
    def runs_known(self) -> Mapping[Key, LastRun]:
        """The last run of each action on each table."""
        return self._last

    def load(self) -> None:
        """Read the runs of all daemons. Raises StorageError, FormatError."""
        now_ms = self._now_ms()
        runs = self._runs.since(self._oldest_day())
        self._last = last_runs(run for run in runs if not is_yet_to_come(run.started or 0, now_ms))

    def last(self, table: TableName, action: Action) -> LastRun | None:
        """Returns when the action last began on the table; None if it never did, or the run is no longer kept.

        A time in the future, written by a clock that was ahead, is ignored: the table would otherwise wait until then.
        """
        last = self._last.get((str(table), action.value))
        return None if last is not None and is_yet_to_come(last.started_ms, self._now_ms()) else last

    def remember(self, run: RunUnit) -> None:
        """Keep ``run``. Runs are written together, since a commit for each would be most of the work of a pass."""
        last_runs([run], self._last)
        self._unwritten.append(run)
        if self._now_ms() - (self._unwritten[0].started or 0) >= self._patience_ms:
            self.write()

    def write(self) -> None:
        """Write the runs that are not written yet. If that fails, it is logged, and only this process knows them."""
        runs, self._unwritten = self._unwritten, []
        if not runs:
            return
        began_ms = self._now_ms()
        try:
            self._runs.add(runs)
            self.trouble = None
            self._tidy()
        except MetastoreError as error:
            self.trouble = f"the history cannot be written: {error}"
            _log.error(
                "%d runs up to %s on %s could not be recorded: %s", len(runs), runs[-1].action, runs[-1].table, error
            )
        self._patience_ms = max(_LONGEST_UNWRITTEN_MS, _MOST_WRITING * (self._now_ms() - began_ms))

    def forget(self) -> None:
        """Remove days that are older than ``keep``, at most once a day. Raises what :meth:`load` raises."""
        oldest = self._oldest_day()
        if oldest == self._forgotten:
            return
        self._forgotten = oldest
        if any((run.day or "") < oldest for run in self._runs.since("")[:1]):
            self._runs.forget_before(oldest)

    def _oldest_day(self) -> str:
        return day_of(self._now_ms() - self._keep // timedelta(milliseconds=1))

    def _tidy(self) -> None:
        if len(self._runs.metadata.history()) > _MOST_VERSIONS:
            ExpirationHandler(self._runs.table, ExpirationPolicy(None, _KEPT_VERSIONS), Clock(self._now_ms)).expire()


def last_runs(runs: Iterable[RunUnit], last: dict[Key, LastRun] | None = None) -> dict[Key, LastRun]:
    """Adds ``runs``, oldest first, to the ``last`` run of each action on each table. Stopped runs are ignored."""
    last = {} if last is None else last
    for run in runs:
        key = (run.table or "", run.action or "")
        if run.status == "failed":
            failures = last[key].failures + 1 if key in last else 1
            last[key] = LastRun(run.started or 0, failures, last[key].succeeded_ms if key in last else None, run)
        elif run.status != "stopped":
            last[key] = LastRun(run.started or 0, succeeded_ms=run.started or 0, run=run)
    return last


def day_of(time_ms: int) -> str:
    """Returns the day in UTC that names the partition of a run."""
    return datetime.fromtimestamp(max(0, time_ms) / 1000, tz=timezone.utc).strftime("%Y-%m-%d")
