"""DELETE, TRUNCATE and UPDATE of a catalog's table.

::

    [EXPLAIN] DELETE FROM catalog.schema.table [[AS] alias] [USING tables] [WHERE condition]
    [EXPLAIN] TRUNCATE TABLE catalog.schema.table
    [EXPLAIN] UPDATE catalog.schema.table [[AS] alias] SET column = {expression | DEFAULT}, … [FROM tables]
                     [WHERE condition]

A condition is any condition of SELECT, including subqueries; a row for which it is NULL does not change. Files without
a matching row are not read if statistics prove it. Files with matching rows get deletes, or are rewritten, as the
table's properties say (:mod:`metastore.lake.writes.row_modes`); they are dropped if no row is left. DELETE drops a file
without reading it if the condition covers the file's partition. Tables after USING and FROM are joined with the table.
UPDATE refuses several matches of one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from sqlglot import Token

from metastore.ground.quoting import double_quoted
from metastore.lake.writes.conforming import conformed_column, default_column
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.row_changes import FILE, ROW, RowChanges, Update
from metastore.lake.writes.written_change import RowPlan
from metastore.sql.expressions import expression, positions_of
from metastore.sql.queries.composed_query import ComposedQuery
from metastore.sql.queries.default_keyword import is_default
from metastore.sql.queries.named_table import NamedTable, named_table
from metastore.sql.queries.select import rows_of
from metastore.sql.rows.assignments import add_value, assignments
from metastore.sql.rows.merged_rows import require_once, without_doubles
from metastore.sql.statement import Cursor, Statement
from metastore.sql.target import StatementTarget
from metastore.sql.tasks.change_tasks import plan_change
from metastore.sql.tasks.covered_files import covered_files, implied_condition
from metastore.sql.tasks.row_writes import StatementReading, run_change

_NO_ROWS: Final = pa.table({FILE: pa.array([], pa.int64()), ROW: pa.array([], pa.int64())})


def delete(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one DELETE; returns the row of :func:`metastore.sql.tasks.row_writes.run_change`."""
    cursor = Cursor(statement, 2)
    named = named_table(target, cursor, alias=("WHERE", "USING"))
    sources = _sources(cursor, "USING")
    where = _where(cursor)
    if not where and not sources:
        return _delete_all(target, statement, named)

    def plan(reading: StatementReading) -> RowPlan:
        if not sources:
            return deletion(target, statement, named, where, reading)
        composed = _add_source(ComposedQuery(statement).add(_addresses(named)), named, sources, where)
        return plan_change(target, composed, reading, _Deletion(is_joined=True))

    return run_change(target, named.table, plan, "delete", branch=named.branch, explains=statement.explains)


def deletion(
    target: StatementTarget,
    statement: Statement,
    named: NamedTable,
    where: tuple[Token, ...],
    reading: StatementReading,
) -> RowPlan:
    """Returns the plan that deletes the rows of the condition ``where``; covered files are dropped without reading."""
    composed = _add_source(ComposedQuery(statement).add(_addresses(named)), named, (), where)
    negated = ComposedQuery(statement).add("SELECT * FROM").part(named.tokens).add("WHERE NOT (").part(where).add(")")
    covered = covered_files(negated, reading)
    live = reading.live
    reading.relations.pin(named.table, reading.table, replace(live, hidden=frozenset(covered)), reading.branch)
    found = plan_change(target, composed, reading, _Deletion())
    deleted = (found.counts or {}).get("deleted", 0) + sum(live.row_count(number) or 0 for number in covered)
    condition = implied_condition(composed, reading)
    return replace(found, dropped=covered, condition=condition, counts={"deleted": deleted})


def truncate(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one TRUNCATE: it deletes every row and reads no data file."""
    cursor = Cursor(statement, 2)
    named = named_table(target, cursor)
    cursor.end()
    return _delete_all(target, statement, named)


def update(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one UPDATE; returns the row of :func:`metastore.sql.tasks.row_writes.run_change`."""
    cursor = Cursor(statement, 1)
    named = named_table(target, cursor, alias=("SET",))
    cursor.expect_word("SET")
    assigned = assignments(cursor, named.alias, ("WHERE", "FROM"))
    sources = _sources(cursor, "FROM")
    where = _where(cursor)

    def plan(reading: StatementReading) -> RowPlan:
        """The rows to change with their new values, and the condition that all of them meet, if one is known."""
        schema = reading.table.schema()
        places = positions_of(cursor, schema, [name for name, _ in assigned])
        composed = ComposedQuery(statement).add(_addresses(named))
        for place, (_, value) in zip(places, assigned, strict=True):
            add_value(composed.add(","), value, schema.fields[place])
        _add_source(composed, named, sources, where)
        tokens = [name.token for name, _ in assigned]
        defaulted = frozenset(place for place, (_, value) in zip(places, assigned, strict=True) if is_default(value))
        values = _NewValues(
            statement=statement,
            tokens=tokens,
            places=places,
            schema=schema,
            job=reading.job,
            defaulted=defaulted,
            source=sources[:1],
        )
        found = plan_change(target, composed, reading, values)
        return replace(found, condition=implied_condition(composed, reading))

    return run_change(target, named.table, plan, "update", branch=named.branch, explains=statement.explains)


@dataclass(frozen=True)
class _Deletion:
    """Deletes the rows that were found; with ``is_joined`` a row may be found several times."""

    is_joined: bool = False

    def plan(self, rows: pa.Table) -> RowPlan:
        """Returns the change."""
        once = without_doubles(rows) if self.is_joined else rows
        return RowPlan(changes=RowChanges(once), counts={"deleted": once.num_rows})


@dataclass(frozen=True, kw_only=True)
class _NewValues:
    """Gives the rows that were found new values, in the columns at ``places``; ``tokens`` name these columns.

    The columns at ``defaulted`` get their write defaults. ``source`` is the first token of joined tables, if any.
    """

    statement: Statement
    tokens: Sequence[Token]
    places: Sequence[int]
    schema: Schema
    job: RewriteJob
    defaulted: AbstractSet[int]
    source: Sequence[Token] = ()

    def plan(self, rows: pa.Table) -> RowPlan:
        """Returns the change. Raises InvalidRequestError, at the column, for a value that does not fit."""
        new = {}
        for at, (place, token) in enumerate(zip(self.places, self.tokens, strict=True), start=2):
            field, arrow, values = self.schema.fields[place], self.job.arrow_schema.field(place), rows.column(at)
            if place in self.defaulted:
                values = default_column(field, arrow, rows.num_rows)
            with self.statement.at(token):
                new[place] = conformed_column(field, arrow, values)
        addresses = rows.select([0, 1]).rename_columns([FILE, ROW])
        for token in self.source:
            with self.statement.at(token):
                require_once(self.job.name, addresses)
        changes = RowChanges(_NO_ROWS, (Update(addresses, new),))
        return RowPlan(changes=changes, counts={"updated": rows.num_rows})


def _addresses(named: NamedTable) -> str:
    """Returns SELECT with the address of a row of the table; other tables of the query may have one, too."""
    return f"SELECT {named.quoted_alias}.{double_quoted(FILE)}, {named.quoted_alias}.{double_quoted(ROW)}"


def _add_source(
    composed: ComposedQuery, named: NamedTable, sources: tuple[Token, ...], where: tuple[Token, ...]
) -> ComposedQuery:
    """Add FROM, with the table and the ``sources`` that it is joined with, and WHERE."""
    composed.add("FROM").part(named.tokens)
    if sources:
        composed.add(",").part(sources)
    return composed.add("WHERE").part(where) if where else composed


def _sources(cursor: Cursor, word: str) -> tuple[Token, ...]:
    """Read the tables after ``word``, up to WHERE or the end; none without the word."""
    if not cursor.accept_word(word):
        return ()
    tables = cursor.list_of(lambda: expression(cursor, ("WHERE",), "a table"))
    return tuple(token for table in tables for token in table)


def _where(cursor: Cursor) -> tuple[Token, ...]:
    """Read ``[WHERE condition]`` up to the end of the statement; returns an empty tuple without WHERE."""
    found = expression(cursor, what="a condition") if cursor.accept_word("WHERE") else ()
    cursor.end()
    return found


def _delete_all(target: StatementTarget, statement: Statement, named: NamedTable) -> pa.Table:
    plan = partial(_everything, statement, named)
    return run_change(target, named.table, plan, "delete", branch=named.branch, explains=statement.explains)


def _everything(statement: Statement, named: NamedTable, reading: StatementReading) -> RowPlan:
    """Plan to drop all data files, and all delete files with them.

    The files' own counts give the number of deleted rows. If the table has delete files, a query counts the rows.
    """
    live = reading.live
    every = range(len(live.files))
    if reading.explains:
        return RowPlan(dropped=every, lines=["Run on this machine: only the table's metadata changes"])
    rows = sum(data.file.record_count for data in live.files)
    if live.deletes:
        composed = ComposedQuery(statement).add("SELECT count(*) FROM").part(named.tokens)
        with composed.errors():
            rows = rows_of(composed.query(), reading.relations).column(0)[0].as_py()
    return RowPlan(dropped=every, dropped_deletes=live.deletes, condition=AlwaysTrue(), counts={"deleted": rows})


HANDLERS: Final = {
    ("DELETE", "FROM"): delete,
    ("TRUNCATE", "TABLE"): truncate,
    ("UPDATE",): update,
    ("EXPLAIN", "DELETE", "FROM"): lambda target, statement: delete(target, statement.without_explain()),
    ("EXPLAIN", "TRUNCATE", "TABLE"): lambda target, statement: truncate(target, statement.without_explain()),
    ("EXPLAIN", "UPDATE"): lambda target, statement: update(target, statement.without_explain()),
}
"""Handlers by the first words of their statements."""
