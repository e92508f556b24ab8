"""Texts together with values of another kind: compared as Spark compares them in ANSI mode, or refused.

Place in the flow: :mod:`metastore.duck.spark_in_duckdb` passes the nodes in which two values get a common type. Spark
converts the text to the other value's kind (BIGINT for whole numbers, DOUBLE for all other numbers), with its own
grammar. DuckDB would round ``'1.5'`` to 2 when it is compared with whole numbers, and has its own grammar for dates and
times.

If the SQL does not show a kind, the query checks it while it runs, and raises an error for a text together with a value
of another kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sqlglot import exp

from metastore.duck.spark_texts import text_as
from metastore.duck.value_kinds import (
    BYTES,
    FRACTIONS,
    INSTANTS,
    TEXTS,
    WHOLE,
    DType,
    compared_values,
    is_never_text,
    kind_of,
)
from metastore.duck.words import phrase
from metastore.errors import InvalidRequestError
from metastore.ground.quoting import text_constant

_TIMES: Final = frozenset({DType.DATE, DType.TIMESTAMPNTZ, *INSTANTS})

MIXED: Final = "a text is beside a value of another type; Spark casts one of them, so write that cast"

SYMBOLS: Final[Mapping[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
"""Comparisons of two values."""


def compare_values(node: exp.Expr) -> exp.Expr:
    """Returns a comparison of two values, with a text converted to the other's type."""
    sides = [node.this, node.expression]
    if isinstance(node.expression, (exp.Subquery, exp.Any, exp.All)):
        return node
    made = _alike(sides)
    if made is sides:
        return node
    if made is None:
        return _guard_kinds(node, sides)
    return type(node)(this=made[0], expression=made[1])


def compare_with_list(node: exp.In) -> exp.Expr:
    """Returns ``IN`` with a list; in Spark, the list's values and the searched value all get one type."""
    if not node.expressions:
        return node
    values = [node.this, *node.expressions]
    made = _alike(values)
    if made is values:
        return node
    if made is None:
        return _guard_kinds(node, values)
    copied = node.copy()
    copied.set("this", made[0])
    copied.set("expressions", list(made[1:]))
    return copied


def between(say: Callable[[exp.Expr], exp.Expr]) -> Callable[[exp.Between], exp.Expr]:
    """Returns ``BETWEEN`` as two comparisons, translated by ``say``, as in Spark: DuckDB gives all three one type."""

    def translate(node: exp.Between) -> exp.Expr:
        kinds = {kind_of(value) for value in compared_values(node)}
        if len(kinds) == 1 and kinds <= WHOLE | FRACTIONS:
            return node
        low = say(exp.GTE(this=node.this.copy(), expression=node.args["low"].copy()))
        high = say(exp.LTE(this=node.this.copy(), expression=node.args["high"].copy()))
        both = exp.paren(exp.and_(low, high))
        return exp.paren(exp.Not(this=both)) if node.args.get("negate") else both

    return translate


def translate_case(node: exp.Case) -> exp.Expr:
    """Returns a CASE: ``CASE x WHEN …`` compares, and the results of any CASE get one type."""
    results = [*(each.args["true"] for each in node.args["ifs"]), node.args.get("default")]
    _require_one_kind("CASE", results)
    if node.this is None:
        return _guarded_from_literals(node, [each for each in results if each is not None])
    copied = node.copy()
    subject = copied.this
    copied.set("this", None)
    for each in copied.args["ifs"]:
        each.set("this", compare_values(exp.EQ(this=subject.copy(), expression=each.this.copy())))
    return _guarded_from_literals(copied, [each for each in results if each is not None])


def of_one_kind(name: str) -> Callable[[exp.Expr], exp.Expr]:
    """Returns a function whose arguments get one type; refuses texts together with other values."""

    def check(node: exp.Expr) -> exp.Expr:
        arguments = [value for key, value in node.args.items() if key not in ("this", "expressions")]
        lists = node.args.get("expressions") or []
        given = [node.this, *lists, *(each for each in arguments if isinstance(each, exp.Expr))]
        given = given[1:] if isinstance(node, (exp.If, exp.Nvl2)) else given
        _require_one_kind(name, given)
        return _guarded_from_literals(node, given)

    return check


def check_arithmetic(node: exp.Expr) -> exp.Expr:
    """Returns arithmetic. A text literal in it is refused, because DuckDB would choose its numeric type."""
    for side in (node.this, node.expression):
        if isinstance(side.unnest(), exp.Literal) and side.unnest().is_string:
            raise _refused_mix(f"arithmetic with the text {side.unnest().name!r}")
    return node


def guard_division(node: exp.Div | exp.IntDiv | exp.Mod) -> exp.Expr:
    """Returns a quotient or remainder. A zero divisor is an error, as in Spark's ANSI mode; in DuckDB it gives NULL."""
    words = check_arithmetic(node).copy()
    divisor = words.expression.unnest()
    if isinstance(divisor, exp.Literal) and divisor.name.strip("0."):
        return words
    why = text_constant("division by zero; for NULL instead, use try_divide, or nullif for the divisor")
    guarded = phrase(
        f"CASE WHEN :it = 0 AND :divided IS NOT NULL THEN error({why}) ELSE :it END",
        it=words.expression.copy(),
        divided=words.this.copy(),
    )
    words.set("expression", guarded)
    return words


def check_set_operation(node: exp.SetOperation) -> exp.SetOperation:
    """Returns a UNION or other set operation; refuses a text column matched with one of another kind."""
    sides = [side.unnest() for side in (node.this, node.expression)]
    if all(isinstance(side, exp.Query) for side in sides):
        for pair in zip(*(side.selects for side in sides if isinstance(side, exp.Query)), strict=False):
            _require_one_kind(f"{node.key.upper()}", [item.unalias() for item in pair])
    return node


def _alike(values: Sequence[exp.Expr]) -> Sequence[exp.Expr] | None:
    """Returns ``values`` in one type: unchanged if that is possible, None if a kind is not known.

    Raises InvalidRequestError if this module does not know Spark's common type.
    """
    kinds = [kind_of(value) for value in values]
    known: set[exp.DType] = {kind for kind in kinds if kind is not None and kind is not DType.NULL}
    texts, others = known & TEXTS, known - TEXTS
    if None in kinds:
        return None if _may_mix(values, kinds) else values
    if not texts or not others:
        return values
    target = _common(others)
    if target is None:
        mixed = ", ".join(sorted(str(kind.value) for kind in others))
        raise _refused_mix(f"comparison of a text with {mixed}")
    return [_as(value, kind, target) for value, kind in zip(values, kinds, strict=True)]


def _may_mix(values: Sequence[exp.Expr], kinds: Sequence[exp.DType | None]) -> bool:
    """Whether, with some kinds unknown, a text may occur together with a value of another kind."""
    present = [value for value, kind in zip(values, kinds, strict=True) if kind is not DType.NULL]
    return len(present) > 1 and not all(
        is_never_text(value) if kind is None else kind not in TEXTS
        for value, kind in zip(values, kinds, strict=True)
        if kind is not DType.NULL
    )


def _common(kinds: set[exp.DType]) -> exp.DType | None:
    """Returns the type that a text gets together with values of ``kinds``, which contain no text."""
    if kinds <= WHOLE:
        return DType.BIGINT
    if kinds <= FRACTIONS or kinds <= WHOLE | {DType.DOUBLE, DType.FLOAT}:
        return DType.DOUBLE
    if kinds <= BYTES:
        return DType.BINARY
    if kinds <= INSTANTS:
        return DType.TIMESTAMPTZ
    if len(kinds) == 1 and (kinds <= _TIMES or kinds == {DType.BOOLEAN}):
        return next(iter(kinds))
    return None


def _as(value: exp.Expr, kind: exp.DType | None, target: exp.DType) -> exp.Expr:
    if kind in TEXTS:
        text = text_as(":it", exp.DataType(this=target), safe=False)
        return phrase(text or "", it=value.copy())
    if target is DType.DOUBLE and kind is DType.DECIMAL:
        return phrase("CAST(CAST(:it AS TEXT) AS DOUBLE)", it=value.copy())  # a quotient would round twice
    if target is DType.DOUBLE:
        return phrase("CAST(:it AS DOUBLE)", it=value.copy())
    return value.copy()


def _guard_kinds(node: exp.Expr, values: Sequence[exp.Expr]) -> exp.Expr:
    """Returns ``node`` with a check while the query runs: an error if one of ``values`` is a text and another is not.

    ``typeof`` is a constant to DuckDB, so the plan contains no trace of the check.
    """
    first, *more = (value for value in values if not isinstance(value.unnest(), exp.Null))
    mixed = [
        phrase(
            "(typeof(:a) = 'VARCHAR') <> (typeof(:b) = 'VARCHAR') AND typeof(:a) <> '\"NULL\"' "
            "AND typeof(:b) <> '\"NULL\"'",
            a=first.copy(),
            b=value.copy(),
        )
        for value in _representatives(more)
    ]
    return phrase(
        f"CASE WHEN :mixed THEN error({text_constant(MIXED)}) ELSE :it END", mixed=exp.or_(*mixed), it=node.copy()
    )


def _guarded_from_literals(node: exp.Expr, values: Sequence[exp.Expr]) -> exp.Expr:
    """Returns ``node``, guarded if a text literal occurs with a value of unknown kind, whose kind DuckDB would give it.

    Two values that are not literals need no guard, since DuckDB refuses to mix a text and another type.
    """
    literals = [value for value in values if isinstance(value.unnest(), exp.Literal) and kind_of(value) in TEXTS]
    unknown = [value for value in values if kind_of(value) is None]
    return _guard_kinds(node, [literals[0], *unknown]) if literals and unknown else node


def _representatives(values: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Returns ``values``, but of the literals of one kind only the first."""
    found: dict[object, exp.Expr] = {}
    for value in values:
        found.setdefault(kind_of(value) if isinstance(value.unnest(), exp.Literal) else value, value)
    return list(found.values())


def _require_one_kind(where: str, values: Sequence[exp.Expr | None]) -> None:
    kinds = {kind_of(value) for value in values if value is not None} - {None, DType.NULL}
    if kinds & TEXTS and kinds - TEXTS:
        raise _refused_mix(f"{where} of a text and another type")


def _refused_mix(what: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"DuckDB has no {what} with the same result as Spark's: cast one side, such as CAST(s AS BIGINT); run it "
        "in Spark: metastore.spark.connect(spark, conf)"
    )
