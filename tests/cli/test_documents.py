"""What documents show of the command line and of a configuration, run as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main
from typer.testing import CliRunner

import metastore
from metastore.cli.hive_app import app
from metastore.session import connect

ROOT = Path(metastore.__file__).parents[1]
DEPLOYMENT = (ROOT / "docs/how-to/deployment.md").read_text(encoding="utf-8")
[CONF] = re.findall(r"^```hocon\n(.*?)^```", DEPLOYMENT, re.MULTILINE | re.DOTALL)
[SHELL] = re.findall(r"^```\n((?:metastore .+\n)+)^```", DEPLOYMENT, re.MULTILINE)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The configuration of the deployment in a folder of this test, with a catalog, a table in it, and some flights."""
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


def test_every_command_that_a_document_names_is_there() -> None:
    """In README and in all pages, in blocks and in sentences, with the options that stand beside it."""
    named = 0
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*/*.md")):
        code = "\n".join(re.findall(r"^```(?:sh)?\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL))
        in_sentences = re.findall(r"`metastore (?!--conf)([^`]+)`", path.read_text())
        for line in (*re.findall(r"^(?:\$ )?metastore (?:--conf \S+ )?(.+)$", code, re.MULTILINE), *in_sentences):
            words = shlex.split(line, comments=True)
            found = typer.main.get_command(app)
            while words and words[0] in getattr(found, "commands", {}):
                found = found.commands[words.pop(0)]  # type: ignore[attr-defined] # a group, as it has commands
            options = {name for option in found.params for name in (*option.opts, *option.secondary_opts)}
            assert not hasattr(found, "commands") or line.startswith("--"), (path.name, line)
            assert {word for word in words if word.startswith("--")} <= options, (path.name, line)
            named += 1
    assert named > 40
