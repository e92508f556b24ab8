"""A site of one small table, and the command line over it: in this process, or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import metastore
from metastore.cli.app import app
from metastore.session import Session, connect

TABLE = "dfs.shop.sales"


@dataclass(frozen=True)
class Site:
    """A folder with a configuration and the table ``dfs.shop.sales``: 3 months, 2 files each, 3 row groups a file."""

    folder: Path
    conf: Path
    data: Path

    def write(self, month: int, file: int, rows: int = 100) -> Path:
        """Write one file of the table: ``id`` goes on from file to file, one ``amount`` is null."""
        path = self.data / f"month={month}" / f"part-{file}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        start = file * 100
        columns: dict[str, pa.Array[Any]] = {
            "id": pa.array(range(start, start + rows), pa.int64()),
            "shop": pa.array([f"shop {month}"] * rows, pa.string()),
            "amount": pa.array([None, *[month * 1.5] * (rows - 1)], pa.float64()),
            "sold": pa.array([datetime(2024, month, 1, tzinfo=timezone.utc)] * rows, pa.timestamp("us", "UTC")),
        }
        pq.write_table(pa.table(columns), path, row_group_size=40)
        return path

    @property
    def metastore_files(self) -> set[Path]:
        """Every file that the metastore has on disk."""
        return {path for path in (self.folder / "metastore").rglob("*") if path.is_file()}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """The site; nothing is analyzed."""
    made = Site(tmp_path, tmp_path / "site.conf", tmp_path / "data" / "sales")
    made.conf.write_text(
        f'drill.metastore.iceberg.location.base_path = "{tmp_path}/metastore"\n'
        f'drill.metastore.storage.dfs.workspaces.shop.location = "{tmp_path}/data"\n'
    )
    for month in (1, 2, 10):
        for file in (0, 1):
            made.write(month, file)
    return made


@pytest.fixture
def session(site: Site) -> Iterator[Session]:
    """A session over the site."""
    with connect(site.conf) as opened:
        yield opened


@pytest.fixture
def analyzed(session: Session) -> Session:
    """A session over the site whose table was analyzed."""
    session.analyze(TABLE)
    return session


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output, which must be one JSON document."""
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(site: Site) -> Run:
    """Run a command in this process, over the site."""

    def carry_out(*arguments: str) -> Ran:
        result = CliRunner().invoke(app, ["--conf", str(site.conf), *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return carry_out


@pytest.fixture
def command(site: Site) -> Callable[..., list[str]]:
    """The command line of a process of its own, over the site."""
    return lambda *arguments: [sys.executable, "-m", "metastore.cli", "--conf", str(site.conf), *arguments]


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of such a process."""
    return {**os.environ, "PYTHONPATH": str(Path(metastore.__file__).parents[1])}


@pytest.fixture
def process(command: Callable[..., list[str]], environment: dict[str, str]) -> Run:
    """Run a command in a process of its own, over the site."""

    def carry_out(*arguments: str) -> Ran:
        ran = subprocess.run(command(*arguments), capture_output=True, check=False, env=environment, text=True)
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    return carry_out
