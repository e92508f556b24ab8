"""A lake for tests of procedures: a catalog of others in the test's folder, and calls of procedures on it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from metastore.components.catalogs import Catalogs
from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.ground.clock import Clock
from metastore.lake.iceberg.manifests.manifest_writer import write_manifest_file
from metastore.lake.iceberg.manifests.manifests import added_entry, write_list
from metastore.lake.stores.new_files import NewFiles
from metastore.procedures.framework.model import BaseProcedure, CallContext
from metastore.procedures.framework.run import run

DAY_MS = 86_400_000
COLUMNS: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("city", pa.string())]


@dataclass
class Lake:
    """One catalog ``lake`` of others beside a metastore; ``now_ms`` is the clock of its procedures."""

    folder: Path
    metastore: Metastore
    catalogs: Catalogs
    context: CallContext
    clock: SimpleNamespace = field(default_factory=SimpleNamespace)

    @property
    def catalog(self) -> Catalog:
        """PyIceberg's own door to the lake."""
        return self.catalogs.open("lake")

    def table(self, name: str = "t", **create: Any) -> Table:
        """The table ``default.<name>``, created with ``create`` if it is not there."""
        if not self.catalog.table_exists(f"default.{name}"):
            given = {"schema": pa.schema(COLUMNS), **create}
            return self.catalog.create_table(f"default.{name}", **given)
        return self.catalog.load_table(f"default.{name}")

    def call(
        self, procedure: BaseProcedure, table: str = "t", catalog: str = "lake", **arguments: Any
    ) -> list[dict[str, Any]]:
        """Rows of the procedure on ``default.<table>``, or in another schema; defaults as it declares them."""
        given = {"schema": "default", "table_name": table, **arguments}
        bound = {each.name: given.pop(each.name, each.default) for each in procedure.arguments}
        assert not given, f"no such arguments: {given}"
        return run(procedure, replace(self.context, catalog=catalog), bound).to_pylist()

    def later(self, days: float) -> None:
        """Move the procedures' clock on."""
        self.clock.ms += int(days * DAY_MS)

    @property
    def now(self) -> datetime:
        """The procedures' time."""
        return datetime.fromtimestamp(self.clock.ms / 1000, tz=timezone.utc)

    def files(self, name: str = "t") -> set[str]:
        """Paths of all files below the table's folder."""
        root = Path(self.table(name).metadata.location.removeprefix("file://"))
        return {str(path) for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake; its procedures' clock stands at the real time until the test moves it."""
    yield from lake_in(tmp_path)


@pytest.fixture
def make_lake() -> Callable[[Path], Iterator[Lake]]:
    """A lake in a given folder, for tests that need one after another; open until the iterator is closed."""
    return lake_in


def lake_in(folder: Path, **procedures: Any) -> Iterator[Lake]:
    """One lake in ``folder``, with settings of procedures; closed when the generator goes on."""
    uri = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}
    location = {"base_path": str(folder), "relative_path": "metastore"}
    given = {"iceberg.location": location, "catalogs.lake": uri, "procedures": procedures}
    settings = Settings.from_mapping({"drill.metastore": given}, environ={})
    clock = SimpleNamespace(ms=int(datetime.now(tz=timezone.utc).timestamp() * 1000))
    opened = Metastore.open(settings, clock=Clock(now_ms=lambda: clock.ms))
    with opened as metastore, LocalEngine(1) as engine, closing(Catalogs(metastore)) as catalogs:
        context = CallContext(catalogs, "lake", lambda _: engine, settings, lambda: clock.ms)
        catalogs.open("lake").create_namespace("default")
        yield Lake(folder, metastore, catalogs, context, clock)


@pytest.fixture
def rows() -> Callable[..., pa.Table]:
    """Rows of the lake's plain table: ``rows(1, 2)`` has ids 1 and 2, each in its own city."""

    def make(*ids: int) -> pa.Table:
        return pa.table({"id": list(ids), "city": [f"city {each}" for each in ids]}, schema=pa.schema(COLUMNS))

    return make


@pytest.fixture
def delete_positions() -> Callable[[Table, str, list[int]], Table]:
    """Commit a position delete file, which PyIceberg cannot write: the rows of a data file at these positions."""

    def commit(table: Table, data_path: str, positions: list[int]) -> Table:
        path = f"{table.metadata.location}/data/{uuid.uuid4()}-deletes.parquet"
        fields: list[pa.Field[Any]] = [
            pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
            pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
        ]
        rows = pa.table({"file_path": [data_path] * len(positions), "pos": positions}, schema=pa.schema(fields))
        pq.write_table(rows, path.removeprefix("file://"))
        snapshot_id = table.metadata.new_snapshot_id()
        delete = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=len(positions),
            file_size_in_bytes=Path(path.removeprefix("file://")).stat().st_size,
        )
        place = f"{table.metadata.location}/metadata/{snapshot_id}"
        manifest = write_manifest_file(
            NewFiles(table.io),
            f"{place}-m0.avro",
            2,
            table.spec(),
            table.schema(),
            snapshot_id,
            [added_entry(delete, snapshot_id)],
            ManifestContent.DELETES,
        )
        parent = table.current_snapshot()
        assert parent is not None
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent.snapshot_id,
            sequence_number=table.metadata.next_sequence_number(),
            timestamp_ms=parent.timestamp_ms + 1,
            manifest_list=f"{place}-list.avro",
            summary=Summary(Operation.DELETE),
            schema_id=table.metadata.current_schema_id,
        )
        write_list(NewFiles(table.io), snapshot, 2, [manifest, *parent.manifests(table.io)])
        head = SetSnapshotRefUpdate(ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=snapshot_id)
        table.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot), head))
        return table.refresh()

    return commit
