"""INSERT INTO and INSERT OVERWRITE: the rows of a query become new data files of a catalog's table.

::

    [EXPLAIN] INSERT INTO      [TABLE] catalog.schema.table [PARTITION (…)] [BY NAME] [(column, …)] {query | VALUES …}
    [EXPLAIN] INSERT OVERWRITE [TABLE] catalog.schema.table [PARTITION (…)] [BY NAME] [(column, …)] {query | VALUES …}

Values go to the columns in the brackets, or to all columns by position. With BY NAME they go to the columns with the
names of the query's columns. A column without a value has its write default, or NULL; DEFAULT means the same in VALUES
(:mod:`metastore.sql.queries.default_keyword`). Types are widened or refused (:mod:`metastore.lake.writes.conforming`).

A large query runs by tasks (:mod:`metastore.sql.tasks.division`), which write the files themselves; so do the tasks of
an engine that the caller has chosen for the query.

INSERT OVERWRITE replaces rows in the same commit: those that match the values in PARTITION; without values, the
partitions that the new rows have; in an unpartitioned table all rows (:mod:`metastore.lake.writes.replaced_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyiceberg.manifest import DataFile
from sqlglot import Token, TokenType

from metastore.lake.writes.replaced_rows import Partitions, replaced_rows
from metastore.lake.writes.row_changes import RowChanges
from metastore.lake.writes.row_modes import Kind
from metastore.lake.writes.written_change import RowPlan, WrittenChange
from metastore.sql.expressions import positions_of
from metastore.sql.queries.default_keyword import without_defaults
from metastore.sql.queries.named_table import NamedTable, named_table
from metastore.sql.queries.select import fetch_lines, streamed_rows
from metastore.sql.rows.insert_tasks import InsertValues, insert_by_tasks, insert_queried, inserted
from metastore.sql.rows.partition_clause import PartitionClause, PartitionValue, partition_clause
from metastore.sql.statement import Cursor, Name, Statement
from metastore.sql.target import QueryEngine, StatementTarget
from metastore.sql.tasks.division import Division, Undivided, columns_of, divided
from metastore.sql.tasks.row_writes import Reading, run_change

_WITH_DEFAULTS: Final = Undivided("DEFAULT stands among the rows of VALUES")
"""Defaults are put in by the numbers of rows, which tasks do not know."""


def insert(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one INSERT INTO; returns the row of :func:`metastore.sql.tasks.row_writes.run_change`."""
    return _run(target, statement, overwrites=False)


def insert_overwrite(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one INSERT OVERWRITE; returns the row of :func:`metastore.sql.tasks.row_writes.run_change`.

    Replaced rows count as deleted. A query without rows changes a partitioned table only if PARTITION has values.
    """
    return _run(target, statement, overwrites=True)


def _run(target: StatementTarget, statement: Statement, *, overwrites: bool) -> pa.Table:
    cursor = Cursor(statement, 2)
    cursor.accept_word("TABLE")
    named = named_table(target, cursor)
    clause = partition_clause(cursor)
    by_name = cursor.accept_word("BY")
    if by_name:
        cursor.expect_word("NAME")
    columns = _columns(cursor)
    start = cursor.token
    if start is None:
        raise cursor.unexpected("a query, or VALUES")
    if by_name and columns:
        raise statement.error(
            "BY NAME uses the column names of the query: give BY NAME or columns in brackets, not both", start
        )
    insertion = _Insertion(target, cursor, named, clause, columns, start, by_name=by_name, overwrites=overwrites)
    kind: Kind | None = "delete" if overwrites else None
    return run_change(target, named.table, insertion.plan, kind, explains=statement.explains)


@dataclass(frozen=True)
class _Insertion:
    """The parsed statement; its query begins at ``start``."""

    target: StatementTarget
    cursor: Cursor
    named: NamedTable
    clause: PartitionClause
    columns: Sequence[Name]
    start: Token
    by_name: bool
    overwrites: bool

    def plan(self, reading: Reading) -> RowPlan:
        """Returns the new rows, or the files in which tasks have written them."""
        fixed = self.clause.values(self.cursor, reading)
        if self.cursor.statement.engine is not None:
            return self._queried(reading, self.cursor.statement.engine, fixed)
        query, defaulted = without_defaults(query_from(self.cursor.statement, self.start))
        division: Division | Undivided = _WITH_DEFAULTS
        if not defaulted:
            division = divided(self.target, query, reading.relations)
        if reading.explains:
            self._values(reading, fixed, columns_of(query, reading.relations).names)
            return RowPlan(lines=[division.line, *fetch_lines(query, reading.relations)])
        if isinstance(division, Division):
            values = self._values(reading, fixed, division.columns.names)
            values.rows(reading.job, division.columns.empty_table())  # a type that does not fit is refused here
            files, count = insert_by_tasks(division, values, reading.writer)
        else:
            with streamed_rows(query, reading.relations) as rows:
                values = self._values(reading, fixed, rows.schema.names)
                batches = rows.batches
                if defaulted:  # by the numbers of rows of VALUES
                    values = replace(values, defaulted=defaulted)
                    batches = iter(pa.Table.from_batches(batches, rows.schema).combine_chunks().to_batches())
                files, count = inserted(batches, values, reading.writer)
        engine = division.engine.name if isinstance(division, Division) else "local"
        plan = RowPlan(written=WrittenChange(tuple(files)), counts={"inserted": count}, engine=engine)
        return self._overwriting(reading, plan, fixed, files) if self.overwrites else plan

    def _queried(self, reading: Reading, engine: QueryEngine, fixed: Sequence[PartitionValue]) -> RowPlan:
        """Returns the files in which tasks of ``engine`` have written the rows of its query."""
        rows = engine.queried(self.target, query_from(self.cursor.statement, self.start).text)
        values = self._values(reading, fixed, rows.columns.names)
        if reading.explains:
            return RowPlan(lines=rows.lines)
        files, count = insert_queried(rows, values, reading.writer)
        written = WrittenChange(tuple(files))
        plan = RowPlan(written=written, counts={"inserted": count}, engine=rows.engine.name)
        return self._overwriting(reading, plan, fixed, files) if self.overwrites else plan

    def _values(self, reading: Reading, fixed: Sequence[PartitionValue], names: Sequence[str]) -> InsertValues:
        """Returns where the columns ``names`` of the query go. Raises InvalidRequestError if they do not fit."""
        schema = reading.table.schema()
        chosen = [Name(name, False, self.start) for name in names] if self.by_name else self.columns
        self.clause.require_absent(self.cursor, reading, chosen)
        taken = {each.place for each in fixed}
        others = [place for place in range(len(schema.fields)) if place not in taken]
        places = positions_of(self.cursor, schema, list(chosen)) if chosen else others
        if len(places) != len(names):
            raise self.cursor.statement.error(
                f"the query has {len(names)} columns, and values are expected for {len(places)}: "
                f"{', '.join(schema.fields[place].name for place in places)}",
                self.start,
            )
        constants = {each.place: each.value for each in fixed}
        return InsertValues(schema, places, constants, self.cursor.statement.place(self.start))

    def _overwriting(
        self,
        reading: Reading,
        plan: RowPlan,
        fixed: Sequence[PartitionValue],
        files: Sequence[DataFile],
    ) -> RowPlan:
        """Returns the plan that also deletes the rows which its rows replace."""
        job, schema = reading.job, reading.table.schema()
        if fixed:
            partitions = Partitions.of_values(schema, [each.field for each in fixed], [each.value for each in fixed])
        else:
            partitions = Partitions.of_files(job, files)
        replaced = replaced_rows(job, reading.live, partitions)
        alone = self.cursor.statement.engine is None and not reading.relations.has_read(self.named.table)
        return replace(
            plan,
            changes=RowChanges(replaced.addresses) if replaced.addresses.num_rows else None,
            dropped=replaced.files,
            dropped_deletes=replaced.deletes,
            condition=partitions.condition(schema) if alone else None,
            counts={**(plan.counts or {}), "deleted": replaced.count},
        )


def query_from(statement: Statement, start: Token) -> Statement:
    """Returns the query that begins at ``start``, with its place in the text."""
    before = statement.text[: start.start]
    blank = "".join(each if each == "\n" else " " for each in before)
    return Statement.parse(blank + statement.text[start.start :])


def _columns(cursor: Cursor) -> Sequence[Name]:
    """Read the columns in brackets; none if the bracket belongs to a query."""
    if not cursor.ahead(TokenType.L_PAREN) or _begins_query(cursor):
        return ()
    cursor.advance()
    found = [cursor.name("the name of a column")]
    while cursor.accept(TokenType.COMMA):
        found.append(cursor.name("the name of a column"))
    cursor.expect(TokenType.R_PAREN, ", or )")
    return found


def _begins_query(cursor: Cursor) -> bool:
    return any(cursor.ahead(kind, by=1) for kind in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN))


HANDLERS: Final = {
    ("INSERT", "INTO"): insert,
    ("INSERT", "OVERWRITE"): insert_overwrite,
    ("EXPLAIN", "INSERT", "INTO"): lambda target, statement: insert(target, statement.explained()),
    ("EXPLAIN", "INSERT", "OVERWRITE"): lambda target, statement: insert_overwrite(target, statement.explained()),
}
"""Handlers by the first words of their statements."""
