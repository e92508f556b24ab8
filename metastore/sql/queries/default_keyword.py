"""The word DEFAULT as a value in INSERT … VALUES, UPDATE and MERGE: the column's write default.

The word must be the whole value. The query that finds the other values has NULL in its place, and the default is put
there afterwards (:func:`metastore.lake.writes.conforming.default_column`), so it is exact for every type.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from sqlglot import Token, TokenType

from metastore.sql.expressions import expression
from metastore.sql.statement import Cursor, Statement

_WORD: Final = "DEFAULT"


def is_default(value: object) -> bool:
    """Whether a value is the tokens of the word DEFAULT, and nothing else."""
    return isinstance(value, tuple) and len(value) == 1 and value[0].token_type is TokenType.DEFAULT


def without_defaults(query: Statement) -> tuple[Statement, Mapping[int, list[int]]]:
    """Returns ``query`` with NULL for each DEFAULT, and the rows of these by column; both count from 0.

    Only a query that is nothing but VALUES changes. The places in its text stay.
    """
    if not any(token.token_type is TokenType.DEFAULT for token in query.tokens) or query.word(0) != "VALUES":
        return query, {}
    found: dict[int, list[int]] = defaultdict(list)
    text = query.text
    cursor = Cursor(query, 1)
    for row, values in enumerate(_rows(cursor)):
        for column, value in enumerate(values):
            if is_default(value):
                found[column].append(row)
                text = text[: value[0].start] + "NULL".ljust(len(_WORD)) + text[value[0].end + 1 :]
    if cursor.token is not None:  # the rows might be sorted or joined: DuckDB refuses the word
        return query, {}
    return replace(Statement.parse(text), on_progress=query.on_progress), found


def _rows(cursor: Cursor) -> Iterator[list[tuple[Token, ...]]]:
    """Read rows of values, to the first token that belongs to none."""
    while cursor.accept(TokenType.L_PAREN):
        values = cursor.list_of(lambda: expression(cursor))
        cursor.expect(TokenType.R_PAREN, ", or )")
        yield values
        if not cursor.accept(TokenType.COMMA):
            return
