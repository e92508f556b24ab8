"""Drawings as SVG: numbers to markup. Pure. Each drawing has a title and a text that says the same to a screen reader.

Colours are classes of the stylesheet, so that a drawing follows the scheme of the page. Every text is escaped.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zlib import crc32

from markupsafe import Markup, escape

_BAR: Final = 14
_LANE: Final = 22
_STEP: Final = 30
_LABEL: Final = 36
_CHARACTER: Final = 7.4
"""Width of a character beside a node."""


@dataclass(frozen=True)
class Bar:
    """One bar: its name, its value (0 or more), and the value as people read it."""

    label: str
    value: float
    shown: str


@dataclass(frozen=True)
class Node:
    """One snapshot of a graph: its id, its parent's id, a text beside it, and whether it is the current one."""

    id: str
    parent: str | None
    text: str
    is_current: bool = False


def bars(title: str, values: Sequence[Bar], width: int = 640, height: int = 120) -> Markup:
    """Returns columns of equal width, as high as their share of the largest value; the first and last have labels."""
    most = max((each.value for each in values), default=0) or 1
    step = width / max(1, len(values))
    drawn = Markup().join(
        _column(place * step, max(step - 1, 0.5), height * each.value / most, height, each.shown, each.label)
        for place, each in enumerate(values)
    )
    largest = max(values, key=lambda each: each.value, default=Bar("", 0, ""))
    for each, at, anchor in ((values[:1], 0, "start"), (values[1:][-1:], width, "end")):
        label = "".join(one.label[:_LABEL] for one in each)
        drawn += Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(at, height + 14, anchor, label)
    text = f"{len(values):,} bars; the highest is {largest.label} with {largest.shown}"
    return _svg(title, text, width, height + 18, drawn)


def histogram(title: str, borders: Sequence[float], width: int = 160, height: int = 34) -> Markup:
    """Returns buckets with equal numbers of rows: the narrower a bucket, the higher it is drawn."""
    halves = [each / 2 for each in borders]  # A difference of two numbers may be larger than every number.
    span = (halves[-1] - halves[0]) or 1.0
    parts = [
        (place, wide) for place, (start, end) in enumerate(itertools.pairwise(halves)) if (wide := end - start) > 0
    ]
    least = min((wide for _, wide in parts), default=1.0)
    drawn = Markup().join(
        _column(
            width * ((halves[place] - halves[0]) / span),
            max(width * (wide / span) - 0.5, 0.5),
            max(1.0, height * (least / wide)),
            height,
            f"{borders[place]:g} to {borders[place + 1]:g}",
        )
        for place, wide in parts
    )
    low, high = borders[0], borders[-1]
    text = f"{len(parts)} buckets with equal numbers of rows, from {low:g} to {high:g}"
    return _svg(title, text, width, height, drawn)


def share(title: str, kept: int, total: int, width: int = 320) -> Markup:
    """Returns a strip: the part that is read before the part that is skipped."""
    part = width * kept / total if total else 0
    drawn = _rect(0, 0, width, _BAR, "skipped") + _rect(0, 0, part, _BAR, "kept")
    text = f"{kept:,} of {total:,} are read, {100 * (total - kept) / total if total else 0:.1f}% are skipped"
    return _svg(title, text, width, _BAR, drawn)


def score(title: str, value: int, width: int = 200) -> Markup:
    """Returns a strip for a score from 0 to 100."""
    drawn = _rect(0, 0, width, _BAR, "skipped") + _rect(0, 0, width * value / 100, _BAR, "kept")
    return _svg(title, f"{value} of 100", width, _BAR, drawn)


def timeline(title: str, times: Sequence[datetime], width: int = 640) -> Markup:
    """Returns a line with a mark for each time; the newest is marked as such."""
    first, last = min(times), max(times)
    span = (last - first).total_seconds() or 1.0
    drawn = Markup('<line class="axis" x1="0" y1="14" x2="{0}" y2="14"/>').format(width)
    for each in times:
        at = 6 + (width - 12) * (each - first).total_seconds() / span
        drawn += Markup('<circle class="{}" cx="{:.1f}" cy="14" r="5"><title>{}</title></circle>').format(
            "current" if each == last else "mark", at, f"{each:%Y-%m-%d %H:%M:%S}"
        )
    text = f"{len(times)} versions from {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"
    return _svg(title, text, width, 28, drawn)


def graph(title: str, nodes: Sequence[Node], width: int = 640) -> Markup:
    """Returns snapshots from the newest down, each joined to its parent; branches are drawn side by side."""
    lanes = _lanes(nodes)
    places = {each.id: (12 + lanes[each.id] * _LANE, 15 + row * _STEP) for row, each in enumerate(nodes)}
    beside = 12 + (max(lanes.values(), default=0) + 1) * _LANE
    drawn = Markup()
    for each in nodes:
        if each.parent in places:
            (x1, y1), (x2, y2) = places[each.id], places[each.parent]
            drawn += Markup('<path class="edge" d="M{} {} C{} {} {} {} {} {}"/>').format(
                x1, y1, x1, y1 + _STEP / 2, x2, y2 - _STEP / 2, x2, y2
            )
    for each in nodes:
        x, y = places[each.id]
        kind = "current" if each.is_current else "mark"
        drawn += Markup('<circle class="{}" cx="{}" cy="{}" r="6"/><text x="{}" y="{}">{}</text>').format(
            kind, x, y, beside, y + 4, each.text
        )
    width = max(width, int(beside + _CHARACTER * max((len(each.text) for each in nodes), default=0)))
    text = "; ".join(f"{each.text}, after {each.parent or 'nothing'}" for each in nodes)
    return _svg(title, text, width, _STEP * len(nodes), drawn)


def _lanes(nodes: Sequence[Node]) -> Mapping[str, int]:
    """Returns the lane of each node: that of its first child, else a new one."""
    lanes: dict[str, int] = {}
    claimed: dict[str, int] = {}
    for each in nodes:
        lane = claimed.get(each.id)
        if lane is None:
            lane = max(lanes.values(), default=-1) + 1
        lanes[each.id] = lane
        if each.parent is not None:
            claimed.setdefault(each.parent, lane)
    return lanes


def _column(x: float, width: float, tall: float, height: float, shown: str, label: str = "") -> Markup:
    return _rect(x, height - tall, width, tall, "bar", shown, label)


def _rect(x: float, y: float, width: float, height: float, kind: str, shown: str = "", label: str = "") -> Markup:
    said = Markup("<title>{}</title>").format(f"{label}: {shown}" if label else shown) if shown else Markup()
    return Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{}</rect>').format(
        kind, x, y, width, height, said
    )


def _svg(title: str, text: str, width: float, height: float, drawn: Markup) -> Markup:
    number = crc32(f"{title} {text}".encode("utf-8", "replace"))
    return Markup(
        '<svg role="img" aria-labelledby="t{0} d{0}" viewBox="0 0 {1} {2}" width="{1}" height="{2}">'
        '<title id="t{0}">{3}</title><desc id="d{0}">{4}</desc>{5}</svg>'
    ).format(number, width, height, escape(title), escape(text), drawn)
