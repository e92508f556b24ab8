"""Chooses which tables of a query are divided among tasks.

Place in the flow: :mod:`metastore.sql.tasks.division` says which queries are divided. One table is tried before
several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import sqlglot
from sqlglot import exp

from metastore.duck.duckdb_sql import DuckDbSql
from metastore.duck.queries import Duck
from metastore.duck.query_plans import why_not_alone
from metastore.engines.engine import Engine
from metastore.lake.writes.row_changes import FILE
from metastore.sql.queries.divided_query import MOST_HELD_BYTES, hold_rows, register
from metastore.sql.queries.row_parts import HeldRows, RowsOnStore
from metastore.sql.queries.select import PreparedQuery, QueryTable
from metastore.sql.queries.statement_functions import ONE_VALUE, RANDOM, called_functions
from metastore.sql.target import StatementTarget


class NotDivided(Exception):  # noqa: N818 - it says why a query runs on this machine; nothing failed
    """The query is not divided; the text says why."""


@dataclass(frozen=True)
class ChosenDivision:
    """The divided ``tables``, by number, and the rows of all others, which are ``held``.

    ``is_random``: a task that runs again may give other rows.
    """

    engine: Engine
    tables: Mapping[int, RowsOnStore]
    held: Mapping[int, HeldRows]
    is_random: bool = False

    @property
    def files(self) -> int:
        """The number of files that tasks read."""
        return sum(len(each.sizes) for each in self.tables.values())

    @property
    def size(self) -> int:
        """Bytes of these files."""
        return sum(each.size for each in self.tables.values())


class DivisionChoice:
    """One query, and what is known of it."""

    def __init__(self, target: StatementTarget, prepared: PreparedQuery) -> None:
        self._target = target
        self._prepared = prepared
        self._held: dict[int, HeldRows | None] = {}
        found = dict(enumerate(prepared.registered))
        self._tables = {number: each for number, each in found.items() if isinstance(each, QueryTable)}
        stored = {number: each.relation.on_store(each.asked) for number, each in self._tables.items()}
        self._stored = {number: rows for number, rows in stored.items() if rows is not None}
        self._changing = _changing(prepared, [n for n in self._stored if FILE in self._tables[n].asked.columns])

    def choose(self) -> ChosenDivision:
        """Returns the choice. Raises Whole, and :class:`metastore.duck.queries.Failure` if DuckDB refuses the query."""
        if not self._stored:
            raise NotDivided("the query reads no table in files")
        reasons: list[str] = []
        by_size = sorted(self._stored, key=lambda each: -self._stored[each].size)
        for divided in ([number] for number in self._changing) if self._changing else self._sets(by_size):
            engine = self._engine(divided)
            reason = self._why_not_alone(divided) if engine.capabilities.runs_statements else self._too_small(divided)
            others = self._held_beside(divided, reasons) if reason is None else None
            if others is not None:
                tables = {number: self._stored[number] for number in divided}
                return ChosenDivision(engine, tables, others, is_random=self._is_random)
            if reason is not None:
                reasons.append(reason)
        raise NotDivided(reasons[0])

    def _sets(self, by_size: list[int]) -> list[list[int]]:
        """Returns the sets of tables to divide, in the order in which they are tried."""
        large = [number for number in by_size if self._stored[number].size > MOST_HELD_BYTES]
        several = [each for each in (large, by_size) if len(each) > 1]
        return [*([number] for number in by_size), *several]

    def _held_beside(self, divided: Sequence[int], reasons: list[str]) -> Mapping[int, HeldRows] | None:
        """Returns the rows of the tables that are not ``divided``; None, with one more reason, if they are too many."""
        found: dict[int, HeldRows] = {}
        room = MOST_HELD_BYTES
        for number, table in self._tables.items():
            if number in divided:
                continue
            if number not in self._held:
                self._held[number] = hold_rows(table, MOST_HELD_BYTES)
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
    def _called_functions(self) -> set[str]:
        return called_functions(self._prepared)

    @property
    def _is_random(self) -> bool:
        return bool(self._called_functions & RANDOM)

    def _why_not_alone(self, divided: Sequence[int]) -> str | None:
        """Returns why the rows of these tables do not pass through the query alone; None if they do."""
        if self._called_functions & ONE_VALUE:
            return f"{min(self._called_functions & ONE_VALUE)} has one value for the whole statement"
        with Duck(plans=True) as duck:
            register(duck, self._prepared, divided)
            plan = duck.plan(self._prepared.text)
        reason = why_not_alone(plan, len(divided))
        if reason is None and self._is_random and any(len(each.inputs) > 1 for each in plan.walk()):
            called = min(self._called_functions & RANDOM)
            return f"{called} may be of another table, whose values every task would compute anew"
        return reason


def _changing(prepared: PreparedQuery, addressed: list[int]) -> list[int]:
    """Returns the table that the statement changes, of those whose rows have addresses; none for a query of rows alone.

    If the statement names its table several times, only the one whose addresses are selected may be divided: each file
    is changed by one task. Raises Whole if that cannot be told.
    """
    if len(addressed) < 2:
        return addressed
    tree = sqlglot.parse_one(prepared.text, read=DuckDbSql)
    aliases = {column.table for column in tree.find_all(exp.Column) if column.name == FILE}
    tables = [table for table in tree.find_all(exp.Table) if table.find_ancestor(exp.Select) is tree]
    # Tables are views in schemas of their numbers (metastore.duck.queries).
    changed = [int(table.db.removeprefix("_")) - 1 for table in tables if {table.alias_or_name} == aliases]
    if len(changed) != 1 or changed[0] not in addressed:
        raise NotDivided("the statement reads its table in several places")
    return changed
