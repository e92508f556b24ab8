"""Which segments lead: no other one reaches further than the last of them, whatever goes and comes."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from metastore.analyze.units.leaders import Leader, Leaders, leaders_in
from metastore.model.statistics import ColumnStatistics

KEYS = st.sampled_from("abcdefghij")


def known(low: Any, high: Any, type_: str = "INT", **more: Any) -> ColumnStatistics:
    """What a segment of one row says of a column."""
    return ColumnStatistics(type_, low, high, nulls=0, non_nulls=1, rows=1, **more)


BOUNDS = st.builds(
    lambda numbers, exact: known(*sorted(numbers), min_exact=exact[0], max_exact=exact[1]),
    st.lists(st.integers(0, 12), min_size=2, max_size=2),
    st.tuples(st.booleans(), st.booleans()),
)
NOTHING = ColumnStatistics("INT", nulls=1, non_nulls=0, rows=1)
COLUMNS = st.dictionaries(KEYS, BOUNDS | st.just(NOTHING), min_size=1)


def assert_lead(leaders: Leaders, segments: dict[str, ColumnStatistics]) -> None:
    """Each says what its segment says, and no other segment would come before the last."""
    lows = {key: (one.min, not one.min_exact) for key, one in segments.items() if one.min is not None}
    highs = {key: (-one.max, not one.max_exact) for key, one in segments.items() if isinstance(one.max, int)}
    for ranking, side, sign in ((leaders.lows, lows, 1), (leaders.highs, highs, -1)):
        ranks = [(sign * cast("int", leader.bound), not leader.exact) for leader in ranking]
        assert ranks == [side[leader.key] for leader in ranking]
        others = [rank for key, rank in side.items() if key not in {leader.key for leader in ranking}]
        assert ranks == sorted(ranks)
        assert not ranks or not others or min(others) >= ranks[-1]


@given(COLUMNS, st.lists(st.tuples(st.sets(KEYS), st.dictionaries(KEYS, BOUNDS, max_size=3)), max_size=6))
def test_no_other_segment_reaches_further(segments: dict[str, ColumnStatistics], steps: list[Any]) -> None:
    """Ranked once, and then kept through any exchanges."""
    leaders = Leaders.of_all(segments, "INT")
    assert_lead(leaders, segments)
    assert bool(leaders.lows) == bool(leaders.highs) == any(one.min is not None for one in segments.values())
    for gone, come in steps:
        segments = {key: one for key, one in segments.items() if key not in gone} | come
        leaders = leaders.exchange_segments(gone | come.keys(), come, "INT")
        assert_lead(leaders, segments)
    event(f"still known: {bool(leaders.lows)}")


def test_the_next_one_leads_until_all_are_gone() -> None:
    """A day less at a time: four are known to come next, then nobody is."""
    days = {f"day={number}": known(number, number) for number in range(9)}
    leaders = Leaders.of_all(days, "INT")
    first = []
    for key in days:
        leaders = leaders.exchange_segments({key}, {}, "INT")
        first.append(leaders.lows[0].key if leaders.lows else None)
    assert first == ["day=1", "day=2", "day=3", *[None] * 6]
    assert [leader.key for leader in Leaders.of_all(days, "INT").highs] == ["day=8", "day=7", "day=6", "day=5"]


@given(st.permutations([("a", 1), ("b", 2), ("c", 2), ("d", 2), ("e", 2), ("f", 2), ("g", 3)]))
def test_the_order_of_arrival_does_not_matter(arrived: list[tuple[str, int]]) -> None:
    """Engines bring segments in any order, of which the table's unit keeps no trace; also where bounds are equal."""
    segments = {key: known(bound, bound) for key, bound in arrived}
    leaders = Leaders.of_all(segments, "INT")
    assert leaders == Leaders.of_all(dict(sorted(segments.items())), "INT")
    assert leaders.exchange_segments({"a", "g"}, segments, "INT") == leaders.exchange_segments(
        {"a", "g"}, dict(sorted(segments.items())), "INT"
    )


def test_one_that_comes_has_no_place_below_the_last_that_is_known() -> None:
    """Others that are not known may lie between. Beside the last one it has a place, if it is as exact."""
    leaders = Leaders.of_all({key: known(number, number) for number, key in enumerate("abcdef")}, "INT")
    for low, exact, expected in ((2, True, "bcdx"), (3, True, "bcdx"), (3, False, "bcd"), (4, True, "bcd")):
        found = leaders.exchange_segments({"a"}, {"x": known(low, low, min_exact=exact)}, "INT")
        assert {leader.key for leader in found.lows} == set(expected)


def test_values_of_a_narrower_type_rank_as_those_of_the_column() -> None:
    """As the table's bound has them: a decimal beside a double is rounded outwards."""
    segments = {"a": known(Decimal("0.1"), Decimal("0.1"), "VARDECIMAL"), "b": known(0.5, 0.5, "FLOAT8", nans=0)}
    leaders = Leaders.of_all(segments, "FLOAT8")
    assert [leader.key for leader in leaders.lows] == ["a", "b"]
    assert all(isinstance(leader.bound, float) for leader in (*leaders.lows, *leaders.highs))
    assert leaders.lows[0].bound <= Decimal("0.1") <= leaders.highs[1].bound  # type: ignore[operator]
    assert not leaders.lows[0].exact


def test_moments_without_a_common_order_have_no_leaders() -> None:
    """Local ones beside such in UTC, all at once and one after the other."""
    moment = dt.datetime(2024, 1, 1)
    local = known(moment, moment, "TIMESTAMP")
    in_utc = moment.replace(tzinfo=dt.timezone.utc)
    zoned = known(in_utc, in_utc, "TIMESTAMP")
    assert Leaders.of_all({"a": local, "b": zoned}, "TIMESTAMP") == Leaders()
    assert Leaders.of_all({"a": local}, "TIMESTAMP").exchange_segments({"b"}, {"b": zoned}, "TIMESTAMP") == Leaders()


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        ("BIGINT", -(2**63), 2**63 - 1),
        ("FLOAT8", -0.5, float("inf")),
        ("VARCHAR", "", 'ä"\\'),
        ("VARBINARY", b"\x00", b"\xff"),
        ("VARDECIMAL", Decimal("-0.10"), Decimal("1E+3")),
        ("BIT", False, True),
        ("DATE", dt.date(1, 1, 1), dt.date(9999, 12, 31)),
        ("TIME", dt.time(0), dt.time(23, 59, 59, 999_999)),
        ("TIMESTAMP", dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)),
        ("TIMESTAMP", *[dt.datetime(2020, 1, 1, 0, 0, 0, 1, dt.timezone.utc)] * 2),
    ],
)
def test_leaders_are_kept_as_they_are(type_: str, low: Any, high: Any) -> None:
    """Of every type, exact or not, and with more on one side than on the other."""
    leaders = Leaders((Leader("a", low, True), Leader("b", high, False)), (Leader("b", high, True),))
    text = json.dumps({"`x`": leaders.to_json(type_), "`y`": Leaders().to_json(type_)})
    assert leaders_in(json.loads(text)) == {"`x`": leaders, "`y`": Leaders()}
