"""Compact entries say what decoded entries say, and are written again as the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
)

from metastore.lake.iceberg.manifests.compact_entries import CompactEntry, compact_entries, metrics_of
from metastore.lake.iceberg.manifests.manifest_reader import content_of, read_live_entries
from metastore.lake.iceberg.manifests.manifest_writer import write_manifest_file
from metastore.lake.iceberg.manifests.manifests import deleted_entry, existing
from metastore.lake.stores.new_files import NewFiles

MOST = 1 << 26
IO = PyArrowFileIO()


def schema_of(type_: IcebergType) -> tuple[Schema, PartitionSpec]:
    """A table of two columns, partitioned by both."""
    schema = Schema(NestedField(1, "a", StringType(), required=False), NestedField(2, "b", type_, required=False))
    fields = [
        PartitionField(each.field_id, 999 + each.field_id, IdentityTransform(), each.name) for each in schema.fields
    ]
    return schema, PartitionSpec(*fields)


def written(
    folder: Path, entries: list[ManifestEntry], type_: IcebergType | None = None, version: Literal[1, 2, 3] = 2
) -> ManifestFile:
    """A manifest of ``entries``, numbered as a commit does."""
    schema, spec = schema_of(type_ or StringType())
    place = str(folder / "m.avro")
    Path(place).unlink(missing_ok=True)
    made = write_manifest_file(NewFiles(IO), place, version, spec, schema, 77, entries)
    made.sequence_number = 5
    return made


COUNTS = st.none() | st.dictionaries(st.integers(1, 2**31 - 1), st.integers(0, 2**40), max_size=3)
BOUNDS = st.none() | st.dictionaries(st.integers(1, 2**31 - 1), st.binary(max_size=5), max_size=3)
LONGS = st.none() | st.lists(st.integers(0, 2**40), max_size=3)
TEXTS = st.none() | st.text("aä\n", max_size=3)
NUMBERS = st.none() | st.integers(0, 2**62)
FILES = st.builds(
    lambda **values: DataFile.from_args(content=DataFileContent.DATA, file_format=FileFormat.PARQUET, **values),
    file_path=st.text("a/ä", min_size=1, max_size=5),
    partition=st.builds(Record, TEXTS, TEXTS),
    record_count=st.integers(0, 2**40),
    file_size_in_bytes=st.integers(0, 2**40),
    column_sizes=COUNTS,
    value_counts=COUNTS,
    null_value_counts=COUNTS,
    nan_value_counts=COUNTS,
    lower_bounds=BOUNDS,
    upper_bounds=BOUNDS,
    key_metadata=st.none() | st.binary(max_size=3),
    split_offsets=LONGS,
    equality_ids=st.none() | st.lists(st.integers(1, 9), max_size=2),
    sort_order_id=st.none() | st.integers(0, 9),
)
ENTRIES = st.builds(
    ManifestEntry.from_args,
    status=st.sampled_from(list(ManifestEntryStatus)),
    snapshot_id=NUMBERS,
    sequence_number=NUMBERS,
    file_sequence_number=NUMBERS,
    data_file=FILES,
)
of_this_test = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def fields(record: Record) -> list[Any]:
    """All fields, inner records by theirs; a map that is decoded on use is what it holds."""
    values = [record[position] for position in range(len(record))]
    return [
        fields(each) if isinstance(each, Record) else dict(each) if hasattr(each, "keys") else each for each in values
    ]


@of_this_test
@given(entries=st.lists(ENTRIES, min_size=1, max_size=4))
def test_compact_entries_say_what_decoded_ones_say(tmp_path: Path, entries: list[ManifestEntry]) -> None:
    """Every field of every live entry, and what they inherit."""
    manifest = written(tmp_path, entries)
    theirs = read_live_entries(IO, manifest)
    mine = compact_entries(content_of(IO, manifest.manifest_path), manifest, MOST)
    assert mine is not None
    assert list(map(fields, mine)) == list(map(fields, theirs))
    for one, other in zip(mine, theirs, strict=True):
        assert fields(existing(one)) == fields(existing(other))
        for name in ("file_path", "record_count", "file_size_in_bytes", "spec_id", "partition", "split_offsets"):
            assert getattr(one.data_file, name) == getattr(other.data_file, name)
        assert one.data_file.lower_bounds == (other.data_file.lower_bounds or {})
        assert list(map(dict, metrics_of(one.data_file))) == list(map(dict, metrics_of(other.data_file)))


@of_this_test
@given(entries=st.lists(ENTRIES, min_size=1, max_size=4))
def test_they_are_carried_over_as_decoded_ones_are(tmp_path: Path, entries: list[ManifestEntry]) -> None:
    """Kept, removed, and settled: the next manifest has the same records."""
    manifest = written(tmp_path, entries)
    mine = compact_entries(content_of(IO, manifest.manifest_path), manifest, MOST)
    assert mine is not None
    found = []
    for some in (mine, read_live_entries(IO, manifest)):
        carried = [existing(entry) if place % 2 else deleted_entry(entry, 9) for place, entry in enumerate(some)]
        if carried:
            again = written(tmp_path, carried)
            found.append((fields(again), list(map(fields, read_live_entries(IO, again)))))
    assert found[:1] == found[1:]


@pytest.mark.parametrize("kind", [LongType(), IntegerType(), DateType()])
def test_whole_numbers_and_days_are_fields_of_partitions_too(tmp_path: Path, kind: PrimitiveType) -> None:
    """As published tables have them: the key has the number, and null where there is none."""
    files = [
        DataFile.from_args(
            content=DataFileContent.DATA,
            file_format=FileFormat.PARQUET,
            file_path="f",
            partition=Record("a", value),
            record_count=1,
            file_size_in_bytes=1,
        )
        for value in (-3, None)
    ]
    entries = [
        ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=7, data_file=file) for file in files
    ]
    manifest = written(tmp_path, entries, kind)
    found = compact_entries(content_of(IO, manifest.manifest_path), manifest, MOST)
    assert found is not None
    assert [repr(entry.key) for entry in found] == ["('a', -3)", "('a', None)"]


def test_other_layouts_are_read_in_full(tmp_path: Path) -> None:
    """Other types of partition fields, other format versions, and rows with ids."""
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_format=FileFormat.PARQUET,
        file_path="f",
        partition=Record("a", 1),
        record_count=1,
        file_size_in_bytes=1,
    )
    entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=7, data_file=file)
    of_doubles = written(tmp_path, [entry], DoubleType())
    assert compact_entries(content_of(IO, of_doubles.manifest_path), of_doubles, MOST) is None
    file.partition[1] = "b"
    versions: tuple[Literal[1, 3], ...] = (1, 3)
    for version in versions:
        other = written(tmp_path, [entry], version=version)
        assert compact_entries(content_of(IO, other.manifest_path), other, MOST) is None


def test_they_cannot_be_changed(tmp_path: Path) -> None:
    """A change would be lost: the bytes are what is written."""
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_format=FileFormat.PARQUET,
        file_path="f",
        partition=Record("a", "b"),
        record_count=1,
        file_size_in_bytes=1,
    )
    manifest = written(tmp_path, [ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file)])
    content = content_of(IO, manifest.manifest_path)
    [entry] = compact_entries(content, manifest, MOST) or ()
    assert isinstance(entry, CompactEntry)
    for name in ("status", "snapshot_id", "sequence_number", "file_sequence_number", "data_file"):
        with pytest.raises(AttributeError):
            setattr(entry, name, None)
    for record in (entry, entry.data_file):
        with pytest.raises(TypeError):
            record[0] = 1
