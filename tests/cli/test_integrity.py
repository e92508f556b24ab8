"""``metastore check`` and ``metastore repair``: what they print, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from metastore.cli.app import app
from metastore.session import connect


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A metastore with one table, analyzed twice."""
    file = tmp_path / "site.conf"
    file.write_text(
        f'drill.metastore.iceberg.location {{ base_path = "{tmp_path}", relative_path = m }}\n'
        f'drill.metastore.storage.dfs.workspaces.w.location = "{tmp_path}/lake"\n'
    )
    (tmp_path / "lake/t").mkdir(parents=True)
    for name in "ab":
        pq.write_table(pa.table({"id": [1]}), tmp_path / f"lake/t/{name}.parquet")
        with connect(file) as ms:
            ms.analyze("dfs.w.t")
    return file


def run(conf: Path, *arguments: str) -> Result:
    """One command."""
    return CliRunner().invoke(app, ["--conf", str(conf), *arguments])


def test_damage_from_end_to_end(conf: Path) -> None:
    """Found with exit code 1, shown by the dry run, not done without an answer, done by --yes, and sound then."""
    metadata = conf.parent / "m/tables/metadata"
    (metadata / "v3.metadata.json").write_text("{}")
    ran = run(conf, "check")
    assert ran.exit_code == 1
    assert "v3.metadata.json" in ran.stdout
    assert "findings must be fixed" in ran.stderr
    found = json.loads(run(conf, "check", "--json").stdout)
    assert [each["severity"] for each in found["findings"]] == ["error"]
    planned = run(conf, "repair", "--dry-run")
    assert (planned.exit_code, "v3.metadata.json would be moved aside" in planned.stdout) == (0, True)
    assert run(conf, "repair").exit_code == 1  # nobody answers
    assert (metadata / "v3.metadata.json").exists()
    done = json.loads(run(conf, "repair", "--yes", "--json").stdout)
    [tables] = done["components"]
    assert (tables["version"], tables["hint"], list(tables["aside"])) == (2, 2, ["v3.metadata.json"])
    assert (Path(done["moved_to"]) / "tables/v3.metadata.json").read_text() == "{}"
    assert run(conf, "check").exit_code == 0


def test_what_cannot_be_repaired(conf: Path) -> None:
    """Told with exit code 1, and what to do."""
    for path in (conf.parent / "m/tables/metadata").glob("v*.metadata.json"):
        path.unlink()
    for arguments in (("repair", "--dry-run"), ("repair", "--yes")):
        ran = run(conf, *arguments)
        assert ran.exit_code == 1
        assert "restore the folder from a backup" in ran.stdout
        assert "cannot be repaired" in ran.stderr


def test_metadata_of_a_table_that_lost_a_file_can_be_dropped(conf: Path) -> None:
    """Dropping reads no file of it; then the table is analyzed anew."""
    for path in (conf.parent / "m/tables/dfs").rglob("*.parquet"):
        path.unlink()
    assert run(conf, "drop-metadata", "dfs.w.t").exit_code == 0
    assert run(conf, "analyze", "dfs.w.t").exit_code == 0
    assert run(conf, "expire", "--older-than", "0 s").exit_code == 0
    assert run(conf, "check").exit_code == 0


def test_policies_that_match_nothing_are_findings(conf: Path) -> None:
    """Warnings with the key, and the name that was probably meant; the exit code stays that of a sound metastore."""
    folder = conf.parent
    lake = f'type = sql, uri = "sqlite:///{folder}/c.db", warehouse = "file://{folder}/wh"'
    policy = 'drill.metastore.policies.tables."lake.shop.orderz".expire_snapshots.enabled = true'
    conf.write_text(f"{conf.read_text()}drill.metastore.catalogs.lake {{ {lake} }}\n{policy}\n")
    with connect(conf) as ms:
        catalog = ms.catalogs.open("lake")
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    ran = run(conf, "--json", "check")
    assert ran.exit_code == 0, ran.output
    [found] = [each for each in json.loads(ran.stdout)["findings"] if "policies" in each["subject"]]
    assert (found["severity"], found["subject"]) == ("warning", "drill.metastore.policies.tables.lake.shop.orderz")
    assert found["what"] == "matches nothing: there is no table lake.shop.orderz; did you mean lake.shop.orders?"
