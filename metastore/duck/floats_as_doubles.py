"""FLOAT beside another number: Spark compares and combines both as DOUBLE, in which 0.1 is no FLOAT; DuckDB as FLOAT.

Place in the flow: :mod:`metastore.duck.spark_in_duckdb` translates comparisons, arithmetic and choices among values
with these functions. A FLOAT loses nothing as a DOUBLE, so two of them are compared alike. If the SQL does not show a
kind, the query decides a comparison when it runs; what it combines keeps DuckDB's type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

from metastore.duck.mixed_kinds import MIXED
from metastore.duck.value_kinds import (
    FRACTIONS,
    WHOLE,
    DType,
    combined_values,
    compared_values,
    kind_of,
    mark_kind,
)
from metastore.duck.words import phrase
from metastore.ground.quoting import text_constant

_DOUBLE: Final = "CAST(:it AS DOUBLE)"
_OF_UNKNOWN: Final = (
    f"CAST(CASE WHEN typeof(:it) = 'VARCHAR' THEN error({text_constant(MIXED)}) ELSE :it END AS DOUBLE)"
)


def with_floats_as_doubles(say: Callable[[Any], exp.Expr]) -> Callable[[Any], exp.Expr]:
    """Returns ``say``, the translation of a comparison, with its FLOAT values as DOUBLE."""

    def translate(node: exp.Expr) -> exp.Expr:
        """The node with each FLOAT as DOUBLE if another number is beside it; CASE decides where no kind is known."""
        kinds = {kind_of(value) for value in compared_values(node)}
        if not kinds <= WHOLE | FRACTIONS | {DType.NULL, None}:
            return say(node)
        if DType.FLOAT in kinds:
            return say(_replace_values(node, DType.FLOAT, _DOUBLE))
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


def combining_floats_as_doubles(say: Callable[[Any], exp.Expr]) -> Callable[[Any], exp.Expr]:
    """Returns ``say``, the translation of arithmetic or of a choice, with FLOAT as DOUBLE beside another number.

    Two FLOAT values stay so, but for a quotient. What is combined is marked with its kind.
    """

    def translate(node: exp.Expr) -> exp.Expr:
        kinds = {kind_of(value) for value in combined_values(node)} - {DType.NULL}
        kind = _kind_of_all(kinds, is_quotient=isinstance(node, exp.Div))
        if kind is not None:
            mark_kind(node, kind)
        if kind is DType.DOUBLE and DType.FLOAT in kinds:
            return say(_replace_values(node, DType.FLOAT, _DOUBLE, combined_values))
        return say(node)

    return translate


def null_if_equal(say: Callable[[Any], exp.Expr]) -> Callable[[exp.Nullif], exp.Expr]:
    """Returns ``say``, the translation of ``nullif``: a FLOAT is compared as DOUBLE with another number, and stays."""

    def translate(node: exp.Nullif) -> exp.Expr:
        kinds = {kind_of(node.this), kind_of(node.expression)}
        if DType.FLOAT not in kinds or len(kinds) == 1 or not kinds <= WHOLE | FRACTIONS:
            return say(node)
        equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
        return phrase(
            "CASE WHEN :equal THEN NULL ELSE :it END",
            equal=_replace_values(equal, DType.FLOAT, _DOUBLE),
            it=node.this.copy(),
        )

    return translate


def uniting_floats_as_doubles(say: Callable[[Any], exp.Expr]) -> Callable[[Any], exp.Expr]:
    """Returns ``say``, the translation of UNION and its like, with FLOAT as DOUBLE in a column with another number."""

    def translate(node: exp.SetOperation) -> exp.Expr:
        made = node.copy()
        sides = [side.selects for side in (made.this.unnest(), made.expression.unnest()) if isinstance(side, exp.Query)]
        floats: list[exp.Expr] = []
        for items in zip(*sides, strict=False):
            values = [item.unalias() for item in items]
            if _kind_of_all({kind_of(value) for value in values} - {DType.NULL}, is_quotient=False) is DType.DOUBLE:
                floats += (value for value in values if kind_of(value) is DType.FLOAT)
        for value in floats:
            double = phrase(_DOUBLE, it=value.copy())
            is_named = isinstance(value.parent, exp.Alias)
            value.replace(double if is_named else exp.alias_(double, value.output_name, quoted=True))
        return say(made if floats else node)

    return translate


def _kind_of_all(kinds: set[exp.DType | None], *, is_quotient: bool) -> exp.DType | None:
    """Returns the kind that numbers of ``kinds`` get together; None if one is not known, or no number."""
    if not kinds or not kinds <= WHOLE | FRACTIONS:
        return None
    if kinds == {DType.FLOAT} and not is_quotient:
        return DType.FLOAT
    if not kinds.isdisjoint((DType.FLOAT, DType.DOUBLE)):
        return DType.DOUBLE
    if is_quotient:
        return None  # of decimals, by their digits
    return DType.BIGINT if kinds <= WHOLE else DType.DECIMAL


def _replace_values(
    node: exp.Expr,
    kind: exp.DType | None,
    template: str,
    values: Callable[[exp.Expr], list[exp.Expr]] = compared_values,
) -> exp.Expr:
    """Returns ``node`` with ``template`` for each of its ``values`` that is of ``kind``."""
    made = node.copy()
    for value in values(made):
        if kind_of(value) is kind:
            value.replace(phrase(template, it=value.copy()))
    return made
