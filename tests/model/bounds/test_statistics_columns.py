"""Statistics as columns say what statistics one by one say: texts that are decoded together, and tests run over arrays.

The judge is one container at a time, in plain Python, as the meaning of each test is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import (
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNull,
    NotStartsWith,
    StartsWith,
)
from pyiceberg.expressions.literals import literal
from support.random_statistics import UTC, VALUES, containers, told

from metastore.errors import FormatError
from metastore.model.bounds.statistics_columns import StatisticsColumns
from metastore.model.bounds.statistics_texts import decode_texts
from metastore.model.drill_types import FLOAT_TYPES, DrillType
from metastore.model.statistics import ColumnStatistics, parse_many
from metastore.predicates.columns import PredicateColumn
from metastore.predicates.recurring import PARTS, Recurring
from metastore.predicates.recurring import excludes as recurring_excludes
from metastore.scan.pruning.column_test import column_test

WIDE = st.integers(-(2**70), 2**70)
BETWEEN = st.sampled_from([-2.5, -0.5, 0.5, 1.5, 2.25])
"""Between whole numbers."""

LITERALS: dict[str, st.SearchStrategy[Any]] = {
    **VALUES,
    "BIGINT": WIDE | st.floats(allow_nan=False) | st.integers(-3, 3) | BETWEEN,
    "INT": st.integers(-5, 5) | WIDE | BETWEEN,
    "FLOAT8": st.floats(allow_nan=False) | WIDE | st.sampled_from([0.0, -0.0, 1.5, 2**53 + 1]),
    "VARDECIMAL": VALUES["VARDECIMAL"] | st.integers(-5, 5) | BETWEEN,
}


def says(known: ColumnStatistics | None) -> Any:
    """What columns keep of statistics."""
    if known is None:
        return None
    nulls_told = known.nulls is not None or (known.rows is not None and known.non_nulls is not None)
    no_null = known.nulls == 0 or (known.rows is not None and known.rows == known.non_nulls)
    return (
        known.type,
        known.min,
        known.max,
        known.all_null,
        no_null,
        known.nans == 0 or known.all_null,
        known.all_null or nulls_told,
        known.all_null or known.nans is not None,
        known.all_null or known.min is not None or known.max is not None,
    )


@pytest.mark.parametrize("of", sorted(VALUES))
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_texts_that_are_decoded_together_say_what_each_says(of: str, data: st.DataObject) -> None:
    """JSON of every type, as it is written here, beside the reader of one text."""
    known = data.draw(containers(of))
    texts = [None if each is None else each.to_json() for each in known]
    assert told(decode_texts(pa.array(texts, pa.string()))) == [says(each) for each in parse_many(texts)]


TEXT = '{"statistics":[{"statisticsValue":%s,"statisticsKind":{"exact":true,"name":"minValue"}}],"type":"%s"}'

COUNTED = (
    '{"statistics":[{"statisticsValue":{"java.lang.Long":3},"statisticsKind":{"exact":true,"name":"nullsCount"}},'
    '{"statisticsValue":{"java.lang.Long":4},"statisticsKind":{"exact":true,"name":"nonNullValuesCount"}},'
    '{"statisticsValue":{"java.lang.Long":4},"statisticsKind":{"exact":true,"name":"rowCount"}}],"type":"INT"}'
)
"""Fewer rows than nulls and values, as Drill counts them where it reads data."""


@pytest.mark.parametrize(
    "text",
    [
        TEXT % ("7", "BIGINT"),
        TEXT % ("7.0", "BIGINT"),
        TEXT % ("-0", "INT"),
        TEXT % ('{"java.lang.Integer":7}', "INT"),
        TEXT % ('{"java.math.BigInteger":18446744073709551616}', "UINT8"),
        TEXT % ('{"java.lang.Long":99999999999999999999}', "BIGINT"),
        TEXT % ('"7"', "INT"),
        TEXT % ("7", "VARCHAR"),
        TEXT % ('"a\\"b"', "VARCHAR"),
        TEXT % ('"\\ud83d"', "VARCHAR"),
        TEXT % ('"NaN"', "FLOAT8"),
        TEXT % ("1e999", "FLOAT8"),
        TEXT % ("5", "FLOAT8"),
        TEXT % ('{"java.lang.Long":5}', "FLOAT8"),
        TEXT % ('{"java.lang.Float":1.1}', "FLOAT4"),
        TEXT % ('{"java.lang.Float":"Infinity"}', "FLOAT4"),
        TEXT % ("1.1", "FLOAT4"),
        TEXT % ("1.1", "VARDECIMAL"),
        TEXT % ('{"java.math.BigDecimal":1.10}', "VARDECIMAL"),
        TEXT % ('{"java.math.BigDecimal":1E+3}', "VARDECIMAL"),
        TEXT % ('{"java.math.BigDecimal":1.5}', "INT"),
        TEXT % ('{"java.lang.Long":1704067200001}', "DATE"),
        TEXT % ('{"java.lang.Long":999999999999999999}', "DATE"),
        TEXT % ('{"java.lang.Long":999999999999999999}', "TIMESTAMP"),
        TEXT.replace("min", "max") % ('{"java.lang.Long":1704067200001}', "DATE"),
        TEXT.replace("min", "max") % ('{"java.lang.Long":-1}', "DATE"),
        TEXT % ("3723000", "TIME"),
        TEXT % ("null", "INT"),
        TEXT % ("-1", "OTHER"),
        '{"type":"INT","statistics":[]}',
        ' {"statistics": [], "type": "INT"}',
        '{"statistics":[{"statisticsKind":{"exact":true,"name":"minValue"}}],"type":"INT"}',
        '{"statistics":[{"statisticsValue":{"java.lang.Long":-1},"statisticsKind":{"name":"nullsCount"}}],"type":"INT"}',
        COUNTED,
    ],
)
def test_what_other_programs_write_is_read_by_the_same_rule(text: str) -> None:
    """Spellings that the pattern takes, and those that it must leave to the reader of one text."""
    texts = [TEXT % ("1", "INT"), text, None]
    assert told(decode_texts(pa.array(texts, pa.string()))) == [says(each) for each in parse_many(texts)]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"statistics":[', TEXT % ("007", "INT"), TEXT % ('"a', "VARCHAR"), "null,{}"]
)
def test_a_damaged_text_is_no_statistics(text: str) -> None:
    """Beside good ones too."""
    with pytest.raises(FormatError):
        decode_texts(pa.array([TEXT % ("1", "INT"), text]))


SAME_ORDER = {"VARCHAR": frozenset({"VARCHAR"}), "FLOAT": FLOAT_TYPES, "DOUBLE": FLOAT_TYPES}
SQL = {"BIT": "BOOLEAN", "FLOAT4": "FLOAT", "FLOAT8": "DOUBLE", "VARDECIMAL": "DECIMAL", "INSTANT": "TIMESTAMP"}


def certain(compare: Callable[[], bool]) -> bool:
    """What a comparison says, and no where there is no order."""
    try:
        return compare()
    except TypeError:
        return False


def excludes(node: BooleanExpression, known: ColumnStatistics | None, type_: str, values: Sequence[Any]) -> bool:
    """The law of one container: whether no row of it passes the test of a column of ``type_`` with ``values``."""
    if known is None:
        return False
    low: Any = known.min
    high: Any = known.max
    if isinstance(node, IsNull):
        return known.nulls == 0 or (known.rows is not None and known.rows == known.non_nulls)
    if known.all_null:
        return True
    if isinstance(node, NotNull):
        return False
    if isinstance(node, IsNaN):
        return known.nans == 0
    if type_ in SAME_ORDER and known.type not in SAME_ORDER[type_]:
        return False
    value = values[0]
    has_low, has_high = low is not None, high is not None
    below: dict[type[BooleanExpression], Callable[[], bool]] = {
        LessThan: lambda: has_low and bool(low >= value),
        LessThanOrEqual: lambda: has_low and bool(low > value),
        GreaterThan: lambda: has_high and bool(high <= value),
        GreaterThanOrEqual: lambda: has_high and bool(high < value),
        EqualTo: lambda: (has_low and bool(low > value)) or (has_high and bool(high < value)),
        NotEqualTo: lambda: has_low and bool(low == high == value),
        In: lambda: all((has_low and bool(low > one)) or (has_high and bool(high < one)) for one in values),
        NotIn: lambda: has_low and low == high and all(one <= low or one > low for one in values) and low in values,
        StartsWith: lambda: (
            (has_high and bool(high < value)) or (has_low and bool(low > value) and not low.startswith(value))
        ),
        NotStartsWith: lambda: has_low and has_high and low.startswith(value) and high.startswith(value),
    }
    return certain(below[type(node)])


def same_kind(one: object, other: object) -> bool:
    """Whether two values may stand in one list of literals."""
    numbers = (bool, int, float, Decimal)
    if isinstance(one, numbers) or isinstance(other, numbers):
        return isinstance(one, numbers) and isinstance(other, numbers)
    if isinstance(one, datetime) and isinstance(other, datetime):
        return (one.tzinfo is None) == (other.tzinfo is None)
    return type(one) is type(other)


@pytest.mark.parametrize("of", sorted(VALUES))
@given(data=st.data())
def test_arrays_decide_as_one_container_at_a_time_does(of: str, data: st.DataObject) -> None:
    """Every test over containers of every type: what is excluded."""
    known = data.draw(containers(of))
    column = PredicateColumn(("c",), DrillType(SQL.get(of, of)), zoned=of == "INSTANT")
    drawn = data.draw(st.lists(LITERALS[of], min_size=1, max_size=5))
    values = [*drawn, *(each.min for each in known if each is not None and same_kind(each.min, drawn[0]))]
    literals = [literal(value) for value in values]
    nodes: list[BooleanExpression] = [
        *(kind("c", literals[-1]) for kind in (LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual)),
        *(kind("c", literals[-1]) for kind in (EqualTo, NotEqualTo)),
        *(kind("c", {*literals, literal(values[0])}) for kind in (In, NotIn) if len(set(values)) > 1),
        *(kind("c") for kind in (IsNull, NotNull, IsNaN)),
    ]
    if of == "VARCHAR":
        nodes += [kind("c", literals[-1]) for kind in (StartsWith, NotStartsWith)]
    columns = StatisticsColumns.of(known)
    shuffled = np.array(data.draw(st.permutations(range(len(known)))))
    for node in nodes:
        asked = values if isinstance(node, (In, NotIn)) else values[-1:]
        right = [excludes(node, each, column.type.name, asked) for each in known]
        test = column_test(node, column)
        assert test.excludes(columns).tolist() == right, node
        assert test.excludes(columns.take(shuffled)).tolist() == [right[place] for place in shuffled], node


@given(data=st.data())
def test_text_beside_integers_is_excluded_only_as_an_integers_own_spelling(data: st.DataObject) -> None:
    """Engines cast the text; of one text alone it is known to what."""
    texts = st.sampled_from(["7", "-3", "007", "+7", " 7", "x", "", "99999999999999999999"])
    low, high = data.draw(texts), data.draw(texts)
    known = ColumnStatistics("VARCHAR", min(low, high), max(low, high), nulls=0)
    asked = data.draw(st.sampled_from([7, -3, 0, 10**20 - 1]))
    column = PredicateColumn(("c",), DrillType("VARCHAR"))
    is_one = low == high and low in ("7", "-3")
    for kind, holds in ((LessThan, int.__lt__), (EqualTo, int.__eq__), (NotEqualTo, int.__ne__)):
        excluded = column_test(kind("c", literal(asked)), column).excludes(StatisticsColumns.of([known])).tolist()
        assert excluded == [is_one and not holds(int(low), asked)]


@pytest.mark.parametrize("minor", ["TIMESTAMP", "DATE"])
@given(data=st.data())
def test_parts_of_the_calendar_exclude_what_one_pair_of_bounds_does(minor: str, data: st.DataObject) -> None:
    """Months, quarters and days, in any zone or none."""
    zone = data.draw(st.sampled_from([None, UTC, ZoneInfo("Europe/Berlin")]))
    is_zoned = minor == "TIMESTAMP" and data.draw(st.booleans())
    part = data.draw(st.sampled_from(sorted(PARTS)))
    node = Recurring("c", part, tuple(data.draw(st.sets(st.integers(1, 12), min_size=1, max_size=3))), zone)
    known: list[ColumnStatistics | None] = [None]
    for _ in range(5):
        low = data.draw(st.datetimes(datetime(2023, 1, 1), datetime(2025, 1, 1)))
        high = low + timedelta(days=data.draw(st.integers(0, 400)), hours=data.draw(st.integers(0, 23)))
        bounds: Any = (low.date(), high.date()) if minor == "DATE" else (low, high)
        if is_zoned:
            bounds = tuple(bound.replace(tzinfo=UTC) for bound in bounds)
        known.append(ColumnStatistics(minor, *bounds))
    column = PredicateColumn(("c",), DrillType(minor), zoned=is_zoned)
    found = column_test(node, column).excludes(StatisticsColumns.of(known)).tolist()
    assert found == [False, *(recurring_excludes(node, each.min, each.max) for each in known if each is not None)]
