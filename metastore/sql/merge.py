"""MERGE INTO a catalog's table: rows updated, deleted and inserted by one query, in one snapshot.

::

    MERGE INTO catalog.schema.table [[AS] alias] USING {table | (query)} [[AS] alias] ON condition
        WHEN MATCHED [AND condition] THEN {UPDATE SET {* | column = expression, …} | DELETE}
        WHEN NOT MATCHED [BY TARGET] [AND condition] THEN INSERT {* | [(column, …)] VALUES (expression, …)}
        WHEN NOT MATCHED BY SOURCE [AND condition] THEN {UPDATE SET column = expression, … | DELETE}

The first clause that fits a row applies. If several rows of the source would change the same row, the statement fails,
unless all of them delete it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from sqlglot import Token, TokenType

from metastore.quoting import double_quoted
from metastore.sql.composed import Composed
from metastore.sql.expressions import assigned_column, assignments, expression, positions_of
from metastore.sql.named_table import NamedTable, accept_alias, named_table
from metastore.sql.row_writes import Reading, run_change
from metastore.sql.select import rows_of
from metastore.sql.statement import Cursor, Name, Statement
from metastore.sql.target import StatementTarget
from metastore.writes.conforming import conformed, conformed_column
from metastore.writes.row_changes import FILE, ROW, RowChanges, Update
from metastore.writes.written_change import RowPlan

_GIVEN: Final = '"$given"'
_ACTION: Final = '"$action"'
_FILE: Final = double_quoted(FILE)
_JOINS: Final = {(False, False): "JOIN", (True, False): "RIGHT JOIN", (False, True): "LEFT JOIN"}
"""The join by two flags: whether clauses treat rows that only the source has, and rows that only the table has."""

_WHEN: Final = {
    "matched": f"{_FILE} IS NOT NULL AND {_GIVEN}",
    "new": f"{_FILE} IS NULL AND {_GIVEN}",
    "old": f"{_FILE} IS NOT NULL AND {_GIVEN} IS NULL",
}
_ADDRESS: Final[dict[str, pa.DataType]] = {FILE: pa.int64(), ROW: pa.int64()}


@dataclass(frozen=True)
class _Clause:
    """One WHEN clause. ``columns`` and ``values`` correspond; without columns it means all, by name or by position."""

    about: Literal["matched", "new", "old"]
    condition: tuple[Token, ...]
    action: Literal["update", "delete", "insert"]
    token: Token
    columns: list[Name] = field(default_factory=list)
    values: list[tuple[Token, ...]] = field(default_factory=list)
    takes_all: bool = False


@dataclass(frozen=True)
class _Source:
    """The source of the merge: its text, and the qualifier of its columns."""

    tokens: tuple[Token, ...]
    alias: str


def merge(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one MERGE; returns the row of :func:`metastore.sql.row_writes.run_change`."""
    cursor = Cursor(statement, 2)
    named = named_table(target, cursor, alias=("USING",))
    cursor.expect_word("USING")
    source = _source(cursor)
    cursor.expect_word("ON")
    on = expression(cursor, ("WHEN",), "a condition")
    clauses = []
    while cursor.token is not None:
        clauses.append(_clause(cursor, named))
    if not clauses:
        raise cursor.unexpected("WHEN")
    return run_change(target, named.table, _Merge(statement, cursor, named, source, on, clauses).plan, "merge")


@dataclass(frozen=True)
class _Merge:
    """The parsed statement."""

    statement: Statement
    cursor: Cursor
    named: NamedTable
    source: _Source
    on: tuple[Token, ...]
    clauses: list[_Clause]

    def plan(self, reading: Reading) -> RowPlan:
        """Returns the changes on one version of the table.

        Raises InvalidRequestError for a row that is changed twice.
        """
        schema = reading.table.schema()
        places = [self._places(clause, schema) for clause in self.clauses]
        composed = self._query(places, schema)
        with composed.errors():
            rows = rows_of(composed.query(), reading.relations)
        action: Any = rows.column(2)
        first = 3
        deleted: list[pa.Table] = []
        updates: list[Update] = []
        inserted: list[pa.Table] = []
        for number, (clause, own) in enumerate(zip(self.clauses, places, strict=True)):
            found = rows.filter(pc.equal(action, pa.scalar(number)))
            columns = [found.column(first + at) for at in range(len(own))]
            first += len(own)
            with self.statement.at(clause.token):
                if clause.action == "insert":
                    given = {schema.fields[place].name: values for place, values in zip(own, columns, strict=True)}
                    inserted.append(conformed(given, schema, reading.job.arrow_schema, found.num_rows))
                    continue
                addresses = found.select([0, 1]).rename_columns([FILE, ROW])
                if clause.action == "delete":
                    deleted.append(addresses)
                    continue
                arrow = reading.job.arrow_schema
                new = {
                    place: conformed_column(schema.fields[place], arrow.field(place), values)
                    for place, values in zip(own, columns, strict=True)
                }
                updates.append(Update(addresses, new))
        going = _without_doubles(pa.concat_tables([pa.schema(_ADDRESS).empty_table(), *deleted]))
        self._require_once([going, *(update.addresses for update in updates)])
        added = pa.concat_tables(inserted) if inserted else None
        counts = {
            "inserted": added.num_rows if added is not None else 0,
            "updated": sum(update.addresses.num_rows for update in updates),
            "deleted": going.num_rows,
        }
        return RowPlan(
            added if added is not None and added.num_rows else None, RowChanges(going, updates), counts=counts
        )

    def _places(self, clause: _Clause, schema: Schema) -> list[int]:
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

    def _query(self, places: list[list[int]], schema: Schema) -> Composed:
        """Compose the query for the address, the action and the values of each clause, for every pair of rows."""
        composed = Composed(self.statement).add(f"SELECT {_FILE}, {double_quoted(ROW)}, CASE")
        for number, clause in enumerate(self.clauses):
            composed.add(f"WHEN {_WHEN[clause.about]}")
            if clause.condition:
                composed.add("AND (").part(clause.condition).add(")")
            composed.add(f"THEN {number}")
        composed.add(f"END AS {_ACTION}")
        for number, (clause, own) in enumerate(zip(self.clauses, places, strict=True)):
            for at, place in enumerate(own):
                composed.add(f", CASE WHEN {_ACTION} = {number} THEN (")
                if clause.takes_all:
                    composed.add(f"{double_quoted(self.source.alias)}.{double_quoted(schema.fields[place].name)}")
                else:
                    composed.part(clause.values[at])
                composed.add(f') END AS "$value_{number}_{at}"')
        about = {clause.about for clause in self.clauses}
        join = _JOINS.get(("new" in about, "old" in about), "FULL JOIN")
        composed.add("FROM").part(self.named.tokens)
        composed.add(f"{join} (SELECT *, TRUE AS {_GIVEN} FROM").part(self.source.tokens)
        return composed.add(f") AS {double_quoted(self.source.alias)} ON").part(self.on)

    def _require_once(self, addresses: list[pa.Table]) -> None:
        every = pa.concat_tables(addresses)
        twice = every.num_rows - _without_doubles(every).num_rows
        if twice:
            raise self.statement.error(
                f"several rows of the source change one row of {self.named.table}, {twice} times, so the "
                "result is undefined. Reduce the source to one row for each, for example by GROUP BY",
                self.on[0],
            )


def _without_doubles(addresses: pa.Table) -> pa.Table:
    if not addresses.num_rows:
        return addresses
    pairs: Any = np.stack([addresses.column(FILE).to_numpy(), addresses.column(ROW).to_numpy()])
    once = np.unique(pairs, axis=1)
    return pa.table({FILE: pa.array(once[0], pa.int64()), ROW: pa.array(once[1], pa.int64())})


def _source(cursor: Cursor) -> _Source:
    start = cursor.token
    if cursor.ahead(TokenType.L_PAREN):
        opening = cursor.advance()
        # An expression ends at a closing bracket; a query may contain commas.
        while not cursor.ahead(TokenType.R_PAREN):
            if cursor.accept(TokenType.COMMA):
                continue
            expression(cursor, what="a query")
        closing = cursor.advance()
        alias = accept_alias(cursor, ("ON",))
        if alias is None:
            raise cursor.unexpected("an alias of the query")
        if not cursor.accept(TokenType.L_PAREN):
            return _Source((opening, closing), alias.text)
        while not cursor.ahead(TokenType.R_PAREN):
            cursor.name("the name of a column")
            cursor.accept(TokenType.COMMA)
        return _Source((opening, cursor.advance()), alias.text)
    names = cursor.names("a table, or a query in brackets")
    assert start is not None
    last = names[-1].token
    alias = accept_alias(cursor, ("ON",))
    return _Source((start, last), alias.text if alias else names[-1].text)


def _clause(cursor: Cursor, named: NamedTable) -> _Clause:
    token = cursor.expect_word("WHEN")
    about: Literal["matched", "new", "old"] = "matched"
    if cursor.accept_word("NOT"):
        about = "new"
    cursor.expect_word("MATCHED")
    if about == "new" and cursor.accept_word("BY"):
        if cursor.accept_word("SOURCE"):
            about = "old"
        else:
            cursor.expect_word("TARGET")
    condition = expression(cursor, ("THEN",), "a condition") if cursor.accept_word("AND") else ()
    cursor.expect_word("THEN")
    if about == "new":
        return _insert(cursor, condition, token)
    if cursor.accept_word("DELETE"):
        return _Clause(about, condition, "delete", token)
    if not cursor.accept_word("UPDATE"):
        raise cursor.unexpected("UPDATE SET or DELETE")
    cursor.expect_word("SET")
    if about == "matched" and cursor.accept(TokenType.STAR):
        return _Clause(about, condition, "update", token, takes_all=True)
    assigned = assignments(cursor, named.alias, ("WHEN",))
    columns, values = [name for name, _ in assigned], [value for _, value in assigned]
    return _Clause(about, condition, "update", token, columns, values)


def _insert(cursor: Cursor, condition: tuple[Token, ...], token: Token) -> _Clause:
    cursor.expect_word("INSERT")
    if cursor.accept(TokenType.STAR):
        return _Clause("new", condition, "insert", token, takes_all=True)
    columns: list[Name] = []
    if cursor.accept(TokenType.L_PAREN):
        columns.append(assigned_column(cursor, ""))
        while cursor.accept(TokenType.COMMA):
            columns.append(assigned_column(cursor, ""))
        cursor.expect(TokenType.R_PAREN, ", or )")
    cursor.expect_word("VALUES")
    cursor.expect(TokenType.L_PAREN, "(")
    values = [expression(cursor)]
    while cursor.accept(TokenType.COMMA):
        values.append(expression(cursor))
    cursor.expect(TokenType.R_PAREN, ", or )")
    return _Clause("new", condition, "insert", token, columns, values)


HANDLERS: Final = {("MERGE", "INTO"): merge}
"""Handlers by the first words of their statements."""
