"""Functions whose values depend on the call, and so decide how the query that calls them may be divided.

Place in the flow: :mod:`metastore.sql.tasks.division_choice` asks which of them a query may call.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from sqlglot import TokenType

from metastore.sql.queries.select import PreparedQuery, QueryView
from metastore.sql.statement import Statement

ONE_VALUE: Final = frozenset(
    {
        "age",
        "current_catalog",
        "current_connection_id",
        "current_database",
        "current_date",
        "current_localtime",
        "current_localtimestamp",
        "current_query",
        "current_query_id",
        "current_schema",
        "current_setting",
        "current_time",
        "current_timestamp",
        "current_transaction_id",
        "currval",
        "get_current_time",
        "get_current_timestamp",
        "getvariable",
        "localtime",
        "localtimestamp",
        "nextval",
        "now",
        "setseed",
        "setval",
        "today",
        "transaction_timestamp",
        "txid_current",
        "write_log",
    }
)
"""Functions with one value for a whole statement, or with an effect on later calls."""

RANDOM: Final = frozenset({"gen_random_uuid", "random", "uuid", "uuidv4", "uuidv7"})
"""Functions with another value for each row."""

_WITHOUT_BRACKETS: Final = ("current_", "local")
"""The beginnings of functions that may be called without brackets."""


def called_functions(prepared: PreparedQuery) -> set[str]:
    """Returns the names that a query and its views may call as functions, in lower case."""
    texts = [prepared.text, *(each.text for each in prepared.registered if isinstance(each, QueryView))]
    return {name for text in texts for name in _find_calls(Statement.parse(text))}


def _find_calls(statement: Statement) -> Iterator[str]:
    """Yields the names that ``statement`` may call as functions, in lower case."""
    for token, after in zip_longest(statement.tokens, statement.tokens[1:]):
        name = token.text.lower()
        if name.startswith(_WITHOUT_BRACKETS) or (after is not None and after.token_type is TokenType.L_PAREN):
            yield name
