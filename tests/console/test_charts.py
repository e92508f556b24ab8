"""Drawings: numbers become marks of their size, and texts stay texts."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from xml.etree.ElementTree import Element, fromstring

from hypothesis import given
from hypothesis import strategies as st

from metastore.console import charts
from metastore.console.charts import Bar, Node

SOME = st.floats(0, 1e15)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="￾￿"))


def rects(drawn: str) -> list[Element]:
    """The rectangles of a drawing, which is well formed and has a title and a text."""
    root = fromstring(drawn)  # noqa: S314 - made here
    title, text = root[0], root[1]
    assert (title.tag, text.tag) == ("title", "desc")
    assert root.attrib["aria-labelledby"] == f"{title.attrib['id']} {text.attrib['id']}"
    assert text.text
    return list(root.iter("rect"))


@given(TEXTS, st.lists(SOME, max_size=30))
def test_bars_are_as_high_as_their_values(label: str, values: list[float]) -> None:
    """In proportion to the largest, on one ground line, side by side."""
    drawn = charts.bars(label, [Bar(label, value, label) for value in values], 100, 50)
    found = rects(str(drawn))
    most = max(values, default=0) or 1
    for place, (mark, value) in enumerate(zip(found, values, strict=True)):
        tall = float(mark.attrib["height"])
        assert math.isclose(tall, 50 * value / most, abs_tol=0.06)
        assert math.isclose(float(mark.attrib["y"]) + tall, 50, abs_tol=0.11)
        assert math.isclose(float(mark.attrib["x"]), 100 / len(values) * place, abs_tol=0.06)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=20).map(sorted))
def test_a_histogram_stays_within_its_frame(borders: list[float]) -> None:
    """Also where buckets are empty, or far apart."""
    for mark in rects(str(charts.histogram("of a column", borders, 160, 34))):
        x, y, width, height = (float(mark.attrib[name]) for name in ("x", "y", "width", "height"))
        assert -0.1 <= x <= x + width <= 161
        assert -0.1 <= y <= y + height <= 34.1


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_a_share_is_drawn_in_proportion(kept: int, skipped: int) -> None:
    """And said in numbers."""
    drawn = str(charts.share("files", kept, kept + skipped, 320))
    whole, part = (float(mark.attrib["width"]) for mark in rects(drawn))
    assert math.isclose(part, whole * kept / max(1, kept + skipped), abs_tol=0.06)
    assert f"{kept:,} of {kept + skipped:,}" in drawn


@given(TEXTS, st.lists(st.integers(0, 8), max_size=8))
def test_a_graph_joins_each_node_to_its_parent(text: str, parents: list[int]) -> None:
    """If the parent is drawn; no two nodes share a place."""
    nodes = [Node(str(each), str(parent), text) for each, parent in enumerate(parents)]
    root = fromstring(str(charts.graph("snapshots", nodes)))  # noqa: S314 - made here
    places = [(each.attrib["cx"], each.attrib["cy"]) for each in root.iter("circle")]
    assert len(set(places)) == len(nodes)
    assert len(list(root.iter("path"))) == sum(each.parent in {one.id for one in nodes} for each in nodes)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20))
def test_a_timeline_keeps_the_order_of_times(seconds: list[int]) -> None:
    """From left to right, with the newest marked."""
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    times = [start + timedelta(seconds=each) for each in sorted(seconds)]
    circles = list(fromstring(str(charts.timeline("versions", times))).iter("circle"))  # noqa: S314 - made here
    places = [float(each.attrib["cx"]) for each in circles]
    assert places == sorted(places)
    assert [each.attrib["class"] for each in circles][-1] == "current"
