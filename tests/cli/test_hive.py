"""``metastore hive tables``: for people and for programs, and what it says when there is nothing to look at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from services.hive_tables import HiveMaker
from typer.testing import CliRunner

from metastore.cli.hive_app import app
from metastore.sources.hive.client import HiveClient

pytestmark = pytest.mark.integration


@pytest.fixture
def hive(hive_metastore: str, tmp_path: Path) -> HiveMaker:
    """A database with a partitioned table."""
    folder = tmp_path / "hive"
    folder.mkdir()
    return HiveMaker(HiveClient(hive_metastore), folder)


def run(folder: Path, configuration: str, *arguments: str) -> tuple[int, str]:
    """Exit code and what was printed, errors too."""
    conf = folder / "conf.conf"
    conf.write_text(configuration)
    done = CliRunner().invoke(app, ["hive", "tables", "--conf", str(conf), *arguments], env={"COLUMNS": "200"})
    return done.exit_code, done.output


def test_tables_of_one_database(hive: HiveMaker, hive_metastore: str, tmp_path: Path) -> None:
    """As a table, and as JSON."""
    name = hive.table({"id": "bigint"}, {"p": "string"})
    hive.client.close()
    text = f'drill.metastore.storage.lake {{ type = hive, uri = "{hive_metastore}" }}'
    code, said = run(tmp_path, text, hive.database)
    assert code == 0, said
    assert f"{hive.database}.{name}" in said
    assert "1 table of plugin lake" in said
    code, said = run(tmp_path, text, hive.database, "--json")
    document = json.loads(said)
    assert (document["plugin"], document["tables"][0]["partition_columns"]) == ("lake", ["p"])


def test_without_a_plugin(tmp_path: Path) -> None:
    """What to configure is said; of several, one must be named."""
    code, said = run(tmp_path, "")
    assert (code, "type = hive" in said) == (1, True)
    two = '{ type = hive, uri = "thrift://127.0.0.1:1" }'
    code, said = run(tmp_path, f"drill.metastore.storage {{ a {two}, b {two} }}")
    assert (code, "a, b" in said) == (1, True)
