"""Tables of format version 3: their metadata is changed here, and what this package does not know stays as it is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.types import LongType, NestedField, StringType

import metastore
from metastore.config import Settings
from metastore.errors import StorageError
from metastore.lake.iceberg.catalogs.metadata_document import newest_document
from metastore.session import Session

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "k", StringType()))
UNKNOWN = {"unknown-to-us": {"deep": [1, {"x": None}]}}


class Lake:
    """A session whose catalog ``lake`` has the table ``db.t`` of version 3, with unknown fields at every level."""

    def __init__(self, folder: Path, kind: str) -> None:
        catalog = {"type": kind, "warehouse": f"{folder}/wh"}
        if kind == "sql":
            catalog |= {"uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh"}
        settings = {"iceberg.location.base_path": str(folder / "m"), "catalogs.lake": catalog}
        self.session: Session = metastore.connect(Settings.from_mapping({"drill.metastore": settings}, environ={}))
        self.catalog: Catalog = self.session.catalogs.open("lake")
        self.catalog.create_namespace("db")
        table = self.catalog.create_table("db.t", SCHEMA)
        for number in range(4):
            table.append(pa.table({"id": [number], "k": ["a"]}))
        self.call("create_tag", tag="old", snapshot_id=self.snapshots[1])
        self._folder, self._kind = folder, kind
        self._replace(self._as_version_3(self.raw))

    @property
    def raw(self) -> dict[str, Any]:
        """The newest metadata as it stands in its file."""
        target = self.session.catalogs.target("lake", "db", "t")
        found = newest_document(target.source, target.identifier)
        assert found is not None
        return dict(json.loads(json.dumps(found.content)))

    @property
    def snapshots(self) -> list[int]:
        """Ids of all snapshots, the oldest first."""
        return [snapshot.snapshot_id for snapshot in self.catalog.load_table("db.t").metadata.snapshots]

    def call(self, name: str, **arguments: Any) -> list[dict[str, Any]]:
        """Call a procedure on the table."""
        found = self.session.call(f"lake.system.{name}", schema="db", table_name="t", **arguments)
        return [dict(row) for row in found.to_pylist()]

    @staticmethod
    def _as_version_3(raw: dict[str, Any]) -> dict[str, Any]:
        for number, snapshot in enumerate(raw["snapshots"]):
            snapshot |= {"first-row-id": number, "added-rows": 1, **UNKNOWN}
        for name in ("schemas", "partition-specs", "sort-orders"):
            raw[name] = [each | UNKNOWN for each in raw[name]]
        raw["refs"] = {name: ref | UNKNOWN for name, ref in raw["refs"].items()}
        return {**raw, "format-version": 3, "next-row-id": 4, "encryption-keys": [{"key-id": "k"}], **UNKNOWN}

    def _replace(self, raw: dict[str, Any]) -> None:
        path = Path(self.catalog.load_table("db.t").metadata_location.removeprefix("file://"))
        if self._kind == "filesystem":
            path.write_text(json.dumps(raw))
            self.catalog._loaded.clear()  # type: ignore[attr-defined]
            return
        new = path.with_name("00009-00000000-0000-0000-0000-000000000000.metadata.json")
        new.write_text(json.dumps(raw))
        with sqlite3.connect(self._folder / "c.db") as database:
            database.execute("UPDATE iceberg_tables SET metadata_location = ?", (f"file://{new}",))


@pytest.fixture(params=["sql", "filesystem"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    """The lake on either catalog."""
    made = Lake(tmp_path, request.param)
    with made.session:
        yield made


def soon() -> datetime:
    """Later than every snapshot."""
    return datetime.now(timezone.utc) + timedelta(minutes=1)


CHANGES: dict[str, Callable[[Lake], Any]] = {
    "a tag": lambda lake: lake.call("create_tag", tag="new", snapshot_id=lake.snapshots[0]),
    "a branch": lambda lake: lake.call("create_branch", branch="new"),
    "a ref less": lambda lake: lake.call("drop_tag", tag="old"),
    "a rollback": lambda lake: lake.call("rollback_to_snapshot", snapshot_id=lake.snapshots[2]),
    "an expiration": lambda lake: lake.call("expire_snapshots", older_than=soon()),
    "a property": lambda lake: lake.session.sql("ALTER TABLE lake.db.t SET PROPERTIES a = 'b'"),
    "statistics": lambda lake: lake.call("compute_table_stats"),
}


def kept(before: Any, after: Any) -> bool:
    """Whether all that ``before`` has of unknown fields is in ``after`` too, entry by entry."""
    return all(after[name] == before[name] for name in (*UNKNOWN, "encryption-keys", "next-row-id", "format-version"))


@pytest.mark.parametrize("change", CHANGES)
def test_unknown_fields_stay(lake: Lake, change: str) -> None:
    """At the top and in each snapshot, schema, spec, order and ref that is still there; what is asked for is done."""
    before = lake.raw
    CHANGES[change](lake)
    after = lake.raw
    assert kept(before, after)
    assert after["schemas"] == before["schemas"]
    assert after["partition-specs"] == before["partition-specs"]
    assert after["sort-orders"] == before["sort-orders"]
    old = {each["snapshot-id"]: each for each in before["snapshots"]}
    assert after["snapshots"] == [old[each["snapshot-id"]] for each in after["snapshots"]]
    for name, ref in after["refs"].items():
        if name in before["refs"]:
            assert ref["unknown-to-us"] == UNKNOWN["unknown-to-us"]
    differing = {name for name in after if after[name] != before.get(name)}
    assert differing - {"last-updated-ms", "metadata-log"} <= {
        "a tag": {"refs"},
        "a branch": {"refs"},
        "a ref less": {"refs"},
        "a rollback": {"refs", "current-snapshot-id", "snapshot-log"},
        "an expiration": {"refs", "snapshots", "snapshot-log", "properties"},
        "a property": {"properties"},
        "statistics": {"statistics"},
    }[change] | {"properties"}
    assert lake.session.sql("SELECT id FROM lake.db.t ORDER BY id")["id"].to_pylist() == (
        [0, 1, 2] if change == "a rollback" else [0, 1, 2, 3]
    )


def test_refs_that_are_left_keep_their_snapshots(lake: Lake) -> None:
    """A tag is no branch after another commit, and an expired snapshot is in no log."""
    lake.call("expire_snapshots", older_than=soon())
    after = lake.raw
    ids = {each["snapshot-id"] for each in after["snapshots"]}
    assert {ref["snapshot-id"] for ref in after["refs"].values()} == ids
    assert after["refs"]["old"]["type"] == "tag"
    assert {each["snapshot-id"] for each in after["snapshot-log"]} <= ids


def test_columns_are_changed_where_all_of_them_are_known(lake: Lake) -> None:
    """The new schema is ours, the old ones stay as they stand."""
    before = lake.raw
    lake.session.sql("ALTER TABLE lake.db.t ADD COLUMN late BIGINT")
    after = lake.raw
    assert kept(before, after)
    assert after["schemas"][: len(before["schemas"])] == before["schemas"]
    assert [field["name"] for field in after["schemas"][-1]["fields"]] == ["id", "k", "late"]
    assert lake.session.sql("SELECT late FROM lake.db.t")["late"].null_count == 4


def test_columns_with_what_is_unknown_are_not_written_anew(lake: Lake) -> None:
    """A schema that this package made of them would lose it; nothing is changed."""
    raw = lake.raw
    raw["schemas"][-1]["fields"][0]["unknown-to-us"] = "x"
    lake._replace(raw)
    with pytest.raises(StorageError, match="others have attributes that this package does not know"):
        lake.session.sql("ALTER TABLE lake.db.t ADD COLUMN late BIGINT")
    assert lake.raw == raw
    lake.call("create_tag", tag="new")
    assert lake.raw["schemas"] == raw["schemas"]


def test_a_new_snapshot_keeps_what_is_unknown(lake: Lake) -> None:
    """One of its own is added; the others, and all else, stay as they stand."""
    before = lake.raw
    lake.call("rewrite_manifests")
    after = lake.raw
    assert after["snapshots"][:-1] == before["snapshots"]
    assert after["snapshots"][-1]["first-row-id"] == 4
    assert after["next-row-id"] == 4 + after["snapshots"][-1]["added-rows"]
    assert kept(before | {"next-row-id": after["next-row-id"]}, after)


def test_a_snapshot_that_does_not_continue_the_table_is_a_lost_race(lake: Lake) -> None:
    """Its sequence number or row ids are those of a version that others have left; no version is published."""
    before = lake.raw
    target = lake.session.catalogs.target("lake", "db", "t")
    table = target.load()
    for number, row_id in ((4, 4), (9, 5)):
        new = {"snapshot_id": 7, "sequence_number": number, "first_row_id": row_id, "added_rows": 1}
        snapshot = table.metadata.snapshots[-1].model_copy(update=new)
        with pytest.raises(CommitFailedException, match="does not continue sequence number"):
            target.commit(table, [], [AddSnapshotUpdate(snapshot=snapshot)])
    assert lake.raw == before
