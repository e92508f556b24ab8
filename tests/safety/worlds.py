"""Two small worlds in a folder, each with a past: the component of tables, and a table in the catalog ``lake``.

Each can be put back to how it began, and is looked at by PyIceberg alone: its rows, what its kept versions reach, and
what stands on the disk. Both are on the file system catalog, so that the pointer is a file too.
"""

from __future__ import annotations

import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import NestedField, StringType

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.ground.clock import Clock
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO
from metastore.session import Session

DAY_MS: Final = 86_400_000
PLAIN: Final = "dfs.plain.t"
OTHERS: Final = "others"
"""The row that somebody else writes while one of ours hangs."""


class World(ABC):
    """A folder ``work`` with a metastore and a lake in it; ``saved`` is how it began."""

    delay: ClassVar[str] = "0 s"
    """How long deletion waits."""
    stray_name: ClassVar[str] = "data/stray.parquet"
    """An old file of the table's folder that nobody knows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.saved = folder / "work", folder / "saved"
        self.build()
        self.stray = self.table_folder / self.stray_name
        self.stray.parent.mkdir(parents=True, exist_ok=True)
        self.stray.write_bytes(b"PAR1")
        os.utime(self.stray, (0, 0))
        shutil.copytree(self.folder, self.saved)
        self.before = self.pointer()
        self.rows_before = self.rows()

    def put_back(self) -> None:
        """Paths stay the same, since metadata holds them."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.saved, self.folder)

    @contextmanager
    def session(self, days: int = 0) -> Iterator[Session]:
        """A session that has seen nothing yet; its clock is ``days`` ahead, and its pauses take no time."""
        ahead = {"ms": days * DAY_MS}

        def pause(seconds: float) -> None:
            ahead["ms"] += max(1, round(seconds * 1000))

        def now_ms() -> int:
            return time.time_ns() // 1_000_000 + ahead["ms"]

        clock = Clock(now_ms=now_ms, monotonic=lambda: now_ms() / 1000, pause=pause)
        location = {"base_path": str(self.folder), "relative_path": "metastore"}
        lake = {"type": "filesystem", "warehouse": str(self.folder / "lake")}
        given = {
            "iceberg.location": location,
            "catalogs.lake": lake,
            "procedures.deletion.delay": self.delay,
            "storage.dfs.workspaces.plain.location": str(self.folder / "plain"),
        }
        settings = Settings.from_mapping({"drill.metastore": given}, environ={})
        with LocalEngine(1) as engine, Session(Metastore.open(settings, clock=clock), engine) as session:
            yield session

    @property
    @abstractmethod
    def table_folder(self) -> Path:
        """Where the table is."""

    @property
    @abstractmethod
    def name(self) -> tuple[str, str, str]:
        """Catalog, schema and table, as procedures call them."""

    @abstractmethod
    def build(self) -> None:
        """Make the table, with a past."""

    @abstractmethod
    def write(self, session: Session, name: str) -> None:
        """Commit a row ``name``."""

    @abstractmethod
    def row_names(self, table: Table) -> list[str]:
        """All rows."""

    def call(self, session: Session, procedure: str, **arguments: Any) -> pa.Table:
        """Call ``system.<procedure>`` on the table."""
        catalog, schema, name = self.name
        return session.call(f"{catalog}.system.{procedure}", schema=schema, table_name=name, **arguments)

    def load(self) -> Table:
        """The table, by a catalog that has seen nothing yet."""
        parent = self.table_folder.parent
        return FileSystemCatalog("look", str(parent)).load_table(self.table_folder.name)

    def pointer(self) -> str:
        """The newest metadata."""
        return self.load().metadata_location

    def rows(self) -> list[str]:
        """Names of all rows, read by PyIceberg."""
        return sorted(self.row_names(self.load()))

    def reachable(self) -> set[str]:
        """All that kept versions reach, by PyIceberg, the newest version file, and the hint."""
        table = self.load()
        found = {table.metadata_location, str(self.table_folder / "metadata/version-hint.text")}
        found |= self.older_versions(table)
        for snapshot in table.metadata.snapshots:
            found.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                found.add(manifest.manifest_path)
                found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
        return found

    def older_versions(self, table: Table) -> set[str]:
        """Version files that stay after an expiration."""
        return set()

    def files(self) -> set[str]:
        """Every file of the table's folder."""
        return {str(path) for path in self.table_folder.rglob("*") if path.is_file()}

    def others(self) -> None:
        """Somebody else reads, writes and expires."""
        with self.session() as session:
            assert len(self.rows()) >= len(self.rows_before)
            self.write(session, OTHERS)
            self.expire(session)

    def others_expire(self) -> None:
        """Somebody else reads and expires."""
        with self.session() as session:
            assert len(self.rows()) >= len(self.rows_before)
            self.expire(session)

    def expire(self, session: Session) -> None:
        """All versions but the newest."""
        tomorrow = session.metastore.clock.now_ms() + DAY_MS
        self.call(session, "expire_snapshots", older_than=datetime.fromtimestamp(tomorrow / 1000, tz=timezone.utc))

    def clean(self) -> None:
        """What a later run does, when whatever was young has become old: write, expire, remove orphans."""
        with self.session(days=10) as session:
            self.write(session, "later")
            self.expire(session)
            self.call(session, "remove_orphan_files")


class ComponentWorld(World):
    """The component of tables: four versions, in which tables come and go."""

    @property
    def table_folder(self) -> Path:
        """Below the base location."""
        return self.folder / "metastore/tables"

    @property
    def name(self) -> tuple[str, str, str]:
        """In the metastore's own catalog."""
        return ("metastore", "components", "tables")

    def build(self) -> None:
        """``a``, ``b`` and ``k`` are there in the end."""
        with self.session() as session:
            for names in ("ab", "ab", "ab", "abk"):
                session.tables.modify().overwrite([unit(name) for name in names]).execute()

    def write(self, session: Session, name: str) -> None:
        """One more table."""
        session.tables.modify().overwrite([unit(name)]).execute()

    def expire(self, session: Session) -> None:
        """By the component's own expiration."""
        session.tables.expiration.expire()

    def row_names(self, table: Table) -> list[str]:
        """Names and owners."""
        found = table.scan(selected_fields=("tableName", "owner")).to_arrow().to_pylist()
        return [f"{row['tableName']} of {row['owner']}" for row in found]


class LakeWorld(World):
    """A table of others: appends in small files, a delete, a branch."""

    @property
    def table_folder(self) -> Path:
        """In the lake."""
        return self.folder / "lake/db/t"

    @property
    def name(self) -> tuple[str, str, str]:
        """In the catalog ``lake``."""
        return ("lake", "db", "t")

    def build(self) -> None:
        """Rows ``a``, ``c`` and ``d`` are there in the end."""
        with self.session() as session:
            catalog = session.catalogs.open("lake")
            catalog.create_namespace("db")
            catalog.create_table("db.t", Schema(NestedField(1, "name", StringType(), required=False)))
            for name in "abcd":
                self.write(session, name)
            catalog.load_table("db.t").delete("name = 'b'")

    def write(self, session: Session, name: str) -> None:
        """Append it."""
        session.catalogs.open("lake").load_table("db.t").append(pa.table({"name": [name]}))

    def older_versions(self, table: Table) -> set[str]:
        """Iceberg keeps those that the metadata's log names."""
        return {entry.metadata_file for entry in table.metadata.metadata_log}

    def row_names(self, table: Table) -> list[str]:
        """As they are."""
        return [row["name"] for row in table.scan().to_arrow().to_pylist()]


class PublishedWorld(World):
    """The plain files of ``dfs.plain.t``, published, analyzed again after a change, and not yet published again."""

    kept: ClassVar[frozenset[str]] = frozenset("acd")
    """The plain files that stay, whatever happens."""
    stray_name = "metadata/stray.avro"

    @property
    def table_folder(self) -> Path:
        """In the lake."""
        return self.folder / "lake/db/t"

    @property
    def name(self) -> tuple[str, str, str]:
        """In the catalog ``lake``."""
        return ("lake", "db", "t")

    def build(self) -> None:
        """Rows ``a`` and ``b`` are published; ``b`` is to go, and ``c`` to come, in columns that are wider."""
        self.put("k=1/a", pa.int32())
        self.put("k=1/b", pa.int32())
        self.put("k=2/d", pa.int32())
        with self.session() as session:
            session.analyze(PLAIN)
            self.publish(session)
            (self.folder / "plain/t/k=1/b.parquet").unlink()
            self.put("k=1/c", pa.int64())
            session.analyze(PLAIN)

    def put(self, path: str, width: pa.DataType) -> None:
        """One plain file with one row, of the file's name."""
        place = self.folder / f"plain/t/{path}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"name": [place.stem], "n": pa.array([1], width)}), place)

    def publish(self, session: Session) -> pa.Table:
        """What was analyzed last."""
        return session.publish(PLAIN, "lake.db.t")

    def write(self, session: Session, name: str) -> None:
        """A file, analyzed and published."""
        self.put(f"k=3/{name}", pa.int64())
        session.analyze(PLAIN)
        self.publish(session)

    def expire(self, session: Session) -> None:
        """Old versions of the component, whose units a publication reads."""
        session.tables.expiration.expire()

    def row_names(self, table: Table) -> list[str]:
        """Names of the files; an engine fails on one that is gone, so no row is read."""
        plain = {str(path) for path in (self.folder / "plain").rglob("*.parquet")}
        assert self.kept <= {Path(path).stem for path in plain}, "a plain file is lost"
        return [Path(task.file.file_path).stem for task in table.scan().plan_files()]

    def older_versions(self, table: Table) -> set[str]:
        """Iceberg keeps those that the metadata's log names."""
        return {entry.metadata_file for entry in table.metadata.metadata_log}

    def reachable(self) -> set[str]:
        """Of the table's own folder."""
        return {path for path in super().reachable() if path.startswith(str(self.table_folder))}


class UnpublishedWorld(PublishedWorld):
    """Two files before their first publication: there is no table."""

    kept = frozenset("ac")

    def build(self) -> None:
        """Rows ``a`` and ``c`` are analyzed."""
        self.put("k=1/a", pa.int32())
        self.put("k=2/c", pa.int64())
        with self.session() as session:
            session.analyze(PLAIN)

    @property
    def is_there(self) -> bool:
        """Whether the table is."""
        return FileSystemCatalog("look", str(self.table_folder.parent)).table_exists(self.table_folder.name)

    def pointer(self) -> str:
        """Of the table that is not there: nothing."""
        return super().pointer() if self.is_there else ""

    def rows(self) -> list[str]:
        """Of the table that is not there: none."""
        return super().rows() if self.is_there else []

    def reachable(self) -> set[str]:
        """Of the table that is not there: none. A hint is written after the first version, and may fail."""
        hint = self.table_folder / "metadata/version-hint.text"
        return super().reachable() - ({str(hint)} - self.files()) if self.is_there else set()


def unit(table: str, owner: str = "us") -> TableMetadataUnit:
    """General information of one table."""
    return TableMetadataUnit(
        storage_plugin="dfs",
        workspace="tmp",
        table_name=table,
        owner=owner,
        metadata_type="TABLE",
        metadata_key=GENERAL_INFO,
        metadata_identifier=GENERAL_INFO,
    )
