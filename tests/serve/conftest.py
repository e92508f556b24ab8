"""A lake that is served, ready or made by a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.served_lake import Lake
from support.virtual_lake import write


@pytest.fixture
def make_lake(tmp_path: Path) -> Iterator[Callable[..., Lake]]:
    """Makes a deployment; keyword arguments are keys below ``drill.metastore.serve``, ``own`` are further catalogs."""
    with ExitStack() as made:

        def make(own: Mapping[str, Any] | None = None, **serve: Any) -> Lake:
            lake = Lake(tmp_path, serve, own or {})
            made.callback(lake.opened.close)
            return lake

        yield make


@pytest.fixture
def virtual(make_lake: Callable[..., Lake]) -> Lake:
    """A lake whose plugin is served, beside a catalog."""
    lake = make_lake(virtual_tables=["dfs"], catalogs=["lake"], metrics_reports="log")
    write(lake)
    return lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """One with tables of two snapshots each, a component with metadata, and a namespace within another."""
    folder = tmp_path_factory.mktemp("lake")
    lake = Lake(folder, {})
    for name in ("lake", "folders"):
        lake.sql(
            f"CREATE SCHEMA {name}.shop",
            f"CREATE TABLE {name}.shop.orders (id BIGINT, day DATE)",
            f"INSERT INTO {name}.shop.orders VALUES (1, DATE '2026-11-01'), (2, DATE '2026-11-02')",
            f"INSERT INTO {name}.shop.orders VALUES (3, DATE '2026-11-03')",
            f"DELETE FROM {name}.shop.orders WHERE id = 2",
        )
    lake.session.catalogs.open("lake").create_namespace(("shop", "old"), {"owner": "ann"})
    (folder / "data" / "t").mkdir(parents=True)
    lake.sql("CREATE VIEW dfs.w.v AS SELECT 1 AS one")
    with lake.opened:
        yield lake
