"""Tables of every kind that needs no service, with rows and without: for laws that hold for all of them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyarrow import orc

from metastore.config.settings import Settings
from metastore.session import Session

ROWS = pa.table(
    {
        "b": pa.array([2, 1], pa.int32()),
        "A": ["x", None],
        "price": pa.array([Decimal("1.50"), Decimal("2.25")], pa.decimal128(9, 2)),
        "day": pa.array([dt.date(2024, 1, 5), None]),
        "at": pa.array([dt.datetime(2024, 1, 5, 10, tzinfo=dt.timezone.utc)] * 2, pa.timestamp("us", "UTC")),
        "local": pa.array([dt.datetime(2024, 1, 5, 10)] * 2, pa.timestamp("us")),
        "st": [{"x": 1, "y": "a"}, {"x": 2, "y": None}],
        "many": [[1], []],
    }
)
"""Two rows of types that Parquet, Iceberg, Delta and Spark have words for."""

DECLARED = "n BIGINT, s VARCHAR, d DATE"


def settings_of_kinds(folder: Path) -> Settings:
    """Plugins for directories, Iceberg and Delta below ``folder``."""
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh"}
    work = {"location": f"{folder}/lake", "writable": True}
    given = {
        "drill.metastore.iceberg.location.base_path": f"{folder}/store",
        "drill.metastore.catalogs.prod": catalog,
        "drill.metastore.storage": {
            "lake": {"type": "iceberg", "catalog": "prod"},
            "delta": {"type": "delta", "connection": "file:///", "workspaces": {"w": {"location": f"{folder}/delta"}}},
            "dfs": {"connection": "file:///", "workspaces": {"w": work}},
        },
    }
    return Settings.from_mapping(given, environ={})


def make_tables(session: Session, folder: Path) -> dict[str, dict[str, Any]]:
    """The tables, by name, with the options of their ANALYZE; each of ``full`` has one of ``empty``."""
    catalog = session.catalogs.open("prod")
    catalog.create_namespace("db")
    none = ROWS.slice(0, 0)
    lake = folder / "lake"
    for name, rows in (("full", ROWS), ("empty", none)):
        table = catalog.create_table(f"db.{name}", ROWS.schema)
        if rows.num_rows:
            table.append(rows)
        write_deltalake(str(folder / "delta" / name), rows)
        for kind in ("parquet", "orc", "parted", "csv", "json", "declared"):
            (lake / f"{kind}_{name}").mkdir(parents=True)
        pq.write_table(rows, lake / f"parquet_{name}" / "1.parquet")
        orc.write_table(rows.select(["b", "A", "price", "day"]), str(lake / f"orc_{name}" / "1.orc"))
        inside = lake / f"parted_{name}" / "Year=2024"
        inside.mkdir()
        pq.write_table(rows.select(["b", "A"]), inside / "1.parquet")
        (lake / f"csv_{name}" / "1.csv").write_text("n,s\n" + "1,x\n" * rows.num_rows)
        (lake / f"json_{name}" / "1.json").write_text('{"n": 1, "s": "x"}\n' * rows.num_rows)
        (lake / f"declared_{name}" / "1.csv").write_text("n,s,d\n" + "1,x,2024-01-05\n" * rows.num_rows)
    catalog.create_table("db.without_snapshot", ROWS.schema)
    declared = {f"dfs.w.declared_{name}": {"format": "csv", "schema": DECLARED} for name in ("full", "empty")}
    plain = [f"lake.db.{name}" for name in ("full", "empty", "without_snapshot")]
    plain += [f"delta.w.{name}" for name in ("full", "empty")]
    plain += [
        f"dfs.w.{kind}_{name}" for kind in ("parquet", "orc", "parted", "csv", "json") for name in ("full", "empty")
    ]
    return {**{name: {} for name in plain if name != "dfs.w.json_empty"}, **declared}
