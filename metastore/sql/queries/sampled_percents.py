"""``TABLESAMPLE BERNOULLI (10)`` and ``SYSTEM (10)``, which are per cent in Trino and in the SQL standard.

Place in the flow: a query is changed here before DuckDB parses it, which takes a number without a sign for rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import TokenType

from metastore.sql.statement import Statement

_METHODS: Final = frozenset(("BERNOULLI", "SYSTEM"))
_SHARE: Final = (TokenType.L_PAREN, TokenType.NUMBER, TokenType.R_PAREN)


def sampled_percents(statement: Statement) -> Iterator[tuple[int, int, str]]:
    """Yields the places of such shares, and what stands there."""
    for index in range(len(statement.tokens)):
        share = statement.tokens[index + 2 : index + 5]
        if (
            statement.word(index) == "TABLESAMPLE"
            and statement.word(index + 1) in _METHODS
            and tuple(token.token_type for token in share) == _SHARE
        ):
            yield statement.tokens[index + 1].end + 1, share[2].end + 1, f"({share[1].text}%)"
