"""What units keep for the next ANALYZE, in ``additionalMetadata``: the state that a table's files were in.

Place in the flow: a listing becomes the states of top-level segments, whose units keep them; a table's unit keeps all
of them in short, and what was wanted beyond Drill's columns. The next run compares these with its own listing
(:mod:`metastore.analyze.changes`). Units of other programs keep nothing of it, and read as that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from metastore.analyze.description import Describing
from metastore.model.column_path import parse, quote
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import TupleSchema
from metastore.pruning.partition_component import component_entry, partition_component
from metastore.sources.listing import SourceFile

_FINGERPRINT = "metastore.fingerprint"
_DESCRIBING = "metastore.statistics"
_DECLARED = "metastore.schema"
_SEGMENTS = "metastore.segments"
_STATE = (_FINGERPRINT, *component_entry(b""))
_FORM = "2"
"""Raised whenever units are made differently, so that every table is then analyzed anew."""

_SHORT = len(f"{_FORM}-") + 16
"""Of a digest 64 bits are kept, where a state is only compared with one other."""


@dataclass(frozen=True)
class SegmentStates:
    """The top-level segments that a table's unit was made from: their states by key (:func:`short_states`).

    ``alike`` tells that every one has the schema of all, ``leaders`` which of them reach furthest in each column
    (:meth:`metastore.analyze.leaders.Leaders.to_json`).
    """

    states: Mapping[str, str]
    alike: bool
    leaders: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class TableState:
    """What a table's unit keeps: its files' state, what is described, the declared schema, its segments' states.

    Each None is "not kept": the first where another program wrote the unit, the last where the unit cannot stand for
    its segments.
    """

    fingerprint: str | None
    describing: Describing | None = None
    declared: TupleSchema | None = None
    segments: SegmentStates | None = None

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
        )

    def to_text(self) -> str:
        """A JSON object."""
        entries = _entries(self.fingerprint)
        if self.describing is not None:
            columns = self.describing.columns
            entries[_DESCRIBING] = {
                "columns": None if columns is None else [quote(path) for path in columns],
                "percent": self.describing.percent,
            }
        if self.declared is not None:
            entries[_DECLARED] = self.declared.to_json()
        if self.segments is not None:
            states = dict(sorted(self.segments.states.items()))
            entries[_SEGMENTS] = {"alike": self.segments.alike, "states": states, "leaders": self.segments.leaders}
        return _text(entries)


def fingerprint_of(parts: Iterable[Iterable[object]]) -> str:
    """One text that differs whenever anything in ``parts`` does."""
    return _text({_FINGERPRINT: f"{_FORM}-{_digest(parts)}"})


def segment_state(table: TableInfo, key: str, files: Sequence[SourceFile]) -> str:
    """The fingerprint of a top-level segment's files, with the component that row ids of this state end with."""
    digest = _digest(files)
    component = partition_component(table, key, digest)
    return _text({_FINGERPRINT: f"{_FORM}-{digest}"} | component_entry(component))


def table_fingerprint(segments: Mapping[str, str]) -> str:
    """The state of a table's files, from the fingerprints of its segments by key."""
    return fingerprint_of(sorted(segments.items()))


def short_states(states: Mapping[str, str | None]) -> dict[str, str]:
    """The states of segments (:func:`segment_state`) so short that a table keeps them all; an empty text for none."""
    return {key: _entries(state).get(_FINGERPRINT, "")[:_SHORT] for key, state in states.items()}


def is_of_this_form(fingerprint: str) -> bool:
    """Whether units that keep ``fingerprint`` were made as they are made now."""
    return str(_entries(fingerprint).get(_FINGERPRINT)).startswith(f"{_FORM}-")


def state_in(additional_metadata: str | None) -> str | None:
    """The state of files (:func:`segment_state`, :func:`table_fingerprint`) that a unit keeps among other things."""
    return _state(_entries(additional_metadata))


def _state(entries: Mapping[str, Any]) -> str | None:
    found = {name: entries[name] for name in _STATE if name in entries}
    return _text(found) if found else None


def _entries(additional_metadata: str | None) -> dict[str, Any]:
    try:
        found = json.loads(additional_metadata or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _digest(parts: Iterable[Iterable[object]]) -> str:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(repr(tuple(part)).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


# Made once: there is a text for each segment, and dumps() makes an encoder for each text.
_text: Final[Callable[[Mapping[str, Any]], str]] = json.JSONEncoder(separators=(",", ":")).encode
