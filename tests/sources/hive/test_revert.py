"""The way back from a migration: the description is the saved one, files of Iceberg go, nothing of Hive's does."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hive_metastore.ttypes import Partition, Table
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import StringType
from services.hive_tables import HiveMaker

from metastore.errors import ConflictError, FormatError, NotFoundError, ProcedureError
from metastore.session import Session
from metastore.sources.hive.client import HiveClient

pytestmark = pytest.mark.integration

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def load(session: Session, hive: HiveMaker) -> Callable[[str], IcebergTable]:
    """The Iceberg table of a name."""
    return lambda name: session.catalogs.table("lake", hive.database, name).load()


def described(hive: HiveMaker, name: str) -> tuple[Table, list[Partition]]:
    """The service's description, but for the times of alterations."""
    table, partitions = hive.client.table(hive.database, name), hive.client.partitions(hive.database, name)
    for each in (table, *partitions):
        each.parameters.pop("transient_lastDdlTime", None)
    return table, partitions


def files(hive: HiveMaker, name: str) -> list[str]:
    """Everything in the table's folder."""
    return sorted(str(path.relative_to(hive.folder)) for path in Path(hive.folder / name).rglob("*"))


def partitioned(hive: HiveMaker) -> str:
    """A table with two partitions of a file each."""
    name: str = hive.table({"id": "bigint"}, {"p": "string"}, parameters={"spark.sql.sources.provider": "parquet"})
    for number, value in enumerate(("a b", "x/y")):
        hive.write(hive.partition(name, value), {"id": [number]})
    return name


def test_there_and_back(hive: HiveMaker, call: Call) -> None:
    """The description of table and partitions, its kind included, and the folder are as they were."""
    name = partitioned(hive)
    before, lying = described(hive, name), files(hive, name)
    call("migrate", name)
    assert described(hive, name) != before
    dry = call("revert_migration", name, dry_run=True)
    assert (dry["status"], dry["partitions"]) == ("can be reverted", 2)
    done = call("revert_migration", name)
    assert (done["status"], done["recreated"], done["discarded_snapshots"]) == ("reverted", False, 0)
    assert described(hive, name) == before
    assert files(hive, name) == lying
    assert before[0].tableType == "MANAGED_TABLE"
    assert call("migrate", name)["records"] == 2


def test_changes_are_lost_only_on_request(hive: HiveMaker, call: Call, load: Callable[[str], IcebergTable]) -> None:
    """Commits since then stop it; on request they go, and their files; a file of Hive's stays."""
    name = partitioned(hive)
    before, lying = described(hive, name), files(hive, name)
    call("migrate", name)
    load(name).append(pa.table({"id": [7], "p": ["a b"]}))
    load(name).delete("p = 'x/y'")
    with pytest.raises(ProcedureError, match="2 snapshots since its migration"):
        call("revert_migration", name)
    done = call("revert_migration", name, discard_changes=True)
    assert done["discarded_snapshots"] == 2
    assert described(hive, name) == before
    assert files(hive, name) == lying


def test_files_that_were_added_stay(
    session: Session, hive: HiveMaker, call: Call, load: Callable[[str], IcebergTable]
) -> None:
    """No Iceberg commit wrote them, though one spoke of them: they are their owner's, as they were before."""
    name = hive.table({"id": "bigint"})
    hive.write(name, {"id": [1]})
    (hive.folder / name / "aside").mkdir()
    hive.write(hive.folder / name / "aside", {"id": [2]})
    lying = files(hive, name)
    call("migrate", name, recursive_directory="false")
    place = f"file:{hive.folder}/{name}/aside"
    session.call("lake.system.add_files", schema=hive.database, table_name=name, location=place, format="PARQUET")
    load(name).append(pa.table({"id": [3]}))
    assert load(name).scan().count() == 3
    assert call("revert_migration", name, discard_changes=True)["discarded_snapshots"] == 2
    assert files(hive, name) == lying


def test_columns_that_the_service_does_not_take_back(
    hive: HiveMaker, call: Call, load: Callable[[str], IcebergTable]
) -> None:
    """A tinyint that became an int cannot become one again by alteration: the table is dropped and made anew."""
    name = hive.table({"id": "bigint", "n": "tinyint"}, {"p": "string"})
    hive.write(hive.partition(name, "a"), {"id": [1], "n": pa.array([1], pa.int8())})
    before, lying = described(hive, name), files(hive, name)
    call("migrate", name)
    with load(name).update_schema() as update:
        update.add_column("more", StringType())
    done = call("revert_migration", name)
    assert done["recreated"]
    found = described(hive, name)
    assert [each.values for each in found[1]] == [each.values for each in before[1]]
    assert found[0].sd == before[0].sd
    assert files(hive, name) == lying


def test_killed_between_dropping_and_creating(
    hive: HiveMaker, call: Call, load: Callable[[str], IcebergTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metastore has forgotten the table; the backup, by its location, brings it back."""
    name = hive.table({"n": "tinyint"})
    hive.write(name, {"n": pa.array([1], pa.int8())})
    lying = files(hive, name)
    call("migrate", name)
    with load(name).update_schema() as update:
        update.add_column("more", StringType())
    backup = load(name).properties["metastore.hive-backup"]
    with monkeypatch.context() as patch:
        patch.setattr(HiveClient, "create_table", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            call("revert_migration", name)
    with pytest.raises(NotFoundError):
        call("revert_migration", name)
    assert call("revert_migration", name, backup=backup)["status"] == "reverted"
    assert hive.client.table(hive.database, name).sd.cols[0].type == "tinyint"
    assert files(hive, name) == lying


def test_killed_between_the_table_and_its_partitions(
    hive: HiveMaker, call: Call, load: Callable[[str], IcebergTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that was made anew and has no partitions yet is not whole: calling again brings them, from the backup."""
    name = hive.table({"id": "bigint", "n": "tinyint"}, {"p": "string"})
    for value in ("a", "b"):
        place = hive.partition(name, value, folder=f"elsewhere_{value}")
        hive.write(place, {"id": [1], "n": pa.array([1], pa.int8())})
    before, lying = described(hive, name), files(hive, name)
    call("migrate", name)
    with load(name).update_schema() as update:
        update.add_column("more", StringType())
    with monkeypatch.context() as patch:
        patch.setattr(HiveClient, "add_partitions", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            call("revert_migration", name)
    done = call("revert_migration", name)
    assert (done["status"], done["partitions"]) == ("already reverted", 2)
    found = described(hive, name)
    assert [(each.values, each.sd) for each in found[1]] == [(each.values, each.sd) for each in before[1]]
    assert found[0].parameters.keys() == before[0].parameters.keys()
    assert files(hive, name) == lying


def test_killed_before_the_files_were_removed(
    hive: HiveMaker, call: Call, load: Callable[[str], IcebergTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is Hive's already; calling again removes what is left."""
    from metastore.procedures.hive.migration import revert  # noqa: PLC0415 - the module that is broken off

    name = partitioned(hive)
    before, lying = described(hive, name), files(hive, name)
    call("migrate", name)
    load(name).append(pa.table({"id": [7], "p": ["a b"]}))
    with monkeypatch.context() as patch:
        patch.setattr(revert, "_clean", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            call("revert_migration", name, discard_changes=True)
    assert described(hive, name) == before
    assert files(hive, name) != lying
    with pytest.raises(ProcedureError, match="is being reverted"):
        call("migrate", name, recursive_directory="true")
    assert call("revert_migration", name)["status"] == "already reverted"
    assert files(hive, name) == lying
    with pytest.raises(ProcedureError, match="nothing to revert"):
        call("revert_migration", name)


def test_files_that_maintenance_removed(hive: HiveMaker, call: Call) -> None:
    """Without them the Hive table would have lost rows: refused, and named."""
    name = partitioned(hive)
    call("migrate", name)
    next(Path(hive.folder / name).glob("p=*/*")).unlink()
    with pytest.raises(ProcedureError, match="1 of its files were removed"):
        call("revert_migration", name)


def test_a_commit_in_between(
    hive: HiveMaker, call: Call, load: Callable[[str], IcebergTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noticed under the lock: nothing is changed."""
    name = partitioned(hive)
    call("migrate", name)
    locked = HiveClient.lock_table

    def meddled(client: HiveClient, *place: str) -> Any:
        with load(name).transaction() as transaction:
            transaction.set_properties({"a": "b"})
        return locked(client, *place)

    with monkeypatch.context() as patch:
        patch.setattr(HiveClient, "lock_table", meddled)
        with pytest.raises(ConflictError, match="committed to"):
            call("revert_migration", name)
    assert set(load(name).scan().to_arrow()["id"].to_pylist()) == {0, 1}


def test_what_no_migration_made(hive: HiveMaker, call: Call, load: Callable[[str], IcebergTable]) -> None:
    """A table that was always Iceberg's has nothing to go back to."""
    name = partitioned(hive)
    call("migrate", name)
    table = load(name)
    table.catalog.create_table((hive.database, "always"), table.schema(), location=f"file:{hive.folder}/always")
    with pytest.raises(ProcedureError, match="cannot be reverted"):
        call("revert_migration", "always")


def test_what_is_damaged_is_named(hive: HiveMaker, call: Call, load: Callable[[str], IcebergTable]) -> None:
    """A backup, a version of the metadata, and the list of what a reversion has left: each is a FormatError."""
    name = partitioned(hive)
    call("migrate", name)
    backup = Path(load(name).properties["metastore.hive-backup"].removeprefix("file:"))
    whole = backup.read_bytes()
    lines = gzip.decompress(whole).split(b"\n")
    for content in (
        whole[:40] + b"\xff\xff\xff" + whole[43:],
        gzip.compress(b"\n".join([lines[0], lines[1].replace(b"{", b"[", 1)])),
        gzip.compress(b"\n".join([lines[0], b'{"1":{"str":9}}'])),
    ):
        backup.write_bytes(content)
        with pytest.raises(FormatError, match="is no backup of a Hive table"):
            call("revert_migration", name)
    backup.write_bytes(whole)
    metadata = Path(load(name).metadata_location.removeprefix("file:"))
    kept = metadata.read_bytes()
    metadata.write_bytes(kept[: len(kept) // 2])
    for procedure in ("revert_migration", "migrate"):
        with pytest.raises(FormatError, match=metadata.name):
            call(procedure, name)
    metadata.write_bytes(kept)
    call("revert_migration", name)
    torn = hive.folder / name / "_iceberg" / "attempt" / "reverted.json"
    torn.parent.mkdir(parents=True)
    torn.write_text("[")
    for procedure in ("revert_migration", "migrate"):
        with pytest.raises(FormatError, match=r"attempt/reverted\.json"):
            call(procedure, name)


def test_nothing_outside_the_table_is_removed(hive: HiveMaker, call: Call) -> None:
    """A list of files to remove that somebody put there leads to no other table's files."""
    name, other = hive.table({"id": "bigint"}), hive.write(hive.table({"id": "bigint"}), {"id": [1]})
    marker = hive.folder / name / "_iceberg" / "attempt" / "reverted.json"
    marker.parent.mkdir(parents=True)
    detour = f"file:{hive.folder}/{name}/../{other.parent.name}/{other.name}"
    marker.write_text(json.dumps([f"file:{other}", detour]))
    assert call("revert_migration", name)["status"] == "already reverted"
    assert other.exists()
    assert not marker.exists()


def test_the_backup_holds_everything(hive: HiveMaker, call: Call, session: Session) -> None:
    """Each partition with all that the service said of it, its parameters included."""
    from metastore.procedures.hive.migration.backup import Backup  # noqa: PLC0415 - what is looked into

    name = partitioned(hive)
    before = copy.deepcopy((hive.client.table(hive.database, name), hive.client.partitions(hive.database, name)))
    call("migrate", name)
    table = session.catalogs.table("lake", hive.database, name).load()
    backup = Backup.read(table.io, table.properties["metastore.hive-backup"])
    assert (backup.table, list(backup.partitions)) == before
    with pytest.raises(NotFoundError, match="is gone"):
        Backup.read(table.io, f"file:{hive.folder}/nothing")
