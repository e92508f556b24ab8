"""Expressions of a statement as runs of its tokens, and columns by their names in it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import StructType
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
        raise cursor.expectation_error(what)
    return tuple(found)


def position_of(cursor: Cursor, schema: Schema | StructType, name: Name) -> int:
    """Returns the position of a top-level column in ``schema``, or of a field in a struct.

    Raises InvalidRequestError, at the name.
    """
    exact = [place for place, field in enumerate(schema.fields) if field.name == name.text]
    loose = [place for place, field in enumerate(schema.fields) if field.name.lower() == name.text.lower()]
    found = exact or ([] if name.exact else loose)
    if len(found) == 1:
        return found[0]
    known = ", ".join(field.name for field in schema.fields)
    whole = "field of the struct" if isinstance(schema, StructType) else "column of the table"
    problem = f"may mean more than one {whole}" if found else f"is no {whole}"
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
