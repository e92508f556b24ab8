"""A session with an analyzed table, an Iceberg table of three versions in a catalog, and the same rows at hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.sales_lake import Lake

from metastore.config import Settings
from metastore.session import connect

NAN = float("nan")


def rows(start: int) -> pa.Table:
    """Six rows with nulls, NaN and texts that sort oddly."""
    return pa.table(
        {
            "id": pa.array(range(start, start + 6), pa.int64()),
            "small": pa.array([None, *range(start, start + 5)], pa.int32()),
            "price": pa.array([Decimal(n) / 4 for n in range(start, start + 5)] + [None], pa.decimal128(9, 2)),
            "weight": pa.array([start / 2, NAN, None, -0.0, 1.5, float(start)]),
            "name": pa.array([f"n{start}", "N1", "", None, "ä", "zz%_"]),
            "day": pa.array([date(2024, 1, 1 + start), None, *[date(2024, 2, n) for n in (1, 2, 3, 28)]]),
            "time": pa.array([*[datetime(2024, 1, 1, start + n) for n in range(5)], None], pa.timestamp("us")),
            "utc": pa.array(
                [*[datetime(2024, 1, 1, start + n, tzinfo=timezone.utc) for n in range(5)], None],
                pa.timestamp("us", "UTC"),
            ),
            "paid": pa.array([True, False, None] * 2),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Three files each; the first version of the Iceberg table has the first of them."""
    folder = tmp_path_factory.mktemp("lake")
    given: dict[str, Any] = {
        "drill.metastore.iceberg.location": {"base_path": str(folder), "relative_path": "metastore"},
        "drill.metastore.storage.dfs.workspaces.shop.location": str(folder / "data"),
        "drill.metastore.catalogs.lake": {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": str(folder / "warehouse"),
        },
    }
    parts = [rows(start) for start in (0, 6, 12)]
    (folder / "data" / "sales").mkdir(parents=True)
    (folder / "warehouse").mkdir()
    for number, part in enumerate(parts):
        pq.write_table(part, folder / "data" / "sales" / f"{number}.parquet", row_group_size=2)
    with connect(Settings.from_mapping(given, environ={})) as session:
        session.analyze("dfs.shop.sales")
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("default")
        table = catalog.create_table("default.sales", parts[0].schema)
        table.append(parts[0])
        first = table.current_snapshot()
        assert first is not None
        for part in parts[1:]:
            table.append(part)
        yield Lake(session, folder, pa.concat_tables(parts), first.snapshot_id)
