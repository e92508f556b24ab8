"""The history of runs: what it remembers, for how long, and that it does not pile up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from metastore.components.runs import Runs
from metastore.daemon.decide import LastRun
from metastore.daemon.history import History, day_of, last_runs
from metastore.daemon.policy import Action, TableName
from metastore.model.run_unit import RunUnit

TABLE = TableName("lake", "shop", "orders")
DAY = 86_400_000


def run_at(started: int, status: str = "done") -> RunUnit:
    """One run of one action."""
    values: dict[str, Any] = {"table": str(TABLE), "action": "expire_snapshots", "status": status, "started": started}
    return RunUnit(day=day_of(started), run_id=f"{started}", **values)


def test_failures_count_until_something_goes_well() -> None:
    """A run that was stopped is as if it had not been; one that reached its budget went well."""
    key = (str(TABLE), "expire_snapshots")
    statuses = ["done", "failed", "failed", "stopped"]
    runs = [run_at(number, status) for number, status in enumerate(statuses)]
    assert last_runs(runs) == {key: LastRun(2, failures=2)}
    assert last_runs([*runs, run_at(9, "bounded")]) == {key: LastRun(9)}


def test_runs_of_a_day_are_kept_beside_each_other(make_site: Callable[..., Any]) -> None:
    """Each is added to the day's file; another process sees all, and the last of each action."""
    site = make_site()
    history = History(site.session.metastore.runs, lambda: site.now_ms, timedelta(days=90))
    start = site.now_ms // DAY * DAY
    runs = [run_at(start), run_at(start + 1, "failed"), run_at(start + DAY)]
    for run in runs:
        history.remember(run)
        history.write()
    assert site.session.metastore.runs.since("") == runs
    other = History(site.session.metastore.runs, lambda: site.now_ms, timedelta(days=90))
    site.now_ms = start + DAY
    other.load()
    assert other.last(TABLE, Action.EXPIRE_SNAPSHOTS) == LastRun(start + DAY)
    assert other.last(TABLE, Action.REWRITE_MANIFESTS) is None


def test_what_a_clock_that_was_ahead_wrote_down_counts_for_nothing(make_site: Callable[..., Any]) -> None:
    """Neither in the process whose clock was set back nor in the next: the run before it does. Hosts may differ."""
    site = make_site()
    history = History(site.session.metastore.runs, lambda: site.now_ms, timedelta(days=90))
    now = site.now_ms
    history.remember(run_at(now - 5))
    history.write()
    site.later(days=365)
    history.remember(run_at(site.now_ms))
    history.write()
    site.now_ms = now
    assert history.last(TABLE, Action.EXPIRE_SNAPSHOTS) is None
    history.load()
    assert history.last(TABLE, Action.EXPIRE_SNAPSHOTS) == LastRun(now - 5)
    site.later(minutes=-59)
    assert history.last(TABLE, Action.EXPIRE_SNAPSHOTS) == LastRun(now - 5)


def test_writing_takes_a_twentieth_of_the_time(make_site: Callable[..., Any]) -> None:
    """It takes longer with each run of the day: then more runs are written together, and the last ones at the end."""
    site = make_site()

    class SlowRuns(Runs):
        """Each write takes two seconds."""

        def add(self, runs: Sequence[RunUnit]) -> int:
            site.later(seconds=2)
            return super().add(runs)

    kept = site.session.metastore.runs
    history = History(SlowRuns(kept.definition, kept.backing), lambda: site.now_ms, timedelta(days=90))
    began = site.now_ms
    for number in range(200):
        history.remember(run_at(site.now_ms, "done" if number else "failed"))
        site.later(seconds=1)
    writes = len(kept.metadata.history())
    assert 200 / 42 - 1 <= writes <= 200 / 40 + 2
    assert site.now_ms - began == 200_000 + 2_000 * writes
    history.write()
    assert len(kept.since("")) == 200


def test_old_days_go_and_versions_do_not_pile_up(make_site: Callable[..., Any]) -> None:
    """Whole days beyond the time to keep; and of the component's versions the newest few stay."""
    site = make_site()
    runs = site.session.metastore.runs
    history = History(runs, lambda: site.now_ms, timedelta(days=10))
    for number in range(62):
        history.remember(run_at(site.now_ms + number * DAY))
        history.write()
    assert len(runs.metadata.history()) <= 22
    site.now_ms += 61 * DAY
    history.forget()
    assert [run.started for run in runs.since("")] == [site.now_ms - age * DAY for age in range(10, -1, -1)]


def test_runs_are_a_component_like_others(make_site: Callable[..., Any]) -> None:
    """SELECT reads it by its name, as a table of the catalog of components."""
    site = make_site()
    history = History(site.session.metastore.runs, lambda: site.now_ms, timedelta(days=10))
    history.remember(run_at(site.now_ms))
    history.write()
    assert "runs" in site.session.catalogs.tables("metastore", "components")
    found = site.session.sql("SELECT action, status FROM metastore.components.runs").to_pylist()
    assert found == [{"action": "expire_snapshots", "status": "done"}]
