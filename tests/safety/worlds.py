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
OTHERS: Final = "others"
"""The row that somebody else writes while one of ours hangs."""


class World(ABC):
    """A folder ``work`` with a metastore and a lake in it; ``saved`` is how it began."""

    delay: ClassVar[str] = "0 s"
    """How long deletion waits."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.saved = folder / "work", folder / "saved"
        self.build()
        self.stray = self.table_folder / "data/stray.parquet"
        self.stray.parent.mkdir(parents=True, exist_ok=True)
        self.stray.write_bytes(b"PAR1")
        os.utime(self.stray, (0, 0))
        shutil.copytree(self.folder, self.saved)
        self.before = self.load().metadata_location
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
        given = {"iceberg.location": location, "catalogs.lake": lake, "procedures.deletion.delay": self.delay}
        given["storage.dfs.workspaces.shop.location"] = str(self.folder / "shop")
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

    def left_over(self) -> set[str]:
        """Files of the table's folder that no kept version reaches."""
        return self.files() - self.reachable()

    def others(self) -> None:
        """Somebody else reads, writes and expires."""
        with self.session() as session:
            assert self.rows()
            self.write(session, OTHERS)
            self.expire(session)

    def others_expire(self) -> None:
        """Somebody else reads and expires."""
        with self.session() as session:
            assert self.rows()
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
    """A publication of a folder: two snapshots of it, and files that came, changed and went since."""

    @property
    def table_folder(self) -> Path:
        """Its metadata; the files that it publishes are elsewhere."""
        return self.folder / "lake/db/p"

    @property
    def data_folder(self) -> Path:
        """Whose files are published."""
        return self.folder / "shop/sales"

    @property
    def name(self) -> tuple[str, str, str]:
        """In the catalog ``lake``."""
        return ("lake", "db", "p")

    def build(self) -> None:
        """Published are ``a``, ``b`` and ``c`` of three directories; ``b`` goes, ``c`` changes, ``d`` comes."""
        with self.session() as session:
            session.catalogs.open("lake").create_namespace("db")
            for name in "abc":
                self.put(name)
                if name != "a":
                    self.write(session, name)
            self.put("c", "changed")
            self.put("d")
            (self.data_folder / "day=b/b.parquet").unlink()
            session.analyze("dfs.shop.sales")
        self.of_owner = {str(self.data_folder / f"day={name}" / f"{name}.parquet") for name in "acd"}

    def put(self, name: str, row: str | None = None) -> None:
        """One file, in a directory of its own."""
        path = self.data_folder / f"day={name}" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"name": [row or name]}), path)

    def write(self, session: Session, name: str) -> None:
        """A file that is analyzed and published."""
        self.put(name)
        session.analyze("dfs.shop.sales")
        self.publish(session)

    def publish(self, session: Session) -> None:
        """What was analyzed last."""
        session.publish("dfs.shop.sales", "lake.db.p")

    def expire(self, session: Session) -> None:
        """Publications expire what they leave behind; there is nothing for others to do."""

    def clean(self) -> None:
        """One more publication."""
        with self.session(days=10) as session:
            self.write(session, "later")

    def files(self) -> set[str]:
        """Those of the folder, too."""
        return super().files() | {str(path) for path in self.data_folder.rglob("*") if path.is_file()}

    def left_over(self) -> set[str]:
        """Not what a publication that failed has written: the files are others', so no orphan is removed."""
        metadata = {str(path) for path in (self.table_folder / "metadata").glob("*")}
        return {path for path in super().left_over() if path not in metadata and path != str(self.stray)}

    def reachable(self) -> set[str]:
        """Without ``b``, which its owner has deleted, and with all others of the folder: not one of them may go."""
        return super().reachable() - {str(self.data_folder / "day=b/b.parquet")} | self.of_owner

    def row_names(self, table: Table) -> list[str]:
        """Each file with its size, as the publication has it: what stands in the folder is the same all the time."""
        files = [task.file for task in table.scan().plan_files()]
        return [f"{Path(each.file_path).name} of {each.file_size_in_bytes} bytes" for each in files]


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
