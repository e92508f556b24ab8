"""Structs and lists in comparisons, which DuckDB compares in another way than Spark.

Place in the flow: :mod:`metastore.duck.spark_in_duckdb` passes the nodes that compare or order values.

* Order: a NULL inside comes first in Spark, and last in DuckDB. Such an order is refused.
* Equality: Spark compares fields by their places, DuckDB by their names. So a struct in the SQL loses its names.

If the SQL does not show a kind, the query checks it while it runs: ``typeof`` is a constant to DuckDB's plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

from metastore.duck.value_kinds import NESTED, DType, compared_values, is_never_text, kind_of
from metastore.duck.words import phrase
from metastore.errors import InvalidRequestError
from metastore.ground.quoting import text_constant

_IN_SPARK: Final = "compare their fields or elements, or run it in Spark: metastore.spark.connect(spark, conf)"
_ORDER: Final = f"DuckDB has no order of structs and lists with the same result as Spark's: {_IN_SPARK}"
_NAMES: Final = f"DuckDB compares structs of different field names in another way than Spark: {_IN_SPARK}"
_TYPES: Final = ("STRUCT%", "TUPLE%", "%]")
"""Patterns of nested types, as DuckDB's ``typeof`` names them."""


def guard_order(value: exp.Expr, words: exp.Expr) -> exp.Expr:
    """Returns ``words``, which order ``value``, with a check while the query runs that the value is not nested.

    Raises InvalidRequestError if its SQL shows that it is.
    """
    if kind_of(value) in NESTED:
        raise InvalidRequestError(_ORDER)
    tests = " OR ".join(f"typeof(:value) LIKE '{type_}'" for type_ in _TYPES)
    template = f"CASE WHEN {tests} THEN error({text_constant(_ORDER)}) ELSE :words END"
    return phrase(template, value=value.copy(), words=words.copy())


def comparing_plain(say: Callable[[Any], exp.Expr]) -> Callable[[Any], exp.Expr]:
    """Returns ``say``, the translation of a comparison by order, for plain values only.

    Both sides have one type in Spark, so one side that is known to be plain is enough.
    """

    def translate(node: exp.Expr) -> exp.Expr:
        _, other, *_ = compared_values(node)
        if isinstance(other, (exp.Subquery, exp.Any, exp.All)) or _is_plain(node.this) or _is_plain(other):
            return say(node)
        return guard_order(node.this, say(node))

    return translate


def comparing_by_place(say: Callable[[Any], exp.Expr]) -> Callable[[Any], exp.Expr]:
    """Returns ``say``, the translation of an equality or IN, with the fields of structs compared by their places."""

    def translate(node: exp.Expr) -> exp.Expr:
        values = compared_values(node)
        structs = [value for value in values if kind_of(value) is DType.STRUCT]
        if not any(kind_of(value) in NESTED for value in values):
            return say(node)
        nameless = node.transform(_without_names)
        named = [value.unnest() for value in structs if not isinstance(value.unnest(), (exp.Struct, exp.Tuple))]
        if len(named) < 2 or isinstance(node, exp.In):
            return say(nameless)
        return phrase(
            f"CASE WHEN struct_keys(:a) <> struct_keys(:b) THEN error({text_constant(_NAMES)}) ELSE :it END",
            a=named[0].copy(),
            b=named[1].copy(),
            it=say(nameless).copy(),
        )

    return translate


def choosing_plain(say: Callable[[Any], exp.Expr] | None = None) -> Callable[[Any], exp.Expr]:
    """Returns ``say``, the translation of a function that chooses by order, for plain values only."""

    def translate(node: exp.Expr) -> exp.Expr:
        checked = node.copy()
        ordered = checked.args.get("expression") or checked.this
        value = ordered.expressions[0] if isinstance(ordered, exp.Distinct) else ordered
        if not _is_plain(value):
            value.replace(guard_order(value, value))
        return checked if say is None else say(checked)

    return translate


def _is_plain(value: exp.Expr) -> bool:
    kind = kind_of(value)
    return is_never_text(value) if kind is None else kind not in NESTED and kind is not DType.NULL


def _without_names(node: exp.Expr) -> exp.Expr:
    if not isinstance(node, exp.Struct):
        return node
    values = [each.expression if isinstance(each, exp.PropertyEQ) else each for each in node.expressions]
    return exp.Anonymous(this="row", expressions=values)
