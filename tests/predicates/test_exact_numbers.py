"""Numbers compare as numbers, whatever their digits and types: judged by Python's whole numbers."""

from __future__ import annotations

from datetime import timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metastore.lake.formats.arrow_schema import tuple_schema
from metastore.model.bounds.statistics_columns import StatisticsColumns
from metastore.model.statistics import ColumnStatistics
from metastore.predicates.arrow_filter import arrow_filter
from metastore.predicates.columns import Columns
from metastore.predicates.predicate import Predicate, parse
from metastore.scan.pruning.evaluate import Evaluation

TYPES: list[pa.DataType] = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()]
TYPES += [pa.decimal128(38, 3), pa.decimal128(38, 38), pa.decimal128(35, 24), pa.decimal128(9, 2), pa.decimal128(38, 0)]


def limits(type_: Any) -> tuple[Decimal, Decimal]:
    """The least and the largest value of a type."""
    if pa.types.is_decimal(type_):
        high = Decimal((0, (9,) * type_.precision, -type_.scale))
        return high.copy_negate(), high
    if pa.types.is_signed_integer(type_):
        return Decimal(-(2 ** (type_.bit_width - 1))), Decimal(2 ** (type_.bit_width - 1) - 1)
    return Decimal(0), Decimal(2**type_.bit_width - 1)


@st.composite
def numbers(draw: st.DrawFn, type_: Any) -> Decimal:
    """A value of ``type_``, often at its ends or near nothing."""
    scale = type_.scale if pa.types.is_decimal(type_) else 0
    low, high = (int(f"{end:f}".replace(".", "")) for end in limits(type_))
    unscaled = draw(st.sampled_from([low, low + 1, 0, 1, high - 1, high]) | st.integers(low, high))
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


LITERALS = st.sampled_from(
    [
        "-22827906.999999999999999999999999",
        "0.0010",
        "0.0005",
        "-0.00000000000000000000000000000000000001",
        "99999999999999999999999999999999999999",
        "12345678901234567890123456789012345.6789",
        "-1",
        "0",
        "128",
        "255.5",
        "2147483648",
        "-9223372036854775807",
        "9223372036854775806.5",
        "18446744073709551615",
        "12345678.905",
    ]
)
SIGNS = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


@st.composite
def situations(draw: st.DrawFn) -> tuple[Any, Decimal, str, str]:
    """A type, a value of it, an operator and a literal, which is often the value itself."""
    type_ = draw(st.sampled_from(TYPES))
    value = draw(numbers(type_))
    literal = draw(LITERALS | st.just(f"{value:f}"))
    return type_, value, draw(st.sampled_from(sorted(SIGNS))), literal


@given(situation=situations())
@example(situation=(pa.decimal128(35, 24), Decimal(-22827907), "<", "-22827906.999999999999999999999999"))
@example(situation=(pa.decimal128(38, 3), Decimal("0.001"), "=", "0.0010"))
@example(situation=(pa.int8(), Decimal(127), "<", "128"))
@example(situation=(pa.int64(), Decimal(2**53 + 1), "=", f"{2**53 + 1}"))
def test_every_digit_counts(situation: tuple[Any, Decimal, str, str]) -> None:
    """The filter passes a value exactly if Python's fractions compare so, and pruning never excludes such a one."""
    type_, value, sign, literal = situation
    if literal.lstrip("-").isdecimal() and -int(literal) in (-(2**63), 2**63):
        return
    stored = value if pa.types.is_decimal(type_) else int(value)
    table = pa.table({"x": pa.array([stored, None], type_)})
    columns = Columns(tuple_schema(table.schema)[0])
    right = bool(getattr(Fraction(value), SIGNS[sign])(Fraction(literal)))
    beyond_bigint = not pa.types.is_decimal(type_) and not -(2**63) <= Fraction(literal) < 2**63
    digits, scale = len(literal.strip("-").replace(".", "")), len(literal.partition(".")[2])
    cast = f"CAST({literal} AS DECIMAL({digits}, {scale}))"
    mirrored = f"x IN ({literal})" if sign == "=" else f"{literal} {MIRRORED[sign]} x"
    for question in (f"x {sign} {literal}", mirrored, f"x {sign} {cast}"):
        if not beyond_bigint:  # there Spark's answer for NULL is left to an SQL engine
            chosen = arrow_filter(question, columns, table.schema, timezone.utc)
            assert chosen is not None
            assert table.filter(chosen.expression).num_rows == right, question
        known = ColumnStatistics("INT", stored, stored, nulls=0, non_nulls=1, rows=1)
        excluded = is_excluded(parse(question, columns), known)
        assert not (excluded and right), question


MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class _One:
    def __init__(self, known: ColumnStatistics) -> None:
        self._known = known

    def of(self, column: str, among: Any) -> StatisticsColumns:
        """The same for all."""
        assert column == "`x`"
        return StatisticsColumns.of([self._known] * len(among))


def is_excluded(predicate: Predicate, known: ColumnStatistics) -> bool:
    """Whether a container of which this is known is excluded."""
    return bool(Evaluation(predicate).exclude(np.ones(1, np.bool_), _One(known)).mask.any())


@pytest.mark.parametrize("number", [2**53, 2**53 + 1, -(2**53) - 1, 2**60 + 1, 2**63 - 1])
@pytest.mark.parametrize("sign", sorted(SIGNS))
def test_floats_beside_large_integers_prune_as_doubles_compare(number: int, sign: str) -> None:
    """The column is compared as DOUBLE: no integer that rounds to a match is excluded, and far ones are."""
    columns = Columns(tuple_schema(pa.schema([("x", pa.int64())]))[0])
    for literal in (2.0**53, 2.0**60, 9.3e18, -1e300):
        question = parse(f"x {sign} {literal:.17e}".replace("e+", "e"), columns)
        known = ColumnStatistics("BIGINT", number, number, nulls=0, non_nulls=1, rows=1)
        excluded = is_excluded(question, known)
        assert not (excluded and getattr(float(number), SIGNS[sign])(literal))
        if abs(number - literal) > 2**20 and not getattr(float(number), SIGNS[sign])(literal):
            assert excluded
