"""What is due when: schedules, jitter, back-off, quiet; on clocks that the tests set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.config.daemon import DaemonSettings
from metastore.daemon.decide import Decision, LastRun, Situation, decide, due, wait_after
from metastore.daemon.gain import Facts
from metastore.daemon.policy import Action, ActionPolicy, Budget, TableName
from metastore.daemon.schedule import Schedule, spread
from metastore.errors import ConfigError
from metastore.model.run_unit import RunUnit

MINUTE = 60_000
DAY = 86_400_000
NOW = 1_700_000_000_000
EVEN = DaemonSettings(jitter=0.0)


def situation(table: str = "lake.shop.orders", last: LastRun | None = None, **values: Any) -> Situation:
    """An enabled action of one table, with ``values`` over a daily schedule."""
    committed = values.pop("committed_ms", None)
    options: Mapping[str, Any] = {}
    given = {"enabled": True, "schedule": "1 day", "quiet": timedelta(), "budget": Budget(), "options": options}
    policy = ActionPolicy(Action.EXPIRE_SNAPSHOTS, **{**given, **values})
    return Situation(TableName.parse(table), policy, last, Facts(committed_ms=committed))


def ms(*time: int) -> int:
    """A time in UTC, in epoch milliseconds."""
    return int(datetime(*time, tzinfo=timezone.utc).timestamp() * 1000)  # type: ignore[misc, arg-type] # year to minute


def test_what_is_not_enabled_is_never_due() -> None:
    """However long ago it ran."""
    assert not decide(situation(enabled=False, last=LastRun(0)), EVEN, NOW).due


def test_what_never_ran_is_due_at_once() -> None:
    """A new table is not left alone for a whole interval."""
    assert decide(situation(), EVEN, NOW, since_ms=NOW).due


@pytest.mark.parametrize(("passed", "expected"), [(DAY - 1, False), (DAY, True), (3 * DAY, True)])
def test_an_interval_counts_from_the_last_run(passed: int, expected: bool) -> None:
    """To the millisecond, when there is no jitter."""
    assert decide(situation(last=LastRun(NOW - passed)), EVEN, NOW).due is expected


def test_a_cron_expression_is_in_utc() -> None:
    """At three in the morning, and not before; a time that was missed is made up for."""
    nightly = situation(last=LastRun(ms(2026, 11, 20, 3, 5)), schedule="0 3 * * *")
    assert not decide(nightly, EVEN, ms(2026, 11, 21, 2, 59)).due
    found = decide(nightly, EVEN, ms(2026, 11, 23, 12, 0))
    assert (found.due, found.at_ms) == (True, ms(2026, 11, 21, 3, 0))


def test_a_cron_expression_waits_for_its_first_time() -> None:
    """A daemon that begins at noon does not do the night's work at once; a single pass, which cannot wait, does."""
    nightly = situation(schedule="0 3 * * *")
    noon = ms(2026, 11, 20, 12, 0)
    assert not decide(nightly, EVEN, noon, since_ms=noon).due
    assert decide(nightly, EVEN, ms(2026, 11, 21, 3, 0), since_ms=noon).due
    assert decide(nightly, EVEN, noon, since_ms=None).due


def test_what_is_no_cron_expression_is_refused_by_its_key_and_file() -> None:
    """Five words look like one, and the library says what is wrong with them."""
    with pytest.raises(ConfigError, match=r"some\.key = 'a b c d e': .*no cron expression.* \(a\.conf:3\)$"):
        Schedule("a b c d e").check("some.key", "a.conf:3")


@given(st.text(min_size=1), st.integers(0, 2**41))
def test_jitter_is_bounded_and_always_the_same(seed: str, since: int) -> None:
    """A table's turn moves by less than the jitter's part of its interval, and by as much every time."""
    schedule = Schedule("1 hour")
    first = schedule.spread_after(since, 0.25, seed)
    assert schedule.next_after(since) <= first < schedule.next_after(since) + 15 * MINUTE
    assert first == schedule.spread_after(since, 0.25, seed)


def test_jitter_spreads_many_tables_evenly() -> None:
    """Of a thousand tables about a tenth falls into each tenth."""
    counts = [0] * 10
    for number in range(1000):
        counts[int(spread(f"lake.shop.t{number} expire_snapshots") * 10)] += 1
    assert min(counts) > 60
    assert max(counts) < 140


def test_failures_double_the_wait_up_to_the_longest() -> None:
    """5, 10, 20 … minutes, and never more than six hours."""
    waits = [wait_after(failures, EVEN) // timedelta(minutes=1) for failures in (1, 2, 3, 7, 8, 100)]
    assert waits == [5, 10, 20, 320, 360, 360]


def test_a_failed_run_comes_round_by_its_wait_alone() -> None:
    """Neither after the whole day of its schedule, nor every minute."""
    failed = situation(last=LastRun(NOW, failures=2))
    assert not decide(failed, EVEN, NOW + 9 * MINUTE).due
    assert decide(failed, EVEN, NOW + 10 * MINUTE).due
    often = situation(last=LastRun(NOW, failures=8), schedule="1 minute")
    assert not decide(often, EVEN, NOW + 359 * MINUTE).due


def test_a_busy_table_is_put_off_until_it_is_quiet() -> None:
    """It is looked at again when it has been quiet for long enough."""
    busy = situation(quiet=timedelta(minutes=10), last=LastRun(NOW - DAY), committed_ms=NOW - MINUTE)
    found = decide(busy, EVEN, NOW)
    assert (found.due, found.at_ms) == (False, NOW + 9 * MINUTE)
    assert "busy" in found.reason
    assert decide(busy, EVEN, NOW + 9 * MINUTE).due


def test_a_table_that_is_always_busy_is_not_put_off_for_ever() -> None:
    """After the patience of the settings it has its turn, and the reason says so."""
    busy = situation(quiet=timedelta(minutes=10), last=LastRun(NOW - 2 * DAY), committed_ms=NOW - 1)
    found = decide(busy, EVEN, NOW)
    assert found.due
    assert "busy" in found.reason


def test_the_most_overdue_goes_first() -> None:
    """So that a long list makes nothing wait for ever."""
    tables = {"lake.a.x": NOW - 2 * DAY, "lake.a.y": NOW - 4 * DAY, "lake.a.z": NOW - 3 * DAY, "lake.a.w": NOW}
    found: list[Decision] = list(due((situation(name, LastRun(at)) for name, at in tables.items()), EVEN, NOW))
    assert [str(each.situation.table) for each in found] == ["lake.a.y", "lake.a.z", "lake.a.x"]


def of_table(name: str, files: int, **values: Any) -> Situation:
    """A table with ``files`` files, and as many snapshots to expire."""
    return replace(situation(f"lake.shop.{name}", **values), facts=Facts(snapshots=files, files=files))


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), min_size=2, max_size=8))
def test_what_is_twice_as_overdue_goes_first_and_then_what_gains_more(tables: list[tuple[int, int]]) -> None:
    """Overdue counts in intervals of the action itself; only within a factor of two does the gain decide."""
    situations = [
        of_table(str(number), gain, last=LastRun(NOW - (1 + overdue) * DAY))
        for number, (overdue, gain) in enumerate(tables)
    ]
    order = [int(each.situation.table.name) for each in due(situations, EVEN, NOW)]
    assert sorted(order) == list(range(len(tables)))
    for earlier, later in pairwise(order):
        (overdue, gain), (other_overdue, other_gain) = tables[earlier], tables[later]
        assert 2 * (1 + overdue) > 1 + other_overdue
        if overdue == other_overdue:
            assert max(gain, 1) >= max(other_gain, 1)


def test_a_budget_bounds_what_a_run_gains() -> None:
    """A run on a huge table frees no more than its budget, so it does not go before ten tables that gain more."""
    huge = of_table("huge", 1_000_000, budget=Budget(files=10))
    other = of_table("other", 50)
    assert [each.situation.table.name for each in due([huge, other], EVEN, NOW)] == ["other", "huge"]


def test_what_a_run_has_freed_is_expected_of_the_next() -> None:
    """Orphans are not seen in a table's metadata; what the last run deleted is what the daemon knows."""
    run = RunUnit("", "", result='{"orphans": 3, "bytes": 90000000}')
    known = situation("lake.shop.z", last=LastRun(NOW - 2 * DAY, run=run))
    assert [each.situation.table.name for each in due([situation(last=LastRun(NOW - 2 * DAY)), known], EVEN, NOW)] == [
        "z",
        "orders",
    ]
