"""Marking, on small tables made for it: exactly what expired versions alone reach; nothing when that is unproven."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile
from pyiceberg.typedef import Record

from metastore.components.expiration.reachability import ComponentLister
from metastore.errors import FormatError
from metastore.lake.iceberg.catalogs.open_tables import FileCache
from metastore.lake.iceberg.manifests.manifest_writer import write_manifest_file
from metastore.lake.iceberg.manifests.manifests import Manifests, write_list
from metastore.lake.iceberg.snapshots.sweep import FileKind, Mark, TableFile, mark, statistics_files
from metastore.lake.stores.local import LocalFileIO
from metastore.lake.stores.new_files import NewFiles
from metastore.model.mapping.schema import iceberg_schema, partition_spec
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO


@dataclass(frozen=True)
class Doomed:
    """Files by kind, in the order in which they go."""

    data_files: Sequence[str] = ()
    manifests: Sequence[str] = ()
    manifest_lists: Sequence[str] = ()
    statistics: Sequence[str] = ()

    @classmethod
    def of(cls, files: Sequence[TableFile]) -> Doomed:
        """What was marked."""
        kinds = (FileKind.DATA, FileKind.MANIFEST, FileKind.MANIFEST_LIST, FileKind.STATISTICS)
        return cls(*([file.location for file in files if file.kind is kind] for kind in kinds))


SCHEMA = iceberg_schema(TableMetadataUnit)
SPEC = partition_spec(TableMetadataUnit)


def entry(path: str) -> ManifestEntry:
    """A live entry for data file ``path``, whose first letter is the table that it is of."""
    data_file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record("dfs", "tmp", path[0], GENERAL_INFO),
        record_count=1,
        file_size_in_bytes=1,
    )
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=1,
        sequence_number=1,
        file_sequence_number=1,
        data_file=data_file,
    )


class History:
    """Versions made by hand in a folder: ``manifests`` by name, each of some data files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.io = LocalFileIO({})
        self.manifests: dict[str, ManifestFile] = {}
        self.snapshots: list[Snapshot] = []

    def path(self, name: str) -> str:
        """Where the manifest or list called ``name`` lies."""
        return str(self.folder / name)

    def lose(self, *names: str) -> None:
        """Remove files from the disk."""
        for name in names:
            (self.folder / name).unlink()

    def version(self, manifests: Mapping[str, Sequence[str]]) -> Snapshot:
        """A further version: manifests with their data files; one that an earlier version has is shared with it."""
        number = len(self.snapshots) + 1
        for name in manifests.keys() - self.manifests.keys():
            entries = [entry(path) for path in manifests[name]]
            written = write_manifest_file(NewFiles(self.io), self.path(name), 2, SPEC, SCHEMA, number, entries)
            self.manifests[name] = written
        snapshot = Snapshot(
            snapshot_id=number,
            sequence_number=number,
            timestamp_ms=number,
            manifest_list=self.path(f"list{number}"),
            summary=Summary(Operation.OVERWRITE),
        )
        write_list(NewFiles(self.io), snapshot, 2, [self.manifests[name] for name in manifests])
        for listed in self.read().all_of(snapshot):
            self.manifests[Path(listed.manifest_path).name] = listed
        self.snapshots.append(snapshot)
        return snapshot

    def read(self, cache: FileCache | None = None) -> Manifests:
        """Manifests as a process reads them that has just started."""
        return Manifests(self.io, cache or FileCache(0))

    def metadata(self, kept: Iterable[Snapshot]) -> TableMetadata:
        """The table with these versions alone."""
        empty = new_table_metadata(SCHEMA, SPEC, UNSORTED_SORT_ORDER, str(self.folder))
        return empty.model_copy(update={"snapshots": list(kept)})

    def doomed(self, *expired: Snapshot, cache: FileCache | None = None) -> Doomed:
        """What goes with the ``expired`` versions, by the names of files."""
        kept = self.metadata(snapshot for snapshot in self.snapshots if snapshot not in expired)
        found = Doomed.of(mark(Mark(expired, {}, kept), ComponentLister(self.read(cache))))
        manifests, lists = [[Path(path).name for path in paths] for paths in (found.manifests, found.manifest_lists)]
        return Doomed(found.data_files, manifests, lists, [])


@pytest.fixture
def history(tmp_path: Path) -> History:
    """No version yet."""
    return History(tmp_path)


_MANIFESTS = st.lists(st.sets(st.sampled_from(["a1", "a2", "b1", "c1", "d1"]), min_size=1), min_size=1, max_size=4)


@settings(max_examples=30)
@given(files=_MANIFESTS, data=st.data())
def test_what_goes_is_what_sets_say(
    tmp_path_factory: pytest.TempPathFactory, files: list[set[str]], data: st.DataObject
) -> None:
    """Any manifests, shared by versions in any way: what expired ones reach, less what kept ones do, each file once."""
    history = History(tmp_path_factory.mktemp("history"))
    by_name = {f"m{number}": sorted(paths) for number, paths in enumerate(files)}
    choices = data.draw(st.lists(st.sets(st.sampled_from(sorted(by_name))), min_size=1, max_size=4))
    versions = {history.version({name: by_name[name] for name in choice}): choice for choice in map(frozenset, choices)}
    expired = data.draw(st.sets(st.sampled_from(list(versions))))

    def reached(snapshots: Iterable[Snapshot]) -> tuple[set[str], set[str]]:
        names = {name for snapshot in snapshots for name in versions[snapshot]}
        return {path for name in names for path in by_name[name]}, names

    data_files, manifests = (
        ours - theirs for ours, theirs in zip(reached(expired), reached(versions.keys() - expired), strict=True)
    )
    found = history.doomed(*expired)
    assert (sorted(found.data_files), sorted(found.manifests)) == (sorted(data_files), sorted(manifests))
    assert sorted(found.manifest_lists) == sorted(f"list{snapshot.snapshot_id}" for snapshot in expired)


class TestShared:
    def test_manifests_and_data_files_that_a_kept_version_reaches_stay(self, history: History) -> None:
        """A manifest that both list, and a file whose entry was carried over into a new one."""
        old = history.version({"m1": ["a1", "b1"], "m2": ["c1"]})
        history.version({"m3": ["a2", "b1"], "m2": ["c1"]})
        assert history.doomed(old) == Doomed(["a1"], ["m1"], ["list1"], [])

    def test_a_file_that_came_back_stays(self, history: History) -> None:
        """Rolled back to: the newest version holds what a version between did not."""
        history.version({"m1": ["a1"]})
        between = history.version({"m2": ["a2"]})
        history.version({"m3": ["a1"]})
        assert history.doomed(between) == Doomed(["a2"], ["m2"], ["list2"], [])

    def test_only_what_could_share_a_file_is_opened(self, history: History) -> None:
        """Kept manifests of other tables are not decoded: the lists, the doomed manifest, and one that overlaps it."""
        others = {f"other{n}": [f"{letter}1"] for n, letter in enumerate("defgh")}
        old = history.version({"m1": ["b1", "c1"], **others})
        history.version({"m2": ["b2", "c1"], **others})
        cache = FileCache(1_000_000)
        assert history.doomed(old, cache=cache) == Doomed(["b1"], ["m1"], ["list1"], [])
        assert cache.misses == 4

    def test_a_manifest_that_does_not_tell_its_range_is_opened(self, history: History) -> None:
        """Another writer may leave summaries out: its files are found all the same."""
        old = history.version({"m1": ["a1", "b1"]})
        told = write_manifest_file(NewFiles(history.io), history.path("silent"), 2, SPEC, SCHEMA, 2, [entry("b1")])
        values = (told[position] for position in range(len(told)))
        history.manifests["silent"] = ManifestFile(*(None if value is told.partitions else value for value in values))
        history.version({"silent": []})
        assert history.manifests["silent"].partitions is None
        assert history.doomed(old) == Doomed(["a1"], ["m1"], ["list1"], [])


class TestMissing:
    def test_a_manifest_of_an_expired_version_is_taken_as_swept(self, history: History) -> None:
        """What it alone named went before it; the rest is found without it."""
        old = history.version({"m1": ["a1"], "m2": ["b1"]})
        history.version({"m3": ["a2"]})
        history.lose("m1")
        assert history.doomed(old) == Doomed(["b1"], ["m1", "m2"], ["list1"], [])

    def test_a_list_of_an_expired_version_is_taken_as_swept(self, history: History) -> None:
        """And is not named again; another expired version is marked all the same."""
        first = history.version({"m1": ["a1"]})
        second = history.version({"m2": ["a2"]})
        history.version({"m3": ["a3"]})
        history.lose("list1")
        assert history.doomed(first, second) == Doomed(["a2"], ["m2"], ["list2"], [])

    @pytest.mark.parametrize(
        ("lost", "reason"),
        [("m3", "a manifest of a kept version is missing"), ("list2", "list of kept version 2 is missing")],
    )
    def test_nothing_is_proven_when_a_kept_version_lacks_a_file(self, history: History, lost: str, reason: str) -> None:
        """It may have named what would go: refused, with the file."""
        old = history.version({"m1": ["a1"]})
        history.version({"m3": ["a1"]})
        history.lose(lost)
        with pytest.raises(FormatError, match=rf"{reason}.*{lost}"):
            history.doomed(old)


class TestLists:
    def test_a_list_of_nothing_goes_too(self, history: History) -> None:
        """A version of another writer may list no manifest."""
        empty = history.version({})
        history.version({"m1": ["a1"]})
        assert history.doomed(empty) == Doomed([], [], ["list1"], [])

    def test_nothing_expired_is_nothing_doomed(self, history: History) -> None:
        """Whatever is kept."""
        history.version({"m1": ["a1"]})
        assert history.doomed() == Doomed([], [], [], [])


class TestStatistics:
    def test_files_that_kept_metadata_names_stay(self, history: History) -> None:
        """Of both kinds; what the expired side alone names goes last."""

        def of(number: int, name: str) -> StatisticsFile:
            sizes = {"file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}
            return StatisticsFile.model_validate(
                {"snapshot-id": number, "statistics-path": name, "blob-metadata": [], **sizes}
            )

        def of_partitions(number: int, name: str) -> PartitionStatisticsFile:
            return PartitionStatisticsFile.model_validate(
                {"snapshot-id": number, "statistics-path": name, "file-size-in-bytes": 1}
            )

        old = history.version({"m1": ["a1"]})
        new = history.version({"m2": ["a2"]})
        before = history.metadata([old, new]).model_copy(
            update={
                "statistics": [of(1, "s1"), of(1, "shared"), of(2, "s2")],
                "partition_statistics": [of_partitions(1, "p1"), of_partitions(2, "p2")],
            }
        )
        kept = history.metadata([new]).model_copy(
            update={"statistics": [of(2, "s2"), of(2, "shared")], "partition_statistics": [of_partitions(2, "p2")]}
        )
        assert list(statistics_files(before)) == ["s1", "shared", "s2", "p1", "p2"]
        found = mark(Mark([old], statistics_files(before), kept), ComponentLister(history.read()))
        assert Doomed.of(found).statistics == ["s1", "p1"]
        paths = [file.location for file in found]
        assert paths == ["a1", history.path("m1"), history.path("list1"), "s1", "p1"]
