"""A session with two analyzed tables, ``dfs.tmp.sales`` and ``dfs.tmp.regions``, whose files a test can add to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.ground.clock import Clock
from metastore.session import Session
from metastore.sql.views import expand
from metastore.sql.views.references import info_of, references
from metastore.sql.views.runner import DuckDBRunner, Source, WrittenFolder

SALES: list[pa.Field[Any]] = [
    pa.field("id", pa.int32()),
    pa.field("Region", pa.int64()),
    pa.field("amount", pa.decimal128(9, 2)),
    pa.field("weight", pa.float64()),
    pa.field("item name", pa.string()),
]

AddFile = Callable[..., Path]
Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of workspace ``dfs.tmp``."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def add_sales(data: Path) -> AddFile:
    """Write a file of sales with these ids; region, amount and weight follow from the id, null where it is odd."""

    def add(name: str, ids: Sequence[int]) -> Path:
        (data / "sales").mkdir(exist_ok=True)
        rows = [
            {
                "id": n,
                "Region": n % 3,
                "amount": None if n % 2 else Decimal(n) / 4,
                "weight": None if n % 5 == 1 else n / 8,
                "item name": f"item {n % 4}",
            }
            for n in ids
        ]
        path = data / "sales" / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(SALES)), path)
        return path

    return add


@pytest.fixture
def settings(tmp_path: Path, data: Path) -> Settings:
    """A metastore below the test's folder; workspace ``dfs.tmp`` may be written to, ``dfs.root`` not."""
    location = {"base_path": str(tmp_path), "relative_path": "metastore"}
    workspaces = {"tmp": {"location": str(data), "writable": True}, "fixed": {"location": str(data), "writable": False}}
    given = {"iceberg.location": location, "storage.dfs.workspaces": workspaces}
    return Settings.from_mapping({"drill.metastore": given}, environ={})


@pytest.fixture
def session(settings: Settings, clock: Clock, add_sales: AddFile, data: Path) -> Iterator[Session]:
    """The session, on the test's clock, with DuckDB for queries."""
    add_sales("first", range(10))
    (data / "regions").mkdir()
    regions = [{"region": number, "name": name} for number, name in enumerate(("north", "east", "south"))]
    pq.write_table(pa.Table.from_pylist(regions), data / "regions/all.parquet")
    with Session(Metastore.open(settings, clock=clock)) as opened:
        opened.analyze("dfs.tmp.sales")
        opened.analyze("dfs.tmp.regions")
        yield opened


@pytest.fixture
def rows(session: Session, tmp_path: Path) -> Rows:
    """The rows of a query over views and tables, sorted; ``freshness`` is that of materialized views."""

    def run(query: str, freshness: str = "strict") -> list[dict[str, Any]]:
        expanded = expand(query, session.views.lookup(freshness), schema_path=("dfs", "tmp"))
        folder = WrittenFolder(str(tmp_path / "answers" / str(len(list(tmp_path.glob("answers/*"))))))
        sources: dict[str, tuple[Source, ...]] = {}
        for number, table in enumerate(list(references(expanded))):
            key = f"source{number}"
            sources[key] = (session.tables.scan(info_of(table)),)
            table.replace(exp.alias_(exp.to_table(key), table.alias, quoted=True, table=True))
        DuckDBRunner().write(expanded, sources, folder)
        return sorted(pq.read_table(folder.location).to_pylist(), key=repr)

    return run
