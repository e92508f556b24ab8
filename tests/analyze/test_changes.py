"""What an ANALYZE has to do, decided from two states alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.analyze.changes import (
    Decision,
    Full,
    KnownTable,
    NothingToDo,
    SegmentsToRebuild,
    WantedMetadata,
    changed_segments,
    decide,
    file_changes,
    segments_of,
)
from metastore.analyze.states import StoredTableState, table_fingerprint
from metastore.errors import InvalidRequestError
from metastore.lake.formats.source_file import SourceFile
from metastore.model.column_path import ColumnPath
from metastore.model.sketches.description import Describing
from metastore.model.statistics_json import holder_json
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.model.vocabulary import MetadataType, Statistic

FRESH = {"1994": "a", "1995": "b"}
Columns = tuple[ColumnPath, ...] | None
X, Y = ("x",), ("y",)


def decided(known: KnownTable | None, level: MetadataType = MetadataType.FILE, columns: Columns = None) -> Decision:
    """What is to be done about :data:`FRESH` files."""
    return decide(known, FRESH, location="/t", request=WantedMetadata(level, columns))


def last_run(columns: Columns = None, location: str = "/t", **kept: Any) -> KnownTable:
    """What a run at level FILE left behind."""
    return KnownTable(
        location, MetadataType.FILE, columns, StoredTableState(**{"fingerprint": table_fingerprint(FRESH)} | kept)
    )


@pytest.mark.parametrize(
    ("known", "wanted", "same"),
    [(None, None, True), (None, (X,), True), (None, (), True), ((X, Y), (Y,), True), ((), (), True),
     ((X,), None, False), ((X,), (X, Y), False), ((), (X,), False)],
)  # fmt: skip
def test_columns_must_be_among_the_last_runs(known: Columns, wanted: Columns, same: bool) -> None:
    """All columns include any; otherwise the footers of all files are read again."""
    decision = decided(last_run(columns=known), columns=wanted)
    if same:
        assert isinstance(decision, NothingToDo)
    else:
        assert isinstance(decision, SegmentsToRebuild)
        assert (decision.footers, decision.wanted.columns) == (True, wanted)


def test_reasons_for_a_full_run_are_told() -> None:
    """No metadata, another level or another place each give their reason."""
    for known, level, told in (
        (None, MetadataType.FILE, "not analyzed before"),
        (last_run(location="/old"), MetadataType.FILE, "/old"),
        (replace(last_run(), level=MetadataType.TABLE), MetadataType.FILE, "level was TABLE"),
        (replace(last_run(), format="CSV"), MetadataType.FILE, "CSV"),
    ):
        decision = decided(known, level)
        assert isinstance(decision, Full)
        assert told in decision.reason


def test_another_declared_schema_makes_everything_anew() -> None:
    """The one that was declared before is kept where none is given."""
    one, other = (TupleSchema((SchemaColumn("a", type_),)) for type_ in ("INT", "BIGINT"))
    known = last_run(declared=one)
    assert isinstance(decided(known), NothingToDo)
    decision = decide(known, FRESH, location="/t", request=WantedMetadata(MetadataType.FILE, declared=other))
    assert isinstance(decision, Full)
    assert "declared" in decision.reason


def test_another_level_reads_only_what_it_lacks() -> None:
    """A deeper level needs footers again, one less deep needs nothing."""
    deeper, flatter = decided(last_run(), MetadataType.ROW_GROUP), decided(last_run(), MetadataType.SEGMENT)
    assert isinstance(deeper, SegmentsToRebuild)
    assert isinstance(flatter, SegmentsToRebuild)
    assert (deeper.footers, flatter.footers) == (True, False)
    assert "level was FILE" in (deeper.reason or "")


ALL, ONLY_X, ONLY_Y = Describing(), Describing((X,)), Describing((Y,))


@pytest.mark.parametrize(
    ("known", "asked", "kept"),
    [
        (None, None, None),
        (None, ONLY_X, ONLY_X),
        (ONLY_X, None, ONLY_X),
        (ONLY_X, ONLY_Y, Describing((X, Y))),
        (ONLY_X, ALL, ALL),
        (ALL, ONLY_X, ALL),
        (ALL, Describing(None, 10.0), ALL),
        (Describing((X,), 10.0), ONLY_Y, Describing((X, Y))),
        (Describing((X,), 10.0), Describing((Y,), 20.0), Describing((X, Y), 20.0)),
    ],
)
def test_statistics_are_kept_up(known: Describing | None, asked: Describing | None, kept: Describing | None) -> None:
    """No column is forgotten; what all rows told is not replaced by a sample; another sample is another figure."""
    decision = decide(
        last_run(describing=known), FRESH, location="/t", request=WantedMetadata(MetadataType.FILE, None, asked)
    )
    if known == kept:
        assert isinstance(decision, NothingToDo)
    else:
        assert isinstance(decision, SegmentsToRebuild)
        assert (decision.wanted.describing, decision.footers) == (kept, False)
        assert decision.anew is (known is not None and kept is not None and known.percent != kept.percent)


def test_all_that_was_described_stays_when_another_column_is_named() -> None:
    """The word "all" meant the columns of that run: with other columns it would forget them."""
    known = last_run((X,), describing=ALL)
    decision = decide(known, FRESH, location="/t", request=WantedMetadata(MetadataType.FILE, (Y,), ONLY_Y))
    assert isinstance(decision, SegmentsToRebuild)
    assert decision.wanted.describing == Describing((X, Y))
    assert set(decision.wanted.columns or ()) == {X, Y}
    again = decide(known, FRESH, location="/t", request=WantedMetadata(MetadataType.FILE, (X,), ONLY_X))
    assert isinstance(again, NothingToDo)


def test_other_fingerprints_mean_changes() -> None:
    """A difference in the files is a change."""
    assert isinstance(decided(last_run(fingerprint=table_fingerprint({"a": "other"}))), SegmentsToRebuild)


@pytest.mark.parametrize(
    ("fingerprint", "told"),
    [(None, "another program"), (table_fingerprint(FRESH).replace("3-", "1-", 1), "an earlier release")],
)
def test_units_of_another_make_are_made_anew(fingerprint: str | None, told: str) -> None:
    """Those of a program that keeps no fingerprints, or of a release that wrote other units, are not built upon."""
    decision = decided(last_run(fingerprint=fingerprint))
    assert isinstance(decision, Full)
    assert decision.reason == f"{told} analyzed the table"


@given(*[st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["1", "2"]))] * 2)
def test_segments_are_touched_or_removed_or_the_same(known: dict[str, str], fresh: dict[str, str]) -> None:
    """Taking away the removed ones and renewing the touched ones turns the known state into the fresh one."""
    changes = changed_segments(known, fresh)
    kept = {key: value for key, value in known.items() if key not in changes.removed | changes.touched}
    assert kept | {key: fresh[key] for key in changes.touched} == fresh
    assert (kept.keys() & changes.touched) == set()


def recorded(size: int) -> list[str]:
    """What a unit holds of a file of so many bytes; of one of 2 as another program would write it, of 3 nothing."""
    if size == 3:
        return [holder_json(Statistic.ROW_COUNT, 0)]
    holders = [holder_json(Statistic.LENGTH, size), holder_json(Statistic.MODIFICATION_TIME_NANOS, 0)]
    return [json.dumps(json.loads(holder), indent=1) for holder in holders] if size == 2 else holders


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)),
)
def test_files_are_new_changed_removed_or_the_same(known: dict[str, int], fresh: dict[str, int]) -> None:
    """Every file that differs is told in exactly one way."""
    files = [SourceFile((), path, path, size, 0) for path, size in fresh.items()]
    changes = file_changes({path: recorded(size) for path, size in known.items()}, files)
    assert changes.new == fresh.keys() - known.keys()
    assert changes.removed == known.keys() - fresh.keys()
    assert changes.changed == {path for path in fresh.keys() & known.keys() if fresh[path] != known[path]}


def test_segments_are_the_first_directories() -> None:
    """Files group by first directory, those in none under the default segment; a reserved directory is refused."""
    files = [
        SourceFile((), "a", "/a", 1, 1),
        SourceFile(("d",), "b", "/d/b", 1, 1),
        SourceFile(("d", "e"), "c", "/d/e/c", 1, 1),
    ]
    assert segments_of(files) == {"DEFAULT_SEGMENT": files[:1], "d": files[1:]}
    for reserved in ("GENERAL_INFO", "DEFAULT_SEGMENT"):
        with pytest.raises(InvalidRequestError, match=reserved):
            segments_of([*files, SourceFile((reserved,), "a", "/r/a", 1, 1)])
    assert list(segments_of([SourceFile(("d", "GENERAL_INFO"), "a", "/d", 1, 1)])) == ["d"], "only keys are reserved"
