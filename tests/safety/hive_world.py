"""A Hive table of the real service, with two partitions, a file in each, and what a dead attempt to migrate it left.

The doors that a migration goes through beside Python's own are Arrow's file systems, which write in C++, and the
service's thrift calls: both are patched, below everything that retries or translates errors.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from safety.faults import Halving, Steps
from services.hive_tables import HiveMaker
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportException

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.errors import ConflictError
from metastore.procedures.hive.migration.backup import BACKUP_PROPERTY
from metastore.session import Session
from metastore.sources.hive import listing
from metastore.sources.hive.client import HiveClient

ROWS: Final = [0, 1]
OTHERS: Final = 99
"""The row that somebody else writes while we hang."""


@dataclass
class HiveTable:
    """A table of the service at ``uri``, whose database lies in ``base``; plain data, to give to a process."""

    uri: str
    base: Path
    database: str
    name: str = ""

    @property
    def full_name(self) -> tuple[str, str]:
        """Database and table."""
        return self.database, self.name

    @property
    def folder(self) -> Path:
        """Of the table."""
        return self.base / self.name

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session that has seen nothing yet."""
        lake = {"type": "hive", "uri": self.uri, "hive.hive2-compatible": "true"}
        # A lock that somebody holds is looked at once more, not for seconds.
        lake |= {"lock-check-retries": "1", "lock-check-min-wait-time": "0.01"}
        location = {"base_path": str(self.base), "relative_path": "metastore"}
        given = {"drill.metastore": {"iceberg.location": location, "catalogs.lake": lake}}
        settings = Settings.from_mapping(given, environ={})
        with LocalEngine(1) as engine, Session(Metastore.open(settings), engine) as session:
            yield session

    def migrate(self, session: Session) -> dict[str, Any]:
        """What the call answers."""
        [row] = session.call("lake.system.migrate", schema_name=self.database, table_name=self.name).to_pylist()
        return dict(row)

    def attempt(self, steps: Steps) -> Exception | None:
        """Migrate under ``steps``; what it raised."""
        with self.session() as session, installed(steps):
            try:
                self.migrate(session)
            except Exception as error:  # noqa: BLE001 - it is judged by the test
                return error
        return None


class HiveWorld(HiveTable):
    """A database in a folder; each case has a new table in it."""

    def __init__(self, client: HiveClient, folder: Path) -> None:
        self.hive = HiveMaker(client, folder)
        self.before: tuple[Any, ...] = ()
        super().__init__(client.uri, folder, self.hive.database)

    @property
    def table(self) -> HiveTable:
        """The table of this case, for another process."""
        return HiveTable(self.uri, self.base, self.database, self.name)

    def put_back(self) -> None:
        """A new table stands for the old one; an attempt at it died long ago."""
        if self.name:
            self.hive.client.drop_table(self.database, self.name)
            shutil.rmtree(self.folder)
        self.name = self.hive.table({"id": "bigint"}, {"p": "string"})
        for number, value in zip(ROWS, ("a b", "x/y"), strict=True):
            self.hive.write(self.hive.partition(self.name, value), {"id": [number]})
        dead = self.folder / "_iceberg/dead"
        dead.mkdir(parents=True)
        (dead / "00000-dead.metadata.json").write_text("{")
        self.before = self.seen()

    def seen(self) -> tuple[Any, ...]:
        """What Hive sees: the descriptions, and every file that is not hidden, by its content."""
        client, database = self.hive.client, self.database
        return client.table(database, self.name), client.partitions(database, self.name), self.visible()

    def visible(self) -> list[tuple[str, bytes]]:
        """Files that are not hidden."""
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        shown = [path for path in files if path.relative_to(self.folder).parts[0][0] not in "_."]
        return [(str(path), path.read_bytes()) for path in shown]

    def is_iceberg(self) -> bool:
        """Whether the service says so."""
        return "metadata_location" in self.hive.client.table(self.database, self.name).parameters

    def load(self) -> Table:
        """The Iceberg table, by a catalog of PyIceberg that has seen nothing yet."""
        return HiveCatalog("look", uri=self.uri, **{"hive.hive2-compatible": "true"}).load_table(self.full_name)

    def rows(self) -> list[int]:
        """By PyIceberg if it is an Iceberg table, else all that lies where its partitions say, as Hive reads."""
        if self.is_iceberg():
            return sorted(row["id"] for row in self.load().scan().to_arrow().to_pylist())
        places = [each.sd.location.removeprefix("file:") for each in self.hive.client.partitions(*self.full_name)]
        return sorted(row["id"] for place in places for row in _read(place))

    def reachable(self) -> set[str]:
        """What the Iceberg table reaches, and the backup by which it can become Hive's again."""
        table = self.load()
        found = {table.metadata_location, table.properties[BACKUP_PROPERTY]}
        found |= {entry.metadata_file for entry in table.metadata.metadata_log}
        for snapshot in table.metadata.snapshots:
            found.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                found.add(manifest.manifest_path)
                found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
        return {location.removeprefix("file:") for location in found}

    def files(self) -> set[str]:
        """Every file of the table's folder."""
        return {str(path) for path in self.folder.rglob("*") if path.is_file()}

    def locks(self) -> list[Any]:
        """Those that the service knows on the table."""
        found: list[Any] = self.hive.client.locks(self.database, self.name)
        return found

    def insert(self) -> None:
        """Somebody else adds a row, by Hive or by Iceberg, whichever it is; not while the table is locked."""
        with suppress(ConflictError):
            self._insert()

    def migrate_and_insert(self) -> None:
        """Somebody else migrates the table, too, and adds a row; not while the table is locked."""
        with suppress(ConflictError), self.session() as session:
            self.migrate(session)
            self._insert()

    def _insert(self) -> None:
        with HiveClient(self.uri) as other, other.lock_table(*self.full_name):
            is_iceberg = self.is_iceberg()
            if not is_iceberg:
                self.hive.write(self.hive.partition(self.name, "others"), {"id": [OTHERS]})
        if is_iceberg:
            self.load().append(pa.table({"id": [OTHERS], "p": ["others"]}))


@contextmanager
def installed(steps: Steps) -> Iterator[None]:
    """Count operations of Python, of Arrow's file systems, and calls of the service, until the end of the block."""
    answer, connect, opened, local = HiveClient._result, TSocket.open, PyArrowFileIO._initialize_fs, listing._LOCAL

    def answering(client: HiveClient, what: str, call: str, arguments: Any) -> Any:
        return steps.step(f"call {call}", lambda: answer(client, what, call, arguments))

    def connecting(socket: TSocket) -> None:
        try:
            steps.step("connect", lambda: connect(socket))
        except OSError as error:
            raise TTransportException(message=str(error)) from error

    patched: list[tuple[Any, str, Any, Any]] = [
        (HiveClient, "_result", answer, answering),
        (TSocket, "open", connect, connecting),
        (PyArrowFileIO, "_initialize_fs", opened, lambda *how: NumberedFiles(opened(*how), steps)),
        (listing, "_LOCAL", local, NumberedFiles(local, steps)),
    ]
    for owner, name, _, counted in patched:
        setattr(owner, name, counted)
    try:
        with steps.installed():
            yield
    finally:
        for owner, name, real, _ in patched:
            setattr(owner, name, real)


class NumberedFiles:
    """A file system of Arrow whose operations are steps; whoever asks is told that it is the real one."""

    def __init__(self, real: Any, steps: Steps) -> None:
        self._real, self._steps = real, steps

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._real)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return self._counting(name, found) if callable(found) else found

    def _counting(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            done = self._steps.step(name, lambda: real(*arguments, **options))
            return ArrowHalving(done, self._steps) if name == "open_output_stream" else done

        return call


class ArrowHalving(Halving):
    """Single bytes are no steps: Avro's numbers are written so, and how many an id has is chance."""

    def write(self, content: Any) -> int:
        """Two halves, of whatever has them."""
        return super().write(content) if len(content) > 1 else int(self._stream.write(content))


def _read(place: str) -> list[dict[str, Any]]:
    return [
        row for path in sorted(Path(place).iterdir()) for row in pq.read_table(str(path), partitioning=None).to_pylist()
    ]
