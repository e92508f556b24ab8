"""Commands from arguments to results: global options, documents, and what people read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from support.cli_site import Site

from metastore.cli.app import app
from metastore.session import Session

TABLE = "dfs.shop.sales"
Run = Callable[..., Any]


def _answer(query: str) -> list[Any]:
    """What DuckDB answers."""
    return duckdb.execute(query).fetchall()


def test_global_options_stand_before_and_after_the_command(run: Run) -> None:
    """With the same effect."""
    assert run("--json", "tables").document == run("tables", "--json").document


def test_of_two_configurations_the_later_one_counts(run: Run, tmp_path: Path) -> None:
    """``--conf`` after the command wins over the one before it."""
    other = tmp_path / "other.conf"
    other.write_text(f'drill.metastore.iceberg.location.base_path = "{tmp_path}/elsewhere"\n')
    ran = run("init", "--json", "--conf", str(other))
    assert ran.document["location"].startswith(f"{tmp_path}/elsewhere/")


def test_engine_is_forced(run: Run) -> None:
    """A forced local engine does the work, however small the threshold of Spark is."""
    assert run("--engine", "local", "analyze", TABLE, "--json").document["engine"] == "local"


def test_a_configuration_that_is_not_there_is_an_error(run: Run) -> None:
    """It is named."""
    ran = run("tables", "--conf", "/nowhere.conf")
    assert ran.code == 1
    assert "/nowhere.conf" in ran.err


def test_init_says_whether_it_created(run: Run, site: Site) -> None:
    """The second time it finds what the first one made."""
    first, second = run("init", "--json").document, run("init", "--json").document
    assert (first["created"], second["created"]) == (True, False)
    assert first["location"] == second["location"]
    assert site.metastore_files


def test_config_tells_value_and_origin(run: Run, site: Site) -> None:
    """Of what the site has set, and of what it has left alone."""
    settings = {each["key"]: each for each in run("config", "--json").document["settings"]}
    base = settings["drill.metastore.iceberg.location.base_path"]
    assert base["value"] == f"{site.folder}/metastore"
    assert base["origin"] == f"override: {site.conf}:1"
    assert settings["drill.metastore.engine.kind"]["origin"] == "default"


def test_config_hides_secrets(run: Run, site: Site) -> None:
    """In the document as on the screen."""
    site.conf.write_text(
        site.conf.read_text() + 'drill.metastore.iceberg.config.properties."fs.s3a.secret.key" = hush\n'
    )
    assert "hush" not in run("config").out + run("config", "--json").out


def test_analyze_tells_what_it_did(run: Run, site: Site) -> None:
    """First everything, then nothing, then what changed."""
    first = run("analyze", TABLE, "--json").document
    assert (first["status"], first["files"], first["new"], first["rows"]) == ("analyzed", 6, 6, 600)
    second = run("analyze", TABLE, "--json").document
    assert (second["status"], second["version"], second["engine"]) == ("up to date", first["version"], None)
    site.write(2, 2, rows=50)
    third = run("analyze", TABLE, "--json").document
    assert (third["new"], third["segments_written"], third["rows"]) == (1, 1, 650)


def test_analyze_takes_columns_and_level(run: Run) -> None:
    """Statistics of the named columns only, and of directories; no metadata below the level."""
    run("analyze", TABLE, "--columns", "id, shop", "--level", "segment")
    described = run("describe", TABLE, "--json").document
    assert [each["name"] for each in described["columns"] if each["rows"]] == ["id", "shop", "month"]
    assert set(described["units"]) == {"TABLE", "SEGMENT"}


def test_analyze_takes_statistics(run: Run) -> None:
    """Of some columns or of all; distinct values are shown with the columns."""
    run("analyze", TABLE, "--statistics", "id")
    described = run("describe", TABLE, "--json").document
    assert {each["name"]: each["distinct"] for each in described["columns"] if each["distinct"]} == {"id": 200}
    assert run("analyze", TABLE, "--statistics", "*", "--sample", "50").code == 0
    described = run("describe", TABLE, "--json").document
    assert all(each["distinct"] for each in described["columns"] if each["rows"] and each["name"] != "month")
    assert "distinct" in run("describe", TABLE).out


def test_analyze_takes_parts(run: Run, site: Site, tmp_path: Path) -> None:
    """Partitions by value, pattern and least value, and the files of a list; not of several tables."""
    run("analyze", TABLE)
    for number, parts in enumerate(
        (["--partition", "month=1"], ["--partition", "month=2", "--partition", "month=1?"], ["--since", "month=2"]), 2
    ):
        for month in (1, 2, 10):
            site.write(month, number)
        found = run("analyze", TABLE, *parts, "--json").document
        assert (found["new"], found["changed"]) == ({2: 1, 3: 4, 4: 2}[number], 0)
    (tmp_path / "events").write_text(f'{{"path": "{site.data}/month=1/part-4.parquet"}}\nmonth=1/part-3.parquet\n')
    found = run("analyze", TABLE, "--paths", str(tmp_path / "events"), "--json").document
    assert (found["files"], found["new"]) == (2, 2)
    assert run("analyze", TABLE, "--json").document["status"] == "up to date"
    (tmp_path / "events").write_text("month=1/_SUCCESS\n")
    assert "no data file at 1 named path" in run("analyze", TABLE, "--paths", str(tmp_path / "events")).out
    assert "one table" in run("analyze", "dfs.shop", "--partition", "month=1").err
    assert "write column=value" in run("analyze", TABLE, "--partition", "month").err
    assert "not both" in run("analyze", TABLE, "--partition", "month=1", "--paths", str(tmp_path / "events")).err


def test_tables_are_listed_by_pattern(run: Run, analyzed: Session, site: Site) -> None:
    """A shell pattern over the whole name."""
    site.write(1, 0)
    analyzed.analyze(site.data / "month=1")
    names = [each["table"] for each in run("tables", "--json").document["tables"]]
    assert names == [TABLE, "dfs.shop.sales/month=1"]
    assert [each["table"] for each in run("tables", "*=1", "--json").document["tables"]] == names[1:]
    assert run("tables", "no*", "--json").document["tables"] == []


def test_a_pattern_opens_the_files_of_what_it_matches(run: Run, analyzed: Session, site: Site) -> None:
    """Those of all others might as well not be there."""
    analyzed.analyze(site.data / "month=1")
    for path in site.metastore_files:
        if path.suffix == ".parquet" and pq.read_table(path, columns=["tableName"])["tableName"][0].as_py() == "sales":
            path.unlink()
    [found] = run("tables", "*=1", "--json").document["tables"]
    assert found["rows"] == 200
    assert run("tables", "--json").code == 1


@pytest.mark.usefixtures("analyzed")
def test_describe_agrees_with_duckdb(run: Run, site: Site) -> None:
    """Nulls, minimum, maximum and rows of each column are those that a query over the data finds."""
    columns = {each["name"]: each for each in run("describe", TABLE, "--json").document["columns"]}
    for name in ("id", "shop", "amount"):
        [found] = _answer(
            f"select count(*) - count({name}), min({name}), max({name}), count(*) from '{site.data}/*/*.parquet'"
        )
        known = columns[name]
        assert (known["nulls"], known["min"], known["max"], known["rows"]) == found
    assert columns["sold"]["min"] == "2024-01-01T00:00:00+00:00"


@pytest.mark.usefixtures("analyzed")
def test_segments_come_in_natural_order(run: Run) -> None:
    """Month 2 before month 10."""
    segments = run("segments", TABLE, "--json").document["segments"]
    assert [each["segment"] for each in segments] == ["month=1", "month=2", "month=10"]
    assert {(each["rows"], each["files"]) for each in segments} == {(200, 2)}


@pytest.mark.usefixtures("analyzed")
def test_files_are_those_on_disk(run: Run, site: Site) -> None:
    """With their sizes; of one segment if one is named."""
    files = run("files", TABLE, "--json").document["files"]
    assert {each["path"]: each["bytes"] for each in files} == {
        str(path): path.stat().st_size for path in site.data.rglob("*.parquet")
    }
    assert {(each["rows"], each["row_groups"]) for each in files} == {(100, 3)}
    of_one = run("files", TABLE, "month=1", "--json").document["files"]
    assert [each["file"] for each in of_one] == ["month=1/part-0.parquet", "month=1/part-1.parquet"]


@pytest.mark.usefixtures("analyzed")
def test_prune_leaves_every_row_that_matches(run: Run, site: Site) -> None:
    """The files to read hold the whole answer, and the counts add up."""
    question = "month = 2 and id >= 150"
    pruned = run("prune", TABLE, question, "--files", "--json").document
    assert [each["path"] for each in pruned["kept_files"]] == [f"{site.data}/month=2/part-1.parquet"]
    assert pruned["files"] == {"total": 6, "kept": 1}
    assert sum(each["count"] for each in pruned["skipped_by"]) == 5
    count = f"select count(*) from read_parquet({{}}, hive_partitioning = true) where {question}"
    kept = [each["path"] for each in pruned["kept_files"]]
    assert _answer(count.format(kept)) == _answer(count.format(f"'{site.data}/*/*'")) == [(50,)]


@pytest.mark.usefixtures("analyzed")
def test_prune_names_files_only_when_asked(run: Run) -> None:
    """Neither in the document nor on the screen."""
    assert run("prune", TABLE, "id = 1", "--json").document["kept_files"] is None
    assert "part-0.parquet" not in run("prune", TABLE, "id = 1").out
    assert "month=1/part-0.parquet" in run("prune", TABLE, "id = 1", "--files").out


@pytest.mark.usefixtures("analyzed")
def test_prune_keeps_what_is_new_unless_told_not_to_look(run: Run, site: Site) -> None:
    """``--no-list`` trusts the metadata, which knows nothing of the new file."""
    site.write(1, 7)
    assert run("prune", TABLE, "id = 1", "--json").document["new"] == 1
    assert run("prune", TABLE, "id = 1", "--no-list", "--json").document["new"] == 0


def test_earlier_versions_can_be_looked_at(run: Run, analyzed: Session, site: Site) -> None:
    """By version and by time, with every command that shows metadata."""
    first = analyzed.tables.metadata.history()[0]
    site.write(2, 2, rows=50)
    second = run("analyze", TABLE, "--json").document["version"]
    just_before = run("history", "--json").document["versions"][0]["time"]

    def rows(*at: str) -> int:
        return int(run("tables", *at, "--json").document["tables"][0]["rows"])

    assert (rows(), rows("--at", str(second)), rows("--at", just_before)) == (650, 650, 650)
    assert (rows("--at", str(first.version)), rows("--at", first.timestamp.isoformat())) == (600, 600)
    at = ("--at", str(first.version), "--json")
    assert len(run("files", TABLE, *at).document["files"]) == 6
    assert run("segments", TABLE, *at).document["segments"][1]["rows"] == 200
    assert run("describe", TABLE, *at).document["columns"][0]["rows"] == 600
    long_ago = (first.timestamp - timedelta(days=1)).isoformat()
    listed = run("tables", "--at", long_ago, "--json").document
    assert (listed["version"], listed["tables"], listed["pattern"]) == (0, [], None)
    ran = run("describe", "dfs.shop.sales", "--at", long_ago)
    assert "dfs.shop.sales is not in the version that was requested, but in the newest one" in ran.err


@pytest.mark.usefixtures("analyzed")
def test_what_matches_nothing_is_told(run: Run) -> None:
    """A pattern is not an empty metastore; a segment that is none is an error."""
    assert "No table matches dfs.x.* in " in run("tables", "dfs.x.*").out
    ran = run("files", TABLE, "month=7")
    assert (ran.code, ran.out) == (1, "")
    assert f"{TABLE} has no segment month=7" in ran.err


def test_a_table_without_files_was_never_modified(run: Run, site: Site) -> None:
    """Rather than in 1970."""
    (site.data.parent / "empty").mkdir()
    run("analyze", "dfs.shop.empty")
    assert run("tables", "--json").document["tables"][0]["modified"] is None
    assert "1970" not in run("tables").out + run("describe", "dfs.shop.empty").out


def test_a_time_whose_version_expired_is_an_error(run: Run, analyzed: Session, site: Site) -> None:
    """What was known then is not known any more, which is not the same as nothing."""
    first = analyzed.tables.metadata.history()[0]
    site.write(2, 2, rows=50)
    analyzed.analyze(TABLE)
    run("expire", "--older-than", "0 s")
    ran = run("tables", "--at", first.timestamp.isoformat())
    assert (ran.code, ran.out) == (1, "")
    assert f"no version is kept from {first.timestamp.isoformat()} or before" in ran.err


@pytest.mark.usefixtures("analyzed")
@pytest.mark.parametrize(("at", "said"), [("5", "version 5 is not kept"), ("soon", "neither a version nor a time")])
def test_a_version_that_is_not_there_is_an_error(run: Run, at: str, said: str) -> None:
    """As is a text that names none."""
    ran = run("tables", "--at", at)
    assert ran.code == 1
    assert said in ran.err


@pytest.mark.usefixtures("analyzed")
def test_a_time_needs_a_zone(run: Run) -> None:
    """The error shows how it is written."""
    ran = run("tables", "--at", "2026-01-01T00:00")
    assert ran.code == 1
    assert "write 2026-01-01T00:00:00Z" in ran.err


def test_history_is_newest_first_and_can_be_cut(run: Run, analyzed: Session, site: Site) -> None:
    """The number of kept versions is told either way."""
    site.write(2, 2)
    newest = analyzed.analyze(TABLE).version
    whole = run("history", "--json").document
    assert [each["version"] for each in whole["versions"]] == [newest, whole["versions"][0]["parent"]]
    cut = run("history", "--limit", "1", "--json").document
    assert cut == {"versions": whole["versions"][:1], "kept": 2}
    assert run("history", "--limit", f"{2**70}", "--json").document == whole


@pytest.mark.usefixtures("analyzed")
def test_dropped_metadata_is_gone_and_the_data_is_not(run: Run, site: Site) -> None:
    """A second time it is an error, unless that is allowed."""
    assert run("drop-metadata", TABLE, "--json").document["dropped"] is True
    assert run("tables", "--json").document["tables"] == []
    assert len(list(site.data.rglob("*.parquet"))) == 6
    assert run("drop-metadata", TABLE).code == 1
    assert run("drop-metadata", TABLE, "--if-exists", "--json").document["dropped"] is False


def test_purge_refuses_when_nobody_can_be_asked(run: Run, analyzed: Session) -> None:
    """``--yes`` is the way then."""
    ran = run("purge")
    assert ran.code == 1
    assert "--yes" in ran.err
    assert len(run("tables", "--json").document["tables"]) == 1
    assert run("purge", "--yes", "--json").document["version"] == analyzed.tables.metadata.version
    assert run("tables", "--json").document["tables"] == []


def test_expire_does_what_its_dry_run_says(run: Run, analyzed: Session, site: Site) -> None:
    """The dry run deletes nothing; the run deletes that many data files."""
    site.write(2, 2)
    analyzed.analyze(TABLE)
    before = site.metastore_files
    planned = run("expire", "--dry-run", "--older-than", "0 s", "--json").document
    assert (planned["dry_run"], planned["kept"]) == (True, 1)
    assert site.metastore_files == before
    done = run("expire", "--older-than", "0 s", "--json").document
    assert done["expired"]["versions"] == planned["expired"]["versions"]
    gone = before - site.metastore_files
    parquet = {path for path in gone if path.suffix == ".parquet"}
    assert len(parquet) == done["expired"]["data_files"] == planned["expired"]["data_files"] == 2


def test_expire_keeps_young_versions_unless_it_is_told_otherwise(run: Run, analyzed: Session, site: Site) -> None:
    """Where nothing is configured nothing of today goes; what is no duration is refused, with what is known."""
    site.write(2, 2)
    analyzed.analyze(TABLE)
    assert run("expire", "--json").document["expired"]["versions"] == []
    assert run("expire", "--older-than", "5 days", "--json").document["expired"]["versions"] == []
    refused = run("expire", "--older-than", "5 fortnights")
    assert (refused.code, "known are ms, s, m, h, d, w" in refused.err) == (1, True)
    site.conf.write_text(f"{site.conf.read_text()}\ndrill.metastore.iceberg.expiration.retain_last = 1")
    assert len(run("expire", "--json").document["expired"]["versions"]) == 1


SCREENS = {
    ("init",): "Found the metastore at",
    ("config",): "drill.metastore.engine.kind",
    ("analyze", TABLE): "is up to date: 6 files",
    ("tables",): "1 table, version",
    ("describe", TABLE): "3 segments, 6 files, 18 row groups",
    ("segments", TABLE): "3 segments, version",
    ("files", TABLE): "6 files, ",
    ("prune", TABLE, "month = 1"): "4 files skipped by month = 1",
    ("history",): "1 version kept",
    ("sql", "SHOW PROCEDURES FROM metastore"): "rows",
    ("call", "CALL metastore.system.ancestors_of('components', 'tables')"): "snapshot_id",
    ("procedures", "metastore"): "arguments",
    ("inspect", "metastore.components.tables$refs"): "BRANCH",
    ("expire",): "Nothing is outdated; 1 version kept.",
    ("deletions",): "0 rows",
    ("check",): "Everything is in order.",
    ("repair", "--yes"): "Nothing needs repair.",
    ("policy", "explain", "metastore.components.tables"): "expire_snapshots.retain_last 1",
    ("runs",): "0 rows",
    ("health",): "metastore.components.tables 100",
    ("drop-metadata", TABLE): f"Dropped the metadata of {TABLE}",
    ("purge", "--yes"): "Earlier versions are readable until they expire",
}


@pytest.mark.parametrize(("arguments", "said"), SCREENS.items())
def test_every_command_has_a_screen_and_a_document(
    run: Run, analyzed: Session, arguments: tuple[str, ...], said: str
) -> None:
    """The one for people says what the command found; the other is an object."""
    assert isinstance(run(*arguments, "--json").document, dict)
    if arguments[0] == "drop-metadata":
        analyzed.analyze(TABLE)
    ran = run(*arguments)
    assert ran.code == 0
    assert said in re.sub(r"\s+", " ", ran.out)


def test_no_command_is_left_out() -> None:
    """Every registered command is among the screens above, and has an example in the guide.

    ``register``, which can be done but once, publications, and what runs until a signal have modules of their own:
    test_register.py, test_publish.py, test_daemon.py and serve/test_server.py.
    """
    names = {command.name for command in app.registered_commands}
    elsewhere = {"register", "daemon", "report", "serve", "publish", "unpublish", "publications"}
    assert names == {arguments[0] for arguments in SCREENS} | elsewhere
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "command-line.md").read_text()
    assert names == set(re.findall(r"^\$ metastore ([a-z-]+)", guide, re.MULTILINE))


def test_several_tables_are_analyzed_and_new_ones_found(run: Run, site: Site) -> None:
    """By pattern, workspace or all; one that fails is told of, and ends the command with a failure."""
    (site.data.parent / "broken").mkdir()
    assert {row["table"]: row["status"] for row in run("analyze", "dfs.shop", "--json").document["rows"]} == {
        "dfs.shop.sales": "analyzed"
    }
    (site.data.parent / "broken" / "a.parquet").write_bytes(b"no parquet")
    ran = run("analyze", "--all", "--json")
    assert ran.code == 1
    assert "1 of 2 tables could not be analyzed" in ran.err
    rows = {row["table"]: row for row in json.loads(ran.out)["rows"]}
    assert (rows["dfs.shop.sales"]["status"], rows["dfs.shop.broken"]["status"]) == ("up to date", "failed")
    assert rows["dfs.shop.broken"]["error"].startswith("format.invalid")
    assert [row["table"] for row in run("analyze", "dfs.shop.s*", "--json").document["rows"]] == ["dfs.shop.sales"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["analyze"], "name a table"),
        (["analyze", "dfs.shop.sales", "--all"], "--all alone"),
        (["analyze", "dfs.shop.x*"], "no table fits 'dfs.shop.x\\*'"),
        (["analyze", "--all", "--schema", "a INT"], "schema: such options are for one table"),
    ],
)
def test_what_to_analyze_is_clear(run: Run, arguments: list[str], told: str) -> None:
    """Or refused."""
    ran = run(*arguments)
    assert ran.code == 1
    assert re.search(told, ran.err)
