"""A folder of files that is served as a virtual table, its rows by DuckDB, and conditions with the files they need."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from support.served_lake import Lake

from metastore.serve.server import RestServer

CONDITIONS = [
    ("id >= 55 AND id <= 57", 1),
    ("region = 'r2'", 4),
    ("region = 'r2' AND id < 20", 1),
    ("region IN ('r1', 'r5')", 8),
    ("NOT (region = 'r1')", 16),
    ("name = 'name 00123'", 1),
    ("extra > 185", 1),
    ("extra IS NULL", 10),
    ("price < 0.05", 1),
    ("moment >= '2026-11-09T00:00:00'", 1),
    ("born = '2000-03-01'", 1),
    ("name LIKE 'name 0001%'", 1),
    ("id < 5 OR region = 'r3'", 5),
    ("id > 1000", 0),
]

DAYS = 5
FILES = 4 * DAYS


def write(lake: Lake, folder: str = "t", days: str = "region=r{day}") -> None:
    """Four files of ten rows for each of five directories; half of the files lack the column ``extra``."""
    for number in range(FILES):
        ids = range(number * 10, number * 10 + 10)
        columns: dict[str, Any] = {
            "id": list(ids),
            "name": [f"name {each:05d}" for each in ids],
            "price": [Decimal(each) / 100 for each in ids],
            "moment": [datetime(2026, 11, 1) + timedelta(hours=each) for each in ids],
            "born": [date(2000, 1, 1) + timedelta(days=each) for each in ids],
        }
        if number % 2:
            columns["extra"] = list(ids)
        place = Path(lake.folder, "data", folder, days.format(day=number % DAYS + 1))
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), place / f"{number}.parquet")
    lake.session.analyze(f"dfs.w.{folder}")


def plain(lake: Lake, condition: str, folder: str = "t") -> list[int]:
    """The ids of the plain files, by DuckDB."""
    files = f"read_parquet('{lake.folder}/data/{folder}/*/*.parquet', union_by_name = true, hive_partitioning = true)"
    with duckdb.connect() as engine:
        return [each for (each,) in engine.sql(f"SELECT id FROM {files} WHERE {condition} ORDER BY id").fetchall()]


def planned(lake: Lake, filter_: Any, **more: Any) -> Any:
    """What the server answers to the request for a plan."""
    body = json.dumps({"filter": filter_, **more}).encode()
    return lake.ask("/v1/dfs/namespaces/w/tables/t/plan", "POST", body, Content_Type="application/json")


def parted(lake: Lake, most: int) -> RestServer:
    """Another server of the lake, whose plans have parts of ``most`` files."""
    settings = replace(lake.settings.serve, limits=replace(lake.settings.serve.limits, plan=most))
    return lake.opened.enter_context(RestServer(settings, lake.session.catalogs))
