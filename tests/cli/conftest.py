"""A site of one small table, and the command line over it: in this process, or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.cli_site import Site
from support.ran import Ran
from typer.testing import CliRunner

import metastore
from metastore.cli.app import app
from metastore.session import Session, connect

TABLE = "dfs.shop.sales"


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
