"""Metadata tables say what is so, of catalogs' tables and of components; PyIceberg's own inspection agrees."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, DoubleType, ListType, LongType, NestedField, StringType, UUIDType

from metastore.errors import FormatError, InvalidRequestError, NotFoundError, StorageError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.inspection import METADATA_TABLES, metadata_table, resolve_version
from metastore.model.table_unit import TableMetadataUnit
from metastore.session import Session

SCHEMA = Schema(
    NestedField(1, "day", DateType(), required=False),
    NestedField(2, "city", StringType(), required=False),
    NestedField(3, "price", DoubleType(), required=False),
    NestedField(4, "tags", ListType(5, StringType(), element_required=False), required=False),
)
BY_DAY = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day"))


def rows(day: int, *cities: str | None) -> pa.Table:
    """Rows of one day of April 2021."""
    days = pa.array([datetime(2021, 4, day).date()] * len(cities), pa.date32())
    columns: list[Any] = [days, pa.array(cities, pa.string()), pa.array([float(day)] * len(cities))]
    return pa.table(
        [*columns, pa.array([["a"]] * len(cities), pa.list_(pa.string()))], ["day", "city", "price", "tags"]
    )


@pytest.fixture
def events(session: Session) -> Table:
    """A table by day with three commits: two appends, and a delete of the rows of one city."""
    table = session.catalogs.open("iceberg").create_table("logging.events", SCHEMA, partition_spec=BY_DAY)
    table.append(rows(1, "Rome", "Oslo", None))
    table.append(rows(2, "Rome"))
    table.delete(EqualTo("city", "Oslo"))
    return table


@pytest.fixture
def target(session: Session, events: Table) -> TargetTable:
    """The table by its name."""
    return session.catalogs.table("iceberg", "logging", events.name()[-1])


def listed(target: TargetTable, name: str, at: int | None = None) -> list[dict[str, Any]]:
    """Rows of a metadata table."""
    return list(metadata_table(target, name, at).to_pylist())


def manifests_of(table: Table) -> list[ManifestFile]:
    """The manifests of the current snapshot."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.manifests(table.io)


def test_snapshots_and_history_are_those_of_pyiceberg(target: TargetTable) -> None:
    """Times have their zone, and summaries all their entries."""
    theirs = target.load().inspect
    ours = listed(target, "snapshots")
    assert [row["operation"] for row in ours] == ["append", "append", "overwrite"]
    for mine, other in zip(ours, theirs.snapshots().to_pylist(), strict=True):
        assert mine["committed_at"] == other["committed_at"].replace(tzinfo=timezone.utc)
        assert dict(mine["summary"]) == dict(other["summary"])
        names = ("snapshot_id", "parent_id", "operation", "manifest_list")
        assert {name: mine[name] for name in names} == {name: other[name] for name in names} | {
            "operation": mine["operation"]
        }
    history = listed(target, "history")
    assert [row["snapshot_id"] for row in history] == theirs.history().column("snapshot_id").to_pylist()
    assert all(row["is_current_ancestor"] for row in history)


def test_a_snapshot_that_was_rolled_back_stays_in_the_history(target: TargetTable) -> None:
    """As no ancestor of the current one."""
    first, _, last = [row["snapshot_id"] for row in listed(target, "snapshots")]
    with target.load().manage_snapshots() as snapshots:
        snapshots.rollback_to_snapshot(first)
    history = listed(target, "history")
    assert [(row["snapshot_id"], row["is_current_ancestor"]) for row in history][-2:] == [(last, False), (first, True)]


def test_files_show_partitions_counts_and_bounds_as_people_write_them(target: TargetTable) -> None:
    """By the names of columns, the nested ones too."""
    files = sorted(listed(target, "files"), key=lambda row: row["partition"]["day"])
    assert [row["record_count"] for row in files] == [2, 1]
    first = files[0]
    assert first["partition"] == {"day": datetime(2021, 4, 1).date()}
    assert (first["content"], first["file_format"], first["spec_id"]) == ("DATA", "PARQUET", 0)
    assert dict(first["null_value_counts"])["city"] == 1
    assert "tags.element" in dict(first["value_counts"])
    assert dict(first["lower_bounds"]) == {"day": "2021-04-01", "city": "Rome", "price": "1.0"}
    assert {row["file_path"] for row in files} == {task.file.file_path for task in target.load().scan().plan_files()}


def test_entries_show_what_was_removed_too(target: TargetTable) -> None:
    """The delete wrote one file anew."""
    statuses = sorted(row["status"] for row in listed(target, "entries"))
    assert statuses == ["ADDED", "ADDED", "DELETED"]
    added = [row for row in listed(target, "entries") if row["status"] == "ADDED"]
    assert {row["sequence_number"] for row in added} == {2, 3}
    assert all(row["data_file"]["record_count"] for row in added)


def test_manifests_show_what_they_hold(target: TargetTable) -> None:
    """Their counts, and the range of the partitions in them."""
    for row, manifest in zip(listed(target, "manifests"), manifests_of(target.load()), strict=True):
        assert row["path"] == manifest.manifest_path
        assert row["added_files_count"] == manifest.added_files_count
        [summary] = row["partition_summaries"]
        assert summary["field"] == "day"
        assert summary["lower"].startswith("2021-04-0")


def test_partitions_add_up(target: TargetTable) -> None:
    """Rows, files and bytes, and who changed the partition last."""
    first, second = sorted(listed(target, "partitions"), key=lambda row: row["partition"]["day"])
    snapshots = [row["snapshot_id"] for row in listed(target, "snapshots")]
    assert (first["record_count"], first["file_count"], first["last_updated_snapshot_id"]) == (2, 1, snapshots[2])
    assert (second["record_count"], second["last_updated_snapshot_id"]) == (1, snapshots[1])
    assert first["total_size"] + second["total_size"] == sum(
        row["file_size_in_bytes"] for row in listed(target, "files")
    )


def test_an_older_snapshot_is_shown_as_it_was(target: TargetTable) -> None:
    """Of tables that tell of one version; the others tell of the whole table."""
    first = listed(target, "snapshots")[0]["snapshot_id"]
    assert [row["record_count"] for row in listed(target, "files", first)] == [3]
    assert len(listed(target, "partitions", first)) == 1
    with pytest.raises(InvalidRequestError, match=r"events\$snapshots describes the whole table"):
        metadata_table(target, "snapshots", first)
    with pytest.raises(NotFoundError, match="has no snapshot 7"):
        metadata_table(target, "files", 7)


def test_refs_properties_and_the_metadata_log(target: TargetTable) -> None:
    """With what retention, by key, and every metadata file with what was current in it."""
    table = target.load()
    with table.manage_snapshots() as snapshots:
        snapshots.create_tag(table.metadata.current_snapshot_id or 0, "v1", max_ref_age_ms=5)
    with table.transaction() as transaction:
        transaction.set_properties({"owner": "me", "a": "b"})
    names = [(row["name"], row["type"], row["max_reference_age_in_ms"]) for row in listed(target, "refs")]
    assert names == [("main", "BRANCH", None), ("v1", "TAG", 5)]
    assert {"key": "owner", "value": "me"} in listed(target, "properties")
    log = listed(target, "metadata_log_entries")
    assert log[-1]["file"] == target.load().metadata_location
    assert [row["latest_snapshot_id"] for row in log[:2]] == [None, table.metadata.snapshots[0].snapshot_id]
    assert log[-1]["latest_sequence_number"] == 3


def test_an_empty_table_has_metadata_tables_without_rows(session: Session) -> None:
    """With all their columns; one that is not partitioned has no column for that."""
    session.catalogs.open("iceberg").create_table("logging.empty", SCHEMA)
    target = session.catalogs.table("iceberg", "logging", "empty")
    for name in METADATA_TABLES:
        found = metadata_table(target, name)
        assert found.num_rows == {"properties": found.num_rows, "metadata_log_entries": 1}.get(name, 0)
        assert "partition" not in found.column_names


def test_evolved_specs_and_dropped_columns_are_shown(session: Session) -> None:
    """Partitions of every spec, types that Arrow has no arrays of as text, columns that are gone by their id."""
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "key", UUIDType(), required=False))
    catalog = session.catalogs.open("iceberg")
    table = catalog.create_table("logging.evolved", schema)
    table.append(pa.table({"id": [1], "key": pa.array([bytes(16)], pa.uuid())}))
    with table.update_spec() as update:
        update.add_identity("id")
    table.append(pa.table({"id": [2], "key": pa.array([bytes(16)], pa.uuid())}))
    with table.update_schema() as schema_update:
        schema_update.delete_column("key")
    target = session.catalogs.table("iceberg", "logging", "evolved")
    assert sorted(row["partition"]["id"] or 0 for row in listed(target, "files")) == [0, 2]
    assert all("2" in dict(row["value_counts"]) for row in listed(target, "files"))


def test_partition_fields_of_one_name_are_told_apart(session: Session) -> None:
    """The name is that of the newer field; the older one has its id behind it, as in tables of format 1."""
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "City", StringType()))
    table = session.catalogs.open("iceberg").create_table("logging.renamed", schema)
    for column, name in (("id", "p"), ("City", "P")):
        with table.update_spec() as update:
            update.add_field(column, IdentityTransform(), name)
        table.append(pa.table({"id": [7], "City": ["Rome"]}))
        with table.update_spec() as update:
            update.remove_field(name)
    target = session.catalogs.table("iceberg", "logging", "renamed")
    expected = [{"p_1000": None, "P": "Rome"}, {"p_1000": 7, "P": None}]
    for name in ("files", "partitions"):
        assert [row["partition"] for row in listed(target, name)] == expected
    shown = session.sql('SELECT partition.p, partition.p_1000 FROM iceberg.logging."renamed$files" ORDER BY 1')
    assert shown.to_pylist() == [{"p": "Rome", "p_1000": None}, {"p": None, "p_1000": 7}]


def test_a_dropped_partition_field_of_format_1_keeps_its_values(session: Session) -> None:
    """The spec calls it a field of nothing from then on, with the type of its column; files of before have a bucket."""
    schema = Schema(NestedField(1, "city", StringType(), required=False))
    catalog = session.catalogs.open("iceberg")
    table = catalog.create_table("logging.first", schema, properties={"format-version": "1"})
    with table.update_spec() as update:
        update.add_field("city", BucketTransform(4), "b")
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path="file:///nowhere.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(3),
            record_count=1,
            file_size_in_bytes=1,
        )
        file.spec_id = table.spec().spec_id
        append.append_data_file(file)
    with table.update_spec() as update:
        update.remove_field("b")
    target = session.catalogs.table("iceberg", "logging", "first")
    for name in ("files", "partitions"):
        assert [row["partition"] for row in listed(target, name)] == [{"b": 3}]


def test_a_partition_of_a_double_is_that_number(session: Session) -> None:
    """All its 64 bits: metadata tables show it, and a query for it reads the file that has its rows."""
    table = session.catalogs.open("iceberg").create_table("logging.doubles", Schema(NestedField(1, "d", DoubleType())))
    with table.update_spec() as update:
        update.add_identity("d")
    numbers = [0.1, 1e300, 2e300]
    table.append(pa.table({"d": numbers}))
    target = session.catalogs.table("iceberg", "logging", "doubles")
    for name in ("files", "partitions"):
        assert sorted(row["partition"]["d"] for row in listed(target, name)) == numbers
    for number in numbers:
        found = session.sql(f"SELECT d FROM iceberg.logging.doubles WHERE d = {number!r}")
        assert found["d"].to_pylist() == [number]


def test_components_have_metadata_tables(session: Session) -> None:
    """As any Iceberg table."""
    unit = TableMetadataUnit(
        storage_plugin="dfs",
        workspace="tmp",
        table_name="t",
        metadata_key="GENERAL_INFO",
        metadata_type="TABLE",
        metadata_identifier="GENERAL_INFO",
    )
    session.tables.modify().overwrite([unit]).execute()
    target = session.catalogs.table("metastore", "components", "tables")
    [file] = listed(target, "files")
    assert file["partition"] == {
        "storagePlugin": "dfs",
        "workspace": "tmp",
        "tableName": "t",
        "metadataKey": "GENERAL_INFO",
    }


@pytest.mark.parametrize(
    ("name", "hint"), [("file", r"did you mean iceberg.logging.events\$files\?"), ("x", "there are")]
)
def test_an_unknown_metadata_table_is_named_beside_what_there_is(target: TargetTable, name: str, hint: str) -> None:
    """In the words of SQL."""
    with pytest.raises(NotFoundError, match=hint):
        metadata_table(target, name)


def test_files_that_are_gone_are_a_storage_error(target: TargetTable) -> None:
    """Which names the table."""
    for manifest in manifests_of(target.load()):
        target.load().io.delete(manifest.manifest_path)
    with pytest.raises(StorageError, match="manifests of iceberg.logging.events"):
        metadata_table(target, "files")


@pytest.mark.parametrize("name", ["manifests", "files", "entries", "partitions"])
@pytest.mark.parametrize("keep", [0, 100, -1])
def test_damaged_manifests_are_a_format_error(target: TargetTable, name: str, keep: int) -> None:
    """Which names the file; no length in it is taken at its word."""
    table = target.load()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    damaged = snapshot.manifest_list if name == "manifests" else manifests_of(table)[0].manifest_path
    file = Path(urlsplit(damaged).path)
    file.write_bytes(file.read_bytes()[:keep] + b"garbage")
    with pytest.raises(FormatError, match="cannot be decoded as an Iceberg manifest or list"):
        metadata_table(target, name)


def test_versions_are_found_by_id_name_and_time(target: TargetTable) -> None:
    """A time means what was current then, to the millisecond."""
    table = target.load()
    first, second, third = table.metadata.snapshots
    with table.manage_snapshots() as snapshots:
        snapshots.create_tag(first.snapshot_id, "v1")
    table = target.load()
    assert resolve_version(table, second.snapshot_id) == second.snapshot_id
    assert resolve_version(table, "v1") == first.snapshot_id
    assert resolve_version(table, "main") == third.snapshot_id
    at: Callable[[int], datetime] = lambda ms: datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=ms)  # noqa: E731
    assert resolve_version(table, at(second.timestamp_ms)) == second.snapshot_id
    assert resolve_version(table, at(second.timestamp_ms - 1)) == first.snapshot_id
    assert resolve_version(table, at(10**13)) == third.snapshot_id
    with pytest.raises(NotFoundError, match="its history begins at"):
        resolve_version(table, at(first.timestamp_ms - 1))
    with pytest.raises(NotFoundError, match="no branch or tag 'v2'; did you mean v1?"):
        resolve_version(table, "v2")
    with pytest.raises(NotFoundError, match="it never existed, or it has expired"):
        resolve_version(table, 7)
    with pytest.raises(InvalidRequestError, match="needs a zone"):
        resolve_version(table, datetime(2021, 4, 1))
