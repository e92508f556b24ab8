"""MERGE INTO a catalog's table: rows updated, deleted and inserted by one query, in one snapshot.

::

    [EXPLAIN] MERGE INTO catalog.schema.table [[AS] alias] USING {table | (query)} [[AS] alias] ON condition
        WHEN MATCHED [AND condition] THEN {UPDATE SET {* | column = value, …} | DELETE}
        WHEN NOT MATCHED [BY TARGET] [AND condition] THEN INSERT {* | [(column, …)] VALUES (value, …)}
        WHEN NOT MATCHED BY SOURCE [AND condition] THEN {UPDATE SET column = value, … | DELETE}

A value is an expression, or DEFAULT.
The first clause that fits a row applies. If several rows of the source would change the same row, the statement fails,
unless all of them delete it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from sqlglot import Token

from metastore.ground.quoting import double_quoted, quote_for_spark
from metastore.lake.writes.row_changes import FILE, ROW
from metastore.lake.writes.written_change import RowPlan
from metastore.sql.expressions import expression, positions_of
from metastore.sql.queries.composed_query import ComposedQuery
from metastore.sql.queries.divided_query import held_rows
from metastore.sql.queries.named_table import NamedTable, named_table
from metastore.sql.queries.select import rows_of
from metastore.sql.rows.assignments import add_value
from metastore.sql.rows.merge_clauses import MergeClause, MergeSource, merge_clause, merge_source
from metastore.sql.rows.merge_queried import addressed_table, merge_queried
from metastore.sql.rows.merged_rows import MergedRows
from metastore.sql.statement import Cursor, Statement
from metastore.sql.target import MERGE_SOURCE, MERGE_TARGET, QueryEngine, StatementTarget
from metastore.sql.tasks.change_tasks import SOURCE_ROW, changed_by_tasks, explain_change, plan_change
from metastore.sql.tasks.division import Division, divide_query
from metastore.sql.tasks.row_writes import StatementReading, run_change

_JOINS: Final = {(False, False): "JOIN", (True, False): "RIGHT JOIN", (False, True): "LEFT JOIN"}
"""The join by two flags: whether clauses treat rows that only the source has, and rows that only the table has."""

_SOURCE_ROW: Final = double_quoted(SOURCE_ROW)
_Join = Literal["INNER", "LEFT", "RIGHT"]


def merge(target: StatementTarget, statement: Statement, branch: str | None = None) -> pa.Table:
    """Run one MERGE; returns the row of :func:`metastore.sql.tasks.row_writes.run_change`.

    ``branch`` is the branch that is read and changed, instead of the one that the statement names; it may be new.
    """
    engine, statement = statement.engine, replace(statement, engine=None)  # tasks get the statement, for its errors
    cursor = Cursor(statement, 2)
    named = named_table(target, cursor, alias=("USING",))
    cursor.expect_word("USING")
    source = merge_source(cursor)
    cursor.expect_word("ON")
    on = expression(cursor, ("WHEN",), "a condition")
    clauses = []
    while cursor.token is not None:
        clauses.append(merge_clause(cursor, named))
    if not clauses:
        raise cursor.expectation_error("WHEN")
    planner = _Merge(target, statement, cursor, named, source, on, clauses, engine).plan
    return run_change(
        target,
        named.table,
        planner,
        "merge",
        branch=named.branch if branch is None else branch,
        makes_branch=branch is not None,
        explains=statement.explains,
    )


@dataclass(frozen=True)
class _Merge:
    """The parsed statement."""

    target: StatementTarget
    statement: Statement
    cursor: Cursor
    named: NamedTable
    source: MergeSource
    on: tuple[Token, ...]
    clauses: list[MergeClause]
    engine: QueryEngine | None

    def plan(self, reading: StatementReading) -> RowPlan:
        """Returns the changes on one version of the table.

        Raises InvalidRequestError for a row that is changed twice.
        """
        schema = reading.table.schema()
        places = [self._places(clause, schema) for clause in self.clauses]
        merged = MergedRows(self.statement, self.clauses, places, schema, reading.job, self.on[0])
        if self.engine is not None:
            return self._plan_by_engine(reading, self.engine, merged, places)
        if reading.explains:
            return self._explain(reading, places)
        plan = self._with_held_source(reading, merged, places)
        return plan or plan_change(self.target, self._query(places, schema), reading, merged)

    def _plan_by_engine(
        self, reading: StatementReading, engine: QueryEngine, merged: MergedRows, places: list[list[int]]
    ) -> RowPlan:
        """Returns what tasks of ``engine`` have written for the rows of its join."""
        asked = {token.text.lower() for token in self.statement.tokens}
        table = addressed_table(reading, self.named.table, asked)
        composed = self._query(places, merged.schema, of_engine=True)
        source = ComposedQuery(self.statement).add("SELECT * FROM").part(self.source.tokens)
        with source.errors():
            given = engine.query_rows(self.target, source.query().text)
        with composed.errors():
            rows = engine.merge_rows(table, given, composed.query().text)
        if reading.explains:
            return RowPlan(lines=rows.lines)
        return merge_queried(rows, reading, merged, composed)

    def _with_held_source(
        self, reading: StatementReading, merged: MergedRows, places: list[list[int]]
    ) -> RowPlan | None:
        """Returns what tasks have written, with the rows to insert; None if the source is too large.

        The source is evaluated once, and travels to every task. Each task joins it with its part of the table. A row of
        the source that no task has found is new.
        """
        source = self._held_source(reading)
        if source is None:
            return None
        numbers: Any = pa.array(range(source.num_rows), pa.int64())
        numbered = source.append_column(SOURCE_ROW, numbers)
        reading.relations.hold(MERGE_SOURCE, numbered)
        about = {clause.about for clause in self.clauses}
        composed = self._query(places, merged.schema, "LEFT" if "old" in about else "INNER")
        found = changed_by_tasks(self.target, composed, reading, merged)
        if found is None or "new" not in about:
            return None if found is None else found.plan
        reading.relations.hold(MERGE_SOURCE, numbered.take(np.setdiff1d(numbers.to_numpy(), found.source_rows)))
        nothing = replace(reading.live, hidden=frozenset(range(len(reading.live.files))))
        reading.relations.pin(self.named.table, reading.table, nothing, reading.branch)
        composed = self._query(places, merged.schema, "RIGHT")
        with composed.errors():
            rows = rows_of(composed.query(), reading.relations)
        new = merged.plan(rows)
        counts = {**(found.plan.counts or {}), "inserted": (new.counts or {})["inserted"]}
        return replace(found.plan, inserted=new.inserted, counts=counts)

    def _held_source(self, reading: StatementReading) -> pa.Table | None:
        """Returns the rows of the source; None if no task could run, or they are too many."""
        sizes = [live.file.file_size_in_bytes for live in reading.live.files]
        if not self.target.engine_for_statement(len(sizes), sum(sizes)).capabilities.runs_statements:
            return None
        return held_rows(ComposedQuery(self.statement).add("SELECT * FROM").part(self.source.tokens), reading.relations)

    def _explain(self, reading: StatementReading, places: list[list[int]]) -> RowPlan:
        source = self._held_source(reading)
        composed = self._query(places, reading.table.schema())
        if source is None:
            return explain_change(self.target, composed, reading)
        reading.relations.hold(
            MERGE_SOURCE, source.append_column(SOURCE_ROW, pa.array(range(source.num_rows), pa.int64()))
        )
        held = self._query(places, reading.table.schema(), "LEFT")
        with held.errors():
            alone = divide_query(self.target, held.query(), reading.relations)
        return explain_change(self.target, held if isinstance(alone, Division) else composed, reading)

    def _places(self, clause: MergeClause, schema: Schema) -> list[int]:
        if clause.action == "delete":
            return []
        places = list(range(len(schema.fields)))
        if clause.columns:
            places = positions_of(self.cursor, schema, clause.columns)
        if not clause.takes_all and len(places) != len(clause.values):
            raise self.statement.error(
                f"{len(places)} values are expected after INSERT, not {len(clause.values)}", clause.token
            )
        return places

    def _query(
        self, places: list[list[int]], schema: Schema, how: _Join | None = None, *, of_engine: bool = False
    ) -> ComposedQuery:
        """Compose the query for the address, the action and the values of each clause, for every pair of rows.

        With ``how``, the source is a held table, and its number is the last column. With ``of_engine``, the query is in
        the SQL of Spark, and the two sides have the names that an engine knows.
        """
        quoted = quote_for_spark if of_engine else double_quoted
        file, given, action, source = map(quoted, (FILE, "$given", "$action", self.source.alias))
        composed = ComposedQuery(self.statement).add(f"SELECT {file}, {quoted(ROW)}, CASE")
        when = {
            "matched": f"{file} IS NOT NULL AND {given}",
            "new": f"{file} IS NULL AND {given}",
            "old": f"{file} IS NOT NULL AND {given} IS NULL",
        }
        for number, clause in enumerate(self.clauses):
            composed.add(f"WHEN {when[clause.about]}")
            if clause.condition:
                composed.add("AND (").part(clause.condition).add(")")
            composed.add(f"THEN {number}")
        composed.add(f"END AS {action}")
        for number, (clause, own) in enumerate(zip(self.clauses, places, strict=True)):
            for at, place in enumerate(own):
                composed.add(f", CASE WHEN {action} = {number} THEN (")
                if clause.takes_all:
                    composed.add(f"{source}.{quoted(schema.fields[place].name)}")
                else:
                    add_value(composed, clause.values[at], schema.fields[place], of_engine=of_engine)
                composed.add(f") END AS {quoted(f'$value_{number}_{at}')}")
        about = {clause.about for clause in self.clauses}
        join = _JOINS.get(("new" in about, "old" in about), "FULL JOIN")
        if of_engine:
            composed.add(f"FROM {quoted(MERGE_TARGET)} AS {quoted(self.named.alias)}")
            composed.add(f"{join} (SELECT *, TRUE AS {given}").add(f"FROM {quoted(MERGE_SOURCE)}")
        elif how is None:
            composed.add("FROM").part(self.named.tokens)
            composed.add(f"{join} (SELECT *, TRUE AS {given} FROM").part(self.source.tokens)
        else:
            composed.add(f", {_SOURCE_ROW} FROM").part(self.named.tokens)
            composed.add(f"{how} JOIN (SELECT *, TRUE AS {given}").add(f"FROM {quoted(MERGE_SOURCE)}")
        return composed.add(f") AS {source} ON").part(self.on)


HANDLERS: Final = {
    ("MERGE", "INTO"): merge,
    ("EXPLAIN", "MERGE", "INTO"): lambda target, statement: merge(target, statement.without_explain()),
}
"""Handlers by the first words of their statements."""
