"""Constants finer than a microsecond, in Spark's SQL: compared exactly with columns that count nanoseconds.

Place in the flow: :mod:`metastore.duck.spark_in_duckdb` translates casts and comparisons with these functions. Spark
has no nanoseconds and truncates such a constant, which then equals no time in a nanosecond column. With all other
columns, the truncated constant is used, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

from metastore.duck.spark_casts import cast_as_spark
from metastore.duck.value_kinds import INSTANTS, compared_values
from metastore.duck.words import phrase
from metastore.ground.quoting import text_constant
from metastore.predicates.written_times import fine_time_of

_FINE: Final = "a constant finer than a microsecond"
"""Marks a cast that truncates such a constant; the value is the constant's text."""

_KINDS: Final = INSTANTS | {exp.DType.TIMESTAMPNTZ}
_TYPES: Final = ("TIMESTAMP_NS", "TIMESTAMPTZ_NS")
"""DuckDB's types that count nanoseconds, as its ``typeof`` names them."""


def cast_of_constant(node: exp.Cast) -> exp.Expr:
    """Returns a cast with Spark's meaning, marked if it truncates a constant."""
    words, text = cast_as_spark(node), _text_in(node.this)
    if node.to.this in _KINDS and text and words is not node:
        words.meta[_FINE] = text
    return words


def with_nanoseconds(say: Callable[[Any], exp.Expr]) -> Callable[[Any], exp.Expr]:
    """Returns a comparison, translated by ``say``; it is exact with finer constants if a column counts nanoseconds."""

    def translate(node: exp.Expr) -> exp.Expr:
        words, values = say(node), compared_values(node)
        others = [value for value in values if not _text(value)]
        if not others or len(others) == len(values):
            return words
        branches = " ".join(f"WHEN typeof(:it) = '{type_}' THEN :{type_.lower()}" for type_ in _TYPES)
        parts = {type_.lower(): _as(node, type_, others[0]) for type_ in _TYPES}
        return exp.paren(phrase(f"CASE {branches} ELSE :words END", it=others[0].copy(), words=words.copy(), **parts))

    return translate


def _as(node: exp.Expr, type_: str, subject: exp.Expr) -> exp.Expr:
    """Returns ``node`` with its finer constants, and the values that they are compared with, as DuckDB's ``type_``."""
    made = node.copy()
    for value in compared_values(made):
        if text := _text(value):
            value.replace(phrase(f"CAST({text_constant(text)} AS {type_})"))
        elif value == subject:
            value.replace(phrase(f"CAST(:it AS {type_})", it=value.copy()))
    return made


def _text(value: exp.Expr) -> str:
    """Returns the text of a time or text constant that is finer than a microsecond; empty for anything else."""
    inner = value.unnest()
    return str(inner.meta.get(_FINE) or _text_in(inner))


def _text_in(value: exp.Expr) -> str:
    text = str(value.this) if isinstance(value, exp.Literal) and value.is_string else ""
    found = fine_time_of(text)
    return text if found is not None and found[1] > 0 and found[0].tzinfo is None else ""
