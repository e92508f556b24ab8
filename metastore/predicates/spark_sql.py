"""Parses Spark SQL text into sqlglot's syntax tree, as Spark 4 reads the text.

Place in the flow: all Spark SQL is parsed here, for pruning, scans and views, so they cannot read a text differently.

sqlglot reads ``'O''Brien'`` as two adjacent literals, as Spark did before 4.0. Since then, a doubled quote is the quote
itself. Two literals with a blank between them are still one text, and a doubled quote of the other kind is two
characters. Sessions with settings for the older readings are refused (:mod:`metastore.spark.pruned_table`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from metastore.errors import InvalidRequestError

NESTED: Final = "the predicate is nested too deeply; use IN for a list of alternatives"


class SparkSql(Spark):
    """sqlglot's Spark dialect with the quotes of Spark 4."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens; a quote escapes itself."""

        STRING_ESCAPES = [*Spark.Tokenizer.STRING_ESCAPES, "'", '"']  # noqa: RUF012 - sqlglot's own way to say it

    class Parser(SparkParser):
        """Spark's grammar; ``percentile`` is a plain function, since sqlglot would drop its third argument."""

        FUNCTION_PARSERS = {  # noqa: RUF012 - sqlglot's own way to say it
            name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name != "PERCENTILE"
        }
        FUNCTIONS = {  # noqa: RUF012 - sqlglot's own way to say it
            **SparkParser.FUNCTIONS,
            "PERCENTILE": lambda args: exp.Anonymous(this="percentile", expressions=args),
        }

        def _parse_unary(self) -> exp.Expr | None:
            """The sign of ``-9223372036854775808L`` belongs to the number: without it, the number is too large."""
            node: exp.Expr | None = super()._parse_unary()
            if isinstance(node, exp.Neg) and isinstance(node.this, exp.TryCast):
                inner = node.this.this
                if isinstance(inner, exp.Literal) and not inner.is_string:
                    node.this.set("this", exp.Neg(this=inner))
                    return node.this
            return node


@lru_cache(maxsize=4)  # One scan reads its condition four times: for files, row groups, rows and elements.
def condition_of(text: str) -> exp.Expr:
    """The tree of the one predicate in ``text``. Callers share it, so they must not change it.

    Raises InvalidRequestError, with line and column, for anything else.
    """
    try:
        trees = SparkSql().parse_into(exp.Condition, text)
    except ParseError as error:
        first = error.errors[0]
        where = f"line {first['line']}, column {first['col']}" if first.get("line") else "an unknown position"
        raise InvalidRequestError(f"syntax error at {where}: {_reason(first)}; the predicate is {text!r}") from error
    except TokenError as error:
        raise InvalidRequestError(f"the predicate cannot be read, a quote may be open: {text!r} ({error})") from error
    except RecursionError as error:
        raise InvalidRequestError(NESTED) from error
    if len(trees) != 1 or trees[0] is None:
        raise InvalidRequestError(f'one predicate is expected, such as "month = 6", not {text!r}')
    return trees[0]


def texts_of(text: str) -> Mapping[str, str]:
    """The text literals in ``text``: their source, with quotes, mapped to their value."""
    tokens: list[Token] = SparkSql().tokenize(text)
    return {text[t.start : t.end + 1]: t.text for t in tokens if t.token_type is TokenType.STRING}


def double_quoted(text: str) -> list[tuple[int, int, str]]:
    """The double-quoted literals of ``text``: start, end and value of each; none if the text is unreadable."""
    try:
        tokens: list[Token] = SparkSql().tokenize(text)
    except TokenError:
        return []
    strings = (token for token in tokens if token.token_type is TokenType.STRING)
    return [(token.start, token.end + 1, token.text) for token in strings if text[token.start] == '"']


def reason_of(error: Mapping[str, object]) -> str:
    """What one error of sqlglot's parser says, in words without its classes."""
    description = str(error.get("description")).split(" for <class")[0].partition("\n")[0].rstrip(".")
    plain = (each for begin, each in _REASONS.items() if description.startswith(begin))
    return next(plain, _CLASS.sub(r"\1", description))


_CLASS: Final = re.compile(r"<class '(?:\w+\.)*(\w+)'>")
_REASONS: Final[Mapping[str, str]] = {
    "Required keyword": "a value or a condition is missing",
    "Invalid expression": "nothing can have this here",
}
"""Plain words for descriptions that begin so."""


def _reason(error: Mapping[str, object]) -> str:
    reason = reason_of(error)
    return f"{reason} at {error['highlight']!r}" if error.get("highlight") else reason
