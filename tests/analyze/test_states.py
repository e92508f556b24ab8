"""The states of files that units keep: each tells one state from all others, and comes back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from metastore.analyze.states import (
    SegmentStates,
    StoredTableState,
    segment_state,
    short_states,
    state_in,
    stored_state,
    table_fingerprint,
)
from metastore.lake.formats.source_file import SourceFile
from metastore.model.identity import TableInfo
from metastore.model.partition_component import component_in, segment_prefix, table_prefix
from metastore.model.sketches.description import Describing
from metastore.model.statistics import ColumnStatistics
from metastore.model.tuple_schema import SchemaColumn, TupleSchema

TABLE = TableInfo("dfs", "tmp", "t")
FRESH = {key: segment_state([SourceFile((key,), "a", f"/t/{key}/a", 1, 2)]) for key in ("1994", "1995")}
DECLARED = TupleSchema((SchemaColumn("a", "INT"),))
LEADERS = {"`a`": {"low": ["1994"], "high": ["1995"], "bounds": [ColumnStatistics("INT", 1, 2).to_json()]}}
SEGMENTS = SegmentStates(short_states(FRESH), alike=False, leaders=LEADERS)


@pytest.mark.parametrize(
    "state",
    [
        StoredTableState(table_fingerprint(FRESH)),
        StoredTableState(table_fingerprint(FRESH), Describing((("s", "x.y"),), 12.5), DECLARED, SEGMENTS),
        StoredTableState(table_fingerprint(FRESH), Describing(), None, SegmentStates({}, alike=True)),
    ],
)
def test_a_tables_state_is_remembered(state: StoredTableState) -> None:
    """All that general information keeps, whatever of it there is."""
    assert StoredTableState.of(state.to_text()) == state
    assert state_in(state.to_text()) == state.fingerprint


def test_a_release_before_kept_no_leaders() -> None:
    """Its states of segments are read, and nobody leads."""
    state = StoredTableState(table_fingerprint(FRESH), None, None, SEGMENTS)
    entries = json.loads(state.to_text())
    del entries["metastore.segments"]["leaders"]
    assert StoredTableState.of(json.dumps(entries)).segments == SegmentStates(SEGMENTS.states, alike=False)


def test_units_of_other_programs_keep_no_state() -> None:
    """Whatever stands in their additionalMetadata."""
    for foreign in (None, "text", "[]", "{}"):
        assert StoredTableState.of(foreign) == StoredTableState(None)
        assert state_in(foreign) is None


def test_short_states_differ_as_the_long_ones_do() -> None:
    """A segment without a state is told from each."""
    changed = segment_state([SourceFile(("1994",), "a", "/t/1994/a", 1, 3)])
    short = short_states({**FRESH, "changed": changed, "none": None})
    assert len(set(short.values())) == len(short)
    assert {key: state_in(stored_state(TABLE, key, state)) for key, state in FRESH.items()} == FRESH
    assert max(map(len, short.values())) == 18


def test_states_see_every_difference() -> None:
    """Name, place, size and time all count, which file has them, and where one ends and the next begins."""
    file, second = SourceFile(("d",), "a", "/t/d/a", 1, 2), SourceFile(("d", "e"), "b", "/t/d/e/b", 3, 4)
    changes: list[dict[str, Any]] = [
        {"name": "b"},
        {"directories": ("e",)},
        {"directories": ("d", "a")},
        {"path": "/u/d/a"},
        {"size": 2},
        {"mtime_ns": 3},
        {"size": 2, "mtime_ns": 1},
        {"size": 12, "mtime_ns": 0},
    ]
    several = [
        [file],
        [file, file],
        [],
        [file, second],
        [second, file],
        [file._replace(mtime_ns=4), second._replace(mtime_ns=2)],
        [file._replace(directories=("d", "e")), second._replace(directories=("d",))],
        *([file._replace(**change)] for change in changes),
    ]
    states = [segment_state(files) for files in several]
    assert len(set(states)) == len(states)
    assert segment_state((file,)) == states[0]


def test_a_state_that_is_no_text_is_none() -> None:
    """Whoever wrote it."""
    assert state_in('{"metastore.fingerprint": 2}') is None
    assert StoredTableState.of('{"metastore.fingerprint": 2}') == StoredTableState(None)


def test_states_are_stored_with_a_component_of_their_own() -> None:
    """Other files, another segment or another table make another component; the same ones make the same, always."""
    table, other = TableInfo("dfs", "tmp", "t"), TableInfo("dfs", "tmp", "u")
    file = SourceFile(("d",), "a", "/t/d/a", 1, 2)
    state = segment_state([file])
    states = [
        stored_state(table, "d", state),
        stored_state(table, "d", segment_state([file._replace(mtime_ns=3)])),
        stored_state(table, "e", state),
        stored_state(other, "d", state),
    ]
    components = [component_in(state) for state in states]
    assert len(set(components)) == len(components)
    assert None not in components
    assert component_in(stored_state(table, "d", state)) == components[0]
    starts = [component is not None and component.startswith(segment_prefix(table, "d")) for component in components]
    assert starts == [True, True, False, False]
    assert components[2] is not None
    assert components[2].startswith(table_prefix(table))


def test_units_of_other_programs_have_no_component() -> None:
    """Whatever else stands in additionalMetadata is no component."""
    foreign = (None, "", "text", "1", "[]", "{}", '{"metastore.partition":"zz"}', '{"metastore.partition":"01"}')
    assert [component_in(text) for text in foreign] == [None] * len(foreign)
