"""Texts that are added up unread come to what reading and merging each of them comes to."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import FormatError
from metastore.model import alike_statistics
from metastore.model.alike_statistics import merge_texts
from metastore.model.statistics import ColumnStatistics, merge, parse_many

BOUNDS: dict[str, st.SearchStrategy[Any]] = {
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**70), 2**70),
    "FLOAT8": st.sampled_from([0.0, -0.0, 1e308, float("inf"), 5e-324]) | st.floats(allow_nan=False),
    "FLOAT4": st.floats(width=32, allow_nan=False),
    "VARCHAR": st.text(max_size=4),
    "DATE": st.dates(),
    "TIMESTAMP": st.datetimes() | st.datetimes().map(lambda moment: moment.replace(microsecond=0)),
}
COUNTS = st.sampled_from([0, 0, 1, 740])


@st.composite
def usual(draw: st.DrawFn, name: str) -> ColumnStatistics:
    """What ANALYZE says of a file: exact bounds where there are values, and counts."""
    some = draw(COUNTS)
    low, high = (draw(BOUNDS[name]) if some else None for _ in range(2))
    return ColumnStatistics(name, low, high, nulls=draw(COUNTS), non_nulls=some)


@st.composite
def texts(draw: st.DrawFn) -> list[str | None]:
    """Texts of one column; among them may be one that is not usual."""
    name = draw(st.sampled_from(list(BOUNDS)))
    found: list[str | None] = [each.to_json() for each in draw(st.lists(usual(name), min_size=9, max_size=14))]
    odd = draw(
        st.none()
        | st.just([None])
        | st.builds(
            lambda low, exact, rows: [
                ColumnStatistics(name, low, None, exact if low is not None else True, rows=rows).to_json()
            ],
            st.none() | BOUNDS[name],
            st.booleans(),
            st.none() | st.integers(0, 9),
        )
        | usual("BIGINT").map(lambda other: [other.to_json()])
        | st.sampled_from(
            [
                ['{"statistics":[],"type":"INT"}'],
                [long_bounds("DATE", 10**17)],
                [long_bounds("TIMESTAMP", -(10**17))],
                [long_bounds("BIGINT", 7).replace('"type":"BIGINT"', '"type":"FLOAT8"')],
                [long_bounds("BIGINT", 7).replace("740", "-1")],
            ]
        )
    )
    return found if odd is None else [*found, *odd]


def long_bounds(type_: str, bound: int) -> str:
    """A usual text whose bounds are ``bound``, as a whole number."""
    return ColumnStatistics("BIGINT", bound, bound, nulls=0, non_nulls=740).to_json().replace("BIGINT", type_)


@given(texts())
def test_it_is_what_reading_and_merging_comes_to(said: list[str | None]) -> None:
    """Bounds, exactness and counts, with the sign of zero, for usual texts and for others among them."""
    read = merge(one for one in parse_many(said) if one is not None)
    assert repr(merge_texts(said)) == repr(read)


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        ("INT", -3, 7),
        ("BIGINT", -(2**40), 2**40),
        ("FLOAT8", -0.5, 1e300),
        ("VARCHAR", "a b", "ü"),
        ("DATE", date(2024, 1, 1), date(2025, 1, 1)),
        ("TIMESTAMP", datetime(2024, 1, 1, 1), datetime(2025, 1, 1)),
    ],
)
def test_of_usual_texts_few_are_read(type_: str, low: Any, high: Any) -> None:
    """Those with the outermost bounds; a broken one between them would be seen."""
    usual = [ColumnStatistics(type_, low, high, nulls=n, non_nulls=1).to_json() for n in range(20)]
    found = alike_statistics.added_up(usual)
    assert found == ColumnStatistics(type_, low, high, nulls=190, non_nulls=20, rows=210)


@pytest.mark.parametrize("broken", ["", "{", '{"statistics":[]}', "[]\n[]"])
def test_a_broken_text_is_refused(broken: str) -> None:
    """As by the reader of one text, wherever it stands."""
    usual = long_bounds("BIGINT", 5)
    for place in (0, 10, 20):
        said = [usual] * 20
        said.insert(place, broken)
        if not broken:
            assert merge_texts(said) == merge_texts([usual] * 20)  # an empty text says nothing
            continue
        with pytest.raises(FormatError):
            merge_texts(said)


def test_two_texts_in_one_do_not_make_up_for_a_broken_one() -> None:
    """Lines are counted, not texts that happen to look right."""
    usual = long_bounds("BIGINT", 5)
    with pytest.raises(FormatError):
        merge_texts([*[usual] * 20, f"{usual}\n{usual}", "{"])
