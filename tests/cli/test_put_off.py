"""``metastore deletions``: what it lists, and what it takes back."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from metastore.cli.app import app
from metastore.cli.commands.put_off import deletions
from metastore.cli.screens import screen
from metastore.session import connect


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A lake where a table was purged, and deletion waits for a week."""
    file = tmp_path / "site.conf"
    lake = f'type = sql, uri = "sqlite:///{tmp_path}/lake.db", warehouse = "file://{tmp_path}/lake"'
    file.write_text(
        f'drill.metastore.iceberg.location.base_path = "{tmp_path}/m"\n'
        f"drill.metastore.catalogs.lake {{ {lake} }}\n"
        'drill.metastore.procedures.deletion.delay = "7 days"\n'
    )
    with connect(file) as session:
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
        session.sql("DROP TABLE lake.shop.orders PURGE")
    return file


def run(conf: Path, *arguments: str) -> Result:
    """One command."""
    return CliRunner().invoke(app, ["--conf", str(conf), "deletions", *arguments])


def test_the_list_fits_on_80_columns(conf: Path) -> None:
    """Nothing is cut: each path and each number is there, folded at most."""
    with connect(conf) as session:
        rows = deletions(session, (), (), None)
    drawn = StringIO()
    Console(file=drawn, width=80, soft_wrap=True, highlight=False, markup=False).print(screen(rows))
    lines = drawn.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    start = lines[1].index("path")
    folded = "".join(line[start:].split("  ")[0].strip() for line in lines)
    assert [row[1] for row in rows.rows if row[1] not in folded] == []


def test_the_list_is_shown_and_entries_are_taken_back(conf: Path) -> None:
    """The document has every value; a path and a table are names of entries."""
    assert run(conf).exit_code == 0
    rows = json.loads(run(conf, "--json").stdout)["rows"]
    assert {(row["table"], row["reason"]) for row in rows} == {("lake.shop.orders", "DROP TABLE PURGE")}
    assert all(row["since"] < row["due"] for row in rows)
    [parquet] = [row["path"] for row in rows if row["path"].endswith(".parquet")]
    [size] = [row["bytes"] for row in rows if row["path"] == parquet]
    assert size == Path(parquet.removeprefix("file://")).stat().st_size
    kept = json.loads(run(conf, "--keep", parquet, "--json").stdout)["rows"]
    assert [row["path"] for row in kept if row["due"] is None] == [parquet]
    kept = json.loads(run(conf, "--keep", "lake.shop.orders", "--json").stdout)["rows"]
    assert [row["due"] for row in kept] == [None] * len(rows)
    released = json.loads(run(conf, "--release", parquet, "--json").stdout)["rows"]
    assert [row["path"] for row in released if row["due"] is not None] == [parquet]
    assert json.loads(run(conf, "--table", "lake.shop.other", "--json").stdout)["rows"] == []
    refused = run(conf, "--keep", "lake.shop.other")
    assert refused.exit_code == 1
    assert "nothing was changed" in " ".join(refused.stderr.split())
    assert run(conf, "--delete-due").exit_code == 0
