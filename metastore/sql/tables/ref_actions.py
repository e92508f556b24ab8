"""Branches and tags by ALTER TABLE, in Spark's words. Each statement is a call of a procedure on refs.

::

    ALTER TABLE catalog.schema.table
        CREATE [OR REPLACE] {BRANCH | TAG} [IF NOT EXISTS] name [AS OF VERSION snapshot] [RETAIN time] [WITH …]
        REPLACE {BRANCH | TAG} name [AS OF VERSION snapshot] [RETAIN time] [WITH …]
        DROP {BRANCH | TAG} [IF EXISTS] name

    WITH SNAPSHOT RETENTION [number SNAPSHOTS] [time]        -- of a branch
    time: number {DAYS | HOURS | MINUTES}
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from sqlglot import Token, TokenType

from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.procedures.framework.binding import GivenArgument
from metastore.sql.statement import Cursor
from metastore.sql.target import StatementTarget

_KINDS: Final = ("BRANCH", "TAG")
_MILLISECONDS: Final = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000}


def is_ref_action(cursor: Cursor) -> bool:
    """Whether the action of an ALTER TABLE is on a branch or tag; a column may have these names."""
    kind = 3 if cursor.word == "CREATE" and cursor.word_ahead(1) == "OR" else 1
    named = cursor.ahead(TokenType.IDENTIFIER, kind + 1) or cursor.word_ahead(kind + 1)
    return cursor.word in ("CREATE", "REPLACE", "DROP") and cursor.word_ahead(kind) in _KINDS and bool(named)


def change_ref(target: StatementTarget, cursor: Cursor, catalog: str, table: TargetTable) -> pa.Table:
    """Run the rest of the statement on ``table``; returns the rows of the procedure, or its plan.

    Raises InvalidRequestError with the place in the text, and the errors of the procedure.
    """
    statement, start = cursor.statement, cursor.token
    assert start is not None
    arguments = _Arguments(cursor)
    verb = cursor.advance().text.lower()
    if verb == "create" and cursor.accept_word("OR"):
        arguments.add("or_replace", True, cursor.expect_word("REPLACE"))
    kind = cursor.advance().text.lower()
    if verb != "replace" and cursor.accept_word("IF"):
        if verb == "create":
            cursor.expect_word("NOT")
        arguments.add("if_not_exists" if verb == "create" else "if_exists", True, cursor.expect_word("EXISTS"))
    name = cursor.name(f"the name of a {kind}")
    arguments.add(kind, name.text, name.token)
    if verb != "drop":
        _read_clauses(cursor, arguments, kind)
    cursor.end()
    *schema, own = table.identifier
    arguments.add("schema", ".".join(schema), start)
    arguments.add("table_name", own, start)
    found = target.procedures.find(f"{catalog}.system.{verb}_{kind}")
    if statement.explains:
        return target.procedures.explain_given(found, arguments.given, statement.place(start))
    return target.procedures.call_given(found, arguments.given, statement.place(start), statement.on_progress)


class _Arguments:
    """Arguments of the call, each with its place."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.given: list[GivenArgument] = []

    def add(self, name: str, value: Any, token: Token) -> None:
        """Add one."""
        self.given.append(GivenArgument(value, name, place=self._cursor.statement.place(token)))


def _read_clauses(cursor: Cursor, arguments: _Arguments, kind: str) -> None:
    """Read AS OF VERSION, RETAIN and, for branches, WITH SNAPSHOT RETENTION as arguments of the procedure."""
    if cursor.accept_words("AS", "OF", "VERSION"):
        arguments.add("snapshot_id", *_number(cursor))
    if cursor.accept_word("RETAIN"):
        arguments.add("max_ref_age_ms", *_time(cursor, *_number(cursor)))
    if kind == "branch" and cursor.accept_words("WITH", "SNAPSHOT", "RETENTION"):
        value, token = _number(cursor)
        if cursor.accept_word("SNAPSHOTS"):
            arguments.add("min_snapshots_to_keep", value, token)
            if not cursor.ahead(TokenType.NUMBER):
                return
            value, token = _number(cursor)
        arguments.add("max_snapshot_age_ms", *_time(cursor, value, token))


def _number(cursor: Cursor) -> tuple[int, Token]:
    token = cursor.expect(TokenType.NUMBER, "a whole number")
    if not token.text.isdecimal():
        raise cursor.statement.error(f"a whole number is expected, not {token.text}", token)
    return int(token.text), token


def _time(cursor: Cursor, count: int, token: Token) -> tuple[int, Token]:
    unit = _MILLISECONDS.get(cursor.word.removesuffix("S"))
    if unit is None:
        raise cursor.expectation_error("DAYS, HOURS or MINUTES")
    cursor.advance()
    return count * unit, token
