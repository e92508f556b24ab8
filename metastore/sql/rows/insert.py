"""INSERT INTO and INSERT OVERWRITE: the rows of a query become new data files of a catalog's table.

::

    [EXPLAIN] INSERT INTO      [TABLE] catalog.schema.table [PARTITION (…)] [BY NAME] [(column, …)] {query | VALUES …}
    [EXPLAIN] INSERT OVERWRITE [TABLE] catalog.schema.table [PARTITION (…)] [BY NAME] [(column, …)] {query | VALUES …}
    [EXPLAIN] INSERT INTO      [TABLE] catalog.schema.table [PARTITION (…)] DEFAULT VALUES
    [EXPLAIN] INSERT INTO      [TABLE] catalog.schema.table [BY NAME] [(column, …)] REPLACE WHERE condition query
    [EXPLAIN] WITH name AS (…), … INSERT …                                  -- the query may use these names

Values go to the columns in the brackets, or to all columns by position. With BY NAME they go to the columns with the
names of the query's columns. A column without a value has its write default, or NULL; DEFAULT means the same in VALUES
(:mod:`metastore.sql.queries.default_keyword`). Types are widened or refused (:mod:`metastore.lake.writes.conforming`).

A large query runs by tasks (:mod:`metastore.sql.tasks.division`), which write the files themselves; so do the tasks of
an engine that the caller has chosen for the query.

INSERT OVERWRITE replaces rows in the same commit: those that match the values in PARTITION; without values, the
partitions that the new rows have; in an unpartitioned table all rows (:mod:`metastore.lake.writes.replaced_rows`).
REPLACE WHERE deletes the rows of the condition in the same commit, as DELETE finds them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyiceberg.manifest import DataFile
from sqlglot import Token, TokenType

from metastore.lake.writes.insert_values import InsertValues
from metastore.lake.writes.replaced_rows import Partitions, replaced_rows
from metastore.lake.writes.row_changes import RowChanges
from metastore.lake.writes.row_modes import Kind
from metastore.lake.writes.written_change import RowPlan, WrittenChange
from metastore.sql.expressions import expression, positions_of
from metastore.sql.queries.default_keyword import without_defaults
from metastore.sql.queries.named_table import NamedTable, named_table
from metastore.sql.queries.select import explain, fetch_lines, select, streamed_rows
from metastore.sql.rows.delete_update import deletion
from metastore.sql.rows.insert_tasks import insert_by_tasks, insert_queried, insert_rows
from metastore.sql.rows.partition_clause import PartitionClause, PartitionValue, partition_clause
from metastore.sql.statement import Cursor, Name, Statement
from metastore.sql.target import QueryEngine, StatementTarget
from metastore.sql.tasks.division import Division, UndividedQuery, columns_of, divide_query
from metastore.sql.tasks.row_writes import StatementReading, run_change

_WITH_DEFAULTS: Final = UndividedQuery("DEFAULT is among the rows of VALUES")
"""Defaults are put in by the numbers of rows, which tasks do not know."""

_QUERIES: Final = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
"""First words of queries."""

_DEFAULT_ROW: Final = ("DEFAULT", "VALUES")


def insert(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one INSERT INTO; returns the row of :func:`metastore.sql.tasks.row_writes.run_change`."""
    return _run(target, statement, overwrites=False)


def insert_overwrite(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one INSERT OVERWRITE; returns the row of :func:`metastore.sql.tasks.row_writes.run_change`.

    Replaced rows count as deleted. A query without rows changes a partitioned table only if PARTITION has values.
    """
    return _run(target, statement, overwrites=True)


def with_query(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run, or explain, a statement that begins with WITH: an INSERT, or a query."""
    explains = statement.word(0) == "EXPLAIN"
    whole = statement.without_explain() if explains else statement
    depth = 0
    for index, token in enumerate(whole.tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if not depth and whole.word(index) == "INSERT":
            return _run(target, whole, overwrites=whole.word(index + 1) == "OVERWRITE", first=index)
    return explain(target, statement) if explains else select(target, statement)


def _run(target: StatementTarget, statement: Statement, *, overwrites: bool, first: int = 0) -> pa.Table:
    """Run the statement, whose word INSERT is the token ``first``; a WITH before it belongs to its query."""
    cursor = Cursor(statement, first + 1)
    cursor.expect_word("OVERWRITE" if overwrites else "INTO")
    cursor.accept_word("TABLE")
    named = named_table(target, cursor)
    clause = partition_clause(cursor)
    by_name = cursor.accept_word("BY")
    if by_name:
        cursor.expect_word("NAME")
    columns = _columns(cursor)
    replaced = _read_replace_where(cursor)
    start = cursor.token
    if start is None:
        raise cursor.expectation_error("a query, or VALUES")
    if by_name and columns:
        raise statement.error(
            "BY NAME uses the column names of the query: give BY NAME or columns in brackets, not both", start
        )
    if replaced and (overwrites or clause.columns):
        raise statement.error("REPLACE WHERE says which rows go: leave OVERWRITE and PARTITION out", replaced[0])
    names = statement.tokens[:first]
    insertion = _Insertion(
        target=target,
        cursor=cursor,
        named=named,
        clause=clause,
        columns=columns,
        start=start,
        names=names,
        replaced=replaced,
        by_name=by_name,
        overwrites=overwrites,
    )
    kind: Kind | None = "delete" if overwrites or replaced else None
    return run_change(target, named.table, insertion.plan, kind, branch=named.branch, explains=statement.explains)


@dataclass(frozen=True, kw_only=True)
class _Insertion:
    """The parsed statement; its query begins at ``start``, and ``names`` are WITH and what it defines.

    ``replaced`` is the condition of the rows that go.
    """

    target: StatementTarget
    cursor: Cursor
    named: NamedTable
    clause: PartitionClause
    columns: Sequence[Name]
    start: Token
    names: tuple[Token, ...]
    replaced: tuple[Token, ...]
    by_name: bool
    overwrites: bool

    def plan(self, reading: StatementReading) -> RowPlan:
        """Returns the new rows, or the files in which tasks have written them, and which rows they replace."""
        new = self._new(reading)
        if not self.replaced:
            return new
        alone = not reading.relations.has_read(self.named.table)
        gone = deletion(self.target, self.cursor.statement, self.named, self.replaced, reading)
        return replace(
            gone,
            written=gone.written + new.written,
            condition=gone.condition if alone and self.cursor.statement.engine is None else None,
            counts={**(gone.counts or {}), **(new.counts or {})},
            engine=new.engine,
            lines=[*new.lines, *gone.lines[1:]],
        )

    def _new(self, reading: StatementReading) -> RowPlan:
        """Write the query's rows, by tasks if it divides; an EXPLAIN only checks that they fit."""
        fixed = self.clause.values(self.cursor, reading)
        if self.cursor.statement.engine is not None:
            return self._plan_by_engine(reading, self.cursor.statement.engine, fixed)
        query, defaulted = without_defaults(self._query(reading, fixed))
        division: Division | UndividedQuery = _WITH_DEFAULTS
        if not defaulted:
            division = divide_query(self.target, query, reading.relations)
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
                files, count = insert_rows(batches, values, reading.writer)
        engine = division.engine.name if isinstance(division, Division) else "local"
        plan = RowPlan(written=WrittenChange(tuple(files)), counts={"inserted": count}, engine=engine)
        return self._overwriting(reading, plan, fixed, files) if self.overwrites else plan

    def _plan_by_engine(
        self, reading: StatementReading, engine: QueryEngine, fixed: Sequence[PartitionValue]
    ) -> RowPlan:
        """Returns the files in which tasks of ``engine`` have written the rows of its query."""
        rows = engine.query_rows(self.target, self._query(reading, fixed).text)
        values = self._values(reading, fixed, rows.columns.names)
        if reading.explains:
            return RowPlan(lines=rows.lines)
        files, count = insert_queried(rows, values, reading.writer)
        written = WrittenChange(tuple(files))
        plan = RowPlan(written=written, counts={"inserted": count}, engine=rows.engine.name)
        return self._overwriting(reading, plan, fixed, files) if self.overwrites else plan

    def _query(self, reading: StatementReading, fixed: Sequence[PartitionValue]) -> Statement:
        """Returns the query; for DEFAULT VALUES, VALUES with one DEFAULT for each column without a value."""
        statement = self.cursor.statement
        query = query_from(statement, self.start, self.names)
        if not query.begins_with(_DEFAULT_ROW):
            return query
        if self.columns or self.by_name or len(query.tokens) > len(_DEFAULT_ROW):
            raise statement.error("DEFAULT VALUES takes no columns and no query", self.start)
        left = len(reading.table.schema().fields) - len(fixed)
        text = query.text[: self.start.start] + f"VALUES ({', '.join(['DEFAULT'] * left)})"
        return replace(Statement.parse(text), on_progress=statement.on_progress)

    def _values(self, reading: StatementReading, fixed: Sequence[PartitionValue], names: Sequence[str]) -> InsertValues:
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
        start = self.cursor.statement.place(self.start)
        return InsertValues(schema, places, constants, start, by_name=self.by_name)

    def _overwriting(
        self,
        reading: StatementReading,
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


def query_from(statement: Statement, start: Token, names: Sequence[Token] = ()) -> Statement:
    """Returns the query that begins at ``start``, with its place in the text; ``names`` are a WITH before it."""
    end = names[-1].end + 1 if names else 0
    text, query = statement.text, statement.text[start.start :]
    if names and query[:4].upper() == "WITH":
        query = ",   " + query[4:]
    return Statement.parse(text[:end] + re.sub(r"[^\n]", " ", text[end : start.start]) + query)


def _read_replace_where(cursor: Cursor) -> tuple[Token, ...]:
    """Read ``[REPLACE WHERE condition]``, which ends before the query."""
    if cursor.word != "REPLACE" or cursor.word_ahead(1) != "WHERE":
        return ()
    cursor.advance()
    cursor.advance()
    return expression(cursor, _QUERIES, "a condition")


def _columns(cursor: Cursor) -> Sequence[Name]:
    """Read the columns in brackets; none if the bracket belongs to a query."""
    if not cursor.ahead(TokenType.L_PAREN) or _begins_query(cursor):
        return ()
    cursor.advance()
    found = cursor.list_of(lambda: cursor.name("the name of a column"))
    cursor.expect(TokenType.R_PAREN, ", or )")
    return found


def _begins_query(cursor: Cursor) -> bool:
    return any(cursor.ahead(kind, by=1) for kind in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN))


HANDLERS: Final = {
    ("WITH",): with_query,
    ("INSERT", "INTO"): insert,
    ("INSERT", "OVERWRITE"): insert_overwrite,
    ("EXPLAIN", "WITH"): with_query,
    ("EXPLAIN", "INSERT", "INTO"): lambda target, statement: insert(target, statement.without_explain()),
    ("EXPLAIN", "INSERT", "OVERWRITE"): lambda target, statement: insert_overwrite(target, statement.without_explain()),
}
"""Handlers by the first words of their statements."""
