"""Column statistics: nothing is lost in JSON, merging obeys its laws, and bounds always contain the data."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import FormatError, InvalidRequestError, MetastoreError
from metastore.model.statistics import ColumnStatistics, holder_json, merge, parse_many, read_holders
from metastore.model.statistics_json import read_column_holders

UTC = timezone.utc
COUNTS = st.none() | st.integers(0, 2**62)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
BOUNDS: dict[str, st.SearchStrategy[Any]] = {
    "BIT": st.booleans(),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(),
    "FLOAT4": st.floats(width=32, allow_nan=False),
    "FLOAT8": st.floats(allow_nan=False),
    "VARCHAR": TEXT,
    "VARBINARY": st.binary(),
    "VARDECIMAL": st.decimals(allow_nan=False, allow_infinity=False),
    "DATE": st.dates(),
    "TIME": st.times(),
    "TIMESTAMP": st.datetimes(),
    "TIMESTAMP in UTC": st.datetimes(timezones=st.just(UTC)),
}


@st.composite
def statistics(draw: st.DrawFn) -> ColumnStatistics:
    """Any statistics of any type."""
    name = draw(st.sampled_from(list(BOUNDS)))
    low, high = (draw(st.none() | BOUNDS[name]) for _ in range(2))
    low_exact, high_exact = [True if bound is None else draw(st.booleans()) for bound in (low, high)]
    nulls, non_nulls, rows, nans = (draw(COUNTS) for _ in range(4))
    if rows is not None:
        rows = max(rows, (nulls or 0) + (non_nulls or 0))
    return ColumnStatistics(name.split()[0], low, high, low_exact, high_exact, nulls, non_nulls, rows, nans)


@given(statistics())
def test_json_loses_nothing(known: ColumnStatistics) -> None:
    """Every value of every type comes back equal, of its own Python type, with its exactness and zone."""
    text = known.to_json()
    json.loads(text)
    read = ColumnStatistics.from_json(text)
    assert read == known
    for before, after in ((known.min, read.min), (known.max, read.max)):
        assert type(after) is type(before)
        assert str(after) == str(before)  # the sign of zero, the scale of a decimal, the zone


@given(st.lists(st.none() | statistics(), max_size=8))
def test_many_texts_parse_as_one_by_one(known: list[ColumnStatistics | None]) -> None:
    """parse_many gives what from_json gives, None for None, in order."""
    assert parse_many([None if k is None else k.to_json() for k in known]) == known


def test_reads_what_drill_writes() -> None:
    """Holders in any order, estimated kinds, kinds nobody knows, and values that are left out."""
    text = """{"statistics":[
        {"statisticsKind":{"name":"hasDescriptiveStatistics","exact":false},"statisticsValue":true},
        {"statisticsKind":{"exact":true,"name":"maxValue"},"statisticsValue":{"java.math.BigDecimal":123.3210}},
        {"statisticsValue":{"java.math.BigDecimal":1},"statisticsKind":{"name":"minValue"}},
        {"statisticsKind":{"exact":true,"name":"nullsCount"},"statisticsValue":3},
        {"statisticsKind":{"exact":true,"name":"rowCount"}}],"type":"VARDECIMAL"}"""
    assert ColumnStatistics.from_json(text) == ColumnStatistics(
        "VARDECIMAL", Decimal(1), Decimal("123.3210"), min_exact=False, nulls=3
    )


def test_milliseconds_are_rounded_outwards_for_drill() -> None:
    """Drill sees milliseconds that contain the data and do not claim to be exact; whole ones do."""
    moment = datetime(2020, 1, 1, 0, 0, 0, 1500)
    text = ColumnStatistics("TIMESTAMP", moment, moment).to_json()
    told = read_column_holders(text)
    assert (told["minValue"] + 1, told["maxValue"]) == (1577836800002, 1577836800002)
    holders = {h["statisticsKind"]["name"]: h for h in json.loads(text)["statistics"]}
    assert all("exact" not in holders[name]["statisticsKind"] for name in ("minValue", "maxValue"))


BY_DRILL = [
    ("INT", -5, 99, (-5, 99)),
    ("BIGINT", {"java.lang.Long": 1994000}, {"java.lang.Long": 1996399}, (1994000, 1996399)),
    ("FLOAT4", {"java.lang.Float": 0.1}, {"java.lang.Float": "Infinity"}, (0.10000000149011612, math.inf)),
    ("FLOAT8", 1.0, {"java.lang.Double": "NaN"}, (1.0, None)),
    ("BIT", False, True, (False, True)),
    ("VARCHAR", "ä", "ü", ("ä", "ü")),
    ("VARBINARY", "\u0001", "\ufffd", (None, None)),
    ("VARDECIMAL", {"java.math.BigDecimal": -3.50}, {"java.math.BigDecimal": 1.25}, ("-3.50", "1.25")),
    ("TIME", 3723000, 7384005, (time(1, 2, 3), time(2, 3, 4, 5000))),
    ("DATE", {"java.lang.Long": 1577836800000}, {"java.lang.Long": 1577836800000}, (date(2020, 1, 1),) * 2),
    ("TIMESTAMP", {"java.lang.Long": 1000}, {"java.lang.Long": 2000}, ("1970-01-01 00:00:01", "1970-01-01 00:00:02")),
]  # fmt: skip
"""Bounds as Drill 1.21 wrote them for columns of each type, and what they mean."""


@pytest.mark.parametrize(("type_", "low", "high", "meant"), BY_DRILL)
def test_what_drill_wrapped_is_read(type_: str, low: Any, high: Any, meant: tuple[Any, Any]) -> None:
    """Numbers come with their Java class; a NaN bounds nothing, nor does text that was made of bytes."""
    kinds = {"minValue": low, "maxValue": high, "nullsCount": {"java.lang.Long": 2}, "rowCount": {"java.lang.Long": 2}}
    kinds["nonNullValuesCount"] = {"java.lang.Long": 2}
    holders = [{"statisticsValue": v, "statisticsKind": {"exact": True, "name": k}} for k, v in kinds.items()]
    text = json.dumps({"statistics": holders, "type": type_}).replace("-3.5", "-3.50")
    read = ColumnStatistics.from_json(text)
    assert [str(bound) for bound in (read.min, read.max)] == [str(bound) for bound in meant]
    assert (read.nulls, read.non_nulls, read.rows) == (2, 2, 4), "as rows of a column Drill counts its values"


def test_what_drill_does_not_know_is_unknown() -> None:
    """It says so by -1."""
    text = (
        '{"statistics":[{"statisticsValue":{"java.lang.Long":-1},"statisticsKind":{"name":"nullsCount"}}],"type":"INT"}'
    )
    assert ColumnStatistics.from_json(text) == ColumnStatistics("INT")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"statistics":[]}', '{"type":"INT","statistics":[{}]}'])
def test_what_is_no_statistics_is_a_format_error(text: str) -> None:
    """Foreign text is refused with our error, not a KeyError."""
    with pytest.raises(FormatError):
        ColumnStatistics.from_json(text)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("VARDECIMAL", {"java.math.BigDecimal": "x"}),
        ("VARDECIMAL", {"java.math.BigDecimal": None}),
        ("VARDECIMAL", {"java.math.BigDecimal": [1]}),
        ("VARBINARY", {"[B": "a"}),
        ("VARBINARY", {"[B": 5}),
        (["INT"], 1),
    ],
)
@pytest.mark.parametrize("name", ["minValue", "maxValue"])
def test_a_bound_that_is_no_value_is_a_format_error(type_: object, value: object, name: str) -> None:
    """Whatever stands where a decimal or bytes should: alone, among many, and among a unit's holders."""
    holder = {"statisticsValue": value, "statisticsKind": {"name": name}}
    text = json.dumps({"type": type_, "statistics": [holder]})
    with pytest.raises(FormatError):
        ColumnStatistics.from_json(text)
    with pytest.raises(FormatError):
        parse_many([text])
    if isinstance(value, dict):
        with pytest.raises(FormatError):
            read_holders([json.dumps(holder)])


def test_a_decimal_that_is_no_number_bounds_nothing() -> None:
    """No order holds for it, so nothing may be pruned by it."""
    text = '{"type":"VARDECIMAL","statistics":[{"statisticsValue":{"java.math.BigDecimal":"NaN"},'
    text += '"statisticsKind":{"exact":true,"name":"minValue"}}]}'
    assert ColumnStatistics.from_json(text) == ColumnStatistics("VARDECIMAL")


def test_a_foreign_value_is_refused() -> None:
    """A value of another type is an error when written, not a surprise when read."""
    with pytest.raises(InvalidRequestError, match="complex"):
        ColumnStatistics("FLOAT8", 1j).to_json()  # type: ignore[arg-type]


@given(
    name=TEXT.filter(lambda name: json.dumps(name) == f'"{name}"'), value=BOUNDS["BIGINT"] | TEXT | BOUNDS["VARDECIMAL"]
)
def test_holders_come_back(name: str, value: Any) -> None:
    """A holder's value is read under its name, exact or not."""
    for exact in (True, False):
        assert read_holders([holder_json(name, value, exact)]) == {name: value}


def test_a_holder_without_value_says_so() -> None:
    """None leaves the value out, and is read as None."""
    assert "statisticsValue" not in holder_json("rowCount", None)
    assert read_holders([holder_json("rowCount", None)]) == {"rowCount": None}


NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "INT": st.integers(-5, 5),
    "BIGINT": st.sampled_from([-(2**53) - 1, -1, 0, 2**53, 2**53 + 1, 2**63 - 1]),
    "VARDECIMAL": st.sampled_from([Decimal("-0.1"), Decimal(0), Decimal("0.3"), Decimal(2**53 + 1)]),
    "FLOAT4": st.sampled_from([-1.5, -0.0, 0.0, 0.5, math.inf, math.nan]),
    "FLOAT8": st.sampled_from([-math.inf, -0.1, -0.0, 0.0, 0.3, float(2**53), math.nan]),
    "VARCHAR": st.sampled_from(["", "a", "ä"]),
    "DATE": st.sampled_from([date(2020, 1, 1), date(2021, 1, 1)]),
    "TIME": st.sampled_from([time(1), time(2)]),
    "TIMESTAMP": st.sampled_from([datetime(2020, 1, 1), datetime(2021, 1, 1)]),
    "TIMESTAMP in UTC": st.sampled_from([datetime(2020, 1, 1, tzinfo=UTC)]),
}


def truth(type_: str, rows: Sequence[Any]) -> ColumnStatistics:
    """The statistics of ``rows``, worked out the plain way."""
    values = [v for v in rows if v is not None]
    numbers = [v for v in values if v == v]
    low, high = (min(numbers), max(numbers)) if numbers else (None, None)
    nans = len(values) - len(numbers) if type_ in ("FLOAT4", "FLOAT8") else None
    return ColumnStatistics(
        type_, low, high, nulls=len(rows) - len(values), non_nulls=len(values), rows=len(rows), nans=nans
    )


@st.composite
def described_rows(draw: st.DrawFn, names: Sequence[str] = tuple(NUMBERS)) -> tuple[list[Any], ColumnStatistics]:
    """Rows of one type with true statistics, of which some are unknown or, for bounds, only contain."""
    name = draw(st.sampled_from(names))
    rows = draw(st.lists(st.none() | NUMBERS[name], max_size=4))
    known = truth(name.split()[0], rows)
    hidden = {
        field: None for field in ("min", "max", "nulls", "non_nulls", "rows", "nans") if draw(st.integers(0, 5)) == 0
    }
    return rows, ColumnStatistics(**{field: getattr(known, field) for field in FIELDS} | hidden)


FIELDS = ("type", "min", "max", "min_exact", "max_exact", "nulls", "non_nulls", "rows", "nans")
PARTS = described_rows().map(lambda pair: pair[1])


def same(left: ColumnStatistics, right: ColumnStatistics) -> None:
    """Equal, the signs of zeros included."""
    assert left == right
    assert (str(left.min), str(left.max)) == (str(right.min), str(right.max)) or "VARDECIMAL" in (left.type, right.type)


@given(st.lists(PARTS, max_size=5), st.data())
def test_the_order_of_parts_does_not_matter(parts: list[ColumnStatistics], data: st.DataObject) -> None:
    """Merging is commutative."""
    same(merge(parts), merge(data.draw(st.permutations(parts))))


@given(st.lists(st.lists(PARTS, max_size=4), max_size=3))
def test_the_grouping_of_parts_does_not_matter(groups: list[list[ColumnStatistics]]) -> None:
    """Row groups merged into files, files into a segment: the same as all at once; no parts change nothing."""
    flat = [part for group in groups for part in group]
    same(merge(flat), merge(merge(group) for group in groups))
    same(merge(flat), merge([*flat, merge([])]))


@given(st.lists(described_rows(), max_size=4))
def test_merged_bounds_contain_the_data(described: list[tuple[list[Any], ColumnStatistics]]) -> None:
    """Bounds contain every value, exact ones are values, counts are right: whatever the parts did not know."""
    merged = merge(known for _, known in described)
    rows = [row for found, _ in described for row in found]
    values = [row for row in rows if row is not None and row == row]
    for bound, exact, inside in ((merged.min, merged.min_exact, min), (merged.max, merged.max_exact, max)):
        if bound is not None:
            assert inside([bound, *values]) == bound
            assert not exact or bound in values
    nulls = sum(row is None for row in rows)
    nans = sum(row is not None and row != row for row in rows)
    for known, counted in (
        (merged.nulls, nulls),
        (merged.non_nulls, len(rows) - nulls),
        (merged.rows, len(rows)),
        (merged.nans, nans),
    ):
        assert known in (None, counted)


@given(st.lists(st.lists(st.none() | st.integers(-5, 5), max_size=4)))
def test_what_all_parts_know_is_known(parts: list[list[int | None]]) -> None:
    """Fully known parts of one type give the statistics of all rows, nothing less."""
    merged = merge(truth("INT", rows) for rows in parts)
    whole = truth("INT" if parts else "NULL", [row for rows in parts for row in rows])
    assert merged == whole


def test_zero_has_two_signs() -> None:
    """A bound at zero takes the sign that contains both zeros."""
    merged = merge([ColumnStatistics("FLOAT8", 0.0, -0.0, nulls=0, non_nulls=1)])
    assert (str(merged.min), str(merged.max)) == ("-0.0", "0.0")


def test_local_time_and_instants_have_no_common_bounds() -> None:
    """A file with local date-times beside one in UTC leaves the bounds unknown."""
    local, utc = (
        ColumnStatistics("TIMESTAMP", m, m, rows=1, nulls=0)
        for m in (datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC))
    )
    assert (merge([local, utc]).min, merge([local, utc]).max) == (None, None)


def test_errors_are_ours() -> None:
    """What is not JSON ends in the error tree."""
    with pytest.raises(MetastoreError):
        read_holders(["{"])
