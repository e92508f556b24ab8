"""A folder of Parquet files that is analyzed and published, and read by engines that are not ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from metastore.config import Settings
from metastore.session import Session, connect

SOURCE, NAME = "dfs.shop.sales", "published.shop.sales"


@dataclass(frozen=True)
class Shop:
    """The folder, and what publishes it."""

    session: Session
    root: Path

    def write(self, name: str, columns: Mapping[str, Any] | pa.Table, **options: Any) -> Path:
        """Write one file of the folder."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(dict(columns)), path, **options)
        return path

    def publish(self, **options: Any) -> dict[str, Any]:
        """Analyze and publish; returns the row of the result."""
        self.session.analyze(SOURCE)
        return self.publish_stored(**options)

    def publish_stored(self, **options: Any) -> dict[str, Any]:
        """Publish what was analyzed last; returns the row of the result."""
        call = {"table": SOURCE, "to": NAME, **options}
        [row] = self.session.call("published.system.publish_table", **call).to_pylist()
        return row

    @property
    def table(self) -> StaticTable:
        """The published table as PyIceberg opens it, by nothing but its metadata file."""
        loaded = self.session.catalogs.table("published", "shop", "sales").load()
        return StaticTable.from_metadata(loaded.metadata_location)

    def rows(self, table: StaticTable | None = None) -> list[str]:
        """All rows of the published table by PyIceberg, in a form in which they can be compared."""
        return comparable((table or self.table).scan().to_arrow())

    def plain(self) -> list[str]:
        """The same of the plain files by DuckDB."""
        text = f"FROM read_parquet('{self.root}/**/*.parquet', union_by_name = true, hive_partitioning = true)"
        with duckdb.connect() as engine:
            engine.execute("SET TimeZone = 'UTC'")
            return comparable(engine.sql(text).to_arrow_table())

    def planned(self, condition: str) -> int:
        """The number of files that PyIceberg opens for a condition."""
        return len(list(self.table.scan(row_filter=condition).plan_files()))


def comparable(rows: pa.Table) -> list[str]:
    """Each row as text, without the order of rows and columns; columns that are null everywhere do not count."""
    kept = [name for name in rows.column_names if rows[name].null_count < rows.num_rows]
    return sorted(
        repr(sorted((name.lower(), _plain(value)) for name, value in row.items() if value is not None))
        for row in rows.select(kept).to_pylist()
    )


def _plain(value: Any) -> Any:
    return str(value.astimezone()) if getattr(value, "tzinfo", None) else value


@pytest.fixture(params=["sql", "filesystem"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """An empty folder ``dfs.shop.sales``, and a catalog of each kind to publish into."""
    catalogs = {
        "sql": {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"},
        "filesystem": {"type": "filesystem", "warehouse": f"{tmp_path}/lake"},
    }
    settings = {
        "drill.metastore.iceberg": {"location.base_path": str(tmp_path), "commit.timeout": "5 s"},
        "drill.metastore.storage.dfs.workspaces.shop.location": f"{tmp_path}/shop",
        "drill.metastore.catalogs.published": catalogs[request.param],
    }
    with connect(Settings.from_mapping(settings, environ={})) as session:
        yield Shop(session, tmp_path / "shop" / "sales")
