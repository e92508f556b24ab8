"""Data files read together: tiny ones whole, each by one request, and the rows are those that a dataset gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs
from pyiceberg.expressions import AlwaysTrue, EqualTo
from pyiceberg.io import FileIO

from metastore.components.storage import data_files
from metastore.components.storage.data_files import FilesToRead, PlannedFile, batches_of, group_files
from metastore.config.reading import ReadSettings
from metastore.lake.stores.local import LocalFileIO
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.mapping.filters import bind_filter
from metastore.model.mapping.row_test import RowTest
from metastore.model.mapping.schema import iceberg_schema
from metastore.model.table_unit import TableMetadataUnit

COLUMNS = ("metadataType", "path", "rowGroupIndex", "columnsStatistics", "partitionKeys")
NEEDED = (*COLUMNS, "metadataKey")
LIMITS = ReadSettings()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Files of several writers: one wrote few columns, one a column of its own and a wider type, one no rows."""
    tables = [
        pa.table({"metadataKey": ["a", "b"], "metadataType": ["FILE", "FILE"], "path": ["/1", "/2"]}),
        pa.table({"other": [1.5], "metadataKey": ["a"], "path": ["/3"], "rowGroupIndex": pa.array([7], pa.int64())}),
        pa.table(
            {
                "metadataKey": ["a"],
                "columnsStatistics": pa.array([[("n", "{}"), ("m", None)]], pa.map_(pa.string(), pa.string())),
            }
        ),
        pa.table({"metadataKey": pa.array([], pa.string())}),
        pa.table({"metadataKey": ["a", "c"], "metadataType": ["TABLE", "FILE"], "path": ["/4", None]}),
    ]
    paths = [str(tmp_path / f"{number}.parquet") for number in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path, row_group_size=1)
    return paths


def key_is(key: str) -> RowTest:
    """Tests rows for their metadata key."""
    return RowTest(bind_filter(iceberg_schema(TableMetadataUnit), EqualTo("metadataKey", key)))


def rows(paths: Sequence[str], *, tiny: bool, test: RowTest) -> pa.Table:
    """The rows of the files that pass."""
    read = batches_of(
        LocalFileIO(), TableMetadataUnit, FilesToRead(tuple(paths), 6, 0, tiny), COLUMNS, NEEDED, test, LIMITS
    )
    types = plain_arrow_schema(TableMetadataUnit)
    return pa.Table.from_batches(read, pa.schema([types.field(name) for name in COLUMNS]))


@pytest.mark.parametrize("tiny", [True, False])
def test_rows_of_which_no_column_is_asked_for_stay_rows(files: list[str], *, tiny: bool) -> None:
    """Files that have none of the columns answer nulls, as many as they have rows; also when all files are such."""
    for paths in (files, files[:1]):
        read = batches_of(
            LocalFileIO(),
            TableMetadataUnit,
            FilesToRead(tuple(paths), 6, 0, tiny),
            ["owner"],
            ["owner"],
            RowTest(AlwaysTrue()),
            LIMITS,
        )
        assert [row["owner"] for batch in read for row in batch.to_pylist()] == [None] * (6 if len(paths) > 1 else 2)


@given(st.lists(st.tuples(st.integers(0, 12_000), st.integers(0, 6 << 20)), max_size=30))
def test_groups_are_files_in_a_row_within_both_limits(sizes: list[tuple[int, int]]) -> None:
    """All files, in their order; one that is over a limit stands alone, and no group could take in the next file."""
    files = [PlannedFile(f"/{number}", *size) for number, size in enumerate(sizes)]
    by_path = {file.path: file for file in files}
    groups = list(group_files(files, LIMITS))
    assert [path for group in groups for path in group.paths] == list(by_path)
    for group, following in zip_longest(groups, groups[1:]):
        of_group = [by_path[path] for path in group.paths]
        assert (group.rows, group.size_bytes) == (sum(f.rows for f in of_group), sum(f.size_bytes for f in of_group))
        assert len(of_group) == 1 or _within(group.rows, group.size_bytes)
        if following is not None:
            first = by_path[following.paths[0]]
            assert not _within(group.rows + first.rows, group.size_bytes + first.size_bytes)


def _within(rows: int, size_bytes: int) -> bool:
    return rows <= LIMITS.part_rows and size_bytes <= LIMITS.part_size


def test_batches_of_a_large_file_hold_what_a_part_does(tmp_path: Path) -> None:
    """Units of wide tables take much more than those of narrow ones."""
    path = str(tmp_path / "large.parquet")
    pq.write_table(pa.table({"metadataKey": ["a"] * 100, "path": [str(number) for number in range(100)]}), path)
    large = FilesToRead((path,), 100, 10 * LIMITS.part_size, tiny=False)
    read = list(batches_of(LocalFileIO(), TableMetadataUnit, large, ["path"], ["path"], RowTest(AlwaysTrue()), LIMITS))
    assert [batch.num_rows for batch in read] == [10] * 10
    assert [row["path"] for batch in read for row in batch.to_pylist()] == [str(number) for number in range(100)]


@pytest.mark.parametrize("key", ["a", "b", "none"])
def test_whole_files_give_the_rows_of_a_dataset(files: list[str], key: str) -> None:
    """Absent columns are null, those of others are left out, and types are the unit's."""
    whole, by_dataset = (rows(files, tiny=tiny, test=key_is(key)).to_pylist() for tiny in (True, False))
    assert sorted(map(str, whole)) == sorted(map(str, by_dataset))
    assert len(whole) == {"a": 4, "b": 1, "none": 0}[key]


def test_a_tiny_file_is_one_request_for_all_its_bytes(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on stores that several files are fetched from at a time."""
    requests: Counter[str] = Counter()

    class Counting(LocalFileSystem):  # type: ignore[misc] # fsspec has no types
        def open(self, path: str, mode: str = "rb", **options: object) -> object:
            requests[path] += 1
            return super().open(path, mode, **options)

    store = fs.PyFileSystem(fs.FSSpecHandler(Counting()))  # type: ignore[abstract] # the stubs lack its methods
    locally = rows(files, tiny=True, test=key_is("a"))

    def places(_: FileIO, locations: Sequence[str]) -> tuple[fs.FileSystem, list[str]]:
        return store, list(locations)

    monkeypatch.setattr(data_files, "arrow_paths", places)
    assert rows(files, tiny=True, test=key_is("a")).equals(locally)
    assert requests == Counter(files)


def test_only_files_that_are_all_tiny_are_fetched_whole() -> None:
    """One large file among them, or one of very many rows, is read by a dataset."""
    tiny, large, long = PlannedFile("a", 10, 4_000), PlannedFile("b", 10, 70_000), PlannedFile("c", 20_000, 4_000)
    assert [group.tiny for group in group_files([tiny, tiny], LIMITS)] == [True]
    assert [group.tiny for group in group_files([tiny, large], LIMITS)] == [False]
    assert [(group.paths, group.tiny) for group in group_files([tiny, long, tiny], LIMITS)] == [
        (("a",), True),
        (("c",), False),
        (("a",), True),
    ]
