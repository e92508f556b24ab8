"""The clauses of MERGE, and its source, as they are parsed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import Token, TokenType

from metastore.sql.expressions import expression
from metastore.sql.queries.named_table import NamedTable, accept_alias
from metastore.sql.rows.assignments import Value, assigned_column, assignments
from metastore.sql.statement import Cursor, Name


@dataclass(frozen=True)
class MergeClause:
    """One WHEN clause. ``columns`` and ``values`` correspond; without columns it means all, by name or by position."""

    about: Literal["matched", "new", "old"]
    condition: tuple[Token, ...]
    action: Literal["update", "delete", "insert"]
    token: Token
    columns: list[Name] = field(default_factory=list)
    values: Sequence[Value] = field(default_factory=list)
    takes_all: bool = False


@dataclass(frozen=True)
class MergeSource:
    """The source of the merge: its text, and the qualifier of its columns."""

    tokens: tuple[Token, ...]
    alias: str


def merge_source(cursor: Cursor) -> MergeSource:
    """Read a table or a query in brackets, with its alias. Raises InvalidRequestError."""
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
            raise cursor.expectation_error("an alias of the query")
        if not cursor.accept(TokenType.L_PAREN):
            return MergeSource((opening, closing), alias.text)
        while not cursor.ahead(TokenType.R_PAREN):
            cursor.name("the name of a column")
            cursor.accept(TokenType.COMMA)
        return MergeSource((opening, cursor.advance()), alias.text)
    names = cursor.names("a table, or a query in brackets")
    assert start is not None
    last = names[-1].token
    alias = accept_alias(cursor, ("ON",))
    return MergeSource((start, last), alias.text if alias else names[-1].text)


def merge_clause(cursor: Cursor, named: NamedTable) -> MergeClause:
    """Read one WHEN clause on the table ``named``. Raises InvalidRequestError."""
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
        return MergeClause(about, condition, "delete", token)
    if not cursor.accept_word("UPDATE"):
        raise cursor.expectation_error("UPDATE SET or DELETE")
    cursor.expect_word("SET")
    if about == "matched" and cursor.accept(TokenType.STAR):
        return MergeClause(about, condition, "update", token, takes_all=True)
    assigned = assignments(cursor, named.alias, ("WHEN",))
    columns, values = [name for name, _ in assigned], [value for _, value in assigned]
    return MergeClause(about, condition, "update", token, columns, values)


def _insert(cursor: Cursor, condition: tuple[Token, ...], token: Token) -> MergeClause:
    """INSERT of a clause: ``*``, or columns and their values; counts are compared later."""
    cursor.expect_word("INSERT")
    if cursor.accept(TokenType.STAR):
        return MergeClause("new", condition, "insert", token, takes_all=True)
    columns: list[Name] = []
    if cursor.accept(TokenType.L_PAREN):
        columns = cursor.list_of(lambda: assigned_column(cursor, ""))
        cursor.expect(TokenType.R_PAREN, ", or )")
    cursor.expect_word("VALUES")
    cursor.expect(TokenType.L_PAREN, "(")
    values = cursor.list_of(lambda: expression(cursor))
    cursor.expect(TokenType.R_PAREN, ", or )")
    return MergeClause("new", condition, "insert", token, columns, values)
