"""Patterns of dates and times (``yyyy-MM-dd``) in DuckDB: read and written as in Spark, or refused.

sqlglot translates a pattern to ``strftime``'s letters and leaves unknown letters unchanged. DuckDB's ``strptime`` also
accepts texts that Spark refuses, such as ``2024-1-5`` for ``yyyy-MM-dd``. So only letters with the same meaning are
accepted, and a text must equal its value's formatted text.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from metastore.duck.value_kinds import TEXTS, kind_of
from metastore.duck.words import phrase
from metastore.errors import InvalidRequestError
from metastore.ground.quoting import text_constant

_TWO_DIGITS: Final = re.compile(r"(%[mdHMS])strict")
_KNOWN: Final = re.compile(r"(%Y|%[mdHMS]strict|[^A-Za-z%'\[\]#{}])*")
"""Years of four digits, other parts of two, and punctuation between them."""


def moment_of_text(node: exp.TsOrDsToDate | exp.StrToTime, type_: str) -> exp.Expr:
    """Returns ``to_date(s, pattern)`` or ``to_timestamp(s, pattern)`` as a value of DuckDB's ``type_``."""
    pattern = _pattern(node)
    if (kind := kind_of(node.this)) is not None and kind not in TEXTS:
        raise InvalidRequestError(
            "a pattern applies to texts only, and this value is not a text: leave the pattern out"
        )
    why = text_constant("a text is not written as the pattern says; try_to_date and try_to_timestamp give NULL for it")
    return phrase(
        f"CASE WHEN :it IS NULL THEN NULL "
        f"WHEN typeof(:it) = 'VARCHAR' AND strftime(try_strptime(:it, {pattern}), {pattern}) = :it "
        f"THEN CAST(strptime(:it, {pattern}) AS {type_}) ELSE error({why}) END",
        it=node.this.copy(),
    )


def text_of_moment(node: exp.TimeToStr | exp.UnixToStr, moment: exp.Expr) -> exp.Expr:
    """Returns ``date_format(ts, pattern)``; ``moment`` is the value to format, a time in the session's zone."""
    return phrase(f"strftime(CAST(:it AS TIMESTAMP), {_pattern(node)})", it=moment)


def _pattern(node: exp.Expr) -> str:
    """Returns the pattern of ``node`` as a literal of DuckDB's. Raises InvalidRequestError for an unknown one."""
    given = node.args["format"]
    if not isinstance(given, exp.Literal) or not _KNOWN.fullmatch(given.name):
        raise InvalidRequestError(
            "where DuckDB runs a query, a pattern of days and times is made of yyyy, MM, dd, HH, mm, ss and signs "
            "between them; Spark can read more: metastore.spark.connect(spark, conf)"
        )
    return text_constant(_TWO_DIGITS.sub(r"\1", given.name))
