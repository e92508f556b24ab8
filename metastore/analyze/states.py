"""The state of a table's files, which units keep in ``additionalMetadata`` for the next ANALYZE.

Place in the flow: a listing becomes the states of top-level segments, which their units keep. The table's unit keeps
all of these in short form, and the options that Drill's columns cannot hold. The next run compares them with its own
listing (:mod:`metastore.analyze.changes`). Units of other programs hold no state, and are read as such.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from metastore.ground.digests import digest
from metastore.lake.formats.bounds_from_data import AUTO, BoundsFrom
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.formats.text.text_options import DEFAULTS, TextOptions
from metastore.model.column_path import parse, quote
from metastore.model.identity import TableInfo
from metastore.model.partition_component import component_entry, partition_component
from metastore.model.sketches.description import Describing
from metastore.model.tuple_schema import TupleSchema

_FINGERPRINT = "metastore.fingerprint"
_DESCRIBING = "metastore.statistics"
_DECLARED = "metastore.schema"
_TEXT_OPTIONS = "metastore.text"
_TEXT_IS_OWN = "metastore.text.own"
_BOUNDS = "metastore.bounds"
_SEGMENTS = "metastore.segments"
_FORM = "3"
"""Version of the form of units. Raise it whenever units are made differently: every table is then analyzed again."""

_SHORT = len(f"{_FORM}-") + 16
"""Short states keep 64 bits of a digest, which is enough to compare one state with one other."""


@dataclass(frozen=True)
class SegmentStates:
    """The top-level segments that a table's unit was made from: their states by key (:func:`short_states`).

    ``alike`` means that every segment has the schema of all. ``leaders`` names the segments with the outermost bounds
    of each column (:meth:`metastore.analyze.units.leaders.Leaders.to_json`).
    """

    states: Mapping[str, str]
    alike: bool
    leaders: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredTableState:
    """What a table's unit keeps: its files' state, described columns, the declared schema, its segments' states.

    * ``fingerprint`` is the files' state; None if another program wrote the unit.
    * ``describing`` and ``declared`` are None if not kept.
    * ``segments`` is None if the unit cannot stand for its segments.
    * ``text`` says how delimited text is written. ``text_is_own`` means that an ANALYZE set it, not the configuration.
    * ``bounds`` says where bounds of its columns came from. ``bounds_are_own`` is the same as ``text_is_own``, for
      bounds.
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
    def of(cls, additional_metadata: str | None) -> StoredTableState:
        """Reads what :meth:`to_text` wrote; the text may hold other entries too."""
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
        """The state as a JSON object."""
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
    """The state of a top-level segment's files: a short text that changes with anything in their listing.

    Every run computes it for every segment, so it makes no call per file. Names contain no NUL and no slash.
    """
    if not files:
        return _of_form("")
    directories, names, paths, sizes, times = zip(*files, strict=True)
    return _of_form("\0".join((*map("/".join, directories), *names, *paths, repr((sizes, times)))))


def table_fingerprint(states: Mapping[str, str | None]) -> str:
    """The state of a table's files, from its segments' states by key, whole or in the form of :func:`short_states`."""
    return _of_form(repr(sorted(short_states(states).items())))


def short_states(states: Mapping[str, str | None]) -> dict[str, str]:
    """The ``states`` of segments, short enough for one unit to keep them all; an empty text for None."""
    return {key: (state or "")[:_SHORT] for key, state in states.items()}


def is_of_this_form(state: str) -> bool:
    """Whether units with ``state`` have the present form."""
    return state.startswith(f"{_FORM}-")


def stored_state(table: TableInfo, key: str, state: str) -> str:
    """The JSON object that a segment's unit keeps: its ``state``, and the component at the end of its row ids."""
    component = partition_component(table, key, state.partition("-")[2])
    return _text({_FINGERPRINT: state} | component_entry(component))


def state_in(additional_metadata: str | None) -> str | None:
    """The state that :func:`stored_state` wrote, possibly among other entries.

    Returns None if another program wrote the text.
    """
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


def _of_form(text: str) -> str:
    return f"{_FORM}-{digest(text).hex()}"


# Made once: dumps() would create an encoder for each segment's text.
_text: Final[Callable[[Mapping[str, Any]], str]] = json.JSONEncoder(separators=(",", ":")).encode
