"""The examples of docs/guide/analyze.md, run as they stand there."""

from __future__ import annotations

import re
import shlex
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

import metastore
from metastore.cli.app import app
from metastore.config import load_text
from metastore.session import Session, connect

GUIDE = (Path(metastore.__file__).parents[1] / "docs/guide/analyze.md").read_text()
EVERY = re.findall(r"```(\w+)\n(.*?)```", GUIDE, re.DOTALL)
BLOCKS = dict(EVERY)


def lines(language: str) -> list[str]:
    """The lines of all blocks of a language."""
    return [line for kind, block in EVERY if kind == language for line in block.strip().splitlines()]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The configuration of the guide, for a folder of this test, with the tables that it speaks of."""
    sales = {"id": range(100), "price": [Decimal(n) for n in range(100)], "customer": [f"c{n % 7}" for n in range(100)]}
    days = [tmp_path / f"shop/days/day={day}" for day in ("2026-11-24", "2026-12-01")]
    for path in (tmp_path / "shop/sales", tmp_path / "shop/orders", tmp_path / "delta", *days):
        path.mkdir(parents=True)
    pq.write_table(pa.table(sales), tmp_path / "shop/sales/a.parquet")
    for folder, name in zip(days, ("a", "b"), strict=True):
        pq.write_table(pa.table(sales), folder / f"{name}.parquet")
    (tmp_path / "written.txt").write_text("day=2026-11-24/a.parquet\n")
    (tmp_path / "shop/orders/part-0").write_text("zip,amount\n007,1.50\n")
    write_deltalake(str(tmp_path / "delta/sales"), pa.table({"id": [1, 2]}))
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE sales AS SELECT 1 AS id")
    database.close()
    base = f'drill.metastore.iceberg.location {{ base_path = "{tmp_path}", relative_path = "metastore" }}\n'
    shop = f'drill.metastore.storage.dfs.workspaces.shop.location = "{tmp_path}/shop"\n'
    file = tmp_path / "site.conf"
    file.write_text(base + shop + BLOCKS["hocon"].replace("/data", str(tmp_path)))
    return file


@pytest.fixture
def ms(conf: Path) -> Iterator[Session]:
    """A session with it."""
    with connect(load_text(conf.read_text())) as session:
        session.analyze("dfs.shop.days")
        yield session


def test_statements(ms: Session) -> None:
    """Every line is a statement that does what it says."""
    for statement in lines("sql"):
        assert ms.sql(statement)["ok"].to_pylist() == [True], statement


def test_python(ms: Session) -> None:
    """The lines, in this order."""
    exec("\n".join(lines("python")), {"ms": ms})  # noqa: S102 - the guide's own lines


@pytest.mark.usefixtures("ms")
def test_command_line(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line ends well."""
    monkeypatch.chdir(conf.parent)
    for line in lines("sh"):
        ran = CliRunner().invoke(app, [*shlex.split(line)[1:], "--conf", str(conf)])
        assert ran.exit_code == 0, ran.output


def test_tables_of_others(ms: Session) -> None:
    """By the plugins of the guide's configuration."""
    ms.catalogs.open("prod").create_namespace("shop")
    table = ms.catalogs.open("prod").create_table("shop.sales", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2, 3]}))
    rows = [ms.analyze(name).rows for name in ("lake.shop.sales", "delta.shop.sales", "db.main.sales")]
    assert rows == [3, 2, 1]
