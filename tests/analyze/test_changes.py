"""What an ANALYZE has to do, decided from two states alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.analyze.changes import (
    Changed,
    Decision,
    Full,
    Known,
    Unchanged,
    changed_segments,
    decide,
    file_changes,
    fingerprint_of,
    segments_of,
    table_fingerprint,
)
from metastore.errors import InvalidRequestError
from metastore.model.column_path import ColumnPath
from metastore.model.vocabulary import MetadataType
from metastore.sources.listing import Fingerprint, SourceFile

FRESH = {"1994": "a", "1995": "b"}
Columns = tuple[ColumnPath, ...] | None
X, Y = ("x",), ("y",)


def decided(known: Known | None, level: MetadataType = MetadataType.FILE, columns: Columns = None) -> Decision:
    """What is to be done about :data:`FRESH` files."""
    return decide(known, FRESH, location="/t", level=level, columns=columns)


def last_run(fingerprint: str | None = None, columns: Columns = None, location: str = "/t") -> Known:
    """What a run at level FILE left behind."""
    return Known(location, MetadataType.FILE, columns, fingerprint or table_fingerprint(FRESH))


@pytest.mark.parametrize(
    ("known", "wanted", "same"),
    [(None, None, True), (None, (X,), True), (None, (), True), ((X, Y), (Y,), True), ((), (), True),
     ((X,), None, False), ((X,), (X, Y), False), ((), (X,), False)],
)  # fmt: skip
def test_columns_must_be_among_the_last_runs(known: Columns, wanted: Columns, same: bool) -> None:
    """All columns include any; otherwise a column more needs a full run."""
    decision = decided(last_run(columns=known), columns=wanted)
    assert isinstance(decision, Unchanged if same else Full)


def test_reasons_for_a_full_run_are_told() -> None:
    """No metadata, another level or another place each give their reason."""
    for known, level, told in (
        (None, MetadataType.FILE, "not analyzed before"),
        (last_run(), MetadataType.ROW_GROUP, "level was FILE"),
        (last_run(location="/old"), MetadataType.FILE, "/old"),
    ):
        decision = decided(known, level)
        assert isinstance(decision, Full)
        assert told in decision.reason


def test_other_fingerprints_mean_changes() -> None:
    """A difference in the files, or metadata of a program that keeps no fingerprints, is a change."""
    assert isinstance(decided(last_run("other")), Changed)
    assert isinstance(decided(Known("/t", MetadataType.FILE, None, None)), Changed)


@given(*[st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["1", "2"]))] * 2)
def test_segments_are_touched_or_removed_or_the_same(known: dict[str, str], fresh: dict[str, str]) -> None:
    """Taking away the removed ones and renewing the touched ones turns the known state into the fresh one."""
    changes = changed_segments(known, fresh)
    kept = {key: value for key, value in known.items() if key not in changes.removed | changes.touched}
    assert kept | {key: fresh[key] for key in changes.touched} == fresh
    assert (kept.keys() & changes.touched) == set()


@given(*[st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2))] * 2)
def test_files_are_new_changed_removed_or_the_same(known: dict[str, int], fresh: dict[str, int]) -> None:
    """Every file that differs is told in exactly one way."""
    files = [SourceFile((), path, path, size, 0) for path, size in fresh.items()]
    changes = file_changes({path: Fingerprint(size, 0) for path, size in known.items()}, files)
    assert changes.new == fresh.keys() - known.keys()
    assert changes.removed == known.keys() - fresh.keys()
    assert changes.changed == {path for path in fresh.keys() & known.keys() if fresh[path] != known[path]}


def test_fingerprints_see_every_difference() -> None:
    """Name, place, size and time all count, and so does where one file ends and the next begins."""
    file = SourceFile(("d",), "a", "/t/d/a", 1, 2)
    others = [
        file._replace(**change) for change in ({"name": "b"}, {"directories": ("e",)}, {"size": 2}, {"mtime_ns": 3})
    ]
    prints = [fingerprint_of(files) for files in ([file], [file, file], [], *([other] for other in others))]
    assert len(set(prints)) == len(prints)
    assert fingerprint_of([file]) == prints[0]


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
