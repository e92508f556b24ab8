"""Metadata tables of files have Spark's columns and PyIceberg's values, on tables with deletes of every kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, DecimalType, LongType, NestedField, StringType, TimestamptzType, UUIDType
from support.delete_files import delete_positions, delete_where_equal

from metastore.errors import FormatError, InvalidRequestError, StorageError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.inspection import metadata_table
from metastore.overview.results import Rows
from metastore.session import Session

FILES = ["files", "data_files", "delete_files", "all_files", "all_data_files", "all_delete_files"]
CONTENT = {"DATA": 0, "POSITION_DELETES": 1, "EQUALITY_DELETES": 2}
SCHEMA = Schema(
    NestedField(1, "part", StringType(), required=False),
    NestedField(2, "id", LongType(), required=False),
)
SPARKS_FILE = [
    *("content", "file_path", "file_format", "spec_id", "partition", "record_count", "file_size_in_bytes"),
    *("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"),
    *("key_metadata", "split_offsets", "equality_ids", "sort_order_id", "first_row_id", "referenced_data_file"),
    *("content_offset", "content_size_in_bytes"),
]


@pytest.fixture
def target(session: Session) -> TargetTable:
    """A table of two appends, one delete of positions, one by equality, and one file that was deleted."""
    table = session.catalogs.open("iceberg").create_table(
        "logging.t", SCHEMA, partition_spec=PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "part"))
    )
    table.append(pa.table({"part": ["a", "a", "b"], "id": [1, None, 3]}))
    table.append(pa.table({"part": ["b"], "id": [4]}))
    [first] = [task.file.file_path for task in table.scan("part = 'a'").plan_files()]
    delete_positions(table.refresh(), {first: [1]}, Record("a"))
    delete_where_equal(table.refresh(), Record("b"))
    table.refresh().delete("id = 4")
    return session.catalogs.table("iceberg", "logging", "t")


def listed(target: TargetTable, name: str) -> list[dict[str, Any]]:
    """Rows of a metadata table."""
    return list(metadata_table(target, name).to_pylist())


@pytest.mark.parametrize("name", FILES)
def test_files_are_those_of_pyiceberg(target: TargetTable, name: str) -> None:
    """Each file with its counts and readable metrics; a file has a row for each manifest that lists it."""
    theirs = getattr(target.load().inspect, name)().to_pylist()
    ours = listed(target, name)
    key = lambda row: (row["file_path"], row["content"])  # noqa: E731 - a sort key
    found = [row | {"content": CONTENT[row["content"]]} for row in ours]
    assert len(found) == len(theirs) > 0
    same = [each for each in SPARKS_FILE if each in theirs[0] and not each.endswith(("counts", "sizes", "bounds"))]
    for mine, other in zip(sorted(found, key=key), sorted(theirs, key=key), strict=True):
        assert {each: mine[each] for each in same} == {each: other[each] for each in same}
        assert mine["readable_metrics"] == other["readable_metrics"]


def test_columns_have_sparks_names_in_sparks_order(target: TargetTable) -> None:
    """Names of this package alone come after them."""
    names = {name: metadata_table(target, name).column_names for name in [*FILES, "entries", "all_entries"]}
    assert all(names[name] == [*SPARKS_FILE, "readable_metrics"] for name in FILES)
    entry = ["status", "snapshot_id", "sequence_number", "file_sequence_number", "data_file", "readable_metrics"]
    assert names["entries"] == names["all_entries"] == entry
    fields = metadata_table(target, "entries").schema.field("data_file").type
    assert [fields[number].name for number in range(fields.num_fields)] == SPARKS_FILE
    theirs = target.load().inspect
    for name in ("manifests", "partitions", "all_manifests"):
        expected = getattr(theirs, name)().column_names
        ours = metadata_table(target, name).column_names
        assert sorted(each for each in ours if each in expected) == sorted(expected), name
    deletes = [
        "file_path",
        "pos",
        "partition",
        "spec_id",
        "delete_file_path",
        "content_offset",
        "content_size_in_bytes",
    ]
    assert metadata_table(target, "position_deletes").column_names == deletes


@pytest.mark.parametrize("name", ["manifests", "all_manifests"])
def test_manifests_count_data_and_delete_files_apart(target: TargetTable, name: str) -> None:
    """As PyIceberg does; older names count both kinds."""
    theirs = getattr(target.load().inspect, name)().to_pylist()
    ours = listed(target, name)
    key = lambda row: (row.get("reference_snapshot_id", 0), row["path"])  # noqa: E731 - a sort key
    assert len(ours) == len(theirs) > 0
    bounds = ("contains_null", "contains_nan", "lower_bound", "upper_bound")
    for mine, other in zip(sorted(ours, key=key), sorted(theirs, key=key), strict=True):
        other["content"] = ["DATA", "DELETES"][other["content"]]
        summaries = [{each: part[each] for each in bounds} for part in mine["partition_summaries"]]
        assert {each: mine[each] for each in other} | {"partition_summaries": summaries} == other
        for change in ("added", "existing", "deleted"):
            parts = [mine[f"{change}_{kind}_files_count"] for kind in ("data", "delete")]
            assert mine[f"{change}_files_count"] == sum(parts)


def test_partitions_are_those_of_pyiceberg_with_bounds_beside(target: TargetTable) -> None:
    """Counts of delete files by kind; ``data`` has what the manifests say of the other columns."""
    theirs = sorted(target.load().inspect.partitions().to_pylist(), key=lambda row: row["partition"]["part"])
    ours = sorted(listed(target, "partitions"), key=lambda row: row["partition"]["part"])
    for mine, other in zip(ours, theirs, strict=True):
        other["last_updated_at"] = other["last_updated_at"].replace(tzinfo=timezone.utc)
        assert {each: mine[each] for each in other} == other
        assert mine["total_size"] == mine["total_data_file_size_in_bytes"]
    assert [row["data"]["id"] for row in ours] == [
        {"min": 1, "max": 1, "null_count": 1, "nan_count": None},
        {"min": 3, "max": 3, "null_count": 0, "nan_count": None},
    ]


def test_entries_of_all_snapshots_have_what_each_manifest_says(target: TargetTable) -> None:
    """Of removed files, too; the current snapshot's entries are among them."""
    every = [
        (row["status"], row["data_file"]["file_path"], row["snapshot_id"]) for row in listed(target, "all_entries")
    ]
    now = [(row["status"], row["data_file"]["file_path"], row["snapshot_id"]) for row in listed(target, "entries")]
    assert set(now) < set(every)
    manifests = {row["path"] for row in listed(target, "all_manifests")}
    io, metadata = target.load().io, target.load().metadata
    seen = {each.manifest_path: each for snapshot in metadata.snapshots for each in snapshot.manifests(io)}
    assert manifests == set(seen)
    assert len(every) == sum(len(each.fetch_manifest_entry(io, discard_deleted=False)) for each in seen.values())


def test_deleted_positions_are_rows(target: TargetTable, session: Session) -> None:
    """Those of delete files that the snapshot has, in SQL as well."""
    [row] = listed(target, "position_deletes")
    [file] = [each for each in listed(target, "delete_files") if each["content"] == "POSITION_DELETES"]
    assert (row["pos"], row["partition"], row["delete_file_path"]) == (1, {"part": "a"}, file["file_path"])
    assert row["file_path"] in {each["file_path"] for each in listed(target, "data_files")}
    first = listed(target, "snapshots")[0]["snapshot_id"]
    assert metadata_table(target, "position_deletes", first).num_rows == 0
    query = "SELECT pos FROM iceberg.logging.\"t$position_deletes\" WHERE partition.part = '{}'"
    assert session.sql(query.format("a")).to_pylist() == [{"pos": 1}]
    assert session.sql(query.format("b")).to_pylist() == []
    Path(urlsplit(file["file_path"]).path).write_bytes(b"garbage")
    with pytest.raises(FormatError, match="deletes.parquet"):
        metadata_table(target, "position_deletes")
    Path(urlsplit(file["file_path"]).path).unlink()
    with pytest.raises(StorageError, match="deletes.parquet"):
        metadata_table(target, "position_deletes")


def test_conditions_on_metadata_tables_keep_every_row_that_fits(target: TargetTable, session: Session) -> None:
    """A condition on readable metrics or on a partition is judged on each row, and prunes no row itself."""
    every = listed(target, "all_files")
    conditions: dict[str, Callable[[dict[str, Any]], bool]] = {
        "readable_metrics.id.upper_bound >= 3": lambda row: (row["readable_metrics"]["id"]["upper_bound"] or 0) >= 3,
        "readable_metrics.id.upper_bound IS NULL": lambda row: row["readable_metrics"]["id"]["upper_bound"] is None,
        "partition.part = 'b' AND content <> 'DATA'": lambda row: (
            row["partition"]["part"] == "b" and row["content"] != "DATA"
        ),
        "first_row_id IS NULL": lambda row: row["first_row_id"] is None,
    }
    for condition, fits in conditions.items():
        found = session.sql(f'SELECT file_path FROM iceberg.logging."t$all_files" WHERE {condition}')
        assert sorted(map(str, found["file_path"].to_pylist())) == sorted(
            str(row["file_path"]) for row in every if fits(row)
        )


@pytest.mark.parametrize("name", [each for each in FILES if each.startswith("all")] + ["all_entries", "all_manifests"])
def test_tables_of_all_snapshots_have_no_versions(target: TargetTable, name: str) -> None:
    """They say so, and do not ignore the version."""
    with pytest.raises(InvalidRequestError, match=rf"t\${name} describes the whole table"):
        metadata_table(target, name, listed(target, "snapshots")[0]["snapshot_id"])


def with_bounds(table: Table, lower: dict[int, bytes], upper: dict[int, bytes]) -> None:
    """Add an entry with bounds as another writer might have written them."""
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path="file:///nowhere.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=1,
            file_size_in_bytes=1,
            lower_bounds=lower,
            upper_bounds=upper,
        )
        file.spec_id = table.spec().spec_id
        append.append_data_file(file)


def test_bounds_have_the_types_of_their_columns(session: Session) -> None:
    """Of dates, times, decimals and UUIDs; a bound that does not fit is NULL, and in hexadecimal as text."""
    schema = Schema(
        NestedField(1, "d", DateType()),
        NestedField(2, "t", TimestamptzType()),
        NestedField(3, "n", DecimalType(9, 2)),
        NestedField(4, "u", UUIDType()),
        NestedField(5, "D", LongType()),
    )
    table = session.catalogs.open("iceberg").create_table("logging.typed", schema)
    small = {1: b"\1\0\0\0", 2: b"\1" + bytes(7), 3: b"\1", 4: bytes(16), 5: b"\7"}
    with_bounds(table, small, small | {1: b"\xff\xff\xff\x7f"})
    found = metadata_table(session.catalogs.table("iceberg", "logging", "typed"), "files")
    [row] = Rows.of(found, maps_as_pydicts="strict").as_document()["rows"]
    metrics = {name: each["lower_bound"] for name, each in row["readable_metrics"].items()}
    assert metrics == {
        "d": "1970-01-02",
        "t": "1970-01-01 00:00:00.000001Z",
        "n": Decimal("0.01"),
        "u": "00000000-0000-0000-0000-000000000000",
        "D_5": None,
    }
    assert row["lower_bounds"]["D"] == "07"
    assert row["upper_bounds"]["d"] == "ffffff7f"
    assert pc.struct_field(found["readable_metrics"], ["d", "upper_bound"]).cast(pa.int32()).to_pylist() == [2**31 - 1]
