"""What a table comes to when segments are exchanged: the same by subtraction as by adding up all of them, or unsaid.

Which segments lead is compared in :mod:`tests.analyze.test_leaders`: it depends on what went before.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from metastore.analyze.units.leaders import leaders_in
from metastore.analyze.units.partial_aggregates import Part
from metastore.analyze.units.total import Total
from metastore.model.sketches.description import Description
from metastore.model.statistics import ColumnStatistics
from metastore.model.tuple_schema import SchemaColumn, TupleSchema

A_INT, A_DOUBLE, B, C = (
    SchemaColumn(name, type_) for name, type_ in (("a", "INT"), ("a", "DOUBLE"), ("b", "DOUBLE"), ("c", "TIMESTAMP"))
)
SCHEMAS = [TupleSchema(columns) for columns in ((A_INT, B, C), (A_INT, B), (B, A_INT), (A_DOUBLE, B, C), (A_INT,), ())]
OF_TYPE = {"INT": "INT", "DOUBLE": "FLOAT8", "TIMESTAMP": "TIMESTAMP"}
UTC = dt.timezone.utc


def moment(number: int, *, zoned: bool = False) -> dt.datetime:
    """One of some moments, local or in UTC."""
    return dt.datetime(2020, 1, 1 + number, tzinfo=UTC if zoned else None)


@dataclass(frozen=True)
class Kind:
    """What segments are like: their schemas, the values and times that they lie among, whether all of it is known."""

    schemas: Sequence[TupleSchema]
    values: tuple[int, int]
    newest: int
    tidy: bool


@st.composite
def column_statistics(draw: st.DrawFn, type_: str, rows: int, kind: Kind) -> ColumnStatistics:
    """Statistics of a column over ``rows`` rows: of few values, so that bounds are shared."""
    often = st.just(1) if kind.tidy else st.integers(0, 9)
    non_nulls = draw(st.integers(0, rows))
    nans = 0 if type_ == "FLOAT8" else None
    if non_nulls and type_ == "FLOAT8" and not draw(often):
        nans = draw(st.none() | st.integers(0, non_nulls))
    zoned = type_ == "TIMESTAMP" and not draw(often)
    value: Callable[[int], Any] = {"INT": int, "FLOAT8": float}.get(type_, lambda n: moment(n, zoned=zoned))
    low = high = None
    if non_nulls and nans != non_nulls and draw(often):
        numbers = draw(st.lists(st.integers(*kind.values), min_size=2, max_size=2))
        low, high = (value(number) for number in sorted(numbers))
    low_exact, high_exact = [bound is None or draw(often) > 0 for bound in (low, high)]
    nulls, counted = (rows - non_nulls, non_nulls) if draw(often) else (None, None)
    return ColumnStatistics(type_, low, high, low_exact, high_exact, nulls, counted, rows, nans)


@st.composite
def segments(draw: st.DrawFn, directory: str, kind: Kind) -> Part:
    """A segment of some files."""
    parts = []
    for number in range(draw(st.integers(1, 2))):
        schema, rows = draw(st.sampled_from(kind.schemas)), draw(st.integers(0, 3))
        known = {
            f"`{column.name}`": draw(column_statistics(OF_TYPE[column.type], rows, kind))
            for column in schema.columns
            if kind.tidy or draw(st.integers(0, 9))
        }
        modified = draw(st.integers(1, kind.newest))
        parts.append(Part((directory,), schema, known, rows, modified, [f"/t/{directory}/{number}"]))
    return replace(Part.sum_of((directory,), parts), whole=kind.tidy or draw(st.integers(0, 29)) > 0)


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[list[Part], list[Part], list[Part]]:
    """Segments that stay, some that go, and those that come in their place or beside them."""
    kind = Kind(draw(st.sampled_from([*[[schema] for schema in SCHEMAS], SCHEMAS])), (0, 4), 5, draw(st.booleans()))
    inner = replace(kind, values=(draw(st.integers(0, 1)), 3), newest=4)
    stay, gone, come = (
        [draw(segments(name, of_kind)) for name in draw(st.sets(st.sampled_from(names), min_size=least))]
        for names, of_kind, least in (("bdf", kind, 1), ("ac", inner, 1), ("acg", replace(kind, newest=6), 0))
    )
    return stay, gone, come


def assert_same(found: Total, expected: Total) -> None:
    """All but the files, of which nobody asks, and the leaders."""
    assert replace(found.part, files=()) == replace(expected.part, files=())
    assert found.alike == expected.alike


@given(exchanges())
def test_an_exchange_gives_what_adding_up_does(exchange: tuple[list[Part], list[Part], list[Part]]) -> None:
    """Whatever goes and comes and is unknown: where an answer is given, it is that of all segments."""
    stay, gone, come = exchange
    found = Total.sum_of([*stay, *gone]).exchange_segments(gone, come)
    event(f"answered: {found is not None}")
    if found is not None:
        assert_same(found, Total.sum_of([*stay, *come]))


@given(st.data())
def test_many_exchanges_give_what_adding_up_does(data: st.DataObject) -> None:
    """One after the other, each on top of what the one before came to, and of what is stored of it."""
    kind = Kind([data.draw(st.sampled_from(SCHEMAS))], (0, 9), 5, data.draw(st.booleans()))
    table = {name: data.draw(segments(name, kind)) for name in "abcdefgh"}
    total = Total.sum_of(list(table.values()))
    for answered in range(8):
        names = data.draw(st.sets(st.sampled_from([*table, "new"]), max_size=2))
        gone = [table.pop(name) for name in names if name in table]
        come = [data.draw(segments(name, kind)) for name in sorted(names) if not table or data.draw(st.integers(0, 3))]
        found = total.exchange_segments(gone, come) if table else None
        table |= {part.directories[0]: part for part in come}
        if found is None:
            event(f"answered: {answered}")
            break
        assert_same(found, Total.sum_of(list(table.values())))
        kept = json.loads(json.dumps(found.segment_states({}).leaders))
        assert leaders_in(kept) == found.leaders
        total = found


def segment(directory: str, low: int, high: int, *, modified: int = 1, schema: TupleSchema = SCHEMAS[4]) -> Part:
    """A segment of two rows, of one column or none, with these bounds."""
    known = {
        f"`{column.name}`": ColumnStatistics("INT", low, high, nulls=0, non_nulls=2, rows=2)
        for column in schema.columns
    }
    return Part((directory,), schema, known, 2, modified, [f"/t/{directory}/f"])


LOWEST, MIDDLE, HIGHEST = segment("a", 0, 5), segment("b", 4, 6), segment("c", 5, 9, modified=2)


@pytest.mark.parametrize(
    ("gone", "come"),
    [
        ([MIDDLE], [segment("b", 3, 7)]),  # others reach the bounds
        ([MIDDLE], [segment("b", -1, 20)]),  # it goes beyond them
        ([HIGHEST], [segment("c", 1, 9, modified=3)]),  # it reaches the bound that the other did
        ([LOWEST], [segment("a", -1, 2), segment("z", 1, 1)]),
        ([], [segment("d", 1, 2)]),
        ([MIDDLE], []),
        ([HIGHEST], []),
        ([HIGHEST], [segment("c", 5, 8, modified=3)]),  # the next ones are known
        ([LOWEST], [segment("a", 1, 5)]),
        ([LOWEST, MIDDLE], [segment("a", 1, 5)]),
    ],
)
def test_what_others_settle_is_answered(gone: Sequence[Part], come: Sequence[Part]) -> None:
    """Without the other segments, in what days bring: a segment changed, a new one, one that is gone."""
    everything = [LOWEST, MIDDLE, HIGHEST]
    found = Total.sum_of(everything).exchange_segments(gone, come)
    stay = [part for part in everything if part not in gone]
    expected = Total.sum_of([*stay, *come])
    assert found is not None
    assert (found.part.statistics, found.part.rows) == (expected.part.statistics, expected.part.rows)


MORE, OTHER = TupleSchema((A_INT, B)), TupleSchema((A_DOUBLE,))


@pytest.mark.parametrize(
    ("gone", "come"),
    [
        ([MIDDLE], [segment("b", 4, 6, schema=OTHER)]),
        ([], [segment("d", 4, 6, schema=MORE)]),  # a column more
        ([replace(MIDDLE, whole=False)], [MIDDLE]),
        ([MIDDLE], [replace(MIDDLE, descriptions={"`a`": Description.of_nulls(2)})]),
    ],
)
def test_what_only_others_know_is_not_answered(gone: Sequence[Part], come: Sequence[Part]) -> None:
    """A bound, a column, a time that went with a segment, and what cannot be subtracted."""
    stay = [part for part in (LOWEST, MIDDLE, HIGHEST) if part.directories not in {one.directories for one in gone}]
    assert Total.sum_of([*stay, *gone]).exchange_segments(gone, come) is None


def test_nobody_leads_where_an_earlier_release_kept_the_total() -> None:
    """Its bounds might have gone with the segment, so the others are asked, and lead from then on."""
    total = replace(Total.sum_of([LOWEST, MIDDLE, HIGHEST]), leaders={})
    assert total.exchange_segments([MIDDLE], [segment("b", 3, 7)]) is None


@pytest.mark.parametrize("change", [{"whole": False}, {"descriptions": {"`a`": Description.of_nulls(2)}}])
def test_nobody_leads_where_nothing_can_be_subtracted(change: dict[str, Any]) -> None:
    """The table's unit keeps nothing that no run will use."""
    assert Total.sum_of([LOWEST, HIGHEST]).leaders.keys() == {"`a`", "lastModifiedTime"}
    assert Total.sum_of([LOWEST, replace(HIGHEST, **change)]).leaders == {}


def test_a_segment_may_only_leave_segments_that_are_alike() -> None:
    """Its columns may leave with it, or come in another order."""
    wide = segment("b", 4, 6, schema=TupleSchema((A_INT, SchemaColumn("x", "INT"))))
    assert Total.sum_of([LOWEST, MIDDLE, HIGHEST]).exchange_segments([MIDDLE], []) is not None
    assert Total.sum_of([LOWEST, wide, HIGHEST]).exchange_segments([wide], []) is None
    assert Total.sum_of([LOWEST, wide, HIGHEST]).exchange_segments([MIDDLE], []) is None
    assert Total.sum_of([LOWEST, wide, HIGHEST]).exchange_segments([wide], [wide]) is not None


FLOATS = TupleSchema((B,))


def known(low: float | None, high: float | None, **more: Any) -> ColumnStatistics:
    """A column of two values without nulls and NaNs, unless ``more`` says otherwise."""
    return ColumnStatistics("FLOAT8", low, high, **{"nulls": 0, "non_nulls": 2, "rows": 2, "nans": 0, **more})


def of(directory: str, *statistics: ColumnStatistics) -> Part:
    """A segment of two rows with one column, of which this is known."""
    return Part((directory,), FLOATS, dict(zip(["`b`"], statistics, strict=False)), 2, 1, [f"/t/{directory}/f"])


WIDE, NARROW, NULL = known(0.0, 9.0), known(2.0, 3.0), known(None, None, nulls=2, non_nulls=0)


@pytest.mark.parametrize(
    ("stays", "goes", "comes", "answered"),
    [
        (WIDE, NARROW, NARROW, True),
        (NULL, WIDE, NARROW, True),  # all values go
        (known(None, None, nans=2), WIDE, NARROW, True),  # all that have an order
        (NARROW, NARROW, known(None, None), True),  # what comes is unknown, so all is
        (known(None, None), NARROW, known(None, None), True),
        (WIDE, NARROW, NULL, True),
        (NARROW, WIDE, NULL, True),
        (NARROW, known(None, None), NARROW, False),  # unknown because of what goes, perhaps
        (NARROW, known(2.0, 3.0, nans=None), NARROW, False),
        (NARROW, known(2.0, 3.0, nulls=None, non_nulls=None), NARROW, False),
        (known(2.0, 3.0, nulls=None, non_nulls=None), NARROW, NARROW, True),  # stays unknown
        (known(2.0, 3.0, min_exact=False), NARROW, known(2.0, 3.0, min_exact=False), True),  # none is exact any more
        (known(2.0, 3.0, min_exact=False), NARROW, NARROW, True),
        (known(2.0, 3.0, max_exact=False), known(2.0, 3.0, max_exact=False), known(2.0, 3.0, max_exact=False), True),
        (WIDE, NARROW, replace(NARROW, type="FLOAT4"), False),
        (replace(WIDE, type="FLOAT4"), NARROW, replace(NARROW, type="FLOAT4"), False),
    ],
)
def test_columns_are_exchanged_one_by_one(
    stays: ColumnStatistics, goes: ColumnStatistics, comes: ColumnStatistics, answered: bool
) -> None:
    """What is known of one column when a segment changes, and whether the other one must be asked."""
    found = Total.sum_of([of("a", stays), of("b", goes)]).exchange_segments([of("b", goes)], [of("b", comes)])
    assert (found is not None) is answered
    if found is not None:
        assert found.part.statistics == Total.sum_of([of("a", stays), of("b", comes)]).part.statistics


def test_other_columns_of_statistics_need_the_others() -> None:
    """Statistics that one segment has and another one lacks are unknown, not absent."""
    assert Total.sum_of([of("a", WIDE), of("b", NARROW)]).exchange_segments([of("b", NARROW)], [of("b")]) is None
