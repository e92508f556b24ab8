"""What README.md shows of the command line and of a configuration, run as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import metastore
from metastore.cli.app import app
from metastore.session import connect

README = (Path(metastore.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
[CONF] = re.findall(r"^```hocon\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
[SHELL] = re.findall(r"^```\n((?:metastore .+\n)+)^```", README, re.MULTILINE)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The configuration of README in a folder of this test, with a catalog and a table in it, and some flights."""
    for month in (6, 7):
        folder = tmp_path / f"tmp/flights/month={month}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"carrier": ["UA", "B6"], "dep_delay": [3, 900]}), folder / "a.parquet")
    file = tmp_path / "site.conf"
    lake = f'type = sql, uri = "sqlite:///{tmp_path}/lake.db", warehouse = "file://{tmp_path}/lake"'
    file.write_text(f"{CONF.replace('/data/lake', str(tmp_path))}\ndrill.metastore.catalogs.lake {{ {lake} }}\n")
    with connect(file) as session:
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1]}))
    return file


def test_every_line_of_the_shell_ends_well(conf: Path) -> None:
    """One after the other."""
    for line in SHELL.splitlines():
        ran = CliRunner().invoke(app, [*shlex.split(line)[1:], "--conf", str(conf)])
        assert ran.exit_code == 0, (line, ran.output)
