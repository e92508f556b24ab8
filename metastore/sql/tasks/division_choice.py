"""Chooses which tables of a query are divided among tasks, and by what.

Place in the flow: :mod:`metastore.sql.tasks.division` names the ways. They are tried in its order, with few tables
before many: first those that are too large to travel to every task, then all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from metastore.duck.name_scope import Untraced
from metastore.duck.queries import Duck
from metastore.duck.query_plans import why_not_alone
from metastore.engines.engine import Engine
from metastore.lake.writes.row_changes import FILE
from metastore.sql.queries.divided_query import MOST_HELD_BYTES, held, register
from metastore.sql.queries.query_keys import Halves, halves, row_keys, top_rows_of
from metastore.sql.queries.row_parts import HeldRows, RowsOnStore
from metastore.sql.queries.select import PreparedQuery, QueryTable
from metastore.sql.queries.statement_functions import ONE_VALUE, RANDOM, called_functions
from metastore.sql.target import StatementTarget
from metastore.sql.tasks.row_dealing import DealtTable


class Whole(Exception):  # noqa: N818 - it says why a query runs on this machine; nothing failed
    """The query is not divided; the text says why."""


@dataclass(frozen=True)
class Chosen:
    """The divided ``tables``, by number, and the rows of all others, which are ``held``.

    ``dealt`` says how rows are dealt; None: each part is a task of its own. With ``upper``, the query is cut in two,
    and all else is about its lower half. If all rows meet in one task, ``why_one`` says why.
    ``is_random``: a task that runs again may give other rows.
    """

    engine: Engine
    tables: Mapping[int, RowsOnStore]
    held: Mapping[int, HeldRows]
    dealt: Mapping[int, DealtTable] | None = None
    upper: Halves | None = None
    why_one: str = ""
    is_random: bool = False

    @property
    def files(self) -> int:
        """The number of files that tasks read."""
        return sum(len(each.sizes) for each in self.tables.values())

    @property
    def size(self) -> int:
        """Bytes of these files."""
        return sum(each.size for each in self.tables.values())


class Choice:
    """One query, and what is known of it."""

    def __init__(self, target: StatementTarget, prepared: PreparedQuery, *, is_half: bool = False) -> None:
        self._is_half = is_half
        self._target = target
        self._prepared = prepared
        self._held: dict[int, HeldRows | None] = {}
        found = dict(enumerate(prepared.registered))
        self._tables = {number: each for number, each in found.items() if isinstance(each, QueryTable)}
        stored = {number: each.relation.on_store(each.asked) for number, each in self._tables.items()}
        self._stored = {number: rows for number, rows in stored.items() if rows is not None}
        self._changing = [number for number in self._stored if FILE in self._tables[number].asked.columns]

    def made(self, *, only_alone: bool) -> Chosen:
        """Returns the choice; with ``only_alone``, rows are not dealt.

        Raises Whole, and :class:`metastore.duck.queries.Failure` if DuckDB refuses the query.
        """
        if not self._stored:
            raise Whole("the query reads no table in files")
        reasons: list[str] = []
        for number in self._changing or sorted(self._stored, key=lambda each: -self._stored[each].size):
            engine = self._engine([number])
            reason = self._why_not_alone(number) if engine.capabilities.runs_statements else self._too_small([number])
            others = self._held_beside([number], reasons) if reason is None else None
            if others is not None:
                return Chosen(engine, {number: self._stored[number]}, others, is_random=self._is_random)
            if reason is not None:
                reasons.append(reason)
        if only_alone or self._called & ONE_VALUE or not self._engine(list(self._stored)).capabilities.runs_statements:
            raise Whole(reasons[0])
        if not any(rows.sizes for rows in self._stored.values()):
            raise Whole("the tables have no files")
        return self._together()

    def _together(self) -> Chosen:
        engine = self._engine(list(self._stored))
        reasons: list[str] = []
        if self._is_random:
            reasons.append(f"{min(self._called & RANDOM)} has other values each time")
        for divided in () if self._is_random else self._sets():
            try:
                keys = row_keys(self._prepared, divided)
            except Untraced as untraced:
                reasons.append(str(untraced))
                continue
            others = self._held_beside(divided, reasons)
            if others is None:
                continue
            dealt = {number: self._dealt(number, keys.get(number)) for number in divided}
            tables = {number: self._stored[number] for number in divided}
            return Chosen(engine, tables, others, dealt if any(keys.values()) else None)
        cut = None if self._is_half else self._cut()
        if cut is not None:
            return cut
        others = self._held_beside(list(self._stored), reasons)
        if others is None:
            raise Whole(reasons[-1])
        dealt = {number: self._dealt(number, None) for number in self._stored}
        return Chosen(engine, self._stored, others, dealt, why_one=reasons[-1], is_random=self._is_random)

    def _cut(self) -> Chosen | None:
        """Returns the choice for the lower half of the query, with its upper one; None if it cannot be cut."""
        if self._changing or self._is_random:
            return None
        try:
            upper = halves(self._prepared)
        except Untraced:
            return None
        lower = Choice(self._target, replace(self._prepared, text=upper.lower), is_half=True)
        found = lower.made(only_alone=False)
        return None if found.why_one else replace(found, upper=upper)

    def _sets(self) -> list[list[int]]:
        """Returns the sets of tables to divide, in the order in which they are tried."""
        largest = max(self._stored, key=lambda each: self._stored[each].size)
        large = {number for number, rows in self._stored.items() if rows.size > MOST_HELD_BYTES}
        few = sorted({*self._changing, largest, *large})
        return [few] if len(few) == len(self._stored) else [few, sorted(self._stored)]

    def _dealt(self, number: int, key: str | None) -> DealtTable:
        table = self._tables[number]
        top = top_rows_of(self._prepared, number) if key is None else None
        return DealtTable(table.name, table.relation.part(table.asked.columns), key, top)

    def _held_beside(self, divided: Sequence[int], reasons: list[str]) -> Mapping[int, HeldRows] | None:
        """Returns the rows of the tables that are not ``divided``; None, with one more reason, if they are too many."""
        found: dict[int, HeldRows] = {}
        room = MOST_HELD_BYTES
        for number, table in self._tables.items():
            if number in divided:
                continue
            if number not in self._held:
                self._held[number] = held(table, MOST_HELD_BYTES)
            rows = self._held[number]
            room -= len(rows.content) if rows is not None else room + 1
            if rows is None or room < 0:
                reasons.append(
                    f"every task needs all rows of {table.shown}, which are more than {MOST_HELD_BYTES} bytes"
                )
                return None
            found[number] = rows
        return found

    def _engine(self, tables: Sequence[int]) -> Engine:
        files = sum(len(self._stored[number].sizes) for number in tables)
        return self._target.engine_for_statement(files, sum(self._stored[number].size for number in tables))

    def _too_small(self, tables: Sequence[int]) -> str:
        rows = [self._stored[number] for number in tables]
        return (
            f"the query reads {sum(each.size for each in rows)} bytes in {sum(len(each.sizes) for each in rows)} "
            "files, less than drill.metastore.engine.spark_threshold_size and spark_threshold_files"
        )

    @cached_property
    def _called(self) -> set[str]:
        return called_functions(self._prepared)

    @property
    def _is_random(self) -> bool:
        return bool(self._called & RANDOM)

    def _why_not_alone(self, number: int) -> str | None:
        """Returns why the rows of the table do not pass through the query alone; None if they do."""
        if self._called & ONE_VALUE:
            return f"{min(self._called & ONE_VALUE)} has one value for the whole statement"
        with Duck(plans=True) as duck:
            register(duck, self._prepared, [number])
            plan = duck.plan(self._prepared.text)
        reason = why_not_alone(plan)
        if reason is None and self._is_random and any(len(each.inputs) > 1 for each in plan.walk()):
            called = min(self._called & RANDOM)
            return f"{called} may be of another table, whose values every task would compute anew"
        return reason
