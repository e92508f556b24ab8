"""Paths into variants as Spark and Databricks write them, in DuckDB's words.

::

    v:a.b[0]::INT                       v.a.b[1]::INT
    v:['two words'], v:a["c"]           v['two words'], v.a['c']
    variant_get(v, '$.a[0]', 'int')     ((v).a[1])::int
    try_variant_get(v, '$.a', 'int')    TRY_CAST((v).a AS int)

Place in the flow: as :mod:`metastore.sql.queries.written_values`, which calls this module: what is written is no longer
than what was there, so places in the text stay. A colon without blanks around it is a path, except where DuckDB has
other uses for it: in braces and brackets, and for the name of a table after FROM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import Token, TokenType

from metastore.ground.quoting import text_constant
from metastore.sql.statement import Statement

VARIANT_GETS: Final = ("VARIANT_GET", "TRY_VARIANT_GET")

_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_CLAUSES: Final = ("SELECT", "FROM", "JOIN", "ON", "WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "SET", "VALUES")
_TABLES: Final = ("FROM", "JOIN")
_STEP: Final = re.compile(r"""\.([A-Za-z_]\w*)|\[(\d+)\]|\[(['"])((?:(?!\3).)+)\3\]""")
"""One step of a path: a field, the number of an element from 0, or a field in quotes."""


def colon_paths(statement: Statement) -> Iterator[tuple[int, int, str]]:
    """Returns each path after a colon, by its place, with what DuckDB has instead.

    Raises InvalidRequestError, with its place, for a path that would be longer there.
    """
    tokens, around = statement.tokens, [(TokenType.L_PAREN, "")]
    end = 0
    for index, token in enumerate(tokens):
        if token.token_type in _OPENING:
            around.append((token.token_type, ""))
        elif token.token_type in _CLOSING and len(around) > 1:
            around.pop()
        elif (word := statement.source(token).upper().partition(" ")[0]) in _CLAUSES:
            around[-1] = (around[-1][0], word)
        is_path = token.token_type is TokenType.COLON and around[-1][0] is TokenType.L_PAREN
        if not is_path or around[-1][1] in _TABLES or token.start < end or not _is_close(tokens, index):
            continue
        text = "." * (tokens[index + 1].token_type is not TokenType.L_BRACKET) + statement.text[token.end + 1 :]
        path, length = _steps(text)
        if not length:
            continue
        length += text[0] == "["
        end = token.start + length
        if len(path) > length:
            raise statement.error(f"write {path} instead of {statement.text[token.start : end]} here", token)
        yield token.start, end, path


def variant_get(
    statement: Statement, called: int, commas: Sequence[int], closing: int
) -> Iterator[tuple[int, int, str]]:
    """Returns the changes of the call whose name is the token ``called``; none if its path is no constant."""
    tokens = statement.tokens
    ends = [*commas, closing]
    if not 1 <= len(commas) <= 2 or any(
        after - comma != 2 or tokens[comma + 1].token_type is not TokenType.STRING
        for comma, after in zip(commas, ends[1:], strict=True)
    ):
        return
    text = tokens[commas[0] + 1].text
    path, length = _steps(text.removeprefix("$"))
    if not text.startswith("$") or length != len(text) - 1:
        raise statement.error(f"{text!r} is no path into a variant, such as '$.a.b[0]'", tokens[commas[0] + 1])
    tries = statement.word(called).startswith("TRY") and len(commas) == 2
    yield tokens[called].start, tokens[called + 1].end + 1, "TRY_CAST((" if tries else "(("
    yield tokens[commas[0]].start, tokens[commas[0] + 1].end + 1, f"){path}"
    if len(commas) > 1:
        kind = tokens[commas[1] + 1].text
        yield tokens[commas[1]].start, tokens[closing].end + 1, f" AS {kind})" if tries else f")::{kind}"


def _is_close(tokens: Sequence[Token], index: int) -> bool:
    """Whether names stand on both sides of the colon, without blanks."""
    if not 0 < index < len(tokens) - 1:
        return False
    before, colon, after = tokens[index - 1 : index + 2]
    return before.end + 1 == colon.start and after.start == colon.end + 1


def _steps(text: str) -> tuple[str, int]:
    """Returns the path at the beginning of ``text`` in DuckDB's words, and how many characters it has in ``text``."""
    path, end = "", 0
    while (step := _STEP.match(text, end)) is not None:
        field, number, _, quoted = step.groups()
        end = step.end()
        if number is not None:
            path += f"[{int(number) + 1}]"
        else:
            path += f".{field}" if field is not None else f"[{text_constant(quoted)}]"
    return path, end
