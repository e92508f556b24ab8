"""expire_snapshots: which snapshots go, which files go with them, and what a run that dies leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.statistics import BlobMetadata, StatisticsFile
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from support.catalog_lake import Lake

from metastore.engines.engine import LocalEngine
from metastore.errors import (
    ConflictError,
    InvalidRequestError,
    MetastoreError,
    OutcomeUnknownError,
    ProcedureError,
    StorageError,
)
from metastore.ground.clock import Clock
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.procedures.expire.expire import Expiration, expire_snapshots
from metastore.procedures.expire.retention import Retention
from metastore.procedures.files.proof import Proof
from metastore.procedures.files.quarantine import SUFFIX
from metastore.procedures.tables.rewrite_manifests import rewrite_manifests

CITIES = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "city", StringType(), required=False))


@pytest.fixture
def written(lake: Lake, rows: Callable[..., pa.Table]) -> Table:
    """Four snapshots: ids 1, 2 and 3 appended, then 1 deleted, with its file."""
    table: Table = lake.table()
    for each in (1, 2, 3):
        table.append(rows(each))
    table.delete("id = 1")
    return table.refresh()


def ids(table: Table, **scan: Any) -> list[int]:
    """The ids in the table, as PyIceberg reads it."""
    found: list[Any] = table.scan(**scan).to_arrow()["id"].to_pylist()
    return sorted(found)


def snapshots(table: Table) -> list[int]:
    """Ids of the table's snapshots, oldest first."""
    return [snapshot.snapshot_id for snapshot in sorted(table.refresh().snapshots(), key=lambda s: s.timestamp_ms)]


@pytest.mark.usefixtures("written")
def test_deletes_what_only_old_snapshots_reach(lake: Lake) -> None:
    """The counts are of files that left the disk, and the bytes are theirs; the rows stay."""
    before = {path: os.path.getsize(path) for path in lake.files()}
    [row] = lake.call(expire_snapshots, older_than=lake.now + timedelta(seconds=9))
    gone = before.keys() - lake.files()
    assert row["expired_snapshots_count"] == 3
    assert row["deleted_data_files_count"] == sum(path.endswith(".parquet") for path in gone) == 1
    assert row["deleted_manifest_lists_count"] == sum("/snap-" in path for path in gone) == 3
    assert row["deleted_manifest_files_count"] == sum("-m" in path.rpartition("/")[2] for path in gone) == 1
    assert row["deleted_bytes"] == sum(before[path] for path in gone)
    assert not [path for path in lake.files() if path.endswith(SUFFIX)]
    assert ids(lake.table()) == [2, 3]


@pytest.mark.usefixtures("written")
def test_duckdb_reads_what_is_left(lake: Lake) -> None:
    """A reader that we did not write finds every file of the table after expiration."""
    lake.call(expire_snapshots, older_than=lake.now + timedelta(seconds=9))
    files = [task.file.file_path.removeprefix("file://") for task in lake.table().scan().plan_files()]
    assert duckdb.read_parquet(files).project("id").order("id").fetchall() == [(2,), (3,)]


def test_dry_run_lists_what_a_run_deletes(lake: Lake, written: Table) -> None:
    """A dry run changes nothing, and names each file with its size that the run after it deletes."""
    before = {path: os.path.getsize(path) for path in lake.files()}
    arguments: dict[str, Any] = {"older_than": lake.now + timedelta(seconds=9)}
    [dry] = lake.call(expire_snapshots, dry_run=True, **arguments)
    assert lake.files() == before.keys()
    assert len(snapshots(written)) == 4
    [row] = lake.call(expire_snapshots, **arguments)
    gone = before.keys() - lake.files()
    assert {file["location"].removeprefix("file://"): file["bytes"] for file in dry["files"]} == {
        path: before[path] for path in gone
    }
    assert {name: row[name] for name in row if name.endswith(("count", "bytes"))} == {
        name: dry[name] for name in row if name.endswith(("count", "bytes"))
    }


def test_only_the_given_ids_expire(lake: Lake, written: Table) -> None:
    """Snapshots that are old, but not among the ids, stay."""
    lake.later(days=30)
    first, second, third, fourth = snapshots(written)
    [row] = lake.call(expire_snapshots, snapshot_ids=[second])
    assert row["expired_snapshots_count"] == 1
    assert snapshots(written) == [first, third, fourth]
    assert ids(lake.table(), snapshot_id=first) == [1]


def test_refused_ids(lake: Lake, written: Table) -> None:
    """Unknown ids are refused, and those that a branch or tag points to, and nothing is changed."""
    first, *_, head = snapshots(written)
    written.manage_snapshots().create_tag(first, "kept").commit()
    with pytest.raises(InvalidRequestError, match="unknown snapshots: 77"):
        lake.call(expire_snapshots, snapshot_ids=[first, 77])
    with pytest.raises(InvalidRequestError, match=f"Cannot expire {first}. Still referenced by refs: kept"):
        lake.call(expire_snapshots, snapshot_ids=[first])
    with pytest.raises(InvalidRequestError, match=f"Cannot expire {head}. Still referenced by refs: main"):
        lake.call(expire_snapshots, snapshot_ids=[head])
    assert len(snapshots(written)) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"retain_last": 0}, "Number of snapshots to retain must be at least 1, cannot be: 0"),
        ({"max_concurrent_deletes": 0}, "max_concurrent_deletes should have value > 0, value: 0"),
        ({"snapshot_ids": []}, "snapshot_ids must not be empty when provided"),
        ({"snapshot_ids": [1], "retain_last": 1}, "leave older_than and retain_last out"),
    ],
)
@pytest.mark.usefixtures("written")
def test_refused_arguments(lake: Lake, arguments: dict[str, Any], message: str) -> None:
    """What an argument cannot be is said before anything is done."""
    lake.later(days=30)
    with pytest.raises(InvalidRequestError, match=message):
        lake.call(expire_snapshots, **arguments)
    assert len(snapshots(lake.table())) == 4


def test_nothing_to_do_is_no_commit(lake: Lake, written: Table) -> None:
    """A table with nothing to expire keeps its metadata file."""
    [row] = lake.call(expire_snapshots)
    assert (row["expired_snapshots_count"], row["message"]) == (0, "nothing to expire")
    assert written.metadata_location == lake.table().metadata_location


def test_an_empty_table_has_nothing_to_expire(lake: Lake) -> None:
    """A table without a snapshot is no error."""
    lake.table()
    [row] = lake.call(expire_snapshots, older_than=lake.now)
    assert row["message"] == "nothing to expire"


def test_the_tables_own_settings_hold(lake: Lake, rows: Callable[..., pa.Table]) -> None:
    """What the call leaves open is the table's: its longest age, and how many snapshots stay at least."""
    table = lake.table(
        properties={"history.expire.max-snapshot-age-ms": "1000", "history.expire.min-snapshots-to-keep": "2"}
    )
    for each in range(5):
        table.append(rows(each))
    lake.later(days=1)
    lake.call(expire_snapshots)
    assert len(snapshots(table)) == 2
    lake.call(expire_snapshots, retain_last=1)
    assert len(snapshots(table)) == 1


def test_a_branchs_own_retention_comes_first(lake: Lake, written: Table) -> None:
    """A branch that says how many snapshots it keeps keeps them, whatever the call says, and keeps saying so."""
    first, second, third, head = snapshots(written)
    keeping = SetSnapshotRefUpdate(
        ref_name="audit", type=SnapshotRefType.BRANCH, snapshot_id=third, min_snapshots_to_keep=2
    )
    lake.catalog.commit_table(written, (), (keeping,))
    [row] = lake.call(expire_snapshots, older_than=lake.now + timedelta(seconds=9), retain_last=1)
    assert row["expired_snapshots_count"] == 1
    assert snapshots(written) == [second, third, head]
    assert written.metadata.refs["audit"].min_snapshots_to_keep == 2
    assert ids(written, snapshot_id=second) == [1, 2]
    assert first not in snapshots(written)


def test_an_old_tag_goes_with_its_snapshot(lake: Lake, written: Table) -> None:
    """A tag that may grow so old and no older goes, and main never does."""
    first, *_, head = snapshots(written)
    tag = SetSnapshotRefUpdate(ref_name="old", type=SnapshotRefType.TAG, snapshot_id=first, max_ref_age_ms=1)
    lake.catalog.commit_table(written, (), (tag,))
    written.refresh().transaction().set_properties({"history.expire.max-ref-age-ms": "1"}).commit_transaction()
    lake.later(days=9)
    lake.call(expire_snapshots)
    assert snapshots(written) == [head]
    assert set(written.metadata.refs) == {"main"}


def test_a_staged_snapshot_stays_while_it_is_young(lake: Lake, written: Table, rows: Callable[..., pa.Table]) -> None:
    """A snapshot on no branch is kept by its age alone."""
    written.append(rows(9), branch=None)
    staged = snapshots(written)[-1]
    lake.call(expire_snapshots, older_than=lake.now - timedelta(days=1))
    assert staged in snapshots(written)
    lake.call(expire_snapshots, older_than=lake.now + timedelta(seconds=9))
    assert staged not in snapshots(written)


def test_gc_disabled(lake: Lake, written: Table) -> None:
    """Files of a table that says gc.enabled=false may be others': nothing is expired, not even a dry run looks."""
    written.transaction().set_properties({"gc.enabled": "false"}).commit_transaction()
    with pytest.raises(ProcedureError, match="Cannot expire snapshots: GC is disabled"):
        lake.call(expire_snapshots, dry_run=True)


def test_statistics_go_with_their_snapshot(lake: Lake, written: Table) -> None:
    """The statistics file of an expired snapshot is deleted, that of the kept one stays."""
    paths = {}
    for snapshot_id in (snapshots(written)[0], snapshots(written)[-1]):
        path = Path(written.metadata.location.removeprefix("file://")) / f"{snapshot_id}.stats"
        path.write_bytes(b"1234")
        blob = BlobMetadata(type="apache-datasketches-theta-v1", snapshot_id=snapshot_id, sequence_number=1, fields=[1])
        file = StatisticsFile(
            snapshot_id=snapshot_id,
            statistics_path=f"file://{path}",
            file_size_in_bytes=4,
            file_footer_size_in_bytes=4,
            blob_metadata=[blob],
        )
        written.update_statistics().set_statistics(file).commit()
        paths[snapshot_id] = path
    [row] = lake.call(expire_snapshots, older_than=lake.now + timedelta(seconds=9))
    assert row["deleted_statistics_files_count"] == 1
    assert [path.exists() for path in paths.values()] == [False, True]


@pytest.mark.usefixtures("tmp_path")
def test_a_file_under_two_spellings_stays(lake: Lake, rows: Callable[..., pa.Table]) -> None:
    """A file that an expired snapshot calls file:///p and a kept one /p is one file, and in use."""
    table = lake.table()
    table.append(rows(1))
    [task] = table.scan().plan_files()
    other_name = task.file.file_path.removeprefix("file://")
    table.delete("id = 1")
    table.add_files([other_name])
    lake.call(expire_snapshots, older_than=lake.now + timedelta(seconds=9))
    assert os.path.exists(other_name)
    assert ids(lake.table()) == [1]


def test_unused_specs_and_schemas_go_when_asked(lake: Lake, written: Table) -> None:
    """Schemas and specs that no kept snapshot and no manifest uses go; those in use stay."""
    with written.update_schema() as update:
        update.add_column("more", lake.table().schema().find_type("id"))
    with written.update_spec() as spec:
        spec.add_identity("city")
    columns: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("city", pa.string()), ("more", pa.int64())]
    written.overwrite(pa.table({"id": [7], "city": ["x"], "more": [8]}, schema=pa.schema(columns)))
    lake.call(expire_snapshots, older_than=lake.now + timedelta(seconds=9))
    assert len(lake.table().metadata.schemas) == 2
    lake.call(expire_snapshots, clean_expired_metadata=True)
    metadata = lake.table().metadata
    assert len(metadata.schemas) == 1
    assert metadata.default_spec_id in {spec.spec_id for spec in metadata.partition_specs}
    assert ids(lake.table()) == [7]


def test_a_schema_stays_for_the_spec_that_needs_it(lake: Lake, rows: Callable[..., pa.Table]) -> None:
    """Manifests of partitions by a column that was dropped can still be written anew."""
    by_city = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
    table = lake.table(schema=CITIES, partition_spec=by_city)
    table.append(rows(1))
    table.append(rows(2))
    with table.update_spec() as spec:
        spec.remove_field("city")
    with table.update_schema() as update:
        update.delete_column("city")
    table.append(pa.table({"id": [3]}))
    lake.call(expire_snapshots, older_than=lake.now + timedelta(seconds=9), clean_expired_metadata=True)
    assert len(lake.table().metadata.schemas) == 2
    [row] = lake.call(rewrite_manifests, spec_id=0)
    assert (row["rewritten_manifests_count"], row["added_manifests_count"]) == (2, 1)
    assert ids(lake.table()) == [1, 2, 3]


class Interrupted:
    """A target whose commit does something else first or afterwards; the rest is the real one's."""

    def __init__(self, target: Any, commit: Any) -> None:
        self._target = target
        self._commit = commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def __str__(self) -> str:
        return str(self._target)

    def commit(self, *arguments: Any) -> Any:
        """The real commit, as the test has it go."""
        return self._commit(self._target, *arguments)


def expiration(lake: Lake, commit: Any, **more: Any) -> Expiration:
    """An expiration of everything but the head, committed by ``commit``."""
    target: Any = Interrupted(lake.catalogs.table("lake", "default", "t"), commit)
    retention = Retention(lake.clock.ms + 9_000)
    minute = timedelta(minutes=1)
    proof = Proof(lake.catalogs, target, lambda _: LocalEngine(1))
    return Expiration(
        target=target,
        retention=retention,
        proof=proof,
        engine=lambda _: LocalEngine(1),
        now_ms=lambda: lake.clock.ms,
        timeout=minute,
        deletions=lake.metastore.deletions,
        **more,
    )


def test_a_tag_made_meanwhile_keeps_its_snapshot(lake: Lake, written: Table) -> None:
    """A commit that was planned before somebody tagged a snapshot is lost, and planned again with the tag."""
    first = snapshots(written)[0]
    tries: list[tuple[Any, ...]] = []

    def commit(target: Any, *arguments: Any) -> Any:
        if not tries:
            lake.table().manage_snapshots().create_tag(first, "kept").commit()
        tries.append(arguments)
        return target.commit(*arguments)

    row = expiration(lake, commit).run()
    assert len(tries) == 3  # lost, won, and the property that names the list taken away
    assert row["expired_snapshots_count"] == 2
    assert ids(lake.table(), snapshot_id=first) == [1]


@pytest.mark.usefixtures("written")
def test_an_open_outcome_deletes_nothing(lake: Lake) -> None:
    """When nobody knows whether the commit landed, all files stay; if it did, the next run deletes them."""
    before = lake.files()

    def commit(target: Any, *arguments: Any) -> Any:
        target.commit(*arguments)
        raise OutcomeUnknownError("the answer was lost")

    with pytest.raises(OutcomeUnknownError):
        expiration(lake, commit).run()
    assert lake.files() > before
    [row] = lake.call(expire_snapshots)
    assert (row["deleted_data_files_count"], row["deleted_manifest_lists_count"]) == (1, 3)
    assert not [path for path in lake.files() if path.endswith(SUFFIX)]


@pytest.mark.parametrize("error", [StorageError, CommitFailedException])
@pytest.mark.usefixtures("written")
def test_a_refused_commit_leaves_things_as_they_were(lake: Lake, clock: Clock, error: type[Exception]) -> None:
    """A commit that surely did not land leaves no list and deletes nothing, however often it is tried."""
    before = lake.files()
    tries: list[tuple[Any, ...]] = []

    def commit(*arguments: Any) -> Any:
        tries.append(arguments)
        raise error("no")

    with pytest.raises(MetastoreError, match=r"^no$|kept winning for 0:01:00") as raised:
        expiration(lake, commit, clock=clock).run()
    lost = error is CommitFailedException
    assert isinstance(raised.value, ConflictError if lost else StorageError)
    assert (len(tries) > 1) == lost
    assert lake.files() == before


_KILLED = """
import os, signal, sys
from datetime import timedelta
from metastore.components.catalogs import Catalogs
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.metastore import Metastore
from metastore.procedures.expire.expire import Expiration
from metastore.procedures.files.proof import Proof
from metastore.procedures.expire.retention import Retention

folder, now_ms = sys.argv[1], int(sys.argv[2])
lake = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}
given = {"drill.metastore.iceberg.location.base_path": folder, "drill.metastore.catalogs.lake": lake}

class Target:
    def __init__(self, target):
        self.target = target
    def __getattr__(self, name):
        return getattr(self.target, name)
    def commit(self, *arguments):
        self.target.commit(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

metastore = Metastore.open(Settings.from_mapping(given, environ={}))
catalogs = Catalogs(metastore)
target = Target(catalogs.table("lake", "default", "t"))
engine = lambda _: LocalEngine(1)
proof = Proof(catalogs, target, engine)
retention, now, none = Retention(now_ms + 9000), lambda: now_ms, timedelta(0)
Expiration(
    target=target, retention=retention, proof=proof, engine=engine, now_ms=now, timeout=none,
    deletions=metastore.deletions,
).run()
"""


def test_killed_between_commit_and_sweep(lake: Lake, written: Table) -> None:
    """A process that is killed after its commit leaves the files and their list; the next run deletes both."""
    before = lake.files()
    command = [sys.executable, "-c", _KILLED, str(lake.folder), str(lake.clock.ms)]
    killed = subprocess.run(command, check=False, timeout=60, cwd=Path(__file__).parents[3])
    assert killed.returncode == -signal.SIGKILL
    assert len(snapshots(written)) == 1
    assert before < lake.files()
    [row] = lake.call(expire_snapshots)
    assert (row["deleted_data_files_count"], row["deleted_manifest_lists_count"]) == (1, 3)
    assert not [path for path in lake.files() if path.endswith(SUFFIX)]
    assert ids(lake.table()) == [2, 3]
    [row] = lake.call(expire_snapshots)
    assert row["message"] == "nothing to expire"


def test_a_list_left_over_spares_what_came_into_use(lake: Lake, written: Table) -> None:
    """A file on a list that a later snapshot took in again is not deleted by the next run."""
    [task] = written.scan(row_filter="id = 1", snapshot_id=snapshots(written)[0]).plan_files()

    def commit(target: Any, *arguments: Any) -> Any:
        target.commit(*arguments)
        raise OutcomeUnknownError("the answer was lost")

    with pytest.raises(OutcomeUnknownError):
        expiration(lake, commit).run()
    lake.table().add_files([task.file.file_path])
    [row] = lake.call(expire_snapshots)
    assert (row["deleted_data_files_count"], row["deleted_manifest_lists_count"]) == (0, 3)
    assert ids(StaticTable.from_metadata(lake.table().metadata_location)) == [1, 2, 3]


def test_a_component_expires_as_any_table(lake: Lake, unit: Callable[..., TableMetadataUnit]) -> None:
    """The metastore's own tables are targets like others, and can be read and written afterwards."""
    tables = lake.metastore.tables
    for name in ("one", "two", "two"):
        tables.modify().overwrite([unit(name)]).execute()
    own = {"catalog": "metastore", "schema": "components", "table": "tables"}
    [row] = lake.call(expire_snapshots, **own, older_than=lake.now + timedelta(seconds=9))
    assert (row["expired_snapshots_count"], row["deleted_data_files_count"]) == (2, 1)
    tables.modify().overwrite([unit("three")]).execute()
    names = tables.read().metadata_types(MetadataType.ALL).columns("tableName").to_arrow()["tableName"].to_pylist()
    assert sorted(map(str, names)) == ["one", "three", "two"]


def test_version_1_tables(lake: Lake, rows: Callable[..., pa.Table]) -> None:
    """Tables of format version 1, whose manifests know no sequence numbers, expire as others do."""
    table = lake.table(properties={"format-version": "1"})
    table.append(rows(1))
    table.overwrite(rows(2))
    [row] = lake.call(expire_snapshots, older_than=lake.now + timedelta(seconds=9))
    assert row["deleted_data_files_count"] == 1
    assert ids(lake.table()) == [2]
