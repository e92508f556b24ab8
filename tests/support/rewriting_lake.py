"""A session over a catalog whose tables are rewritten."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from metastore.session import Session


@dataclass
class Lake:
    """A session with one catalog ``lake`` of others."""

    folder: Path
    session: Session

    @property
    def catalog(self) -> Catalog:
        """PyIceberg's own door to the lake."""
        return self.session.catalogs.open("lake")

    def create(self, schema: Any, name: str = "t", **given: Any) -> Table:
        """A new table ``default.<name>``."""
        return self.catalog.create_table(f"default.{name}", schema, **given)

    def load(self, name: str = "t") -> Table:
        """The table as it is now."""
        return self.catalog.load_table(f"default.{name}")

    def rewrite(self, name: str = "t", **arguments: Any) -> dict[str, Any]:
        """The row that rewrite_data_files returns."""
        call = self.session.procedures.call
        [row] = call("lake.system.rewrite_data_files", schema="default", table_name=name, **arguments).to_pylist()
        return dict(row)

    def data_files(self, name: str = "t") -> list[DataFile]:
        """The data files of the current snapshot."""
        return [task.file for task in self.load(name).scan().plan_files()]

    def stored(self, name: str = "t") -> set[str]:
        """Names of all Parquet files below the table's folder, known to the table or not."""
        root = Path(self.load(name).metadata.location.removeprefix("file://"))
        return {str(path) for path in root.rglob("*.parquet")}
