"""Deletion has roots: the operator's word decides where files of a table may go, not that of the table's writers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import SetLocationUpdate
from support.catalog_lake import Lake

from metastore.errors import ProcedureError
from metastore.procedures.expire.expire import expire_snapshots
from metastore.procedures.files.deletion_roots import deletion_roots, is_own_location
from metastore.procedures.orphans.old_metadata import remove_old_metadata
from metastore.procedures.orphans.remove_orphans import remove_orphan_files
from metastore.session import Session


def moved(lake: Lake, table: Table, location: str) -> Table:
    """The table after a writer has set its location, by a commit that writes the metadata there."""
    lake.catalog.commit_table(table, (), (SetLocationUpdate(location=location),))
    return lake.table(table.name()[-1])


def old_file(path: Path) -> Path:
    """A file that nobody's table names, and that is old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    os.utime(path, (0, 0))
    return path


def allow(lake: Lake, *locations: str) -> None:
    """What the operator writes into the configuration."""
    settings = lake.context.settings
    procedures = replace(settings.procedures, allowed_locations=locations)
    lake.context = replace(lake.context, settings=replace(settings, procedures=procedures))


@pytest.mark.parametrize("above", ["", "lake", "lake/default", "elsewhere", "lake/default/t/data/.."])
def test_a_location_that_a_writer_set_is_no_root(lake: Lake, rows: Callable[..., pa.Table], above: str) -> None:
    """Above the table, beside it or anywhere: only what the operator gave is a root, and no orphans are looked for.

    The folder of the table itself, however it is spelled, is its own.
    """
    table = lake.table()
    table.append(rows(1))
    landing = old_file(lake.folder / above / "landing/a.parquet")
    table = moved(lake, table, f"file://{lake.folder}/{above}".rstrip("/"))
    target = lake.catalogs.target("lake", "default", "t")
    is_home = above.endswith("..")
    assert deletion_roots(target, table).folders == (f"file://{lake.folder}/lake",)
    assert is_own_location(target, table) == is_home
    lake.later(days=10)
    if is_home:
        lake.call(remove_orphan_files)
    else:
        with pytest.raises(ProcedureError, match="was not made at its location"):
            lake.call(remove_orphan_files)
    assert landing.exists() != is_home


def test_where_the_catalog_made_the_table_is_a_root(lake: Lake, rows: Callable[..., pa.Table]) -> None:
    """The creator's location, outside of the warehouse: as long as the first version stands there, it is the table's.

    Without that version only the operator can say so.
    """
    table = lake.table(location=f"file://{lake.folder}/mine")
    table.append(rows(1))
    orphan = old_file(lake.folder / "mine/data/orphan")
    target = lake.catalogs.target("lake", "default", "t")
    lake.later(days=10)
    assert f"file://{lake.folder}/mine" in deletion_roots(target, lake.table()).folders
    [first] = (lake.folder / "mine/metadata").glob("00000-*")
    first.unlink()
    assert deletion_roots(target, lake.table()).folders == (f"file://{lake.folder}/lake",)
    with pytest.raises(ProcedureError, match="was not made at its location"):
        lake.call(remove_orphan_files)
    allow(lake, f"file://{lake.folder}/mine")
    lake.call(remove_orphan_files)
    assert not orphan.exists()


@pytest.mark.parametrize("allowed", [False, True])
def test_imported_files_are_the_operators(lake: Lake, rows: Callable[..., pa.Table], allowed: bool) -> None:
    """A file of another place that an expired snapshot names stays, and is named; the configuration can allow it."""
    table = lake.table()
    table.append(rows(1))
    theirs = old_file(lake.folder / "theirs/a.parquet")
    pa.parquet.write_table(rows(2), theirs)
    table.add_files([f"file://{theirs}"])
    table.overwrite(rows(3))
    if allowed:
        allow(lake, f"file://{lake.folder}/theirs")
    [planned] = lake.call(expire_snapshots, older_than=lake.now + timedelta(days=1), dry_run=True)
    assert theirs.exists()
    [row] = lake.call(expire_snapshots, older_than=lake.now + timedelta(days=1))
    named = [] if allowed else [f"file://{theirs}"]
    assert planned["kept_files"] == row["kept_files"] == named
    assert ("allowed_locations" in row["message"]) != allowed
    assert theirs.exists() != allowed
    assert row["deleted_data_files_count"] == 2 if allowed else 1
    assert row["failed_files_count"] == 0


def test_old_metadata_elsewhere_stays(lake: Lake, rows: Callable[..., pa.Table]) -> None:
    """A property of the table leads no deletion of metadata files out of the roots; each is named."""
    elsewhere = {"write.metadata.path": f"file://{lake.folder}/m", "write.metadata.previous-versions-max": "1"}
    table = lake.table(properties=elsewhere)
    for number in range(4):
        table.append(rows(number))
    lake.later(days=10)
    before = sorted((lake.folder / "m").iterdir())
    found = lake.call(remove_old_metadata)
    assert {(row["deleted"], "allowed_locations" in row["error"]) for row in found} == {(False, True)}
    assert sorted((lake.folder / "m").iterdir()) == before


def test_databases_and_configuration_are_never_candidates(tmp_path: Path, rows: Callable[..., pa.Table]) -> None:
    """Where a root holds the databases of catalogs and the configuration, they stay; a stray beside them goes."""
    conf = tmp_path / "lake/s/t/drill-metastore-override.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text(f"""drill.metastore {{ iceberg.location.base_path = "{tmp_path}/store"
        procedures.min_orphan_age = 0 s
        catalogs.lake {{ type = sql, uri = "sqlite:///{conf.parent}/lake.db", warehouse = "file://{tmp_path}/lake" }}
        catalogs.other {{ type = sql, uri = "sqlite:///{conf.parent}/other.db", warehouse = "file://{tmp_path}/o" }}
        storage.shop {{ type = jdbc, connection = "jdbc:sqlite:{conf.parent}/shop.db" }} }}""")
    from metastore import connect  # noqa: PLC0415 - the front door loads the whole package

    with connect(conf) as session:
        assert isinstance(session, Session)
        catalog = session.catalogs.open("lake")
        session.catalogs.open("other").create_namespace("s")
        catalog.create_namespace("s")
        catalog.create_table("s.t", rows(1).schema).append(rows(1))
        stray = old_file(conf.parent / "stray")
        needed = [conf, *(conf.parent / name for name in ("lake.db", "other.db", "shop.db", "other.db-wal"))]
        for path in needed:
            path.touch()
            os.utime(path, (0, 0))
        session.call("lake.system.remove_orphan_files", schema="s", table_name="t")
        assert not stray.exists()
        assert [path for path in needed if not path.exists()] == []
