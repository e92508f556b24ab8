"""The directory of one table that a session knows, to be scanned in every way."""

from __future__ import annotations

import os
from copy import copy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.reading import settings_reading

from metastore.config.settings import Settings
from metastore.session import Session, connect

TABLE = "dfs.tmp.t"


class Lake:
    """The directory of one table, ``dfs.tmp.t``; every write gets a modification time of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "t"
        self.root.mkdir()
        self.session: Session = connect(
            Settings.from_mapping(
                {
                    "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
                    "drill.metastore.storage.dfs.workspaces.tmp.location": str(folder),
                },
                environ={},
            )
        )
        self.tables = self.session.tables
        self._time = 1_700_000_000

    def reading(self, **limits: int) -> Lake:
        """The same lake under another session, which reads within ``limits``."""
        other = copy(self)
        other.session = connect(settings_reading(self.session.settings, **limits))
        other.tables = other.session.tables
        return other

    def write(self, name: str, columns: dict[str, Any] | pa.Table, **options: Any) -> str:
        """Write one Parquet file below the table; its path."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
        self._time += 1
        os.utime(path, (self._time, self._time))
        return str(path)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.root / name).unlink()

    def paths(self) -> list[str]:
        """All files that exist."""
        return sorted(str(path) for path in self.root.rglob("*.parquet"))

    def analyze(self, **options: Any) -> None:
        """ANALYZE."""
        self.session.analyze(TABLE, **options)

    def scan(self, where: Any = None, columns: Any = None, **options: Any) -> Any:
        """A scan of the table."""
        return self.tables.scan(TABLE, where, columns, **options)
