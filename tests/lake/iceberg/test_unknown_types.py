"""A table that PyIceberg cannot read is named by its type, and stops nobody else."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import metastore
from metastore.config import Settings
from metastore.errors import FormatError
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.iceberg.columns.unknown_types import unknown_types
from metastore.session import Session

LAYERS = {
    "v": "variant",
    "s": {"type": "struct", "fields": [{"id": 11, "name": "inner", "required": False, "type": "variant"}]},
    "l": {"type": "list", "element-id": 12, "element-required": False, "element": "interval"},
    "m": {"type": "map", "key-id": 13, "key": "string", "value-id": 14, "value-required": False, "value": "variant"},
    "x": "interval",
    "plain": "timestamptz_ns",
    "d": "decimal(38,10)",
}


def test_unknown_types_are_found_wherever_they_are() -> None:
    """In structs, lists and maps of the current schema; types that PyIceberg knows are none."""
    old = {"schema-id": 0, "fields": [{"id": 1, "name": "gone", "required": False, "type": "variant"}]}
    fields = [{"id": 1, "name": name, "required": False, "type": kind} for name, kind in LAYERS.items()]
    raw = {"current-schema-id": 1, "schemas": [old, {"schema-id": 1, "fields": fields}]}
    assert unknown_types(raw) == {"l.element": "interval", "x": "interval"}
    assert unknown_types({}) == {}


@pytest.fixture(params=["sql", "filesystem"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Session, Callable[[str, Callable[[Any], Any]], None]]:
    """A session over a catalog ``lake`` with ``db.other`` and ``db.strange``, and what changes a table's metadata."""
    kind = request.param
    uri = {"uri": f"sqlite:///{tmp_path}/c.db"} if kind == "sql" else {}
    catalog = {"type": kind, "warehouse": f"file://{tmp_path}/wh" if kind == "sql" else f"{tmp_path}/wh", **uri}
    session = metastore.connect(
        Settings.from_mapping(
            {
                "drill.metastore.iceberg.location.base_path": str(tmp_path / "m"),
                "drill.metastore.catalogs.lake": catalog,
            },
            environ={},
        )
    )
    opened = session.catalogs.open("lake")
    opened.create_namespace("db")
    for name in ("other", "strange"):
        table = opened.create_table(f"db.{name}", Schema(NestedField(1, "id", LongType())))
        if kind == "sql":
            table.append(pa.table({"id": pa.array([1], pa.int64())}))

    def rewrite(name: str, change: Callable[[Any], Any], *, compressed: bool = kind == "sql") -> None:
        path = Path(opened.load_table(f"db.{name}").metadata_location.removeprefix("file://"))
        content = json.dumps(change(json.loads(path.read_text()))).encode()
        if kind == "filesystem":
            path.write_bytes(content)
            opened._loaded.clear()  # type: ignore[attr-defined]
            return
        new = path.with_name(f"00009-{'0' * 8}-0000-0000-0000-{'0' * 12}.{'gz.' if compressed else ''}metadata.json")
        new.write_bytes(gzip.compress(content) if compressed else content)
        with sqlite3.connect(tmp_path / "c.db") as database:
            database.execute(
                "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?", (f"file://{new}", name)
            )

    return session, rewrite


def with_interval(raw: Any) -> Any:
    """The metadata with one column more, of a type that nobody knows."""
    raw["schemas"][-1]["fields"].append({"id": 9, "name": "payload", "required": False, "type": "interval"})
    return {**raw, "last-column-id": 9}


def test_an_error_names_column_and_type(lake: tuple[Session, Any]) -> None:
    """It is a table, though not one that can be read."""
    session, rewrite = lake
    rewrite("strange", with_interval)
    target = session.catalogs.target("lake", "db", "strange")
    with pytest.raises(FormatError, match="it has payload of type interval, which PyIceberg does not know"):
        target.load()


def test_a_neighbour_that_cannot_be_read_stops_nobody(lake: tuple[Session, Any], tmp_path: Path) -> None:
    """Its files stay, and those that nobody reaches in the folder of another go."""
    session, rewrite = lake
    rewrite("strange", with_interval)
    for name in ("other", "strange"):
        stray = tmp_path / "wh" / "db" / name / "data" / "stray.parquet"
        stray.parent.mkdir(parents=True, exist_ok=True)
        stray.write_bytes(b"x")
        os.utime(stray, (0, 0))
    session.call("lake.system.remove_orphan_files", schema="db", table_name="other")
    assert not (tmp_path / "wh" / "db" / "other" / "data" / "stray.parquet").exists()
    assert (tmp_path / "wh" / "db" / "strange" / "data" / "stray.parquet").exists()


def test_a_folder_that_cannot_be_looked_into_hides_no_other(tmp_path: Path) -> None:
    """It is listed as a table, and as a namespace above tables: whoever asks for it gets the error."""
    catalog = FileSystemCatalog("lake", str(tmp_path))
    catalog.create_table("db.good", Schema(NestedField(1, "id", LongType())))
    for folder in ("db/bad", "odd"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "metadata").write_text("no folder")
        (tmp_path / folder / "metadata").chmod(0)
    assert ("db",) in catalog.list_namespaces()
    assert ("db", "good") in catalog.list_tables("db")


def test_metadata_that_is_none_hides_no_other_table(lake: tuple[Session, Any]) -> None:
    """It is listed, and whoever asks for that table gets the error."""
    session, rewrite = lake
    rewrite("strange", lambda _: [])
    assert session.catalogs.tables("lake", "db") == ["other", "strange"]
    with pytest.raises(FormatError):
        session.catalogs.load("lake", "db", "strange")
    session.catalogs.load("lake", "db", "other")
