"""CALL, EXPLAIN CALL, SHOW PROCEDURES, DESCRIBE PROCEDURE.

::

    CALL catalog.schema.name([[argument =>] constant, ...])
    EXPLAIN CALL ...
    SHOW PROCEDURES [FROM catalog]
    DESCRIBE PROCEDURE catalog.schema.name

Arguments are constants: texts, numbers, TRUE, FALSE, NULL, DATE '…', TIMESTAMP '…' (with a zone), DECIMAL '…', ARRAY[…]
and MAP(ARRAY[…], ARRAY[…]); or times from now, such as current_timestamp - INTERVAL '7' DAY.
``procedures.binding`` matches them to the declared arguments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
from sqlglot import TokenType

from metastore.errors import InvalidRequestError
from metastore.procedures.framework.binding import GivenArgument
from metastore.procedures.framework.calls import FoundProcedure
from metastore.procedures.framework.types import parse_date, parse_timestamp
from metastore.sql.queries.version_clauses import time_expression
from metastore.sql.statement import Cursor, Name, Statement
from metastore.sql.target import StatementTarget

_DEEPEST: Final = 16
_MOST_DIGITS: Final = 38
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_NOW: Final = frozenset(("NOW", "CURRENT_TIMESTAMP", "CURRENT_DATE"))
"""Words that begin an expression of times, such as ``current_timestamp - INTERVAL '7' DAY``."""
_WORDS: Final = {"TRUE": True, "FALSE": False, "NULL": None}


def call(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run a CALL; returns the rows of the procedure."""
    place, found, given = _call(target, statement, 0)
    return target.procedures.call_given(found, given, place, statement.on_progress)


def explain_call(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the plan of a CALL, without running it."""
    place, found, given = _call(target, statement, 1)
    return target.procedures.explain_given(found, given, place)


def show_procedures(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns all procedures, or those of one catalog."""
    cursor = Cursor(statement, 2)
    catalog = None
    if cursor.accept_word("FROM") or cursor.accept_word("IN"):
        catalog = cursor.name("the name of a catalog")
    cursor.end()
    if catalog is None:
        return target.procedures.list()
    with statement.at(catalog.token):
        return target.procedures.list(catalog.text)


def describe_procedure(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the arguments and the result of one procedure."""
    cursor = Cursor(statement, 2)
    name = cursor.names("the name of a procedure")
    cursor.end()
    with statement.at(name[0].token):
        return target.procedures.describe(_join_names(name))


def _call(target: StatementTarget, statement: Statement, start: int) -> tuple[str, FoundProcedure, list[GivenArgument]]:
    """A parsed call: its place in the text, the procedure and the arguments."""
    cursor = Cursor(statement, start)
    cursor.expect_word("CALL")
    name = cursor.names("the name of a procedure")
    cursor.expect(TokenType.L_PAREN, "(")
    given = given_arguments(cursor)
    cursor.end()
    with statement.at(name[0].token):
        return statement.place(name[0].token), target.procedures.find(_join_names(name)), given


def given_arguments(cursor: Cursor) -> list[GivenArgument]:
    """Returns the arguments up to the closing parenthesis, as they are given."""
    return cursor.list_before(TokenType.R_PAREN, ")", lambda: _argument(cursor))


def _argument(cursor: Cursor) -> GivenArgument:
    token = cursor.token
    name: Name | None = None
    if cursor.ahead(TokenType.FARROW, by=1):
        name = cursor.name("the name of an argument")
        cursor.expect(TokenType.FARROW, "=>")
    value = _time_from_now(cursor) if cursor.word in _NOW else constant(cursor, 0)
    return GivenArgument(
        value, name.text if name else None, name.exact if name else False, cursor.statement.place(token)
    )


def _time_from_now(cursor: Cursor) -> datetime:
    last, moment = time_expression(cursor.statement, cursor.index)
    while cursor.index <= last:
        cursor.advance()
    return moment


def constant(cursor: Cursor, depth: int = 0) -> Any:
    """Returns one constant as its Python value."""
    if depth > _DEEPEST:
        raise cursor.statement.error(f"a constant is nested deeper than {_DEEPEST} levels", cursor.token)
    if cursor.ahead(TokenType.STRING):
        return cursor.advance().text
    if cursor.ahead(TokenType.NUMBER):
        return _number(cursor, "")
    if cursor.accept(TokenType.DASH):
        return _number(cursor, "-")
    if cursor.accept(TokenType.PLUS):
        return _number(cursor, "")
    word = cursor.word
    if word in _WORDS:
        cursor.advance()
        return _WORDS[word]
    if word in _TYPED and cursor.ahead(TokenType.STRING, by=1):
        cursor.advance()
        token = cursor.advance()
        with cursor.statement.at(token):
            return _TYPED[word](token.text)
    if word == "ARRAY":
        return _array(cursor, depth)
    if word == "MAP":
        return _map(cursor, depth)
    raise cursor.expectation_error("a constant")


def _array(cursor: Cursor, depth: int) -> list[Any]:
    cursor.expect_word("ARRAY")
    if cursor.accept(TokenType.L_PAREN):  # Spark's syntax
        return cursor.list_before(TokenType.R_PAREN, ")", lambda: constant(cursor, depth + 1))
    cursor.expect(TokenType.L_BRACKET, "[")
    return cursor.list_before(TokenType.R_BRACKET, "]", lambda: constant(cursor, depth + 1))


def _map(cursor: Cursor, depth: int) -> dict[Any, Any]:
    """A map in Trino's form, of two arrays, or in Spark's, of keys and values in turn. Keys are unique."""
    first = cursor.expect_word("MAP")
    cursor.expect(TokenType.L_PAREN, "(")
    if cursor.accept(TokenType.R_PAREN):
        return {}
    if cursor.word == "ARRAY":
        keys = _array(cursor, depth)
        cursor.expect(TokenType.COMMA, ",")
        values = _array(cursor, depth)
        cursor.expect(TokenType.R_PAREN, ")")
    else:  # Spark's syntax: key, value, key, value
        flat = cursor.list_before(TokenType.R_PAREN, ")", lambda: constant(cursor, depth + 1))
        keys, values = flat[::2], flat[1::2]
    if len(keys) != len(values):
        raise cursor.statement.error(f"a map of {len(keys)} keys has {len(values)} values", first)
    if any(isinstance(key, list | dict) for key in keys):
        raise cursor.statement.error("a key of a map is a plain constant", first)
    found = dict(zip(keys, values, strict=True))
    if len(found) != len(keys):
        raise cursor.statement.error("a key of a map is given twice", first)
    return found


def _number(cursor: Cursor, sign: str) -> int | float | Decimal:
    """Returns an integer; a decimal if there is a point; a double if there is an exponent. All digits are kept."""
    token = cursor.expect(TokenType.NUMBER, "a number")
    text = token.text
    if not _NUMBER.fullmatch(text):
        raise cursor.statement.error(f"{text} is not a number", token)
    if "e" in text.lower():
        found = float(sign + text)
        if math.isinf(found):
            raise cursor.statement.error(f"{sign}{text} is out of range for double", token)
        return found
    if len(text.replace(".", "")) > _MOST_DIGITS:
        raise cursor.statement.error(f"a number has at most {_MOST_DIGITS} digits", token)
    return Decimal(sign + text) if "." in text else int(sign + text)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise InvalidRequestError(f"{text!r} is not a decimal number") from error


_TYPED: Final[Mapping[str, Callable[[str], Any]]] = {
    "DATE": parse_date,
    "DECIMAL": _decimal,
    "TIMESTAMP": parse_timestamp,
}
"""Constants that are written as a word and a text."""


def _join_names(name: Sequence[Name]) -> str:
    return ".".join(part.text for part in name)


HANDLERS: Final = {
    ("CALL",): call,
    ("EXPLAIN", "CALL"): explain_call,
    ("SHOW", "PROCEDURES"): show_procedures,
    ("DESCRIBE", "PROCEDURE"): describe_procedure,
    ("DESC", "PROCEDURE"): describe_procedure,
}
"""Handlers by the first words of their statements."""
