"""Pruning over units that are read level by level: the same decisions as in memory, and only what they need is read."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.reading import settings_reading

from metastore import connect
from metastore.components.requests import of_table
from metastore.components.storage.file_groups import FileGroup
from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.model.bounds.embedded_columns import EmbeddedBatches
from metastore.model.bounds.portion_columns import PortionColumns
from metastore.model.bounds.units import FILE_COLUMNS, LOWER_COLUMNS
from metastore.model.vocabulary import MetadataType
from metastore.scan.pruning.listed_files import ListedFiles
from metastore.scan.pruning.prune import UNIT_COLUMNS, prune
from metastore.scan.pruning.stored_units import StoredUnits
from metastore.scan.pruning.table_units import TableUnits
from metastore.session import Session

TABLE = "dfs.shop.sales"
SEGMENTS, FILES = 40, 2
QUESTIONS = (
    "n >= 0",
    "n = 2313",
    "n < 3 or n > 3900",
    "n in (5, 215, 3911)",
    "part = 17",
    "part between 3 and 5 and n > 412",
    "dir0 = 'part=8'",
    "n is null",
    "n = 99999",
)


@pytest.fixture(scope="module", params=["ours", "theirs"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A table of forty segments with two files of two row groups each; ids of segment 23 are 2300 to 2319.

    Its units are columns in their data files, or JSON alone, as other programs write them.
    """
    folder = tmp_path_factory.mktemp("stored_units")
    for segment in range(SEGMENTS):
        place = folder / "sales" / f"part={segment}"
        place.mkdir(parents=True)
        for file in range(FILES):
            first = segment * 100 + file * 10
            pq.write_table(pa.table({"n": range(first, first + 10)}), place / f"{file}.parquet", row_group_size=5)
    settings = {
        "iceberg.location.base_path": str(folder / "metastore"),
        # A few files are many already: nothing is kept decoded, and a group is two segments.
        "iceberg.read.small_files": 0,
        "iceberg.read.part_rows": 16,
        "storage.dfs.workspaces.shop.location": str(folder),
    }
    session = connect(Settings.from_mapping({f"drill.metastore.{key}": value for key, value in settings.items()}))
    session.analyze(TABLE)
    if request.param == "theirs":
        units = session.tables.read().metadata_types(MetadataType.ALL).to_arrow()
        catalog = FileSystemCatalog("other", str(folder / "metastore" / "drill/metastore/iceberg"))
        catalog.load_table("tables").overwrite(units)
    return session


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[FileGroup]:
    """The groups of data files that were read, in their order, as rows or as columns."""
    found: list[FileGroup] = []
    batches, embedded = FileGroup.batches, FileGroup.add_embedded

    def noted(self: FileGroup) -> Iterator[pa.RecordBatch]:
        found.append(self)
        return batches(self)

    def noted_columns(self: FileGroup, batches: EmbeddedBatches) -> list[bool]:
        has_all = embedded(self, batches)
        if any(has_all):
            found.append(replace(self.only(has_all), columns=LOWER_COLUMNS if batches.asked else FILE_COLUMNS))
        return has_all

    monkeypatch.setattr(FileGroup, "batches", noted)
    monkeypatch.setattr(FileGroup, "add_embedded", noted_columns)
    return found


def stored(session: Session) -> StoredUnits:
    """The units of the table in the newest version."""
    return StoredUnits(session.tables, session.table_info(TABLE), session.tables.metadata.version)


def in_memory(session: Session) -> pa.Table:
    """All units of the table."""
    read = session.tables.read().metadata_types(MetadataType.ALL).filter(of_table(session.table_info(TABLE)))
    return read.columns(*UNIT_COLUMNS).to_arrow()


def forgetful(session: Session, **limits: int) -> Session:
    """Another session over the same metastore, which keeps nothing that it has read, and reads within ``limits``."""
    return connect(settings_reading(session.settings, cache_bytes=0, **limits))


def listed(session: Session) -> ListedFiles:
    """The files that exist; one has changed, one is gone and one is new in the eyes of the metastore."""
    files: dict[str, tuple[int, int]] = {file.path: file.fingerprint for file in session.source(TABLE).files()}
    changed, gone, *_ = sorted(files)
    size, time = files[changed]
    new = str(Path(gone).parent / "new.parquet")
    left = {path: now for path, now in files.items() if path != gone}
    return ListedFiles.of({**left, changed: (size, time + 1), new: (7, 7)})


@pytest.mark.exhaustive
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "limits",
    [{}, {"segment_rows": 14}, {"segment_rows": 1}, {"segment_size": 1}],
    ids=["portions", "some in batches", "all in batches", "all in batches by size"],
)
def test_level_by_level_decides_as_in_memory(site: Session, question: str, limits: dict[str, int]) -> None:
    """Every list and every count, with a listing that differs and without one."""
    for listing in (None, listed(site)):
        with forgetful(site, **limits) as session:
            one = prune(question, stored(session), listing=listing)
        other = prune(question, in_memory(site), listing=listing)
        assert sorted(one.files, key=lambda file: file.path) == sorted(other.files, key=lambda file: file.path)
        assert {(f.path, f.reason) for f in one.skipped_files} == {(f.path, f.reason) for f in other.skipped_files}
        assert {(s.identifier, s.reason) for s in one.segments} == {(s.identifier, s.reason) for s in other.segments}
        for name in ("files_count", "row_groups_count", "bytes_count", "skipped_by", "changed", "missing", "unknown"):
            assert getattr(one, name) == getattr(other, name), name


def test_of_excluded_segments_no_statistics_of_files_are_read(site: Session, reads: list[FileGroup]) -> None:
    """One segment is left: its file of the metastore is all that is read with statistics."""
    with forgetful(site) as session:
        kept = prune("n = 2313", stored(session))
    assert [Path(path).name for path in kept.paths] == ["1.parquet"]
    assert kept.files_count.total == SEGMENTS * FILES
    with_statistics = [group for group in reads if "columnsStatistics" in group.columns]
    assert sum(len(group.files.paths) for group in with_statistics) == 1
    reads.clear()
    with forgetful(site) as session:
        prune("n = 2313", stored(session), listing=listed(site))
    assert sum(len(group.files.paths) for group in reads if "columnsStatistics" in group.columns) == 1


def test_what_was_decoded_answers_later_questions(site: Session, reads: list[FileGroup]) -> None:
    """A segment's file of the metastore is read with statistics when a question first needs them, and not again."""
    with connect(site.settings) as session:
        prune("n = 2313", stored(session))
        prune("n >= 0", stored(session))
        reads.clear()
        for question in ("n >= 7", "n = 2313", "n in (5, 3911)"):
            one = prune(question, stored(session))
            other = prune(question, in_memory(site))
            assert sorted(one.paths) == sorted(other.paths)
            assert one.files_count == other.files_count
            assert one.skipped_by == other.skipped_by
        assert not reads


def test_a_session_opens_each_data_file_of_a_small_table_once(site: Session, reads: list[FileGroup]) -> None:
    """For the first question; what was read then answers the next ones."""
    with connect(site.settings) as session:
        assert len(session.prune(TABLE, "n = 2313").files) == 1
        assert sum(len(group.files.paths) for group in reads) == SEGMENTS + 1
        reads.clear()
        assert len(session.prune(TABLE, "part = 3").files) == FILES
        assert not reads


def test_what_is_large_is_read_level_by_level(site: Session, reads: list[FileGroup]) -> None:
    """Statistics of files that nobody needs would take more time and memory than to open files again."""
    groups = site.tables.read().metadata_types(MetadataType.ALL).parts().groups
    with forgetful(site, memory_size=sum(group.files.size_bytes for group in groups) - 1) as session:
        assert len(session.prune(TABLE, "n = 1712").files) == 1
    assert sum(len(group.files.paths) for group in reads if "columnsStatistics" in group.columns) == 1


def test_a_portion_is_read_when_it_is_asked_for(site: Session, reads: list[FileGroup]) -> None:
    """Two segments at a time."""
    portions = stored(site).lower(frozenset())
    for number in range(4):
        assert len(reads) == max(0, number - 1)
        next(portions)
    assert [len(group.files.paths) for group in reads] == [2, 2, 2]


@pytest.mark.parametrize("question", ["n >= 0", "n = 2313"])
def test_one_portion_is_held_at_a_time(site: Session, question: str) -> None:
    """Before the next one is read, the one before last is gone."""
    watched: list[int] = []

    class Watched(StoredUnits):
        def portions(self, without: frozenset[str], asked: Collection[str]) -> Iterator[PortionColumns]:
            return self._watched(super().portions(without, asked))

        @staticmethod
        def _watched(portions: Iterator[PortionColumns]) -> Iterator[PortionColumns]:
            held: list[weakref.ref[PortionColumns]] = []
            for portion in portions:
                assert sum(one() is not None for one in held) <= 1
                held.append(weakref.ref(portion))
                yield portion
                del portion
            watched.append(len(held))

    with forgetful(site) as session:
        units = stored(session)
        result = prune(question, Watched(units.tables, units.table, units.version))
    assert result.files_count.total == SEGMENTS * FILES
    assert sum(watched) >= SEGMENTS // 2


def test_a_file_in_a_folder_that_no_segment_names_is_kept(site: Session) -> None:
    """Its folder makes text of the column, and where engines bring text and a number together differently, it stays."""
    units = in_memory(site)
    at = units.schema.get_field_index("metadataIdentifier")
    names = [str(name).replace("part=17/", "part=x/") for name in units["metadataIdentifier"].to_pylist()]
    astray = TableUnits(units.set_column(at, "metadataIdentifier", pa.array(names)))
    assert len(prune("part = 3", astray).files) == 2 * FILES
    assert len(prune("part = 3 and n < 1000", astray).files) == FILES


def without_segment(units: pa.Table, name: str) -> pa.Table:
    """All units but the SEGMENT unit ``name``, as a writer may leave it out."""
    kinds, names = units["metadataType"].to_pylist(), units["metadataIdentifier"].to_pylist()
    return units.filter(pa.array([(kind, here) != ("SEGMENT", name) for kind, here in zip(kinds, names, strict=True)]))


def test_types_of_directories_are_those_of_all_files_where_a_segment_is_left_out(site: Session) -> None:
    """One folder of text makes text of all: ``'3' > '20'``, as every engine that infers types from the files says."""
    units = in_memory(site)
    for column in ("metadataIdentifier", "path", "location"):
        values = [value and value.replace("part=17", "part=x") for value in units[column].to_pylist()]
        units = units.set_column(units.schema.get_field_index(column), column, pa.array(values, pa.string()))
    for question in ("part > '20'", "part = '03'", "part < 5", "dir0 > 'part=5'"):
        complete = prune(question, units)
        lacking = prune(question, without_segment(units, "part=x"))
        assert sorted(lacking.paths) == sorted(complete.paths), question
    lacking = prune("part > '20'", without_segment(units, "part=x"))
    assert len([path for path in lacking.paths if "part=3/" in path]) == FILES


def test_a_column_of_directories_that_no_segment_names_can_be_asked_for(site: Session) -> None:
    """A writer need not write segments; what is no column of any folder is an error as ever."""
    units = in_memory(site)
    bare = units.filter(pa.array([kind != "SEGMENT" for kind in units["metadataType"].to_pylist()]))
    assert len(prune("dir0 = 'part=8'", bare).files) == FILES
    with pytest.raises(InvalidRequestError, match="dir1"):
        prune("dir1 = 'x'", bare)
