"""The same rows as an analyzed directory and as a table of a catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from metastore.session import Session


@dataclass(frozen=True)
class Lake:
    """``dfs.shop.sales`` (analyzed) and ``lake.default.sales`` (Iceberg) hold ``data``; ``first`` is a version."""

    session: Session
    folder: Path
    data: pa.Table
    first: int

    @contextmanager
    def in_duckdb(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """DuckDB alone, with the rows in a table ``sales`` of its own: release 1 has Arrow judge what is Arrow's."""
        with duckdb.connect() as engine:
            engine.execute("SET TimeZone = 'UTC'")
            engine.register("given", self.data)
            engine.execute("CREATE TABLE sales AS FROM given")
            yield engine
