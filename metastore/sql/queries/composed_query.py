"""A query that is made of parts of a statement; its errors name the statement's own lines and columns.

Place in the flow: DELETE, UPDATE and MERGE find their rows by a query, whose conditions and values are texts of the
statement. Each part begins on a line of its own, at its column in the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlglot import Token

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.sql.queries.default_keyword import is_default
from metastore.sql.statement import Statement

_PLACE: Final = re.compile(r"line (\d+), column \d+")


class ComposedQuery:
    """Parts of ``statement``, and the text that is written between them."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._lines: list[str] = []
        self._origins: list[int | None] = []

    def add(self, text: str) -> ComposedQuery:
        """Add text that is not in the statement, without a line break."""
        self._lines.append(text)
        self._origins.append(None)
        return self

    def part(self, tokens: tuple[Token, ...]) -> ComposedQuery:
        """Add the statement's text from the first to the last of ``tokens``."""
        text, start = self._statement.text, tokens[0].start
        before = text[:start]
        column = start - (before.rfind("\n") + 1)
        first, *rest = text[start : tokens[-1].end + 1].split("\n")
        line = before.count("\n") + 1
        self._lines += [" " * column + first, *rest]
        self._origins += range(line, line + 1 + len(rest))
        return self

    def value(self, tokens: tuple[Token, ...]) -> ComposedQuery:
        """Add a value in brackets; NULL in place of DEFAULT, which is no expression."""
        return self.add("NULL") if is_default(tokens) else self.add("(").part(tokens).add(")")

    def query(self) -> Statement:
        """Returns the query."""
        return Statement.parse("\n".join(self._lines))

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Give errors of the query their places in the statement; an error in added text gets the statement's place."""
        try:
            yield
        except (InvalidRequestError, NotFoundError) as error:
            text = str(error)
            place = _PLACE.match(text)
            if place is None:
                raise
            origin = self._origins[min(int(place[1]), len(self._origins)) - 1]
            column = place[0].partition(", ")[2]
            where = self._statement.place(self._statement.tokens[0]) if origin is None else f"line {origin}, {column}"
            # DuckDB proposes only the fetched columns, which may not be all of the table's.
            message = text[place.end() :].partition("; Candidate bindings:")[0]
            raise type(error)(where + message) from error
