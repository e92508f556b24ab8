"""Reads clauses that ask for a version of a table: ``FOR VERSION AS OF 4711``, ``TIMESTAMP AS OF now() - …``.

Place in the flow: DuckDB has no such clauses, so a query takes them out of its text before it is parsed. The words of
Trino, Spark and SQL's standard mean the same. A time may be an expression of constants, which DuckDB computes; without
a zone it is in the session's, which is UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from sqlglot import Token, TokenType

from metastore.duck.queries import Duck, Failure
from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.rows.changelog import SnapshotRange
from metastore.procedures.framework.types import parse_timestamp
from metastore.sql.statement import Statement


@dataclass(frozen=True)
class RequestedVersion:
    """A requested version: a snapshot's id, the name of a branch or tag, a point in time, or snapshots by a range."""

    value: int | str | datetime | SnapshotRange
    token: Token


_KINDS: Final = {
    "VERSION": "VERSION",
    "SYSTEM_VERSION": "VERSION",
    "TIMESTAMP": "TIMESTAMP",
    "SYSTEM_TIME": "TIMESTAMP",
}
"""The words before AS OF, and what they mean."""


def version_clauses(statement: Statement) -> Iterator[tuple[int, int, RequestedVersion]]:
    """Read ``[FOR] VERSION|TIMESTAMP AS OF constant``: its first and last token, and the version.

    SYSTEM_VERSION and SYSTEM_TIME are other words for them. A time may be an expression of constants.
    """
    for index in range(1, len(statement.tokens)):
        kind = _KINDS.get(statement.word(index))
        if kind is None or not _begin(statement, index + 1, ("AS", "OF")):
            continue
        start = index + 3
        value = start + 1 if kind == "TIMESTAMP" and statement.word(start) == "TIMESTAMP" else start
        token = statement.tokens[value] if value < len(statement.tokens) else None
        if token is None:
            continue
        first = index - 1 if statement.word(index - 1) == "FOR" else index
        if kind == "TIMESTAMP" and (last := _end_of_time(statement, start)) > value:
            yield first, last, RequestedVersion(_compute_time(statement, start, last), statement.tokens[start])
        elif token.token_type in {TokenType.NUMBER, TokenType.STRING}:
            yield first, value, RequestedVersion(_value(statement, kind, token), token)
        elif kind == "TIMESTAMP":
            yield first, value, RequestedVersion(_compute_time(statement, start, value), token)


_AFTER_INTERVAL: Final = re.compile(r"(YEAR|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND|MILLISECOND|MICROSECOND)S?")


_BRACKETS: Final = re.compile(r"\b(current_timestamp|current_date)\s*\(\s*\)", re.IGNORECASE)
"""Spark's spelling, which DuckDB does not know."""


def time_expression(statement: Statement, first: int) -> tuple[int, datetime]:
    """Returns the last token of the expression of times that begins at token ``first``, and the time that it means now.

    Raises InvalidRequestError, with its place, for one that means no time.
    """
    last = _end_of_time(statement, first)
    return last, _compute_time(statement, first, last)


def _end_of_time(statement: Statement, index: int) -> int:
    """Returns the last token of an expression of times: terms with ``+`` and ``-`` between them."""
    last = _end_of_term(statement, index)
    while last + 1 < len(statement.tokens) and statement.tokens[last + 1].token_type in {
        TokenType.PLUS,
        TokenType.DASH,
    }:
        last = _end_of_term(statement, last + 2)
    return last


def _end_of_term(statement: Statement, index: int) -> int:
    """Returns the last token of a constant, an interval, a call, or what is in brackets."""
    tokens = statement.tokens
    if statement.word(index) in {"TIMESTAMP", "DATE", "TIMESTAMPTZ"} and index + 1 < len(tokens):
        index += 1
    elif statement.word(index) == "INTERVAL" and index + 1 < len(tokens):
        index += 1
        return index + 1 if _AFTER_INTERVAL.fullmatch(statement.word(index + 1)) else index
    if index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.L_PAREN and statement.word(index):
        index += 1
    if index < len(tokens) and tokens[index].token_type is TokenType.L_PAREN:
        depth = 0
        for place in range(index, len(tokens)):
            kind = tokens[place].token_type
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            if depth == 0:
                return place
    return min(index, len(tokens) - 1)


def _compute_time(statement: Statement, first: int, last: int) -> datetime:
    """Returns the time that the expression from token ``first`` to ``last`` means now, in the session's zone."""
    tokens = statement.tokens
    text = _BRACKETS.sub(r"\1", statement.text[tokens[first].start : tokens[last].end + 1])
    try:
        with Duck() as duck:
            [row] = duck.run(f"SELECT CAST(({text}) AS TIMESTAMPTZ) AS moment").to_pylist()
    except Failure as failure:
        raise statement.error(f"{text} is no time: {failure.message}", tokens[first]) from failure.__cause__
    if row["moment"] is None:
        raise statement.error(f"{text} is NULL, and no time", tokens[first])
    moment: datetime = row["moment"]
    return moment.astimezone(timezone.utc)


def _value(statement: Statement, kind: str, token: Token) -> int | str | datetime:
    if kind == "TIMESTAMP":
        try:
            return parse_timestamp(token.text)
        except InvalidRequestError as error:
            raise InvalidRequestError(f"{statement.place(token)}: {error}") from error
    if token.token_type is TokenType.STRING:
        return token.text
    if not token.text.isdecimal():
        raise statement.error("a version is a whole number, or the name of a branch or tag in quotes", token)
    return int(token.text)


def _begin(statement: Statement, index: int, words: Iterable[str]) -> bool:
    return all(statement.word(index + offset) == word for offset, word in enumerate(words))
