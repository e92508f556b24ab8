"""Values of structs, lists and maps as Spark writes them, in DuckDB's words.

::

    named_struct('a', 1, 'b', 2)    {'a': 1, 'b': 2}
    array(1, 2)                     [1, 2]
    map('k', 1, 'm', 2)             MAP {'k': 1, 'm': 2}
    v:a, variant_get(v, '$.a')      v.a: see :mod:`metastore.sql.queries.variant_paths`

Place in the flow: a query is translated here before DuckDB parses it. Each word becomes one of no more characters, so
places in the text stay. ``array(SELECT …)`` and ``map(keys, values)`` are DuckDB's, and Trino's, own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import Token, TokenType

from metastore.sql.queries.variant_paths import VARIANT_GETS, colon_paths, variant_get
from metastore.sql.statement import Statement

_OPENING = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}
_OPENING[TokenType.L_BRACE] = TokenType.R_BRACE
_WORDS = ("NAMED_STRUCT", "ARRAY", "MAP", *VARIANT_GETS)
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM")


@dataclass
class _Call:
    """One call whose arguments are being read: tokens by number, ``first`` is the name, if it has one."""

    first: int
    opening: int
    commas: list[int] = field(default_factory=list)


def in_duckdb_values(statement: Statement, text: str) -> str:
    """Returns ``text``, which has the places of ``statement``, in DuckDB's words.

    Raises InvalidRequestError, at the word, if named_struct or map have no pairs.
    """
    for start, end, new in colon_paths(statement):
        text = text[:start] + new.ljust(end - start) + text[end:]
    open_calls: list[_Call] = []
    for index, token in enumerate(statement.tokens):
        kind = token.token_type
        if kind in _OPENING:
            open_calls.append(_Call(index - 1, index))
        elif kind in _OPENING.values() and open_calls:
            for start, end, new in _rewrite_call(statement, open_calls.pop(), index):
                text = text[:start] + new.ljust(end - start) + text[end:]
        elif kind is TokenType.COMMA and open_calls:
            open_calls[-1].commas.append(index)
    return text


def _rewrite_call(statement: Statement, call: _Call, closing: int) -> Iterator[tuple[int, int, str]]:
    """Yield the places of a call that change, with what stands there afterwards."""
    tokens = statement.tokens
    word = statement.word(call.first) if call.first >= 0 else ""
    if word not in _WORDS or tokens[call.opening].token_type is not TokenType.L_PAREN or closing == call.opening + 1:
        return
    if call.first and (statement.word(call.first - 1) == "AS" or tokens[call.first - 1].token_type is TokenType.DOT):
        return
    if word in VARIANT_GETS:
        yield from variant_get(statement, call.first, call.commas, closing)
        return
    if word == "ARRAY" and statement.word(call.opening + 1) in _QUERIES:
        return
    if word == "MAP" and len(call.commas) == 1 and not _is_constant(tokens[call.opening + 1 : call.commas[0]]):
        return
    if word != "ARRAY" and len(call.commas) % 2 == 0:
        raise statement.error(f"{word.lower()} takes pairs of a key and a value", tokens[call.first])
    start, end = tokens[call.first].start, tokens[call.opening].end + 1
    yield start, end, {"NAMED_STRUCT": "{", "ARRAY": "[", "MAP": "MAP{"}[word]
    if word != "ARRAY":
        for comma in call.commas[::2]:
            yield tokens[comma].start, tokens[comma].end + 1, ":"
    yield tokens[closing].start, tokens[closing].end + 1, "]" if word == "ARRAY" else "}"


def _is_constant(value: tuple[Token, ...]) -> bool:
    """Whether the first argument of map is a key, as only Spark has it: a text or number, or a call that is no list."""
    return value[0].token_type in {TokenType.STRING, TokenType.NUMBER, TokenType.DASH}
