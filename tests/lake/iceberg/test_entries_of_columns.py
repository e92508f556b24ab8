"""Entries that are made of columns have the bytes that PyIceberg's writer makes of the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType

from metastore.lake.iceberg.manifests.avro_blocks import open_blocks
from metastore.lake.iceberg.manifests.entries_of_columns import ColumnMetrics, FilesInColumns, entries_of_columns
from metastore.lake.iceberg.manifests.manifest_writer import write_manifest_file
from metastore.lake.iceberg.manifests.manifests import added_entry
from metastore.lake.stores.new_files import NewFiles

SCHEMA = Schema(
    NestedField(1, "x", LongType(), required=False),
    NestedField(2, "day", DateType(), required=False),
    NestedField(300, "text", StringType(), required=False),
    NestedField(4, "real", DoubleType(), required=False),
)
SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "day"), PartitionField(300, 1001, IdentityTransform(), "text")
)
_BOUND = st.none() | st.binary(max_size=80)
_COLUMN = st.tuples(st.integers(-1, 2**40), st.booleans(), _BOUND, _BOUND)
_FILE = st.tuples(
    st.text(min_size=1).filter(str.isprintable),
    st.tuples(st.none() | st.integers(-(2**31), 2**31 - 1), st.none() | st.text(max_size=5)),
    st.integers(0, 2**50),
    st.integers(0, 2**50),
    st.lists(st.integers(0, 2**50), max_size=3),
    st.tuples(_COLUMN, _COLUMN),
)


def _columns(files: list[Any]) -> FilesInColumns:
    paths, keys, rows, sizes, splits, metrics = (list(column) for column in zip(*files, strict=True))
    of_columns = []
    for place, field_id in enumerate((1, 4)):
        nulls, without_nans, low, high = zip(*(each[place] for each in metrics), strict=True)
        of_columns.append(ColumnMetrics(field_id, nulls, low, high, without_nans if field_id == 4 else None))
    return FilesInColumns(paths, keys, rows, sizes, splits, of_columns)


def _by_pyiceberg(file: Any) -> ManifestEntry:
    path, key, rows, size, splits, metrics = file
    by_id = dict(zip((1, 4), metrics, strict=True))
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*key),
        record_count=rows,
        file_size_in_bytes=size,
        column_sizes={},
        value_counts=dict.fromkeys(by_id, rows),
        null_value_counts={number: nulls for number, (nulls, *_) in by_id.items() if nulls >= 0} or None,
        nan_value_counts={4: 0} if by_id[4][1] else None,
        lower_bounds={number: low for number, (_, _, low, _) in by_id.items() if low is not None} or None,
        upper_bounds={number: high for number, (*_, high) in by_id.items() if high is not None} or None,
        split_offsets=splits or None,
    )
    made.spec_id = 0
    return added_entry(made, 77)


@pytest.mark.parametrize("version", [2, 3])
@settings(max_examples=60, deadline=None)
@given(files=st.lists(_FILE, min_size=1, max_size=4))
def test_the_bytes_are_those_of_pyiceberg(
    tmp_path_factory: pytest.TempPathFactory, version: int, files: list[Any]
) -> None:
    """Of any paths, partitions, counts, bounds and offsets, in both versions; the manifest's facts are the same too."""
    folder = Path(tmp_path_factory.mktemp("manifests"))
    numbers = (ManifestEntryStatus.ADDED, 77, None, None)
    ours = entries_of_columns(_columns(files), version, 0, SPEC.partition_type(SCHEMA), numbers)
    contents = []
    listed = []
    for name, entries in (("ours", ours), ("theirs", list(map(_by_pyiceberg, files)))):
        place = str(folder / name)
        made = write_manifest_file(NewFiles(PyArrowFileIO()), place, version, SPEC, SCHEMA, 77, entries)
        listed.append([made.added_files_count, made.added_rows_count, repr(made.partitions)])
        contents.append([block.content for block in open_blocks(Path(place).read_bytes())[1]])
    assert contents[0] == contents[1]
    assert listed[0] == listed[1]
