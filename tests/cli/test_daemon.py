"""The daemon's commands, as a shell runs them in this process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from metastore.cli.app import app
from metastore.session import connect

CONF = """drill.metastore {{
  iceberg.location {{ base_path = "{folder}", relative_path = m }}
  catalogs.lake {{ type = sql, uri = "sqlite:///{folder}/lake.db", warehouse = "file://{folder}/lake" }}
  policies {{
    catalogs.lake.expire_snapshots {{ enabled = true, older_than = 0 s }}
    tables."lake.shop.orders".expire_snapshots.retain_last = 2
  }}
}}"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A site with a table of four snapshots."""
    file = tmp_path / "site.conf"
    file.write_text(CONF.format(folder=tmp_path))
    with connect(file) as session:
        lake = session.catalogs.open("lake")
        lake.create_namespace("shop")
        table = lake.create_table("shop.orders", pa.schema([("id", pa.int64())]))
        for number in range(4):
            table.append(pa.table({"id": [number]}))
    return file


def rows_of(conf: Path, *arguments: str) -> list[dict[str, Any]]:
    """The rows that a command prints as JSON."""
    ran = CliRunner().invoke(app, ["--conf", str(conf), "--json", *arguments])
    assert ran.exit_code == 0, ran.output
    rows: list[dict[str, Any]] = json.loads(ran.stdout)["rows"]
    return rows


def test_a_pass_is_told_then_done_then_listed(conf: Path) -> None:
    """--dry-run tells what --once does, and `runs` what it did."""
    [told] = rows_of(conf, "daemon", "--dry-run")
    assert (told["status"], told["snapshots_after"], told["result"]["expired_snapshots_count"]) == ("done", 4, 2)
    assert rows_of(conf, "runs") == []
    [done] = rows_of(conf, "daemon", "--once")
    assert (done["status"], done["snapshots_before"], done["snapshots_after"]) == ("done", 4, 2)
    assert rows_of(conf, "runs", "lake.shop.orders") == [done]
    assert rows_of(conf, "runs", "lake.shop.others") == []


def test_policy_explain_tells_where_each_value_was_set(conf: Path) -> None:
    """The key as it stands, and file and line."""
    found = {row["setting"]: row for row in rows_of(conf, "policy", "explain", "lake.shop.orders")}
    last = found["expire_snapshots.retain_last"]
    assert (last["value"], last["set in"]) == (2, f"override: {conf}:6")
    assert last["key"] == "drill.metastore.policies.tables.lake.shop.orders.expire_snapshots.retain_last"
    assert found["expire_snapshots.enabled"]["set in"] == f"override: {conf}:5"
    assert found["rewrite_data_files.enabled"]["set in"] == "default"
    assert found["rewrite_data_files.quiet"]["value"] == "10 minutes"


def test_policy_explain_names_values_without_effect_on_the_table(conf: Path) -> None:
    """Those of the default layer too, which are right for other tables; none for a table where all have an effect."""
    conf.write_text(conf.read_text() + "\ndrill.metastore.policies.default.expire_snapshots.budget.files = 3")
    told = []
    for table in ("metastore.components.tables", "lake.shop.orders"):
        ran = CliRunner().invoke(app, ["--conf", str(conf), "policy", "explain", table])
        assert ran.exit_code == 0
        told.append("default.expire_snapshots.budget.files" in ran.stderr and "has no effect" in ran.stderr)
    assert told == [True, False]


@pytest.mark.parametrize("command", [("policy", "explain", "lake.shop.orders"), ("daemon", "--once")])
def test_a_schedule_that_is_never_due_is_refused(conf: Path, command: tuple[str, ...]) -> None:
    """By the daemon, and by what tells what the daemon would do: with key and line."""
    wrong = '\ndrill.metastore.policies.default.old_metadata.schedule = "61 * * * *"'
    conf.write_text(conf.read_text() + wrong)
    ran = CliRunner().invoke(app, ["--conf", str(conf), *command])
    assert (ran.exit_code, ran.stdout) == (1, "")
    told = " ".join(ran.stderr.split())
    assert "drill.metastore.policies.default.old_metadata.schedule = '61 * * * *'" in told
    assert f"{conf}:9" in told.replace(" ", "")


def test_policies_are_explained_without_the_library_of_the_daemon(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who only looks at a deployment has not installed what runs it."""
    schedule = '\ndrill.metastore.policies.default.old_metadata.schedule = "0 3 * * *"'
    conf.write_text(conf.read_text() + schedule)
    monkeypatch.setitem(sys.modules, "croniter", None)
    found = {row["setting"]: row["value"] for row in rows_of(conf, "policy", "explain", "lake.shop.orders")}
    assert found["old_metadata.schedule"] == "0 3 * * *"


def test_policies_of_a_catalog_that_is_not_configured_are_none(conf: Path) -> None:
    """A slip in its name is told."""
    ran = CliRunner().invoke(app, ["--conf", str(conf), "policy", "explain", "nosuch.shop.x"])
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "no catalog or storage plugin nosuch is configured; there are metastore, lake" in ran.stderr


def test_the_log_can_be_json_lines(conf: Path) -> None:
    """Each line is an object; that of a run holds the run."""
    ran = CliRunner().invoke(app, ["--conf", str(conf), "daemon", "--once", "--log-format", "json"])
    assert ran.exit_code == 0
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    [run] = [line["run"] for line in lines if "run" in line]
    assert (run["table"], run["status"]) == ("lake.shop.orders", "done")
    assert all(line["level"] == "info" and line["time"].endswith("Z") for line in lines)


def test_a_pass_that_was_not_all_well_is_an_exit_code(conf: Path, tmp_path: Path) -> None:
    """A run that failed; a catalog that does not answer. What was done is printed all the same."""
    with connect(conf) as session:
        bad = session.catalogs.open("lake").create_table("shop.bad", pa.schema([("id", pa.int64())]))
    Path(bad.metadata_location.removeprefix("file://")).write_bytes(b"\xff no metadata")
    ran = CliRunner().invoke(app, ["--conf", str(conf), "--json", "daemon", "--once"])
    assert ran.exit_code == 1
    found = {row["table"]: row["status"] for row in json.loads(ran.stdout)["rows"]}
    assert found == {"lake.shop.orders": "done", "lake.shop.bad": "failed"}
    assert "error: 1 run failed" in ran.stderr
    (tmp_path / "lake.db").rename(tmp_path / "elsewhere.db")
    (tmp_path / "lake.db").mkdir()
    for arguments in (["--once"], ["--dry-run"]):
        ran = CliRunner().invoke(app, ["--conf", str(conf), "--json", "daemon", *arguments])
        assert (ran.exit_code, json.loads(ran.stdout)["rows"]) == (1, [])
        assert "error: 1 catalog passed over" in ran.stderr


def test_a_pass_that_can_do_nothing_is_an_error(conf: Path, tmp_path: Path) -> None:
    """Its history cannot be read, so it knows of nothing whether it is due."""
    rows_of(conf, "daemon", "--once")
    for version in tmp_path.glob("m/runs/metadata/v*.metadata.json"):
        version.write_text("no metadata")
    ran = CliRunner().invoke(app, ["--conf", str(conf), "--json", "daemon", "--once"])
    assert (ran.exit_code, "error" in json.loads(ran.stdout)) == (1, True)


def test_health_and_report(conf: Path) -> None:
    """Scores of all tables; a page with their chart."""
    [row] = [row for row in rows_of(conf, "health") if row["table"] == "lake.shop.orders"]
    assert (row["score"], row["snapshots"], row["orphans"]) == (100, 4, None)
    page = conf.parent / "chart.html"
    assert rows_of(conf, "report", str(page)) == [{"file": str(page), "tables": 1}]
    assert page.exists()


def test_what_no_daemon_can_run_with_ends_with_the_reason(conf: Path) -> None:
    """A cron expression that is none; an endpoint that everybody could reach."""
    conf.write_text(conf.read_text() + '\ndrill.metastore.policies.default.old_metadata.schedule = "a b c d e"')
    ran = CliRunner().invoke(app, ["--conf", str(conf), "daemon", "--once"])
    assert (ran.exit_code, "old_metadata.schedule" in ran.stderr) == (1, True)
    conf.write_text('drill.metastore.daemon.http.host = "0.0.0.0"')
    ran = CliRunner().invoke(app, ["--conf", str(conf), "daemon"])
    assert (ran.exit_code, "http.token" in ran.stderr) == (1, True)
