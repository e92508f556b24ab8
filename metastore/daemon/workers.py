"""The workers of a daemon: threads that carry out the due actions of one table each, several tables at a time.

Place in the flow: the loop decides, hands over, and records what ends; only workers act. Two workers never have the
same table, so actions on one table follow each other. Work that may take long never gets the last free worker while
other tables wait: however large one table is, the others have their turn. Materialized views are refreshed after tables
are analyzed, since a refresh is refused if a source changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from queue import SimpleQueue
from typing import Final

from metastore.daemon.decide import Decision
from metastore.daemon.policy import Action, TableName
from metastore.ground.threads import Threads
from metastore.model.run_unit import RunUnit

_LOOK_S: Final = 0.2
"""Longest wait for the end of an action, after which the loop looks around."""


@dataclass(frozen=True, eq=False)
class Turn:
    """The due actions of one table, in the order in which they run."""

    table: TableName
    decisions: Sequence[Decision]

    @cached_property
    def is_long(self) -> bool:
        """Whether one of the actions may take long."""
        return any(each.situation.is_long for each in self.decisions)

    @cached_property
    def actions(self) -> frozenset[Action]:
        """The actions that are due."""
        return frozenset(each.situation.policy.action for each in self.decisions)


def turns(decisions: Sequence[Decision]) -> list[Turn]:
    """Returns the turns of ``decisions``, in which those of one table follow each other."""
    return [Turn(table, tuple(some)) for table, some in groupby(decisions, lambda each: each.situation.table)]


def next_turn(waiting: Sequence[Turn], under_way: Sequence[Turn], free: int) -> Turn | None:
    """Returns the turn that one of ``free`` workers begins now: the first that may, long ones last for the last worker.

    None if no worker is free, or if each turn must wait for one that is ``under_way``. Of many turns that wait, only
    those up to the answer are looked at.
    """
    ready = (turn for turn in waiting if not _waits_for_analyses(turn, waiting, under_way))
    first = next(ready, None) if free else None
    if first is None or free > 1 or not first.is_long:
        return first
    return next((turn for turn in ready if not turn.is_long), first)


def _waits_for_analyses(turn: Turn, waiting: Sequence[Turn], under_way: Sequence[Turn]) -> bool:
    if Action.REFRESH not in turn.actions:
        return False
    return any(Action.ANALYZE in each.actions and not each.is_long for each in chain(under_way, waiting))


class Workers:
    """``count`` threads. ``act`` carries out one action and returns its run, or None if it is left for another pass.

    ``left`` is the number of actions that workers have and that have not ended.
    """

    def __init__(self, count: int, act: Callable[[Decision], RunUnit | None]) -> None:
        self._count = count
        self._act = act
        self._threads = Threads(count, "daemon-worker")
        self.left = 0
        self._busy: dict[Turn, Future[None]] = {}
        self._ended: SimpleQueue[tuple[Decision, RunUnit | None]] = SimpleQueue()

    @property
    def busy(self) -> frozenset[TableName]:
        """The tables that workers have."""
        return frozenset(turn.table for turn in self._busy)

    def begin(self, waiting: list[Turn]) -> None:
        """Begin turns while workers are free, and remove them from ``waiting``."""
        while (turn := next_turn(waiting, list(self._busy), self._count - len(self._busy))) is not None:
            waiting.remove(turn)
            self.left += len(turn.decisions)
            self._busy[turn] = self._threads.submit(self._carry_out, turn)

    def collect_ended(self) -> Iterator[tuple[Decision, RunUnit | None]]:
        """Yields what has ended, after a short wait. Raises what ended a worker, which is no error of an action."""
        wait(self._busy.values(), _LOOK_S, FIRST_COMPLETED)
        done = [turn for turn, future in self._busy.items() if future.done()]
        while not self._ended.empty():
            self.left -= 1
            yield self._ended.get()
        for future in [self._busy.pop(turn) for turn in done]:
            future.result()

    def _carry_out(self, turn: Turn) -> None:
        for decision in turn.decisions:
            self._ended.put((decision, self._act(decision)))
