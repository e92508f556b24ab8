"""What units keep for the next ANALYZE, in ``additionalMetadata``: the state that a table's files were in.

Place in the flow: a listing becomes the states of top-level segments, whose units keep them; a table's unit keeps all
of them in short, and what was wanted beyond Drill's columns. The next run compares these with its own listing
(:mod:`metastore.analyze.changes`). Units of other programs keep nothing of it, and read as that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from metastore.digests import digest
from metastore.formats.bounds_from_data import AUTO, BoundsFrom
from metastore.formats.source_file import SourceFile
from metastore.formats.text_options import DEFAULTS, TextOptions
from metastore.model.column_path import parse, quote
from metastore.model.identity import TableInfo
from metastore.model.partition_component import component_entry, partition_component
from metastore.model.tuple_schema import TupleSchema
from metastore.sketches.description import Describing

_FINGERPRINT = "metastore.fingerprint"
_DESCRIBING = "metastore.statistics"
_DECLARED = "metastore.schema"
_TEXT_OPTIONS = "metastore.text"
_TEXT_IS_OWN = "metastore.text.own"
_BOUNDS = "metastore.bounds"
_SEGMENTS = "metastore.segments"
_FORM = "3"
"""Raised whenever units are made differently, so that every table is then analyzed anew."""

_SHORT = len(f"{_FORM}-") + 16
"""Of a digest 64 bits are kept, where a state is only compared with one other."""


@dataclass(frozen=True)
class SegmentStates:
    """The top-level segments that a table's unit was made from: their states by key (:func:`short_states`).

    ``alike`` tells that every one has the schema of all, ``leaders`` which of them reach furthest in each column
    (:meth:`metastore.analyze.units.leaders.Leaders.to_json`).
    """

    states: Mapping[str, str]
    alike: bool
    leaders: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class TableState:
    """What a table's unit keeps: its files' state, what is described, the declared schema, its segments' states.

    ``text`` says how its files are written if they are delimited text, ``text_is_own`` that an ANALYZE said so and
    not the configuration. ``bounds`` says where bounds of its columns came from, ``bounds_are_own`` likewise.

    Each None is "not kept": the first where another program wrote the unit, the last where the unit cannot stand for
    its segments.
    """

    fingerprint: str | None
    describing: Describing | None = None
    declared: TupleSchema | None = None
    segments: SegmentStates | None = None
    text: TextOptions = DEFAULTS
    text_is_own: bool = False
    bounds: BoundsFrom = AUTO
    bounds_are_own: bool = False

    @classmethod
    def of(cls, additional_metadata: str | None) -> TableState:
        """What :meth:`to_text` wrote, among other things perhaps."""
        entries = _entries(additional_metadata)
        describing, declared, segments = map(entries.get, (_DESCRIBING, _DECLARED, _SEGMENTS))
        if describing is not None:
            columns = describing["columns"]
            paths = None if columns is None else tuple(parse(column) for column in columns)
            describing = Describing(paths, describing["percent"])
        return cls(
            _state(entries),
            describing,
            None if declared is None else TupleSchema.from_json(declared),
            None
            if segments is None
            else SegmentStates(segments["states"], segments["alike"], segments.get("leaders", {})),
            TextOptions.from_json(entries.get(_TEXT_OPTIONS)),
            entries.get(_TEXT_IS_OWN) is True,
            *_bounds(entries.get(_BOUNDS)),
        )

    def to_text(self) -> str:
        """A JSON object."""
        entries: dict[str, Any] = {} if self.fingerprint is None else {_FINGERPRINT: self.fingerprint}
        if self.describing is not None:
            columns = self.describing.columns
            entries[_DESCRIBING] = {
                "columns": None if columns is None else [quote(path) for path in columns],
                "percent": self.describing.percent,
            }
        if self.declared is not None:
            entries[_DECLARED] = self.declared.to_json()
        if text := self.text.to_json():
            entries[_TEXT_OPTIONS] = text
        if self.text_is_own:
            entries[_TEXT_IS_OWN] = True
        if self.bounds != AUTO or self.bounds_are_own:
            entries[_BOUNDS] = {
                "source": self.bounds.source,
                "columns": [quote(path) for path in self.bounds.columns],
                "own": self.bounds_are_own,
            }
        if self.segments is not None:
            states = dict(sorted(self.segments.states.items()))
            entries[_SEGMENTS] = {"alike": self.segments.alike, "states": states, "leaders": self.segments.leaders}
        return _text(entries)


def _bounds(kept: Any) -> tuple[BoundsFrom, bool]:
    if not kept:
        return AUTO, False
    return BoundsFrom(kept["source"], tuple(parse(column) for column in kept["columns"])), kept["own"]


def segment_state(files: Sequence[SourceFile]) -> str:
    """The state of a top-level segment's files: a short text that differs whenever anything in their listing does.

    Every run asks for that of every segment, so it costs no call for each file. Names hold no NUL, and no slash.
    """
    if not files:
        return _of_form("")
    directories, names, paths, sizes, times = zip(*files, strict=True)
    return _of_form("\0".join((*map("/".join, directories), *names, *paths, repr((sizes, times)))))


def table_fingerprint(states: Mapping[str, str]) -> str:
    """The state of a table's files, from the states of its segments by key."""
    return _of_form(repr(sorted(states.items())))


def short_states(states: Mapping[str, str | None]) -> dict[str, str]:
    """The ``states`` of segments so short that a table keeps them all; an empty text for none."""
    return {key: (state or "")[:_SHORT] for key, state in states.items()}


def is_of_this_form(state: str) -> bool:
    """Whether units that keep ``state`` were made as they are made now."""
    return state.startswith(f"{_FORM}-")


def stored_state(table: TableInfo, key: str, state: str) -> str:
    """What a segment's unit keeps of its ``state``: a JSON object, with the component that row ids of it end with."""
    component = partition_component(table, key, state.partition("-")[2])
    return _text({_FINGERPRINT: state} | component_entry(component))


def state_in(additional_metadata: str | None) -> str | None:
    """The state that :func:`stored_state` wrote, among other things perhaps; None where another program did."""
    return _state(_entries(additional_metadata))


def _state(entries: Mapping[str, Any]) -> str | None:
    found = entries.get(_FINGERPRINT)
    return found if isinstance(found, str) else None


def _entries(additional_metadata: str | None) -> dict[str, Any]:
    try:
        found = json.loads(additional_metadata or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _of_form(told: str) -> str:
    return f"{_FORM}-{digest(told).hex()}"


# Made once: there is a text for each segment, and dumps() makes an encoder for each text.
_text: Final[Callable[[Mapping[str, Any]], str]] = json.JSONEncoder(separators=(",", ":")).encode
