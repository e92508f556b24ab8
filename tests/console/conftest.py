"""A lake with the names that attackers choose, and the console over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.console_pages import BAD, SALES, no_daemon, write
from support.served_lake import Lake

from metastore.console.pages import Console
from metastore.model.run_unit import RunUnit


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Tables of files, a view, and a table of a catalog with a branch, a tag and a deleted row."""
    folder = tmp_path_factory.mktemp("console")
    lake = Lake(folder, {})
    for day in range(1, 11):
        for file in (0, 1):
            write(folder / "data" / "sales", day, file, 1000 if day == 7 else 20)
    bad = folder / "data" / BAD / f"{BAD}=1"
    bad.mkdir(parents=True)
    pq.write_table(pa.table({f"{BAD}\"'`": [f"{BAD}{each}" for each in range(5)]}), bad / f"{BAD}.parquet")
    with lake.opened:
        lake.session.analyze(SALES, statistics=True)
        lake.session.analyze(folder / "data" / BAD, statistics=True)
        lake.sql(
            f"CREATE VIEW dfs.w.v AS SELECT '{BAD}' AS bad",
            "CREATE SCHEMA lake.shop",
            "CREATE TABLE lake.shop.orders (id BIGINT, day DATE)",
            "INSERT INTO lake.shop.orders VALUES (1, DATE '2026-11-01'), (2, DATE '2026-11-02')",
            "ALTER TABLE lake.shop.orders CREATE TAG first",
            "DELETE FROM lake.shop.orders WHERE id = 2",
            "ALTER TABLE lake.shop.orders ADD COLUMN note VARCHAR",
        )
        with lake.session.catalogs.open("lake").load_table("shop.orders").transaction() as change:
            change.set_properties({BAD: BAD, "owner": BAD, "password": "open-sesame"})
        lake.session.metastore.runs.add([RunUnit(
            day="2099-01-01", run_id="1", table="lake.shop.orders", action="expire_snapshots", status="failed",
            error=BAD, started=4_070_908_800_000, milliseconds=1500, result=f'{{"{BAD}": 1}}', requests=3,
        )])  # fmt: skip
        yield lake


@pytest.fixture
def console(lake: Lake) -> Console:
    """The console over the lake."""
    return Console(lambda: lake.session, no_daemon)


@pytest.fixture
def make_own(tmp_path: Path) -> Iterator[Callable[[], Lake]]:
    """Makes a lake that the test may change."""
    with ExitStack() as made:

        def make() -> Lake:
            lake = Lake(tmp_path, {})
            made.callback(lake.opened.close)
            return lake

        yield make
