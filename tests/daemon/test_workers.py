"""Which table a worker takes next: laws of a pure function."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from metastore.daemon.decide import Decision, Situation
from metastore.daemon.gain import Facts
from metastore.daemon.policy import Action, ActionPolicy, Budget, TableName
from metastore.daemon.workers import Turn, next_turn

POLICY = ActionPolicy(Action.EXPIRE_SNAPSHOTS, True, "1 day", timedelta(), Budget(), {})


def turn(number: int, *, is_long: bool) -> Turn:
    """The turn of one table, which has a million files if it ``is_long``."""
    table = TableName("lake", "shop", str(number))
    situation = Situation(table, POLICY, facts=Facts(files=1_000_000 if is_long else 1))
    return Turn(table, (Decision(situation, due=True, at_ms=0, reason=""),))


@given(st.lists(st.booleans(), max_size=12), st.integers(0, 4))
def test_large_tables_never_take_the_last_worker_from_others(longs: list[bool], free: int) -> None:
    """With a free worker something begins; the last one begins a long turn only if no other waits; else the first."""
    waiting = [turn(number, is_long=each) for number, each in enumerate(longs)]
    found = next_turn(waiting, free)
    if not free or not waiting:
        assert found is None
    elif free > 1 or all(longs):
        assert found == waiting[0]
    else:
        assert found == waiting[longs.index(False)]
