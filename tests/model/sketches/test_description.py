"""Sketches and samples: Apache's own library as the measure, the laws of putting together, and how far off they are."""

from __future__ import annotations

import datetime as dt
import json
import math
from base64 import b64encode
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.apache_sketches import apache_sketches

from metastore.errors import FormatError
from metastore.model.sketches.description import (
    ColumnDescriber,
    Description,
    descriptions_in,
    descriptions_text,
    distinct_values,
    summary_holders,
    with_holders,
)
from metastore.model.sketches.hashing import SLICE, domain_of, hashes_of
from metastore.model.sketches.row_sample import SIZE, RowDraw, RowSample
from metastore.model.sketches.theta import Theta, ThetaBuilder
from metastore.model.statistics import ColumnStatistics, read_holders

LG_K = 10


def theta_of(values: Any) -> Theta:
    """The sketch of Arrow values."""
    builder = ThetaBuilder()
    for hashes in hashes_of(values):
        builder.add(hashes)
    return builder.sketch()


def apaches(values: Iterable[Any]) -> Any:
    """Apache's sketch of Python values: ints as eight bytes, texts as UTF-8, as Iceberg has long and string."""
    sketch = apache_sketches().update_theta_sketch(LG_K)
    for value in values:
        sketch.update(value)
    return sketch


def described(column: pa.Array[Any], name: str = "file", *, sampled: bool = False) -> Description:
    """The description of one file's column."""
    draw = RowDraw(name)
    describer = ColumnDescriber(draw, sampled=sampled)
    places, draws = draw.rows(0, len(column))
    describer.add(column, places, draws)
    return describer.description()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=400) | st.lists(st.text(st.characters(codec="utf-8"))))
def test_few_values_make_the_very_bytes_that_apaches_library_makes(values: list[Any]) -> None:
    """So values are hashed alike. Its library takes no empty text as a value; ours does."""
    type_ = pa.string() if values and isinstance(values[0], str) else pa.int64()
    values = [value for value in values if value != ""]
    assert theta_of(pa.array(values, type_)).to_bytes() == apaches(values).compact().serialize()


@pytest.mark.parametrize("distinct", [2_000, 50_000])
def test_apaches_library_reads_our_sketches_and_joins_them_with_its_own(distinct: int) -> None:
    """Both name the same values: joining changes the estimate no more than their errors explain."""
    ours = apache_sketches().compact_theta_sketch.deserialize(theta_of(pa.array(np.arange(distinct))).to_bytes())
    union = apache_sketches().theta_union(LG_K)
    union.update(ours)
    union.update(apaches(range(distinct)))
    for estimate in (ours.get_estimate(), union.get_result().get_estimate()):
        assert abs(estimate - distinct) < 4 / math.sqrt(2**LG_K) * distinct


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (pa.scalar(True), b"\x01"),
        (pa.scalar(-2, pa.int8()), b"\xfe\xff\xff\xff"),
        (pa.scalar(-2, pa.int32()), b"\xfe\xff\xff\xff"),
        (pa.scalar(1.5, pa.float32()), b"\x00\x00\xc0\x3f"),
        (pa.scalar(Decimal("-1.28"), pa.decimal128(9, 2)), b"\x80"),
        (pa.scalar(Decimal("1.28"), pa.decimal128(9, 2)), b"\x00\x80"),
        (pa.scalar(0, pa.date32()), b"\x00\x00\x00\x00"),
        (pa.scalar(b"abc" * 11), b"abc" * 11),
        (pa.scalar(1_000, pa.timestamp("ms")), (1_000_000).to_bytes(8, "little")),
    ],
)
def test_values_are_hashed_in_icebergs_binary_form(value: Any, form: bytes) -> None:
    """As a Puffin blob asks: the same bytes as text of them."""
    [hashes] = hashes_of(pa.array([value.as_py()], value.type))
    [expected] = hashes_of(pa.array([form]))
    assert hashes.tolist() == expected.tolist()


def test_equal_values_of_a_float_are_one() -> None:
    """Zeros of both signs, and NaNs of any bits."""
    odd_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    assert theta_of(pa.array([0.0, -0.0, math.nan, odd_nan, 1.0])).estimate == 3


NUMBERS = st.tuples(st.integers(0, 3_000), st.integers(0, 3))
"""How many hashes, and from which of some sequences: those of one sequence share their beginnings."""


def hashes(numbers: tuple[int, int]) -> Any:
    """Some hashes."""
    count, sequence = numbers
    return np.random.default_rng(sequence).integers(1, 2**63 - 1, size=count, dtype=np.uint64)


def sketch(values: Any) -> Theta:
    """The sketch of hashes."""
    builder = ThetaBuilder()
    for start in range(0, len(values), 700):
        builder.add(values[start : start + 700])
    return builder.sketch()


def same(one: Theta, other: Theta) -> bool:
    """Equal to the last bit."""
    return (one.to_bytes(), one.repeated.tolist()) == (other.to_bytes(), other.repeated.tolist())


@example((3_000, 0), (10, 1), (1_500, 0))
@settings(max_examples=40)
@given(NUMBERS, NUMBERS, NUMBERS)
def test_union_has_laws(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> None:
    """Associative, commutative, with nothing as its identity; and the union is the sketch of all values."""
    parts = [hashes(numbers) for numbers in (a, b, c)]
    x, y, z = map(sketch, parts)
    assert same(Theta.union([Theta.union([x, y]), z]), Theta.union([x, Theta.union([y, z])]))
    assert same(Theta.union([x, y]), Theta.union([y, x]))
    assert same(Theta.union([x, Theta.union([])]), x)
    assert Theta.union([x, y, z]).to_bytes() == sketch(np.concatenate(parts)).to_bytes()


@pytest.mark.parametrize("distinct", [0, 1, 1_024, 1_025, 30_000, 1_000_000])
def test_the_estimate_is_within_its_error(distinct: int) -> None:
    """Exact up to the sketch's size; beyond, within four standard errors."""
    found = theta_of(pa.array(np.arange(distinct)))
    if distinct <= 1_024:
        assert (found.estimate, found.relative_error) == (distinct, 0)
    assert abs(found.estimate - distinct) <= 4 * found.relative_error * distinct
    assert found.relative_error < 0.032


def test_foreign_bytes_are_refused() -> None:
    """With what they are not."""
    with pytest.raises(FormatError, match="theta"):
        Theta.from_bytes(b"nonsense")


@example([1_500, 1, 1])
@settings(max_examples=30)
@given(st.lists(st.integers(0, 1_500), min_size=3, max_size=3))
def test_samples_put_together_are_the_sample_of_all_rows(sizes: list[int]) -> None:
    """In any order and grouping, to the last bit: the rows with the smallest draws of all."""
    columns = [pa.array(np.arange(size) * 1.5) for size in sizes]
    parts = [described(column, f"file {number}").sample for number, column in enumerate(columns)]
    a, b, c = (part or RowSample.of_nothing() for part in parts)
    one = RowSample.union([RowSample.union([a, b]), c])
    other = RowSample.union([c, RowSample.union([b, a])])
    assert one.to_text() == other.to_text()
    assert RowSample.from_text(one.to_text()).to_text() == one.to_text()
    every = sorted(
        draw for number, size in enumerate(sizes) for draw in RowDraw(f"file {number}")._draws(0, size).tolist()
    )
    bound = every[SIZE] if len(every) > SIZE else 1 << 32
    assert (one.bound, one.draws.tolist()) == (bound, [draw for draw in every if draw < bound])


def test_a_histogram_divides_the_rows_in_equal_parts() -> None:
    """Every border is within four standard errors of where it should be; the outer ones are the exact bounds."""
    rows = 200_000
    found = described(pa.array(np.random.default_rng(1).permutation(rows)))
    texts = summary_holders(found, ColumnStatistics("BIGINT", 0, rows - 1, nulls=0, non_nulls=rows))
    holders = read_holders(texts)
    assert holders["histogram"]["numRowsPerBucket"] == rows // 10
    borders = holders["histogram"]["buckets"]
    assert (borders[0], borders[-1]) == (0, rows - 1)
    for number, border in enumerate(borders):
        share = number / 10
        assert abs(border / rows - share) < 4 * math.sqrt(0.25 / SIZE)
    assert not any('"exact"' in text for text in texts)
    assert (holders["avg_width"], holders["rowcount"]) == (8.0, rows)


OF_NUMBERS: dict[str, tuple[pa.DataType, str, st.SearchStrategy[Any]]] = {
    "moment": (pa.timestamp("us"), "TIMESTAMP", st.datetimes()),
    "instant": (pa.timestamp("us", "UTC"), "TIMESTAMP", st.datetimes(timezones=st.just(dt.timezone.utc))),
    "clock": (pa.time64("us"), "TIME", st.times()),
    "day": (pa.date32(), "DATE", st.dates()),
    "price": (pa.decimal128(38, 9), "VARDECIMAL", st.decimals(-(10**28), 10**28, places=9)),
    "long": (pa.int64(), "BIGINT", st.integers(-(2**63), 2**63 - 1)),
    "flag": (pa.bool_(), "BIT", st.booleans()),
    "double": (pa.float64(), "FLOAT8", st.floats(allow_nan=False)),
}


@pytest.mark.parametrize("kind", OF_NUMBERS)
@given(data=st.data())
def test_the_borders_of_a_histogram_ascend(kind: str, data: st.DataObject) -> None:
    """From the smallest value to the largest, to the last fraction; what has no such borders has no histogram."""
    arrow, minor, some = OF_NUMBERS[kind]
    values = data.draw(st.lists(some, min_size=1, max_size=30))
    known = ColumnStatistics(minor, min(values), max(values), nulls=0, non_nulls=len(values))
    texts = summary_holders(described(pa.array(values, arrow)), known)
    told = read_holders(texts)
    if "histogram" not in told:
        assert any(abs(value) > 1e307 for value in values if isinstance(value, float))
        return
    borders = told["histogram"]["buckets"]
    assert borders == sorted(borders)
    epoch = dt.datetime(1970, 1, 1, tzinfo=getattr(values[0], "tzinfo", None))
    if isinstance(known.max, dt.datetime):
        assert borders[-1] == (known.max - epoch) / dt.timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("values", "view", "plain"),
    [
        (["a", "a longer text than fits a view", None, "a"], pa.string_view(), pa.string()),
        ([b"a", b"more bytes than fit in a view itself", None, b"a"], pa.binary_view(), pa.binary()),
    ],
)
def test_views_are_described_as_what_they_show(values: list[Any], view: Any, plain: Any) -> None:
    """The same column, as Polars and DuckDB hand it over."""
    assert described(pa.array(values, view)).to_document() == described(pa.array(values, plain)).to_document()


@pytest.mark.parametrize(("distinct", "tolerance"), [(100, 0.01), (2_000, 0.15), (50_000, 0.25), (100_000, 0.05)])
def test_a_sample_tells_of_all_rows(distinct: int, tolerance: float) -> None:
    """What is met once in a tenth of the rows is weighed against what is met again."""
    rows = 100_000
    everything = np.random.default_rng(2).permutation(np.arange(rows) % distinct)
    found = described(pa.array(everything[: rows // 10]), sampled=True)
    assert abs(distinct_values(found, rows) - distinct) < tolerance * distinct


def test_widths_are_bytes_of_values() -> None:
    """Nulls have none; a dictionary's entries count as often as they are referred to."""
    text = pa.array(["a", "ää", None, "a"])
    assert described(text).width == 1 + 4 + 1
    assert described(text.dictionary_encode()).width == 6
    assert described(text.dictionary_encode()).theta.estimate == 2
    assert described(pa.array([1, None, 3], pa.int32())).width == 8


@pytest.mark.parametrize("distinct", [10, 6_000, 60_000])
@pytest.mark.parametrize("type_", [pa.int64(), pa.string()])
def test_repeated_values_are_described_as_if_each_was_hashed(distinct: int, type_: Any) -> None:
    """Whether values are looked up first, or stand in a dictionary, larger than what is counted at once or smaller."""
    rows = 3 * SLICE + 1
    numbers = np.random.default_rng(3).integers(distinct, size=rows).tolist()
    of_text = type_ == pa.string()
    column = pa.array(numbers).cast(type_)
    for stored in (column, column.dictionary_encode()) if of_text else (column,):
        found = described(stored)
        assert found.theta.to_bytes() == theta_of(column).to_bytes()
        assert found.width == (sum(len(str(number)) for number in numbers) if of_text else 8 * rows)


def test_values_of_different_domains_are_not_put_together() -> None:
    """An int and a long of the same number have different hashes; nulls go with everything."""
    one, other = described(pa.array([1], pa.int32())), described(pa.array([1], pa.int64()))
    assert (one.domain, other.domain) == ("int", "long")
    assert Description.union([one, other]) is None
    joined = Description.union([one, Description.of_nulls(3)])
    assert joined is not None
    assert (joined.domain, joined.rows, joined.values) == ("int", 4, 1)
    assert domain_of(pa.list_(pa.int64())) is None


def test_descriptions_stand_in_a_unit() -> None:
    """Beside the state of its files, and are read back as they were."""
    found = described(pa.array([1.5, None, 2.5]), sampled=True)
    text = descriptions_text({"`x`": found, "`l`": None}, '{"state":"s"}')
    assert text is not None
    assert json.loads(text)["state"] == "s"
    back = descriptions_in(text)
    assert back["`l`"] is None
    assert back["`x`"] is not None
    assert back["`x`"].to_document() == found.to_document()
    assert (descriptions_in(None), descriptions_text({}), descriptions_text({}, "s")) == ({}, None, "s")
    broken = {"metastore.sketches": {"`x`": {"domain": "int", "theta": b64encode(b"12345678").decode()}}}
    with pytest.raises(FormatError):
        descriptions_in(json.dumps(broken))


@pytest.mark.parametrize("known", [ColumnStatistics("INT"), ColumnStatistics("INT", 1, 2, nulls=0, non_nulls=3)])
def test_statistics_take_further_holders(known: ColumnStatistics) -> None:
    """And are themselves read as before."""
    text = with_holders(known.to_json(), ['{"statisticsValue":1,"statisticsKind":{"name":"a"}}'])
    assert json.loads(text)["statistics"][-1]["statisticsKind"] == {"name": "a"}
    assert ColumnStatistics.from_json(text) == known
