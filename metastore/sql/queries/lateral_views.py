"""``LATERAL VIEW``, as Hive and Spark write it, in DuckDB's words.

::

    LATERAL VIEW explode(l) x AS e              CROSS JOIN explode(l) x(e)
    LATERAL VIEW OUTER posexplode(l) AS i, e    CROSS JOIN posexplode_outer(l) _(i, e)
    LATERAL VIEW explode(m) x AS k, v           CROSS JOIN entries(m) x(k, v)

Place in the flow: a query is translated here before DuckDB parses it; the functions are macros
(:mod:`metastore.duck.typed_functions`). Nothing gets longer, so places in the text stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from sqlglot import Token, TokenType

from metastore.ground.quoting import double_quoted
from metastore.sql.statement import Cursor, Statement

_FUNCTIONS: Final = ("EXPLODE", "POSEXPLODE")
_ENTRIES: Final = 2
"""The names of columns that Spark's ``explode`` gives to the entries of a map."""


def lateral_views(statement: Statement) -> Iterator[tuple[int, int, str]]:
    """Yield the places that change, with what stands there afterwards.

    Raises InvalidRequestError, at the function, for one that is not known.
    """
    tokens = statement.tokens
    for index in range(len(tokens)):
        if statement.word(index) == "LATERAL" and statement.word(index + 1) == "VIEW":
            cursor = Cursor(statement, index + 2)
            outer = cursor.accept_word("OUTER")
            function, name = cursor.word, cursor.name("a function")
            if function not in _FUNCTIONS:
                known = " and ".join(_FUNCTIONS).lower()
                raise statement.error(f"LATERAL VIEW takes {known} here, not {name.text}", name.token)
            opening = cursor.expect(TokenType.L_PAREN, "(")
            closing = _closing(cursor)
            alias = (
                cursor.name("a name").token
                if cursor.ahead(TokenType.VAR) or cursor.ahead(TokenType.IDENTIFIER)
                else None
            )
            columns = []
            if cursor.accept_word("AS"):
                columns = [name.token for name in cursor.list_of(partial(cursor.name, "the name of a column"))]
            called = "entries" if function == "EXPLODE" and len(columns) == _ENTRIES else function.lower()
            last = (closing, *([alias] if alias else []), *columns)[-1]
            named = ", ".join(map(_write_token, columns))
            yield tokens[index].start, opening.start, f"CROSS JOIN {called}{'_outer' * outer}"
            if alias is not None or columns:
                given = "_" if alias is None else _write_token(alias)
                yield closing.end + 1, last.end + 1, f" {given}({named})" if columns else f" {given}"


def _write_token(token: Token) -> str:
    return double_quoted(token.text) if token.token_type is TokenType.IDENTIFIER else token.text


def _closing(cursor: Cursor) -> Token:
    """Read to the bracket that closes the one before."""
    depth = 1
    while True:
        token = cursor.advance()
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if not depth:
            return token
