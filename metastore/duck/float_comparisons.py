"""FLOAT beside another number: Spark compares both as DOUBLE, in which 0.1 equals no FLOAT; DuckDB as FLOAT.

Place in the flow: :mod:`metastore.duck.spark_in_duckdb` translates comparisons with this function. A FLOAT loses
nothing as a DOUBLE, so two of them are compared alike. If the SQL does not show a kind, the query decides when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

from metastore.duck.mixed_kinds import MIXED
from metastore.duck.value_kinds import FRACTIONS, WHOLE, DType, compared_values, kind_of
from metastore.duck.words import phrase
from metastore.ground.quoting import text_constant

_OF_UNKNOWN: Final = (
    f"CAST(CASE WHEN typeof(:it) = 'VARCHAR' THEN error({text_constant(MIXED)}) ELSE :it END AS DOUBLE)"
)


def with_floats_as_doubles(say: Callable[[Any], exp.Expr]) -> Callable[[Any], exp.Expr]:
    """Returns ``say``, the translation of a comparison, with its FLOAT values as DOUBLE."""

    def translate(node: exp.Expr) -> exp.Expr:
        kinds = {kind_of(value) for value in compared_values(node)}
        if not kinds <= WHOLE | FRACTIONS | {DType.NULL, None}:
            return say(node)
        if DType.FLOAT in kinds:
            return say(_replace_values(node, DType.FLOAT, "CAST(:it AS DOUBLE)"))
        if None not in kinds or DType.DOUBLE in kinds:
            return say(node)
        tests = [
            phrase("typeof(:it) = 'FLOAT'", it=value.copy())
            for value in compared_values(node)
            if kind_of(value) is None
        ]
        doubles = _replace_values(node, None, _OF_UNKNOWN)
        return phrase(
            "CASE WHEN :tests THEN :it ELSE :words END", tests=exp.or_(*tests), it=doubles, words=say(node).copy()
        )

    return translate


def _replace_values(node: exp.Expr, kind: exp.DType | None, template: str) -> exp.Expr:
    """Returns the comparison with ``template`` for each value of ``kind``."""
    made = node.copy()
    for value in compared_values(made):
        if kind_of(value) is kind:
            value.replace(phrase(template, it=value.copy()))
    return made
