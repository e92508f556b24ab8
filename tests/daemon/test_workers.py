"""Which table a worker takes next: laws of a pure function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from metastore.daemon.decide import Decision, Situation
from metastore.daemon.gain import Facts
from metastore.daemon.policy import Action, ActionPolicy, Budget, TableName
from metastore.daemon.workers import Turn, next_turn

POLICY = ActionPolicy(Action.EXPIRE_SNAPSHOTS, True, "1 day", timedelta(), Budget(), {})


def turn(number: int, *, is_long: bool = False, action: Action = Action.EXPIRE_SNAPSHOTS) -> Turn:
    """The turn of one table, which has a million files if it ``is_long``."""
    table = TableName("lake", "shop", str(number))
    situation = Situation(table, replace(POLICY, action=action), facts=Facts(files=1_000_000 if is_long else 1))
    return Turn(table, (Decision(situation, due=True, at_ms=0, reason=""),))


@given(st.lists(st.booleans(), max_size=12), st.integers(0, 4))
def test_large_tables_never_take_the_last_worker_from_others(longs: list[bool], free: int) -> None:
    """With a free worker something begins; the last one begins a long turn only if no other waits; else the first."""
    waiting = [turn(number, is_long=each) for number, each in enumerate(longs)]
    found = next_turn(waiting, [], free)
    if not free or not waiting:
        assert found is None
    elif free > 1 or all(longs):
        assert found == waiting[0]
    else:
        assert found == waiting[longs.index(False)]


def test_a_view_is_refreshed_after_tables_are_analyzed() -> None:
    """It waits for analyses that wait or run, but not for a long one, which could keep it waiting for hours."""
    view, table = turn(1, action=Action.REFRESH), turn(2, action=Action.ANALYZE)
    long = turn(3, is_long=True, action=Action.ANALYZE)
    assert next_turn([view, table], [], 2) is table
    assert next_turn([view], [table], 1) is None
    assert next_turn([view], [], 2) is next_turn([view], [long], 1) is next_turn([view, long], [], 1) is view


class CountedTurns(list[Turn]):
    """Turns that count how often one of them is looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Turn]:
        for each in super().__iter__():
            self.looks += 1
            yield each


def test_ten_thousand_tables_that_wait_cost_no_more_than_one() -> None:
    """All turns of a pass are looked at once: it would otherwise take the square of its tables."""
    waiting = CountedTurns(turn(number) for number in range(10_000))
    while (begun := next_turn(waiting, [], 1)) is not None and len(waiting) > 9_000:
        waiting.remove(begun)
    assert waiting.looks <= 1_001
