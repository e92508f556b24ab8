"""What each request opens and writes, counted: costs follow the change or the question, not the metastore's size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from metastore.components.metastore import Metastore
from metastore.components.operations.read import Read
from metastore.lake.iceberg.manifests.manifest_reader import decoded_entry
from metastore.lake.stores.local import LocalFile
from metastore.model.identity import TableInfo
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]
TABLE = MetadataType.TABLE


def kind_of(location: str) -> str:
    """What a file is, by its name."""
    if location.endswith(".parquet"):
        return "data"
    name = location.rsplit("/", 1)[1]
    return "list" if name.startswith("snap-") else "manifest" if name.endswith(".avro") else "version"


class Counts:
    """Files opened and written since the last :meth:`clear`, by kind."""

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()
        self.written: Counter[str] = Counter()

    def clear(self) -> None:
        """Start counting anew."""
        self.opened.clear()
        self.written.clear()


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """Counts every file that goes through the FileIO or through Arrow's Parquet readers."""
    found = Counts()
    opened, created = LocalFile.open, LocalFile.create
    parquet_file, make_fragment = pq.ParquetFile, ds.ParquetFileFormat.make_fragment

    def open_(self: LocalFile, seekable: bool = True) -> Any:
        found.opened[kind_of(self.location)] += 1
        return opened(self, seekable)

    def create(self: LocalFile, overwrite: bool = False) -> Any:
        found.written[kind_of(self.location)] += 1
        return created(self, overwrite)

    def parquet(path: str, **options: Any) -> Any:
        found.opened[kind_of(path)] += 1
        return parquet_file(path, **options)

    class Format(ds.ParquetFileFormat):
        def make_fragment(self, path: Any, filesystem: Any = None, **options: Any) -> Any:  # type: ignore[override]
            found.opened[kind_of(path)] += 1
            return make_fragment(self, path, filesystem, **options)

    monkeypatch.setattr(LocalFile, "open", open_)
    monkeypatch.setattr(LocalFile, "create", create)
    monkeypatch.setattr(pq, "ParquetFile", parquet)
    monkeypatch.setattr(ds, "ParquetFileFormat", Format)
    return found


@pytest.fixture
def filled(open_metastore: OpenMetastore, unit: MakeUnit) -> Callable[[int], None]:
    """Fill the metastore with so many tables, each with general information and one segment of two units."""

    def fill(tables: int) -> None:
        units = []
        for n in range(tables):
            units += [
                unit(f"t{n:05}", last_modified_time=n),
                unit(f"t{n:05}", "1994"),
                unit(f"t{n:05}", "1994", path="p"),
            ]
        open_metastore().tables.modify().overwrite(units).execute()

    return fill


@pytest.mark.parametrize("tables", [10, 700])
def test_one_overwrite_costs_the_same_among_few_and_many(
    open_metastore: OpenMetastore, unit: MakeUnit, filled: Callable[[int], None], counts: Counts, tables: int
) -> None:
    """From cold: one pointer, one list, the manifest that holds the old entry; one file of each kind is written."""
    filled(tables)
    metastore = open_metastore()
    counts.clear()
    metastore.tables.modify().overwrite([unit("t00005", "1994", owner="new")]).execute()
    assert counts.opened == {"version": 1, "list": 1, "manifest": 1}
    assert counts.written == {"data": 1, "manifest": 1, "list": 1}


def test_a_warm_overwrite_opens_nothing(
    open_metastore: OpenMetastore, unit: MakeUnit, filled: Callable[[int], None], counts: Counts
) -> None:
    """What a commit has just written it knows."""
    filled(10)
    metastore = open_metastore()
    metastore.tables.modify().overwrite([unit("t00005", "1994", owner="new")]).execute()
    counts.clear()
    metastore.tables.modify().overwrite([unit("t00005", "1994", owner="newer")]).execute()
    assert counts.opened == {}


@pytest.mark.parametrize("tables", [10, 700])
def test_a_point_read_opens_its_own_files(
    open_metastore: OpenMetastore, filled: Callable[[int], None], counts: Counts, tables: int
) -> None:
    """From cold: at most two manifests, general information and segments, and the data files of that table."""
    filled(tables)
    metastore = open_metastore()
    counts.clear()
    read = metastore.tables.read().metadata_types(MetadataType.ALL)
    assert len(read.filter("storagePlugin = 'dfs' and workspace = 'tmp' and tableName = 't00007'").execute()) == 3
    assert counts.opened["manifest"] <= 2
    assert counts.opened["data"] == 2
    assert counts.opened["version"] == counts.opened["list"] == 1


def test_one_tables_general_information_opens_one_manifest(
    open_metastore: OpenMetastore, filled: Callable[[int], None], counts: Counts
) -> None:
    """Segments live in manifests of their own."""
    filled(700)
    requests = open_metastore().tables.requests
    counts.clear()
    assert requests.table_metadata(TableInfo("dfs", "tmp", "t00007")) is not None
    assert (counts.opened["manifest"], counts.opened["data"]) == (1, 1)


def test_a_list_of_all_tables_opens_no_data_file(
    open_metastore: OpenMetastore, filled: Callable[[int], None], counts: Counts
) -> None:
    """Names, owners, types and times stand in the manifests; those of segments are not opened either."""
    filled(700)
    metastore = open_metastore()
    counts.clear()
    columns = ("storagePlugin", "workspace", "tableName", "owner", "tableType", "location", "lastModifiedTime")
    rows = metastore.tables.read().metadata_types(TABLE).columns(*columns).to_arrow()
    assert set(rows.column("lastModifiedTime").to_pylist()) == set(range(700))
    assert rows.num_rows == 700
    assert counts.opened["data"] == 0
    assert counts.opened["manifest"] <= 3


def test_an_unchanged_warm_read_opens_nothing(
    open_metastore: OpenMetastore, filled: Callable[[int], None], counts: Counts
) -> None:
    """The pointer is looked at, and what it names is known by its path."""
    filled(10)
    metastore = open_metastore()
    read = metastore.tables.read().metadata_types(MetadataType.ALL).filter("tableName = 't00007'")
    first = read.execute()
    counts.clear()
    assert read.execute() == first
    assert counts.opened == {}


def test_a_question_that_was_answered_for_the_version_is_not_planned_again(
    open_metastore: OpenMetastore, unit: MakeUnit, filled: Callable[[int], None]
) -> None:
    """One look-up, of the answer; another filter, other columns or a new version are other questions."""
    filled(10)
    metastore = open_metastore()
    read = metastore.tables.read().metadata_types(MetadataType.ALL)

    def lookups(read: Read[TableMetadataUnit]) -> int:
        before = metastore._cache.hits + metastore._cache.misses
        read.execute()
        return metastore._cache.hits + metastore._cache.misses - before

    narrow = read.filter("tableName = 't00007'")
    first = lookups(narrow)
    assert first > 1
    assert lookups(narrow) == 1
    assert lookups(narrow.columns("owner")) > 1
    open_metastore().tables.modify().overwrite([unit("t00007", "1994", owner="new")]).execute()
    assert lookups(narrow) > 1
    assert {row.owner for row in narrow.execute()} == {None, "new"}


def test_a_read_after_another_writers_commit_opens_what_is_new(
    open_metastore: OpenMetastore, unit: MakeUnit, filled: Callable[[int], None], counts: Counts
) -> None:
    """One version, one list, one manifest, one data file; the other files are known."""
    filled(10)
    metastore = open_metastore()
    read = metastore.tables.read().metadata_types(MetadataType.ALL)
    read.execute()
    open_metastore().tables.modify().overwrite([unit("t00005", "1994", path="new")]).execute()
    counts.clear()
    assert len(read.execute()) == 29
    assert counts.opened == {"version": 1, "list": 1, "manifest": 1, "data": 1}


def test_a_cache_without_room_changes_no_answer(
    open_metastore: OpenMetastore, filled: Callable[[int], None], counts: Counts
) -> None:
    """Everything is opened again, and the same rows are read."""
    filled(10)
    metastore = open_metastore(cache={"size": 0})
    read = metastore.tables.read().metadata_types(MetadataType.ALL)
    first = read.execute()
    counts.clear()
    assert sorted(read.execute(), key=repr) == sorted(first, key=repr)
    assert counts.opened["data"] == 20
    assert metastore._cache.size_bytes == 0


def test_a_list_from_manifests_decodes_no_whole_entry(
    open_metastore: OpenMetastore, filled: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds and counts are all that it needs of an entry; decoding all of one takes twenty times as long."""
    filled(50)
    decoded: list[object] = []

    def counting(stored: Any) -> Any:
        decoded.append(stored)
        return decoded_entry(stored)

    monkeypatch.setattr("metastore.lake.iceberg.manifests.compact_entries.decoded_entry", counting)
    metastore = open_metastore()
    rows = metastore.tables.read().metadata_types(TABLE).columns("tableName", "lastModifiedTime", "owner").to_arrow()
    assert rows.sort_by("tableName")["lastModifiedTime"].to_pylist() == list(range(50))
    assert decoded == []
