"""A lake laid out as the world lays lakes out: tables inside tables, files that several tables hold, links, renames.

Three catalogs, a metastore with analyzed directories, and any order of writes and of procedures that delete. What
exists is judged by PyIceberg's own readers, which go through every table of every catalog.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.update import SetLocationUpdate

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.errors import MetastoreError
from metastore.session import Session

COLUMNS: Final[list[tuple[str, pa.DataType]]] = [("id", pa.int64()), ("part", pa.int64())]
SCHEMA: Final = pa.schema(COLUMNS)
CATALOGS: Final = ("lake", "side")
"""Both in SQL: a table can be called anything there, and lie anywhere."""

NAMES: Final = ("a", "b", "c")
PLACES: Final = (
    "o",
    "o/dfs",
    "o/data",
    "o/metadata",
    "o/metadata/in",
    "o/a b",
    "o/a%20b",
    "p",
    "p/ü",
    "link/in",
    "shop/a",
    "components/tables/inner",
)
"""Folders of tables and of plain data, below the lake's; ``link`` leads to ``o``."""

STEPS: Final = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(CATALOGS), st.sampled_from(NAMES), st.sampled_from(PLACES)),
    st.tuples(st.just("create_apart"), st.sampled_from(NAMES), st.sampled_from(PLACES), st.sampled_from(PLACES)),
    st.tuples(st.just("append"), st.integers(0, 9)),
    st.tuples(st.just("overwrite"), st.integers(0, 9)),
    st.tuples(st.just("take"), st.integers(0, 9), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("take_raw"), st.integers(0, 9), st.sampled_from(PLACES)),
    st.tuples(st.just("rename"), st.integers(0, 9), st.sampled_from(NAMES)),
    st.tuples(st.just("register_again"), st.integers(0, 9), st.sampled_from(CATALOGS)),
    st.tuples(st.just("stray"), st.sampled_from(PLACES)),
    st.tuples(st.just("analyze"), st.sampled_from(PLACES)),
    st.tuples(st.just("expire_while_hidden"), st.integers(0, 9)),
    st.tuples(st.just("orphans_while_hidden"), st.integers(0, 9)),
    st.tuples(st.just("ancestor"), st.integers(0, 9), st.sampled_from(["", "lake", "lake/o"])),
    st.tuples(st.just("foreign"), st.integers(0, 9)),
    st.tuples(st.just("swap"), st.integers(0, 9), st.sampled_from(["expire", "orphans"])),
    st.tuples(st.just("move"), st.integers(0, 9), st.sampled_from(PLACES), st.booleans()),
    st.tuples(st.just("statistics"), st.integers(0, 9)),
    st.tuples(
        st.sampled_from(["expire", "orphans", "old_metadata", "drop_stats", "component_orphans", "expire_components"])
    ),
)


@dataclass
class Counts:
    """What was tried, and what came of it, over all layouts of a run."""

    layouts: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    deleted: int = 0
    lost: int = 0
    kept_unknown: int = 0
    swapped: int = 0
    foreign_lost: int = 0


class Layout:
    """One lake in ``folder``; every step ends with a look at all that must be there."""

    def __init__(self, folder: Path, counts: Counts) -> None:
        self.folder = folder
        self.counts = counts
        counts.layouts += 1
        for name in ("lake", "lake/o", "lake/shop", "lake/warehouse"):
            (folder / name).mkdir()
        (folder / "lake/link").symlink_to(folder / "lake/o")
        self.next_id = 0
        self.ahead_ms = 0
        self.raw: dict[str, set[str]] = {}
        self.reached: dict[str, frozenset[str]] = {}
        self.foreign: set[str] = set()
        self.between: Callable[[int, int], None] | None = None
        self.session = self._open()

    def _open(self) -> Session:
        lake = f"file://{self.folder}/lake"
        catalogs: dict[str, dict[str, str]] = {
            name: {"type": "sql", "uri": f"sqlite:///{self.folder}/{name}.db", "warehouse": f"{lake}/warehouse"}
            for name in CATALOGS
        }
        catalogs["plain"] = {"type": "filesystem", "warehouse": f"{self.folder}/lake"}
        given = {
            "iceberg.location": {"base_path": f"{self.folder}/lake", "relative_path": "components"},
            "catalogs": catalogs,
            "procedures.min_orphan_age": "0 s",
            "storage.dfs": {"connection": "file:///", "workspaces.w.location": f"{self.folder}/lake"},
        }
        settings = Settings.from_mapping({"drill.metastore": given}, environ={})
        session = Session(Metastore.open(settings), LocalEngine(1))
        for name in CATALOGS:
            session.catalogs.open(name).create_namespace_if_not_exists("shop")
        return session

    def close(self) -> None:
        """Let go of connections."""
        self.session.close()

    # -- what there is

    def tables(self) -> list[tuple[str, str]]:
        """Catalog and name of every table, in order."""
        return [(name, found[-1]) for name in CATALOGS for found in sorted(self._catalog(name).list_tables("shop"))]

    def _catalog(self, name: str) -> Catalog:
        return self.session.catalogs.open(name)

    def _nth(self, number: int) -> tuple[str, str] | None:
        every = self.tables()
        return every[number % len(every)] if every else None

    def _load(self, which: tuple[str, str]) -> Table:
        return self._catalog(which[0]).load_table(("shop", which[1]))

    def needed(self) -> set[str]:
        """Every file that must exist, as PyIceberg's readers name them, and those of analyzed directories."""
        components = (self.session.metastore.tables, self.session.metastore.views)
        tables = [*map(self._load, self.tables()), *(component.table.load() for component in components)]
        return set().union(*self.raw.values(), *(self._reached_by(table) for table in tables if table is not None))

    def _reached_by(self, table: Table) -> frozenset[str]:
        """What a version of a table needs never changes, so that it is read once."""
        version = table.metadata_location
        if version not in self.reached:
            self.reached[version] = frozenset(reached_by(table))
        return self.reached[version]

    def _path(self, place: str) -> Path:
        return self.folder / "lake" / place

    def _rows(self) -> pa.Table:
        self.next_id += 1
        return pa.table({"id": [self.next_id], "part": [self.next_id % 2]}, schema=SCHEMA)

    # -- steps of people and writers

    def step(self, name: str, *arguments: Any) -> None:
        """Do one step; one that needs what is not there does nothing."""
        before = self.needed()
        getattr(self, f"_{name}")(*arguments)
        needed = self.needed()
        missing = {path for path in needed if not os.path.exists(path)}
        self.counts.lost += len(before & missing)
        assert not missing, f"{name}{arguments}: {sorted(missing)} are missing, lost were {sorted(before & missing)}"
        gone = {path for path in self.foreign if not os.path.exists(path)}
        self.counts.foreign_lost += len(gone)
        assert not gone, f"{name}{arguments} deleted files of others: {sorted(gone)}"

    def _create(self, catalog: str, name: str, place: str) -> None:
        self._made(catalog, name, place, {})

    def _create_apart(self, name: str, place: str, data: str) -> None:
        self._made("lake", name, place, {"write.data.path": f"file://{self._path(data)}"})

    def _made(self, catalog: str, name: str, place: str, properties: dict[str, str]) -> None:
        if not self._catalog(catalog).table_exists(("shop", name)):
            location = f"file://{self._path(place)}"
            table = self._catalog(catalog).create_table(
                ("shop", name), SCHEMA, location=location, properties=properties
            )
            table.append(self._rows())

    def _append(self, number: int) -> None:
        if (which := self._nth(number)) is not None:
            self._load(which).append(self._rows())

    def _overwrite(self, number: int) -> None:
        if (which := self._nth(number)) is not None:
            self._load(which).overwrite(self._rows())

    def _take(self, to: int, of: int, through_link: bool) -> None:
        """A table takes data files of another in, as they lie or through a link to the file."""
        target, source = self._nth(to), self._nth(of)
        if target is None or source is None:
            return
        files = [task.file.file_path for task in self._load(source).scan().plan_files()]
        if through_link:
            files = [self._linked(path) for path in files]
        known = {task.file.file_path for task in self._load(target).scan().plan_files()}
        if fresh := [path for path in files if path not in known]:
            self._load(target).add_files(fresh)

    def _linked(self, location: str) -> str:
        path = self._path("p") / f"link-{len(os.listdir(self.folder / 'lake'))}-{self.next_id}.parquet"
        self.next_id += 1
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(location.removeprefix("file://"))
        return f"file://{path}"

    def _take_raw(self, to: int, place: str) -> None:
        """A table takes in a plain file."""
        which = self._nth(to)
        if which is not None:
            self._load(which).add_files([f"file://{self._plain_file(place)}"])

    def _plain_file(self, place: str) -> Path:
        path = self._path(place) / f"plain {self.next_id}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(self._rows(), path)
        return path

    def _rename(self, number: int, name: str) -> None:
        which = self._nth(number)
        if which is not None and not self._catalog(which[0]).table_exists(("shop", name)):
            self._catalog(which[0]).rename_table(("shop", which[1]), ("shop", name))

    def _register_again(self, number: int, catalog: str) -> None:
        """A second entry, in any catalog, for the version that is the newest now."""
        which = self._nth(number)
        name = f"again{number}"
        if which is not None and not self._catalog(catalog).table_exists(("shop", name)):
            self._catalog(catalog).register_table(("shop", name), self._load(which).metadata_location)

    def _stray(self, place: str) -> None:
        self._plain_file(place)

    def _analyze(self, place: str) -> None:
        """A directory of plain files becomes an analyzed table, whose files are needed from then on."""
        path = self._plain_file(f"{place}/raw")
        try:
            self.session.analyze(f"dfs.w.{place}/raw")
        except MetastoreError:
            return
        files = {str(each) for each in path.parent.glob("*.parquet")}
        self.raw[place] = files

    def _move(self, number: int, place: str, whole_folder: bool) -> None:
        """Data of a table, a folder or a file, moves to another place of the lake and leaves a link."""
        if (which := self._nth(number)) is None:
            return
        paths = [task.file.file_path.removeprefix("file://") for task in self._load(which).scan().plan_files()]
        if not paths:
            return
        moved = Path(paths[0]).parent if whole_folder else Path(paths[0])
        self.next_id += 1
        after = Path(os.path.realpath(self._path(place))) / "data" / f"{self.next_id}-{moved.name}"
        after.parent.mkdir(parents=True, exist_ok=True)
        if not (moved.is_symlink() or after.is_relative_to(moved)):
            moved.rename(after)
            moved.symlink_to(after)

    # -- steps of writers who would have files of others deleted

    def _foreign_file(self, folder: str, name: str) -> Path:
        """A file outside of the lake, where no deletion is allowed."""
        path = self.folder / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(self._rows(), path)
        os.utime(path, (1, 1))
        self.foreign.add(str(path))
        return path

    def _ancestor(self, number: int, above: str) -> None:
        """A writer sets the location of a table to a folder above it, where files of others lie, too."""
        if (which := self._nth(number)) is not None:
            self._foreign_file("landing", f"{self.next_id}.parquet")
            with self._load(which).transaction() as change:
                place = SetLocationUpdate(location=f"file://{self.folder / above}".rstrip("/"))
                change._apply((place,))

    def _foreign(self, number: int) -> None:
        """A manifest names any file of the machine, and then the entry goes."""
        if (which := self._nth(number)) is not None:
            self._load(which).add_files([f"file://{self._foreign_file('elsewhere', f'{self.next_id}.parquet')}"])
            self._load(which).overwrite(self._rows())

    def _swap(self, number: int, delete: str) -> None:
        """Between listing and deletion, a folder of data becomes a link to files of others that have the same names.

        They lie outside of the lake or in it, where a run may delete: it has not listed them. A folder with links in it
        is left alone: what they lead to has no name while the folder is away.
        """
        self._create("lake", "a", "p")
        self._create("side", "b", "o")
        which = self._nth(number)
        assert which is not None
        self._overwrite(number)
        data = Path(self._load(which).metadata.location.removeprefix("file://")).resolve() / "data"
        self.next_id += 1
        if data.is_symlink() or (data.is_dir() and any(path.is_symlink() for path in data.rglob("*"))):
            return
        (data / f"stray-{self.next_id}.parquet").write_bytes(b"nobody's") if data.is_dir() else None
        aside, theirs = self.folder / f"aside-{self.next_id}", f"{'lake/' * (number % 2)}theirs-{self.next_id}"

        def between(_done: int, _total: int) -> None:
            if data.is_dir() and not aside.exists():
                for path in data.iterdir():
                    if path.is_file():
                        self._foreign_file(theirs, path.name)
                data.rename(aside)
                data.symlink_to(self.folder / theirs)
                self.counts.swapped += 1

        self.between = between
        try:
            getattr(self, f"_{delete}")()
        finally:
            self.between = None
            if aside.exists():
                data.unlink()
                aside.rename(data)
            gone = {path for path in self.foreign if not os.path.exists(path)}
            assert not gone, f"{delete} followed a link to {sorted(gone)}"
            self.foreign -= {path for path in self.foreign if "/lake/" in path}

    # -- steps that delete

    def _expire(self) -> None:
        self._each("expire_snapshots", older_than=self._later())

    def _orphans(self) -> None:
        self._each("remove_orphan_files", older_than=self._now(), allowed_locations=[f"file://{self.folder}/lake"])

    def _expire_while_hidden(self, number: int) -> None:
        self._while_hidden(number, self._expire)

    def _orphans_while_hidden(self, number: int) -> None:
        self._while_hidden(number, self._orphans)

    def _while_hidden(self, number: int, delete: Callable[[], None]) -> None:
        """The metadata file of one table cannot be read meanwhile: nobody knows what that table needs."""
        which = self._nth(number)
        if which is None:
            return
        path = Path(self._load(which).metadata_location.removeprefix("file://"))
        aside = self.folder / "aside"
        shutil.copy2(path, aside)
        path.unlink()
        try:
            delete()
        finally:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(aside, path)

    def _old_metadata(self) -> None:
        for which in self.tables():
            self._load(which).transaction().set_properties(
                {"write.metadata.previous-versions-max": "1"}
            ).commit_transaction()
        self._each("remove_old_metadata", older_than=self._now())

    def _statistics(self, number: int) -> None:
        if (which := self._nth(number)) is not None:
            catalog, name = which
            self.session.call(f"{catalog}.system.compute_table_stats", schema="shop", table_name=name)

    def _drop_stats(self) -> None:
        self._each("drop_stats")

    def _component_orphans(self) -> None:
        if self.session.metastore.tables.table.load() is not None:
            call = {"schema": "components", "table_name": "tables", "older_than": self._now()}
            self._counted("remove_orphan_files", "metastore", call)

    def _expire_components(self) -> None:
        self.session.metastore.tables.expiration.expire()

    def _each(self, procedure: str, **arguments: Any) -> None:
        for catalog, name in self.tables():
            self._counted(procedure, catalog, {"schema": "shop", "table_name": name, **arguments})

    def _counted(self, procedure: str, catalog: str, arguments: dict[str, Any]) -> None:
        before = set(self._files())
        self.counts.calls[procedure] += 1
        self._age_all()
        try:
            called = self.session.call(f"{catalog}.system.{procedure}", on_progress=self.between, **arguments)
            rows = called.to_pylist()
        except MetastoreError:
            self.counts.calls[f"{procedure} refused"] += 1
            rows = []
        self.counts.kept_unknown += sum("cannot be known" in str(row) for row in rows)
        self.counts.deleted += len(before - set(self._files()))

    def _files(self) -> Iterator[str]:
        for root, _, names in os.walk(self.folder / "lake"):
            yield from (f"{root}/{name}" for name in names)

    def _age_all(self) -> None:
        """Make every file look old, so that only what is needed protects it."""
        for path in (*self._files(), *self.foreign):
            if not os.path.islink(path) and "version-hint" not in path:
                os.utime(path, (1, 1))

    def _now(self) -> datetime:
        return datetime.now(tz=timezone.utc) - timedelta(seconds=1)

    def _later(self) -> datetime:
        return datetime.now(tz=timezone.utc) + timedelta(hours=1)


def reached_by(table: Table) -> Iterator[str]:
    """Paths of every file that PyIceberg's readers need for any snapshot of the table, and its metadata file."""
    yield table.metadata_location.removeprefix("file://")
    for file in (*table.metadata.statistics, *table.metadata.partition_statistics):
        yield file.statistics_path.removeprefix("file://")
    for snapshot in table.metadata.snapshots:
        yield snapshot.manifest_list.removeprefix("file://")
        for manifest in snapshot.manifests(table.io):
            yield manifest.manifest_path.removeprefix("file://")
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.status != ManifestEntryStatus.DELETED:
                    yield entry.data_file.file_path.removeprefix("file://")
