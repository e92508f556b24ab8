"""REFRESH: the rows become those of the query, by reading as little as can be; whatever fails changes nothing."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo

from metastore.cli.commands.versions import expire
from metastore.components.requests import of_table
from metastore.errors import (
    ConflictError,
    EngineError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
)
from metastore.model.identity import TableInfo
from metastore.model.materialized_view_unit import MaterializedViewMetadataUnit, RefreshStatus
from metastore.session import Session
from metastore.sql.views.folders import RefreshFolder
from metastore.sql.views.refresh import RefreshResult, refresh, remove_unneeded
from metastore.sql.views.runner import DuckDBRunner

AddFile = Callable[..., Path]
Rows = Callable[..., list[dict[str, Any]]]
M = "dfs.tmp.m"
ROWWISE = "SELECT id, upper(`item name`) AS item FROM sales WHERE id > 2"
GROUPED = "SELECT Region, count(*) AS n, sum(amount) AS total, avg(id) AS mean FROM sales GROUP BY Region"
WHOLE = "SELECT DISTINCT Region FROM sales"


def define(session: Session, query: str) -> None:
    """Make the materialized view."""
    session.materialized_views.define(M, query, replace=True)


def done(result: RefreshResult) -> tuple[str, str, int]:
    """What a refresh did, why, and how many files it read."""
    return result.mode, result.reason, result.files


@pytest.mark.parametrize("query", [ROWWISE, GROUPED, WHOLE])
def test_the_first_refresh_is_full(session: Session, rows: Rows, query: str) -> None:
    """Before it, even ``any`` freshness runs the query; after it, the rows are read where they were written."""
    define(session, query)
    expected = rows(query)
    assert session.materialized_views.status(M) is RefreshStatus.PENDING
    assert rows(f"SELECT * FROM {M}", "any") == expected
    result = session.materialized_views.refresh(M)
    assert done(result) == ("full", "it was never refreshed", 1)
    assert (result.engine, result.rows) == ("duckdb", len(expected))
    unit = session.materialized_views.get(M)
    assert unit.refresh_status == "COMPLETE"
    assert session.materialized_views.status(M) is RefreshStatus.COMPLETE
    stored = session.tables.scan(TableInfo("dfs", "tmp", unit.data_location or "")).to_arrow().to_pylist()
    assert sorted(stored, key=repr) == expected


def test_nothing_new_is_nothing_done(session: Session) -> None:
    """No file is read, and no version made."""
    define(session, GROUPED)
    version = session.materialized_views.refresh(M).version
    assert done(session.materialized_views.refresh(M)) == ("up to date", "no source has changed", 0)
    assert session.materialized_views.metadata.version == version


@pytest.mark.parametrize("query", [ROWWISE, GROUPED])
def test_new_files_alone_are_read(session: Session, rows: Rows, add_sales: AddFile, query: str) -> None:
    """Analyzed or not; the rows are those of the query over everything."""
    define(session, query)
    session.materialized_views.refresh(M)
    add_sales("second", range(10, 30))
    add_sales("third", range(30, 35))
    assert done(session.materialized_views.refresh(M)) == ("incremental", "2 new files, none changed or gone", 2)
    assert rows(f"SELECT * FROM {M}", "any") == rows(query)
    session.analyze("dfs.tmp.sales")
    add_sales("fourth", range(40, 45))
    assert done(session.materialized_views.refresh(M)) == ("incremental", "1 new file, none changed or gone", 1)
    assert rows(f"SELECT * FROM {M}", "any") == rows(query)


def test_what_cannot_be_split_is_read_again(session: Session, rows: Rows, add_sales: AddFile) -> None:
    """The reason is told; asked for incrementally, it is refused."""
    define(session, WHOLE)
    session.materialized_views.refresh(M)
    add_sales("second", [2])
    with pytest.raises(InvalidRequestError, match="cannot be refreshed incrementally: it has DISTINCT"):
        session.materialized_views.refresh(M, "incremental")
    assert done(session.materialized_views.refresh(M)) == ("full", "it has DISTINCT", 2)
    assert rows(f"SELECT * FROM {M}", "any") == rows(WHOLE)


def test_a_changed_or_removed_file_means_everything(session: Session, rows: Rows, add_sales: AddFile) -> None:
    """Rows of it are in what is stored and cannot be taken out."""
    define(session, GROUPED)
    second = add_sales("second", range(20, 25))
    session.materialized_views.refresh(M)
    add_sales("second", range(20, 26))
    assert done(session.materialized_views.refresh(M)) == ("full", f"{second} of dfs.tmp.sales changed", 2)
    second.unlink()
    assert done(session.materialized_views.refresh(M)) == ("full", f"{second} of dfs.tmp.sales is gone", 1)
    assert rows(f"SELECT * FROM {M}", "any") == rows(GROUPED)
    assert done(session.materialized_views.refresh(M, "full")) == ("full", "it was asked for", 1)


def test_another_definition_of_a_view_it_reads_means_everything(session: Session, rows: Rows) -> None:
    """The view stands between it and the table; by metadata alone it is stale."""
    session.views.define("dfs.tmp.v", "SELECT id FROM sales WHERE id < 5")
    define(session, "SELECT count(*) AS n FROM v")
    session.materialized_views.refresh(M)
    session.views.define("dfs.tmp.v", "SELECT id FROM sales WHERE id < 3", replace=True)
    assert session.materialized_views.status(M) is RefreshStatus.STALE
    assert (
        session.materialized_views.refresh(M).reason == "the query, or the query of a view that it reads, has changed"
    )
    assert rows(f"SELECT * FROM {M}", "any") == [{"n": 3}]


def test_joins_and_views_of_materialized_views(session: Session, rows: Rows) -> None:
    """A materialized view in a query stands for its own query, so that nothing stale is stored."""
    define(session, GROUPED)
    session.materialized_views.define(
        "dfs.tmp.named", "SELECT r.name, m.n FROM m JOIN regions r ON r.region = m.Region WHERE m.n > 3"
    )
    session.materialized_views.refresh("dfs.tmp.named")
    expected = rows("SELECT r.name, count(*) AS n FROM sales s JOIN regions r USING (region) GROUP BY 1 HAVING n > 3")
    assert rows("SELECT * FROM named", "any") == expected
    assert len(expected) == 1


def test_stale_follows_the_metadata(session: Session, add_sales: AddFile) -> None:
    """An ANALYZE that found other files makes it stale; REFRESH makes it complete; other tables do not matter."""
    define(session, GROUPED)
    session.materialized_views.refresh(M)
    add_sales("second", [50])
    assert session.materialized_views.status(M) is RefreshStatus.COMPLETE
    session.analyze("dfs.tmp.sales")
    assert session.materialized_views.status(M) is RefreshStatus.STALE
    session.materialized_views.refresh(M)
    assert session.materialized_views.status(M) is RefreshStatus.COMPLETE
    session.drop_metadata("dfs.tmp.regions")
    assert session.materialized_views.status(M) is RefreshStatus.COMPLETE


def test_metadata_that_caught_up_is_noted_without_reading(session: Session, add_sales: AddFile) -> None:
    """The rows were of files that nobody had analyzed; now somebody has."""
    define(session, GROUPED)
    add_sales("second", [50])
    session.materialized_views.refresh(M)
    session.analyze("dfs.tmp.sales")
    assert session.materialized_views.status(M) is RefreshStatus.COMPLETE
    versions = [session.materialized_views.metadata.version]
    for _ in range(2):
        assert done(session.materialized_views.refresh(M)) == ("up to date", "no source has changed", 0)
        versions.append(session.materialized_views.metadata.version)
    assert versions[0] != versions[1] == versions[2], "noted once"
    assert session.materialized_views.status(M) is RefreshStatus.COMPLETE


def test_the_switch_is_one_version_of_one_row(session: Session, now: SimpleNamespace) -> None:
    """Location, status, time and columns change together; the version before names the data before."""
    define(session, GROUPED)
    first = session.materialized_views.refresh(M)
    now.ms += 60_000
    before = session.materialized_views.get(M)
    second = session.materialized_views.refresh(M, "full")
    after = session.materialized_views.get(M)
    assert [v.version for v in session.materialized_views.metadata.history()][:2] == [second.version, first.version]
    assert after.data_location != before.data_location
    assert after.last_refresh_time == now.ms
    assert session.materialized_views.get(M, at=first.version) == before
    assert json.loads(after.additional_metadata or "{}")["refresh"]["reason"] == "it was asked for"


class _Breaking:
    """A runner that fails at its last write, with everything before it written."""

    name = "breaking"

    def __init__(self, break_at: int) -> None:
        self.writes = 0
        self.break_at = break_at

    def write(self, *arguments: Any) -> None:
        self.writes += 1
        if self.writes == self.break_at:
            raise EngineError("out of memory")
        DuckDBRunner().write(*arguments)


@pytest.mark.parametrize("break_at", [1, 2])
def test_an_engine_that_fails_changes_nothing(
    session: Session, data: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch, break_at: int
) -> None:
    """What was served is still, and no folder is left behind."""
    define(session, GROUPED)
    session.materialized_views.refresh(M)
    before, folders = rows(f"SELECT * FROM {M}", "any"), sorted(os.listdir(data / "m"))
    version = session.materialized_views.metadata.version
    monkeypatch.setattr(session, "query_runner", lambda _: _Breaking(break_at))
    with pytest.raises(EngineError, match="out of memory"):
        session.materialized_views.refresh(M, "full")
    assert rows(f"SELECT * FROM {M}", "any") == before
    assert sorted(os.listdir(data / "m")) == folders
    assert session.materialized_views.metadata.version == version


def test_a_commit_that_may_have_landed_keeps_its_rows(
    session: Session, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog was lost sight of: the view names the new folder already."""
    define(session, GROUPED)
    component = session.metastore.materialized_views
    replace_ = component.replace

    def lost(*arguments: Any, **named: Any) -> int:
        replace_(*arguments, **named)
        raise OutcomeUnknownError("the connection broke")

    monkeypatch.setattr(component, "replace", lost)
    with pytest.raises(OutcomeUnknownError):
        session.materialized_views.refresh(M)
    assert session.materialized_views.status(M) is RefreshStatus.COMPLETE
    assert rows(f"SELECT * FROM {M}", "any") == rows(GROUPED)


def test_rows_that_cannot_be_removed_fail_no_refresh(
    session: Session, data: Path, now: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are tried again by the next one."""
    define(session, GROUPED)
    session.materialized_views.refresh(M)
    now.ms += int(timedelta(days=2).total_seconds()) * 1_000
    remove = RefreshFolder.remove
    session.materialized_views.refresh(M, "full")
    session.materialized_views.expiration.expire()

    def failing(self: RefreshFolder) -> None:
        raise StorageError(f"{self.data_location} is read-only")

    monkeypatch.setattr(RefreshFolder, "remove", failing)
    assert session.materialized_views.refresh(M, "full").mode == "full"
    assert len(os.listdir(data / "m")) == 3
    monkeypatch.setattr(RefreshFolder, "remove", remove)
    session.materialized_views.refresh(M, "full")
    assert len(os.listdir(data / "m")) == 3


@pytest.mark.parametrize("step", ["written", "analyzed"])
def test_a_source_that_changes_meanwhile_changes_nothing(
    session: Session, data: Path, add_sales: AddFile, step: str
) -> None:
    """Rows of two states of a table are never served as one."""
    define(session, GROUPED)

    def meanwhile(said: str) -> None:
        if said == step:
            add_sales("late", [77])

    with pytest.raises(ConflictError, match=r"dfs.tmp.sales changed while it was being read"):
        refresh(session, M, on_step=meanwhile)
    assert session.materialized_views.status(M) is RefreshStatus.PENDING
    assert os.listdir(data / "m") == []
    assert session.materialized_views.refresh(M).files == 2


def test_of_two_refreshes_at_once_one_wins(session: Session, data: Path) -> None:
    """The other is told, and its folder goes; so is one whose view was replaced or dropped meanwhile."""
    define(session, GROUPED)

    def meanwhile(said: str) -> None:
        if said == "analyzed":
            session.materialized_views.refresh(M, "full")

    with pytest.raises(ConflictError, match="another writer changed"):
        refresh(session, M, on_step=meanwhile)
    [folder] = os.listdir(data / "m")
    assert session.materialized_views.get(M).data_location == f"m/{folder}"
    with pytest.raises(NotFoundError):
        refresh(session, M, "full", on_step=lambda said: _drop(session) if said == "analyzed" else None)
    assert os.listdir(data / "m") == [folder]


def _drop(session: Session) -> None:
    session.materialized_views.drop(M)


def test_old_rows_go_when_no_kept_version_names_them(session: Session, data: Path, now: SimpleNamespace) -> None:
    """Their metadata too; what is young stays, and so does what a version that is kept can still be read by."""
    define(session, GROUPED)
    for _ in range(3):
        session.materialized_views.refresh(M, "full")
        now.ms += 1_000
    assert len(os.listdir(data / "m")) == 3
    now.ms += int(timedelta(days=2).total_seconds()) * 1_000
    assert remove_unneeded(session, TableInfo.parse(M)) == []
    session.materialized_views.expiration.expire()
    gone = remove_unneeded(session, TableInfo.parse(M))
    assert len(gone) == 2
    [left] = os.listdir(data / "m")
    assert session.materialized_views.get(M).data_location == f"m/{left}"
    known = {unit.table_name for unit in session.tables.requests.tables_metadata()}
    assert known == {"sales", "regions", f"m/{left}"}
    session.materialized_views.drop(M)
    session.materialized_views.expiration.expire()
    assert session.materialized_views.remove_unneeded() == [TableInfo("dfs", "tmp", f"m/{left}")]
    assert os.listdir(data / "m") == []
    assert session.materialized_views.remove_unneeded() == []


def test_old_rows_go_with_the_versions_that_named_them(session: Session, data: Path, now: SimpleNamespace) -> None:
    """When an operator expires, over all components; a dry run removes nothing."""
    define(session, GROUPED)
    for _ in range(3):
        session.materialized_views.refresh(M, "full")
    now.ms += int(timedelta(days=6).total_seconds()) * 1_000  # without a configured age, five days stay
    planned = expire(session, dry_run=True)
    assert (planned.refreshes, len(os.listdir(data / "m"))) == (0, 3)
    done = expire(session)
    assert done.refreshes == 2
    assert done.expired.versions == planned.expired.versions
    assert done.kept == planned.kept == 2, "the newest of the tables and of the materialized views"
    assert [f"m/{left}" for left in os.listdir(data / "m")] == [session.materialized_views.get(M).data_location]


def test_a_folder_that_was_left_behind_goes_when_it_is_old(session: Session, data: Path, now: SimpleNamespace) -> None:
    """A refresh that is under way looks the same, so a day passes first; other folders are nobody's business."""
    define(session, GROUPED)
    session.materialized_views.refresh(M)
    abandoned = data / "m" / f"{now.ms:013d}-0123456789ab"
    abandoned.mkdir()
    (data / "m" / "notes").mkdir()
    now.ms += 3_600_000
    assert remove_unneeded(session, TableInfo.parse(M)) == []
    now.ms += int(timedelta(days=1).total_seconds()) * 1_000
    assert remove_unneeded(session, TableInfo.parse(M)) == [TableInfo("dfs", "tmp", f"m/{abandoned.name}")]
    assert (data / "m" / "notes").is_dir()


def test_a_renamed_view_keeps_its_rows(session: Session, rows: Rows, add_sales: AddFile) -> None:
    """And goes on from them."""
    define(session, GROUPED)
    session.materialized_views.refresh(M)
    session.materialized_views.rename(M, "dfs.tmp.other")
    add_sales("second", [60])
    assert session.materialized_views.refresh("dfs.tmp.other").mode == "incremental"
    assert rows("SELECT * FROM other", "any") == rows(GROUPED)


def test_a_lost_folder_is_made_anew(session: Session, data: Path, rows: Rows) -> None:
    """Somebody has deleted what the last refresh left."""
    define(session, GROUPED)
    session.materialized_views.refresh(M)
    [folder] = (data / "m").iterdir()
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert session.materialized_views.refresh(M).reason == "the files of the last refresh no longer exist"
    assert rows(f"SELECT * FROM {M}", "any") == rows(GROUPED)


def test_rows_are_added_to_whole_folders_alone(session: Session, data: Path, rows: Rows, add_sales: AddFile) -> None:
    """What somebody removed from the last refresh would be missing for ever."""
    define(session, "SELECT id FROM sales")
    session.materialized_views.refresh(M)
    [file] = (data / str(session.materialized_views.get(M).data_location)).glob("part-*.parquet")
    file.unlink()
    add_sales("second", [50])
    result = session.materialized_views.refresh(M)
    assert done(result) == ("full", "the files of the last refresh no longer exist", 2)
    assert rows(f"SELECT count(*) AS n FROM {M}") == [{"n": 11}]


def test_rows_are_never_kept_within_a_table(session: Session, data: Path) -> None:
    """They would be rows of the table; also where the table was analyzed after the view was made."""
    with pytest.raises(InvalidRequestError, match=r"dfs\.tmp\.sales/m would keep its rows in the folder of table"):
        session.materialized_views.define("dfs.tmp.sales/m", "SELECT id FROM dfs.tmp.sales")
    session.materialized_views.define("dfs.tmp.later/in/m", "SELECT id FROM dfs.tmp.sales")
    session.materialized_views.refresh("dfs.tmp.later/in/m")
    (data / "sales").rename(data / "later/sales")
    session.analyze("dfs.tmp.later")
    with pytest.raises(InvalidRequestError, match=r"in the folder of table dfs\.tmp\.later, as rows of that"):
        session.materialized_views.refresh("dfs.tmp.later/in/m")


def test_refusals(session: Session) -> None:
    """An unknown view, an unknown mode, a workspace that may not be written to."""
    define(session, GROUPED)
    with pytest.raises(NotFoundError, match=r"no materialized view dfs.tmp.mm; did you mean dfs.tmp.m"):
        session.materialized_views.refresh("dfs.tmp.mm")
    with pytest.raises(InvalidRequestError, match="full or incremental"):
        session.materialized_views.refresh(M, "partial")
    session.materialized_views.define("dfs.fixed.m", "SELECT count(*) AS n FROM dfs.tmp.sales")
    with pytest.raises(InvalidRequestError, match=r"workspaces\.fixed\.writable"):
        session.materialized_views.refresh("dfs.fixed.m")


def test_what_drill_wrote_is_refreshed_in_full(session: Session, rows: Rows) -> None:
    """Drill keeps nothing in the additional metadata; its status INCOMPLETE is not taken for rows."""
    unit = MaterializedViewMetadataUnit("dfs", "tmp", "m", sql=GROUPED, workspace_schema_path=["dfs", "tmp"])
    theirs = dataclasses.replace(unit, refresh_status="INCOMPLETE", data_location="m", additional_metadata="theirs")
    session.materialized_views.create(theirs)
    assert session.materialized_views.status(M) is RefreshStatus.PENDING
    assert rows(f"SELECT * FROM {M}", "any") == rows(GROUPED)
    assert session.materialized_views.refresh(M).mode == "full"
    assert rows(f"SELECT * FROM {M}", "any") == rows(GROUPED)


def test_a_query_reaches_nothing_but_its_sources(session: Session, data: Path) -> None:
    """No function of the engine that reads files does so for a view."""
    (data / "secret.txt").write_text("secret")
    define(session, f"SELECT id, read_text('{data}/secret.txt') AS a FROM sales")
    with pytest.raises(InvalidRequestError, match="read_text"):
        session.materialized_views.refresh(M)
    with pytest.raises(InvalidRequestError, match="no table of the metastore"):
        define(session, f"SELECT * FROM read_text('{data}/secret.txt')")
    with pytest.raises(InvalidRequestError, match="unknown table"):
        define(session, f"SELECT * FROM dfs.tmp.`{data}/secret.txt`")


def test_no_file_of_a_source_is_read_that_is_known(
    session: Session, add_sales: AddFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scans of an incremental refresh hold the new files alone."""
    define(session, ROWWISE)
    session.materialized_views.refresh(M)
    new = add_sales("second", [70])
    seen: list[str] = []

    class Watching(DuckDBRunner):
        def write(self, query: Any, sources: Any, target: Any) -> None:
            seen.extend(path for parts in sources.values() for part in parts for path in part.paths)
            super().write(query, sources, target)

    monkeypatch.setattr(session, "query_runner", lambda _: Watching())
    session.materialized_views.refresh(M)
    assert seen == [str(new)]


def test_metadata_of_the_rows_is_that_of_any_table(session: Session) -> None:
    """They are analyzed before they are served, so that scans of them are pruned."""
    define(session, ROWWISE)
    session.materialized_views.refresh(M)
    info = TableInfo("dfs", "tmp", session.materialized_views.get(M).data_location or "")
    assert session.tables.read().metadata_types("ALL").filter(of_table(info)).execute()  # type: ignore[arg-type]
    assert len(session.prune(info, EqualTo("id", 100)).files) == 0
