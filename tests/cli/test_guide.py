"""The examples of docs/guide/command-line.md: each is run, and prints what stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import metastore
from demos.flights import days, load, write_day
from metastore.cli.app import app
from metastore.session import connect

GUIDE = (Path(metastore.__file__).parents[1] / "docs/guide/command-line.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```\n\$ metastore (.+)\n((?:.*\n)*?)```", GUIDE, re.MULTILINE)
APART = ("register", "call", "serve")
OF_THE_DEMO = [(command, said) for command, said in EXAMPLES if said and not command.startswith(APART)]
OF_CATALOGS = [(command, said) for command, said in EXAMPLES if not said or command.startswith("call")]

LATE = (6, 15)
"""The day whose file comes late in the demo."""

ANSWERED = {"purge": ["purge", "--yes"]}
"""Questions are put to terminals only."""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The configuration of the demo, with a catalog."""
    file = tmp_path / "demo.conf"
    file.write_text(
        "drill.metastore {\n  iceberg {\n"
        f'    location.base_path = "{tmp_path}/metastore"\n    expiration.retain_last = 1\n  }}\n'
        f'  storage.dfs.workspaces.demo.location = "{tmp_path}/lake"\n'
        f'  catalogs.lake {{ type = sql, uri = "sqlite:///{tmp_path}/lake.db", warehouse = "{tmp_path}/w" }}\n}}\n'
    )
    return file


def lines(text: str, folder: Path) -> list[str]:
    """The lines of a screen, without what differs from run to run: places, versions, times, sizes, owner, engine."""
    text = text.replace(str(folder), "/data").replace(f" {folder.owner()} ", " root ").replace("spark", "local")
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?!Z)|\b\d{13,19}\b|[\d.,]+ (ms|s|k?B|MB)\b|\d\d\.\d%|─+", "•", text)
    return [" ".join(line.split()) for line in text.splitlines()]


def runs(command: str, conf: Path) -> str:
    """What the command prints."""
    arguments = ANSWERED.get(command) or shlex.split(command)
    ran = CliRunner().invoke(app, ["--conf", str(conf), *arguments])
    assert ran.exit_code == 0, (command, ran.output)
    return ran.stdout


def check(command: str, said: str, conf: Path) -> None:
    """Every line that the guide prints is printed, in this order; `…` stands for any others."""
    printed = iter(lines(runs(command, conf), conf.parent))
    for line in lines(said, conf.parent):
        assert line in ("…", "") or line.endswith("[y/N] y") or line in printed, (command, line)


def test_the_demos_table(conf: Path, tmp_path: Path) -> None:
    """The numbers of the guide are those of the real flights."""
    flights, late = tmp_path / "lake/flights", None
    for day, table in days(load()):
        if day == LATE:
            late = table
        else:
            write_day(flights, day, table)
    assert late is not None
    with connect(conf) as session:
        session.catalogs.open("lake")
    for command, said in OF_THE_DEMO:
        if command.startswith("analyze") and late is not None:
            runs(command, conf)
            write_day(flights, LATE, late)
            late = None
        check(command, said, conf)


def test_catalogs(conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same over a catalog with the table that the guide speaks of, which was written to twice."""
    with connect(conf) as session:
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
        for number in (1, 2):
            table.append(pa.table({"id": [number]}))
        first = str(table.snapshots()[0].snapshot_id)
    monkeypatch.chdir(tmp_path)
    for command, said in OF_CATALOGS:
        check(re.sub(r"\b\d{19}\b", first, command), said, conf)


def test_no_example_is_left_out() -> None:
    """But for `register`, which needs a catalog of its own: test_register.py; and `serve`: serve/test_server.py."""
    left = {command for command, _ in EXAMPLES} - {command for command, _ in (*OF_THE_DEMO, *OF_CATALOGS)}
    assert left == {"register", "serve"}
    assert len(EXAMPLES) == len(re.findall(r"^\$ ", GUIDE, re.MULTILINE))
