"""Expressions of a statement as runs of its tokens, and assignments ``column = expression``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyiceberg.schema import Schema
from sqlglot import Token, TokenType

from metastore.sql.statement import Cursor, Name

_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})


def expression(cursor: Cursor, ends: Collection[str] = (), what: str = "an expression") -> tuple[Token, ...]:
    """Read an expression, up to one of the words ``ends``, a comma, a closing bracket or the end.

    Words and commas inside brackets and CASE do not end it. Raises InvalidRequestError if there is no expression.
    """
    found: list[Token] = []
    depth = cases = 0
    while (token := cursor.token) is not None:
        kind = token.token_type
        if not depth and not cases and (cursor.word in ends or kind is TokenType.COMMA or kind in _CLOSING):
            break
        depth += (kind in _OPENING) - (kind in _CLOSING)
        cases += (cursor.word == "CASE") - (cursor.word == "END" and cases > 0)
        found.append(cursor.advance())
    if not found:
        raise cursor.unexpected(what)
    return tuple(found)


def assignments(cursor: Cursor, alias: str, ends: Collection[str]) -> list[tuple[Name, tuple[Token, ...]]]:
    """Read ``column = expression, …``; ``alias`` may qualify a column."""
    found: list[tuple[Name, tuple[Token, ...]]] = []
    while True:
        name = assigned_column(cursor, alias)
        cursor.expect(TokenType.EQ, "=")
        found.append((name, expression(cursor, ends)))
        if not cursor.accept(TokenType.COMMA):
            return found


def assigned_column(cursor: Cursor, alias: str) -> Name:
    """Read the name of a column, which ``alias`` may qualify. Refuses a field of a struct."""
    names = cursor.names("the name of a column")
    if len(names) > 1 and names[0].text.lower() == alias.lower():
        names = names[1:]
    if len(names) > 1:
        shown = ".".join(name.text for name in names)
        raise cursor.statement.error(f"{shown} is a field of a struct; assign the whole struct", names[0].token)
    return names[0]


def position_of(cursor: Cursor, schema: Schema, name: Name) -> int:
    """Returns the position of a top-level column in ``schema``. Raises InvalidRequestError, at the name."""
    exact = [place for place, field in enumerate(schema.fields) if field.name == name.text]
    loose = [place for place, field in enumerate(schema.fields) if field.name.lower() == name.text.lower()]
    found = exact or ([] if name.exact else loose)
    if len(found) == 1:
        return found[0]
    known = ", ".join(field.name for field in schema.fields)
    problem = "may mean several columns" if found else "is no column of the table"
    raise cursor.statement.error(f"{name.text} {problem}; there are {known}", name.token)


def positions_of(cursor: Cursor, schema: Schema, names: list[Name]) -> list[int]:
    """Returns the positions of several columns. Raises InvalidRequestError for a column that is named twice."""
    found: list[int] = []
    for name in names:
        place = position_of(cursor, schema, name)
        if place in found:
            raise cursor.statement.error(f"column {name.text} is given twice", name.token)
        found.append(place)
    return found
