"""``remove_orphan_files`` with a list of files: the list names candidates, and the store has the last word."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import metastore
from metastore.config import Settings
from metastore.errors import InvalidRequestError, NotFoundError, ProcedureError
from metastore.session import Session

NOW = datetime.now(timezone.utc)
OLD = NOW - timedelta(days=30)


class Lake:
    """``lake.db.t`` with one file; ``lake.db.inventory`` is the list."""

    def __init__(self, folder: Path) -> None:
        lake = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh"}
        settings = {"iceberg.location.base_path": str(folder / "m"), "catalogs.lake": lake}
        self.session: Session = metastore.connect(Settings.from_mapping({"drill.metastore": settings}, environ={}))
        self.session.sql("CREATE SCHEMA lake.db")
        self.session.sql("CREATE TABLE lake.db.t (id BIGINT)")
        self.session.sql("INSERT INTO lake.db.t VALUES (1)")
        self.session.sql("CREATE TABLE lake.db.inventory (file_path VARCHAR, last_modified TIMESTAMPTZ)")
        self.table = self.session.catalogs.target("lake", "db", "t").load()
        self.root = Path(self.table.metadata.location.removeprefix("file://"))
        self.own = [row["file_path"] for row in self.session.sql('SELECT file_path FROM lake.db."t$files"').to_pylist()]

    def put(self, name: str, *, old: bool = True) -> str:
        """A file below the table that nothing reaches."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"orphan")
        if old:
            os.utime(path, (OLD.timestamp(), OLD.timestamp()))
        return f"file://{path}"

    def listed(self, *paths: str, time: datetime = OLD) -> None:
        """Put files on the list."""
        rows = pa.table(
            {"file_path": list(paths), "last_modified": pa.array([time] * len(paths), pa.timestamp("us", "UTC"))}
        )
        self.session.catalogs.target("lake", "db", "inventory").load().append(rows)

    def removed(self, **arguments: Any) -> list[str]:
        """The locations that a call deleted."""
        found = self.session.call(
            "lake.system.remove_orphan_files",
            schema="db",
            table_name="t",
            **{"file_list_view": "lake.db.inventory", **arguments},
        ).to_pylist()
        assert all(row["deleted"] for row in found) or arguments.get("dry_run")
        return [f"file://{row['orphan_file_location'].removeprefix('file://')}" for row in found]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A new lake."""
    made = Lake(tmp_path)
    with made.session:
        yield made


def test_only_listed_files_are_orphans(lake: Lake) -> None:
    """Reached files stay, and so do orphans that the list does not name."""
    stray, other = lake.put("data/stray.parquet"), lake.put("data/other.parquet")
    lake.listed(stray, *lake.own)
    assert lake.removed(dry_run=True) == [stray]
    assert lake.removed() == [stray]
    assert Path(other.removeprefix("file://")).exists()
    assert lake.session.sql("SELECT id FROM lake.db.t").to_pylist() == [{"id": 1}]


def test_the_store_knows_better(lake: Lake) -> None:
    """A file that is new on the store or on the list stays; one that is gone is passed over."""
    new = lake.put("data/new.parquet", old=False)
    newly_listed = lake.put("data/newly_listed.parquet")
    lake.listed(new, f"file://{lake.root}/data/gone.parquet", *lake.own)
    lake.listed(newly_listed, time=NOW)
    assert lake.removed() == []


def test_files_outside_of_the_table_stay(lake: Lake, tmp_path: Path) -> None:
    """Whatever the list says."""
    outside = tmp_path / "wh" / "db" / "t2" / "x.parquet"
    outside.parent.mkdir(parents=True)
    outside.write_bytes(b"x")
    os.utime(outside, (0, 0))
    lake.listed(f"file://{outside}", *lake.own)
    assert lake.removed() == []
    assert outside.exists()


def test_files_of_a_table_that_no_catalog_knows_stay(lake: Lake) -> None:
    """Its metadata lies beside them, though the list does not name it."""
    lake.put("inner/metadata/v1.metadata.json")
    kept = [lake.put("inner/data/part/x.parquet"), lake.put("inner/metadata/snap.avro")]
    lake.listed(*kept, *lake.own)
    assert lake.removed() == []


def test_a_list_in_other_words_proves_nothing(lake: Lake) -> None:
    """If no file of the table is on it, its names are of another kind."""
    lake.listed(lake.put("data/stray.parquet"))
    with pytest.raises(ProcedureError, match="listed under other names"):
        lake.removed()


@pytest.mark.parametrize(
    ("view", "error", "said"),
    [
        ("lake.db.t", InvalidRequestError, "needs the columns file_path"),
        ("lake.db.nothing", NotFoundError, "nothing"),
        ("lake.db.nulls", InvalidRequestError, "has NULL"),
    ],
)
def test_what_is_no_list_is_refused(lake: Lake, view: str, error: type[Exception], said: str) -> None:
    """By the name of the view, before anything is looked at."""
    lake.session.sql("CREATE TABLE lake.db.nulls (file_path VARCHAR, last_modified TIMESTAMPTZ)")
    lake.session.sql("INSERT INTO lake.db.nulls VALUES ('x', NULL)")
    with pytest.raises(error, match=said):
        lake.removed(file_list_view=view)


def test_prefix_listing_has_the_same_result(lake: Lake) -> None:
    """Stores are listed as they can be."""
    stray = lake.put("data/stray.parquet")
    assert lake.removed(file_list_view=None, prefix_listing=True, dry_run=True) == [stray]
    assert lake.removed(file_list_view=None, prefix_listing=False) == [stray]
