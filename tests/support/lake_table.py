"""A lake with one table, for tests of statements that change rows; others can commit while a statement runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.manifest import FileFormat
from pyiceberg.table import Table

from metastore.components.metastore import Metastore
from metastore.config import Settings
from metastore.engines.engine import Engine
from metastore.ground.clock import Clock
from metastore.lake.iceberg.rows.live_files import LiveFiles, live_files
from metastore.session import Session

TABLE = "lake.db.t"


class Lake:
    """A session whose catalog ``lake`` has the table ``db.t``; ``meanwhile`` runs once before the next commit."""

    def __init__(self, folder: Path, engine: Engine | None = None) -> None:
        self.folder = folder
        self.meanwhile: Callable[[], object] | None = None
        catalog = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh"}
        given = {
            "iceberg.location.base_path": str(folder / "m"),
            "catalogs.lake": catalog,
            "engine.processes": 1,
        }
        opened = Metastore.open(
            Settings.from_mapping({"drill.metastore": given}, environ={}), clock=Clock(now_ms=self._now_ms)
        )
        self.session = Session(opened, engine)
        self.session.sql("CREATE SCHEMA lake.db")

    def _now_ms(self) -> int:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return Clock().now_ms()

    def create(self, version: int, partitioned: str = "", files: int = 2) -> Lake:
        """Make the table anew, with five rows in each of its first files: ids from 0 on, ``k`` a or b."""
        self.sql(f"DROP TABLE IF EXISTS {TABLE}")
        self.sql(
            f"CREATE TABLE {TABLE} (id BIGINT, k VARCHAR, n BIGINT) {partitioned} "
            f"TBLPROPERTIES ('format-version' = {version})"
        )
        for number in range(files):
            first = 5 * number
            self.sql(f"INSERT INTO {TABLE} SELECT i, ['a', 'b'][i % 2 + 1], 0 FROM range({first}, {first + 5}) r(i)")
        return self

    def sql(self, statement: str) -> dict[str, Any]:
        """Run a statement; its row, if it has one."""
        found = self.session.sql(statement).to_pylist()
        return dict(found[0]) if found else {}

    def set_properties(self, **values: str) -> None:
        """Set properties of the table, whose names have dots for underscores."""
        for name, value in values.items():
            self.sql(f"ALTER TABLE {TABLE} SET PROPERTIES {name.replace('__', '-').replace('_', '.')} = '{value}'")

    def modes(self, mode: str) -> None:
        """Set how rows change."""
        self.set_properties(write_delete_mode=mode, write_update_mode=mode, write_merge_mode=mode)

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a procedure on the table; its row."""
        [row] = self.session.call(f"lake.system.{name}", schema="db", table_name="t", **arguments).to_pylist()
        return dict(row)

    def load(self) -> Table:
        """The table at its newest version."""
        return self.session.catalogs.target("lake", "db", "t").load()

    @property
    def live(self) -> LiveFiles:
        """The files of the newest snapshot."""
        table = self.load()
        current = table.metadata.current_snapshot()
        assert current is not None
        return live_files(table.metadata, table.io, current)

    @property
    def data(self) -> set[str]:
        """The data files."""
        return {live.path for live in self.live.data}

    @property
    def deletes(self) -> list[tuple[FileFormat, int]]:
        """Format and number of positions of each delete file."""
        return sorted((live.file.file_format, live.file.record_count) for live in self.live.position_deletes)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """All rows by SELECT, and by PyIceberg, which must agree."""
        found = [tuple(row.values()) for row in self.session.sql(f"SELECT id, k, n FROM {TABLE}").to_pylist()]
        theirs = [tuple(row.values()) for row in self.load().scan().select("id", "k", "n").to_arrow().to_pylist()]
        assert sorted(found, key=repr) == sorted(theirs, key=repr)
        return sorted(found, key=repr)

    @property
    def ids(self) -> list[Any]:
        """The ids of all rows."""
        return sorted(row[0] for row in self.rows)

    @property
    def written(self) -> set[str]:
        """The files that are on the disk, but metadata."""
        return {str(path) for path in (self.folder / "wh").rglob("data/**/*") if path.is_file()}

    @property
    def operation(self) -> str:
        """The operation of the newest snapshot."""
        current = self.load().metadata.current_snapshot()
        assert current is not None
        assert current.summary is not None
        return current.summary.operation.value
