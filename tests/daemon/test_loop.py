"""Passes of the daemon over a real lake: what is due is done, remembered, and nothing else."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.table import Table

from metastore.components.catalogs import Catalogs
from metastore.config import load_text
from metastore.daemon import loop
from metastore.daemon.actions import ActionOutcome, Actions
from metastore.daemon.loop import check_schedules
from metastore.daemon.policy import Action, ActionPolicy, Budget, TableName, policies
from metastore.errors import ConfigError, ConflictError, StorageError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.model.run_unit import RunUnit
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO

EXPIRE = {"catalogs": {"lake": {"expire_snapshots": {"enabled": True, "older_than": "1 day"}}}}
ALL_OF_LAKE = {
    "catalogs": {
        "lake": {
            "expire_snapshots": {"enabled": True, "older_than": "1 day"},
            "remove_orphan_files": {"enabled": True},
            "rewrite_manifests": {"enabled": True, "quiet": "0 s", "min_manifests": 3},
            "rewrite_data_files": {"enabled": True, "quiet": "0 s", "min_input_files": 2},
            "old_metadata": {"enabled": True, "keep": 7},
        }
    }
}

TABLE = TableName("lake", "shop", "orders")


def brief(runs: Any) -> list[tuple[str | None, str | None, str | None]]:
    """Table, action and status of runs."""
    return [(run.table, run.action, run.status) for run in runs]


def stored(site: Any) -> list[RunUnit]:
    """What the component holds."""
    found: list[RunUnit] = site.session.metastore.runs.since("")
    return found


def files(table: Table, kind: str) -> list[Path]:
    """The table's files in one of its folders."""
    return sorted(Path(table.metadata.location.removeprefix("file://"), kind).iterdir())


def test_old_snapshots_go_with_their_files_and_the_run_is_remembered(make_site: Callable[..., Any]) -> None:
    """The table is as it was for its readers; the history says what was before and after, and why."""
    site = make_site(**EXPIRE)
    table = site.table("orders", commits=3)
    table.delete("id = 0")
    site.later(days=2)
    [run] = site.daemon().once()
    assert brief([run]) == [("lake.shop.orders", "expire_snapshots", "done")]
    assert stored(site) == [run]
    assert (run.snapshots_before, run.snapshots_after, run.reason, run.token) == (4, 1, "never ran", 1)
    assert (run.files_before, run.files_after, run.started) == (2, 2, site.now_ms)
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 2]
    assert len(files(table, "data")) == 2


def test_every_action_does_its_work(make_site: Callable[..., Any]) -> None:
    """Five small files become one, a stray file goes, properties are set; then there are few manifests."""
    site = make_site(**ALL_OF_LAKE)
    table = site.table("orders", commits=5)
    stray = Path(table.metadata.location.removeprefix("file://")) / "data" / "stray.parquet"
    stray.write_bytes(b"left behind")
    os.utime(stray, (0, 0))
    site.later(days=2)
    done = {run.action: run for run in site.daemon().once()}
    assert {action: run.status for action, run in done.items()} == {
        **dict.fromkeys(ALL_OF_LAKE["catalogs"]["lake"], "done"),
        "rewrite_manifests": "nothing",
    }
    assert not stray.exists()
    fresh = table.refresh()
    assert fresh.properties["write.metadata.previous-versions-max"] == "7"
    assert len(fresh.inspect.files()) == 1
    assert sorted(fresh.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4]


def test_many_manifests_are_put_together(make_site: Callable[..., Any]) -> None:
    """From the number on that the policy names."""
    wanted = {"enabled": True, "quiet": "10 minutes", "min_manifests": 4}
    site = make_site(tables={'"lake.shop.orders"': {"rewrite_manifests": wanted}})
    table = site.table("orders", commits=3)
    site.table("others", commits=5)
    assert brief(site.daemon().once()) == []  # it is busy
    site.later(minutes=11)
    assert brief(site.daemon().once()) == [("lake.shop.orders", "rewrite_manifests", "nothing")]
    table.append(table.scan().to_arrow())
    site.later(days=1)
    assert brief(site.daemon().once()) == [("lake.shop.orders", "rewrite_manifests", "done")]
    assert len(table.refresh().inspect.manifests()) == 1


def test_what_was_done_is_not_done_again_before_its_time(make_site: Callable[..., Any]) -> None:
    """Also by another daemon on another day: the memory is the metastore's."""
    site = make_site(**EXPIRE)
    site.table("orders", commits=2)
    site.later(days=2)
    assert len(site.daemon().once()) == 1
    site.later(hours=23)
    assert site.daemon(election=site.election("there")).once() == []
    site.later(hours=1)
    [run] = site.daemon(election=site.election("there")).once()
    assert (run.status, run.reason, run.host) == ("nothing", "schedule 1 day", "there")


def test_health_follows_a_pass_from_action_to_action(make_site: Callable[..., Any]) -> None:
    """Done, failed and left add up to what was due; a pass that came to its end is the last full one."""
    site = make_site(of_daemon={"workers": 1}, **EXPIRE)
    for name in ("a_bad", "good", "other"):
        site.table(name, commits=2)
    pointer = site.lake.load_table("shop.a_bad").metadata_location.removeprefix("file://")
    Path(pointer).write_text("no metadata")
    site.later(days=2)
    daemon = site.daemon()
    seen = []
    count = daemon.state.count

    def counted(run: Any) -> None:
        count(run)
        seen.append(daemon.state.current)

    daemon.state.count = counted
    daemon.once()
    assert [(each.actions, each.done, each.failed, each.left) for each in seen] == [
        (3, 1, 0, 2),
        (3, 2, 0, 1),
        (3, 2, 1, 0),
    ]
    assert daemon.state.current is None
    assert daemon.state.last_full_pass_ms == site.now_ms


def test_a_dry_run_changes_nothing(make_site: Callable[..., Any]) -> None:
    """It tells what would be done, needs no lease, writes no history."""
    site = make_site(**ALL_OF_LAKE)
    table = site.table("orders", commits=5)
    site.later(days=2)
    before = {path: path.stat().st_mtime_ns for path in site.folder.rglob("*") if "lake" in path.parts}
    location = table.metadata_location
    done = {run.action: run.status for run in site.daemon().dry()}
    assert done == {**dict.fromkeys(ALL_OF_LAKE["catalogs"]["lake"], "done"), "remove_orphan_files": "nothing"}
    assert table.refresh().metadata_location == location
    assert {path: path.stat().st_mtime_ns for path in site.folder.rglob("*") if "lake" in path.parts} == before
    assert stored(site) == []
    assert not (site.folder / "m" / "daemon").exists()


def test_one_bad_table_never_stops_the_rest(make_site: Callable[..., Any]) -> None:
    """The failure is recorded with its reason, the others are served, and the bad one is tried again after a wait."""
    site = make_site(**EXPIRE)
    bad, good = site.table("a_bad", commits=2), site.table("good", commits=2)
    Path(bad.metadata_location.removeprefix("file://")).write_text("no metadata")
    site.later(days=2)
    runs = {run.table: run for run in site.daemon().once()}
    assert (runs["lake.shop.a_bad"].status, runs["lake.shop.good"].status) == ("failed", "done")
    assert runs["lake.shop.a_bad"].error
    assert len(good.refresh().metadata.snapshots) == 1
    site.later(minutes=5)
    [again] = site.daemon().once()
    assert (again.table, again.reason) == ("lake.shop.a_bad", "failed 1 times in a row")
    site.later(minutes=9)
    assert site.daemon().once() == []


class DefectError(Exception):
    """What no library of ours knows."""


def unreadable(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Loading the table of that name ends in a foreign error from here on."""
    load = TargetTable.load

    def defective(target: TargetTable) -> Table:
        if target.name == name:
            raise DefectError("0xff")
        return load(target)

    monkeypatch.setattr(TargetTable, "load", defective)


def test_not_even_an_error_that_nobody_foresaw_stops_the_rest(
    make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it comes up: in the look whether it is due, in the run, and after it. It counts as a failure."""
    site = make_site(**ALL_OF_LAKE)
    site.table("a_bad", commits=2)
    good = site.table("good", commits=2)
    site.later(days=2)
    unreadable(monkeypatch, "a_bad")
    daemon = site.daemon()
    assert {run.table for run in daemon.dry()} == {"lake.shop.a_bad", "lake.shop.good"}
    runs = {(run.table, run.action): run for run in daemon.once()}
    bad = [run for (table, _), run in runs.items() if table == "lake.shop.a_bad"]
    assert {(run.status, run.error) for run in bad} == {("failed", "DefectError: 0xff")}
    assert runs["lake.shop.good", "expire_snapshots"].status == "done"
    assert len(good.refresh().metadata.snapshots) == 1
    assert daemon.state.runs["expire_snapshots", "failed"] == 1


def test_not_even_such_a_catalog_stops_the_rest(make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The metastore's own tables are looked after; the state has the trouble and the number of catalogs."""
    site = make_site(default={"expire_snapshots": {"enabled": True}})

    def defective(_: object, name: str, __: object) -> list[str]:
        if name == "lake":
            raise DefectError("%d of %s")
        return ["components"]

    monkeypatch.setattr(Catalogs, "walk_schemas", defective)
    daemon = site.daemon()
    daemon.once()
    assert daemon.state.trouble == "catalog lake is skipped: DefectError: %d of %s"
    assert daemon.state.passed_over == {"catalog lake": "DefectError: %d of %s"}


def test_the_loop_outlives_a_pass_that_a_single_one_ends_with(
    make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its history the daemon can do nothing: it says so and looks again, and `--once` fails."""
    site = make_site(**EXPIRE)
    daemon = site.daemon()

    def unread(_: str) -> list[RunUnit]:
        raise DefectError("no history")

    monkeypatch.setattr(site.session.metastore.runs, "since", unread)
    with pytest.raises(DefectError):
        daemon.once()

    def on_wait() -> None:
        site.stopped = daemon.state.passes == 3

    site.on_wait = on_wait
    daemon.run(lambda: None)
    assert daemon.state.passes == 3
    assert daemon.state.trouble == "this pass ended early: DefectError: no history"


def test_a_catalog_that_does_not_answer_is_passed_over(make_site: Callable[..., Any]) -> None:
    """The metastore's own tables are looked after all the same."""
    site = make_site(default={"expire_snapshots": {"enabled": True, "older_than": "0 s"}})
    site.session.tables.modify().overwrite(
        [TableMetadataUnit("dfs", "tmp", "t", metadata_type="TABLE", metadata_key=GENERAL_INFO)]
    ).execute()
    site.session.tables.modify().purge()
    (site.folder / "lake.db").mkdir()
    site.later(days=1)
    daemon = site.daemon()
    assert brief(daemon.once()) == [("metastore.components.tables", "expire_snapshots", "done")]
    assert "catalog lake is skipped" in daemon.state.trouble
    assert len(site.session.tables.metadata.history()) == 1


@pytest.mark.parametrize("bound", [{"files": 2}, {"bytes": 1}])
def test_a_budget_bounds_one_run_and_the_next_goes_on(make_site: Callable[..., Any], bound: dict[str, int]) -> None:
    """What was marked and not deleted is deleted by later runs; a budget below one file still lets one go."""
    site = make_site(catalogs={"lake": {"remove_orphan_files": {"enabled": True, "budget": bound}}})
    table = site.table("orders", commits=1)
    folder = Path(table.metadata.location.removeprefix("file://")) / "data"
    for number in range(5):
        (folder / f"stray-{number}.parquet").write_bytes(b"left behind")
        os.utime(folder / f"stray-{number}.parquet", (0, 0))
    site.later(days=4)
    [run] = site.daemon().once()
    expected = bound.get("files", 1)
    assert (run.status, len(list(folder.glob("stray*")))) == ("bounded", 5 - expected)
    assert "budget" in run.error
    for _ in range(5):
        site.later(days=8)
        site.daemon().once()
    assert list(folder.glob("stray*")) == []
    assert table.refresh().scan().to_arrow().num_rows == 1


def test_a_budget_of_seconds_ends_a_run(make_site: Callable[..., Any]) -> None:
    """Before its next step, with nothing half done."""
    site = make_site(**EXPIRE)
    table = site.table("orders", commits=2)
    site.later(days=2)
    [policy] = [each for each in policies(site.settings.policies, TABLE) if each.enabled]
    seconds = count(0, 5)
    actions = Actions(site.session, lambda: None, lambda: False, monotonic=lambda: float(next(seconds)))
    outcome = actions.carry_out(TABLE, replace(policy, budget=Budget(seconds=8)))
    assert (outcome.status, len(table.refresh().metadata.snapshots)) == ("bounded", 2)
    assert "8 s" in str(outcome.error)


def test_who_lost_the_lease_commits_nothing(make_site: Callable[..., Any]) -> None:
    """Another took over while the tables were looked at: the table stays as it is, the run counts as never begun."""
    site = make_site(**EXPIRE)
    table = site.table("orders", commits=3)
    site.later(days=2)
    election, other = site.election("sleeper"), site.election("other")
    daemon = site.daemon(election=election)
    assert election.campaign() == 1
    other.campaign()
    site.later(minutes=1)
    assert other.campaign() == 2
    election._good_until = float("inf")
    assert brief(daemon._pass()) == [("lake.shop.orders", "expire_snapshots", "stopped")]
    assert len(table.refresh().metadata.snapshots) == 3


def test_a_daemon_that_is_to_stop_begins_nothing_more(make_site: Callable[..., Any]) -> None:
    """It ends within the table that it is at."""
    site = make_site(of_daemon={"workers": 1}, **EXPIRE)
    tables = [site.table(name, commits=2) for name in "abc"]
    site.later(days=2)
    daemon = site.daemon()
    daemon.state.count = lambda _: setattr(site, "stopped", True)
    assert len(daemon.once()) == 1
    kept = [len(table.refresh().metadata.snapshots) for table in tables]
    assert sorted(kept) == [1, 2, 2]


def test_a_single_pass_beside_a_working_daemon_is_refused(make_site: Callable[..., Any]) -> None:
    """After it has watched that the other is alive."""
    site = make_site(**EXPIRE)
    site.table("orders", commits=2)
    working = site.election("there")
    working.campaign()
    site.on_wait = working.renew
    with pytest.raises(ConflictError, match="another daemon holds the lease"):
        site.daemon().once()


def test_a_single_pass_after_a_daemon_that_died_waits_and_works(make_site: Callable[..., Any]) -> None:
    """The dead one gave no more signs."""
    site = make_site(**EXPIRE)
    site.table("orders", commits=2)
    site.election("dead").campaign()
    site.later(days=2)
    assert len(site.daemon().once()) == 1


def test_the_loop_looks_again_after_each_interval(make_site: Callable[..., Any]) -> None:
    """And lets the lease go at its end, so that another need not wait."""
    site = make_site(**EXPIRE)
    site.table("orders", commits=2)
    daemon = site.daemon(since_ms=site.now_ms)
    passes = []

    def on_wait() -> None:
        passes.append(daemon.state.passes)
        site.stopped = daemon.state.passes == 3

    site.on_wait = on_wait
    daemon.run(lambda: None)
    assert passes == [1, 2, 3]
    assert daemon.state.runs == {("expire_snapshots", "nothing"): 1}
    assert site.election("next").campaign() is not None


def test_a_long_look_at_many_tables_shows_life(make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for its health meanwhile sees when it came to the last table, and at what interval it looks."""
    site = make_site(**EXPIRE)
    for name in ("a", "b", "c"):
        site.table(name, commits=1)
    daemon = site.daemon(since_ms=site.now_ms)
    began, seen = site.now_ms, []

    def slowly(layers: Any, table: TableName) -> Any:
        site.later(hours=1)
        seen.append((daemon.state.seen or 0) * 1000 - began)
        return policies(layers, table)

    monkeypatch.setattr(loop, "policies", slowly)
    daemon.once()
    hour = 3_600_000
    assert seen == pytest.approx([0, hour, 2 * hour])
    assert daemon.state.interval == site.settings.daemon.interval


def test_a_wrong_cron_expression_is_found_before_the_daemon_begins() -> None:
    """With the key that it stands at, in whichever layer."""
    text = """drill.metastore.catalogs.lake.type = in-memory
    drill.metastore.policies.tables."lake.shop.orders".expire_snapshots.schedule = "61 * * * *" """
    with pytest.raises(ConfigError, match=r"policies\.tables\.lake\.shop\.orders\.expire_snapshots\.schedule"):
        check_schedules(load_text(text).policies)


def test_old_metadata_goes_also_what_fell_out_of_the_log_before(make_site: Callable[..., Any]) -> None:
    """Writers delete what falls out from now on; what others left behind is deleted once; the table is as it was."""
    site = make_site(catalogs={"lake": {"old_metadata": {"enabled": True, "keep": 2}}})
    table = site.table("orders")
    with table.transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "2"})
    for number in range(4):
        table.append(pa.table({"id": [number]}))
    site.later(days=4)
    [run] = site.daemon().once()
    assert run.status == "done"
    told = json.loads(run.result)
    table = table.refresh()
    standing = {f"file://{path}" for path in files(table, "metadata") if path.name.endswith(".metadata.json")}
    assert standing == {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    assert told["deleted"] == told["metadata_files"] >= 3
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    site.later(days=4)
    assert [each.status for each in site.daemon().once()] == ["nothing"]


def test_one_namespace_that_may_not_be_read_hides_no_other(
    make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither when its tables are listed nor when its own namespaces are. It is named; the others have their turn."""
    site = make_site(**EXPIRE)
    site.table("orders", commits=2)
    for name in ("denied", "half"):
        site.lake.create_namespace(name)
        site.lake.create_table(f"{name}.t", pa.schema([("id", pa.int64())]))
    site.later(days=2)
    catalog = site.lake
    list_tables, list_namespaces = catalog.list_tables, catalog.list_namespaces

    def tables_of(namespace: tuple[str, ...]) -> Any:
        if namespace == ("denied",):
            raise ForbiddenError("403")
        return list_tables(namespace)

    def namespaces_in(namespace: tuple[str, ...] = ()) -> Any:
        if namespace == ("half",):
            raise ForbiddenError("403")
        return list_namespaces(namespace) if namespace else list_namespaces()

    monkeypatch.setattr(catalog, "list_tables", tables_of)
    monkeypatch.setattr(catalog, "list_namespaces", namespaces_in)
    daemon = site.daemon()
    assert {table for table, _, _ in brief(daemon.once())} == {"lake.shop.orders", "lake.half.t"}
    assert set(daemon.state.passed_over) == {"namespace lake.denied", "namespace lake.half"}
    assert all("403" in error for error in daemon.state.passed_over.values())


def test_a_catalog_that_never_answers_is_left_behind(
    make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others have their turn; while it hangs it is not asked again, and the end of the session waits for nobody."""
    site = make_site(default={"expire_snapshots": {"enabled": True, "older_than": "0 s"}})
    site.table("orders", commits=2)
    site.session.tables.modify().overwrite(
        [TableMetadataUnit("dfs", "tmp", "t", metadata_type="TABLE", metadata_key=GENERAL_INFO)]
    ).execute()
    site.later(days=1)
    released, asked = threading.Event(), []

    def never(*_: object) -> list[str]:
        asked.append(1)
        released.wait(60)
        return []

    monkeypatch.setattr(site.lake, "list_namespaces", never)
    daemon = site.daemon()
    daemon._inquiries.limit_s = 0.05
    try:
        assert [table for table, _, _ in brief(daemon.once())] == ["metastore.components.tables"]
        assert "has not answered within" in daemon.state.passed_over["catalog lake"]
        assert daemon.state.waiting == {}
        site.later(days=2)
        assert {run.table for run in daemon.once()} >= {"metastore.components.tables"}
        assert "gets no new request" in daemon.state.passed_over["catalog lake"]
        assert asked == [1]
    finally:
        released.set()


def test_a_table_that_never_answers_stops_only_its_catalog(
    make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for once; others of the catalog are left for the next look, and other catalogs have their turn."""
    site = make_site(default={"expire_snapshots": {"enabled": True, "older_than": "0 s"}})
    for name in ("a", "b"):
        site.table(name, commits=2)
    site.session.tables.modify().overwrite(
        [TableMetadataUnit("dfs", "tmp", "t", metadata_type="TABLE", metadata_key=GENERAL_INFO)]
    ).execute()
    site.later(days=1)
    released = threading.Event()
    load = TargetTable.load

    def never(target: TargetTable) -> Table:
        if target.name == "a":
            released.wait(60)
        return load(target)

    monkeypatch.setattr(TargetTable, "load", never)
    daemon = site.daemon()
    daemon._inquiries.limit_s = 0.2
    try:
        assert brief(daemon.once()) == [("metastore.components.tables", "expire_snapshots", "nothing")]
        assert list(daemon.state.passed_over) == ["table lake.shop.a"]
    finally:
        released.set()


def test_policies_that_match_nothing_are_told_once(
    make_site: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """In the log of the first look, and in the state as long as it is so."""
    site = make_site(**EXPIRE, tables={'"lake.shop.orderz"': {"expire_snapshots": {"retain_last": 9}}})
    site.table("orders")
    daemon = site.daemon()
    daemon.dry()
    daemon.once()
    [told] = [each for each in caplog.messages if "lake.shop.orderz" in each]
    assert told.endswith("there is no table lake.shop.orderz; did you mean lake.shop.orders?")
    assert [each.name for each in daemon.state.unmatched] == ["lake.shop.orderz"]
    site.table("orderz")
    daemon.once()
    assert daemon.state.unmatched == []


def test_a_database_that_is_not_there_is_not_made(make_site: Callable[..., Any]) -> None:
    """Its path is taken for a slip."""
    site = make_site(**EXPIRE)
    daemon = site.daemon()
    daemon.once()
    assert "lake.db, the database of drill.metastore.catalogs.lake.uri, is not there" in str(daemon.state.trouble)
    assert not (site.folder / "lake.db").exists()
    site.table("orders")
    daemon.once()
    assert daemon.state.troubles == []


@pytest.mark.parametrize("budget", [{"files": 4}, {"bytes": "4 kB"}, {"files": 100}])
def test_a_rewrite_says_whether_its_budget_cut_it(make_site: Callable[..., Any], budget: dict[str, Any]) -> None:
    """And the dry run before it, with what fits."""
    wanted = {"enabled": True, "quiet": "0 s", "min_input_files": 2, "budget": budget}
    site = make_site(catalogs={"lake": {"rewrite_data_files": wanted}})
    table = site.table("orders", commits=10)
    expected = "done" if budget == {"files": 100} else "bounded"
    [told] = site.daemon().dry()
    assert told.status == expected
    planned = json.loads(told.result)
    [run] = site.daemon().once()
    assert run.status == expected
    assert (run.error is None) == (expected == "done")
    if "files" in budget:
        assert planned["rewritten_data_files_count"] == json.loads(run.result)["rewritten_data_files_count"]
    else:
        assert planned["rewritten_bytes_count"] <= 4000
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == list(range(10))


@pytest.mark.parametrize(
    ("action", "counted"),
    [("remove_orphan_files", "orphans"), ("expire_snapshots", "files"), ("old_metadata", "metadata_files")],
)
@pytest.mark.parametrize("files", [2, 1000])
def test_a_dry_run_counts_what_the_run_would_do(
    make_site: Callable[..., Any], action: str, counted: str, files: int
) -> None:
    """The budget included; then the run does that."""
    wanted = {"enabled": True, "older_than": "1 day", "keep": 1, "budget": {"files": files, "bytes": "1 GB"}}
    del wanted["older_than" if action == "old_metadata" else "keep"]
    site = make_site(catalogs={"lake": {action: wanted}})
    table = site.table("orders", commits=6)
    table.delete("id < 3")
    folder = Path(table.metadata.location.removeprefix("file://"))
    for number in range(5):
        (folder / "data" / f"stray-{number}.parquet").write_bytes(b"left behind")
        os.utime(folder / "data" / f"stray-{number}.parquet", (0, 0))
    site.later(days=9)
    with table.transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "1"})
    [told] = site.daemon().dry()
    before = sum(path.is_file() for path in folder.rglob("*"))
    [run] = site.daemon().once()
    gone = before - sum(path.is_file() for path in folder.rglob("*"))
    assert told.status == run.status == ("bounded" if files == 2 else "done")
    said = json.loads(told.result)[counted]
    assert said == 2 if files == 2 else said > 2
    # Expiration writes a version and a list of what is left.
    assert gone >= said - (3 if action == "expire_snapshots" else 1)


def test_a_history_that_cannot_be_written_is_a_trouble(
    make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: the work goes on, and health says so until a run is written again."""
    site = make_site(**EXPIRE)
    site.table("orders", commits=2)
    site.later(days=2)
    daemon = site.daemon()
    add = site.session.metastore.runs.add

    def full(_: object) -> int:
        raise StorageError("no space left on device")

    monkeypatch.setattr(site.session.metastore.runs, "add", full)
    assert len(daemon.once()) == 1
    assert daemon.state.troubles == ["the history cannot be written: no space left on device"]
    monkeypatch.setattr(site.session.metastore.runs, "add", add)
    site.later(days=2)
    assert len(daemon.once()) == 1
    assert daemon.state.troubles == []


def test_failures_and_the_last_success_are_known_by_table(make_site: Callable[..., Any]) -> None:
    """Also by a daemon that comes after."""
    site = make_site(**EXPIRE)
    table = site.table("orders", commits=2)
    site.later(days=2)
    site.daemon().once()
    first = site.now_ms
    Path(table.refresh().metadata_location.removeprefix("file://")).write_text("no metadata")
    site.later(days=2)
    daemon = site.daemon()
    daemon.once()
    last = daemon.state.last_runs["lake.shop.orders", "expire_snapshots"]
    assert (last.failures, last.succeeded_ms) == (1, first)


def test_a_table_that_cannot_be_read_keeps_the_files_of_others_unless_they_are_owned(
    make_site: Callable[..., Any],
) -> None:
    """Nobody knows what it needs: the run fails with its name; the operator's word is kept in the history."""
    site = make_site(default={"remove_orphan_files": {"enabled": True}})
    good, bad = site.table("good", commits=1), site.table("bad", commits=1)
    folder = Path(good.metadata.location.removeprefix("file://"))
    stray = folder / "data/stray.parquet"
    stray.write_bytes(b"left behind")
    os.utime(stray, (0, 0))
    Path(bad.metadata_location.removeprefix("file://")).unlink()
    site.later(days=8)
    runs = {run.table: run for run in site.daemon().once()}
    assert runs["lake.shop.good"].status == "failed"
    assert "needed by lake.shop.bad" in runs["lake.shop.good"].error
    assert stray.exists()
    owned = {"lake.shop.good": {"remove_orphan_files": {"owned": [f"file://{folder}"]}}}
    site.policies = {**site.policies, "tables": {f'"{name}"': layer for name, layer in owned.items()}}
    site.opened.close()
    later = make_site(**site.policies)
    later.now_ms = site.now_ms
    later.later(days=8)
    runs = {run.table: run for run in later.daemon().once()}
    assert (runs["lake.shop.good"].status, stray.exists()) == ("done", False)
    assert json.loads(runs["lake.shop.good"].result)["owned"] == [f"file://{folder}"]


def test_two_workers_have_two_tables_at_a_time_and_never_one_twice(
    make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are shown with what they do; the actions of one table follow each other in their order."""
    site = make_site(**ALL_OF_LAKE)
    for name in ("a", "b"):
        site.table(name, commits=2)
    site.later(days=2)
    daemon = site.daemon()
    both = threading.Barrier(2, timeout=20)
    shown: list[dict[str, float]] = []
    under_way: list[str] = []
    order: list[tuple[str, Action]] = []
    carry_out = Actions.carry_out

    def watched(actions: Actions, table: TableName, policy: ActionPolicy) -> ActionOutcome:
        assert str(table) not in under_way
        under_way.append(str(table))
        order.append((str(table), policy.action))
        if sum(name == str(table) for name, _ in order) == 1:
            both.wait()
            shown.append(dict(daemon.state.working))
            both.wait()
        outcome = carry_out(actions, table, policy)
        under_way.remove(str(table))
        return outcome

    monkeypatch.setattr(Actions, "carry_out", watched)
    runs = daemon.once()
    assert [sorted(what.rpartition(" ")[2] for what in each) for each in shown] == [["lake.shop.a", "lake.shop.b"]] * 2
    for name in ("lake.shop.a", "lake.shop.b"):
        actions = [action for table, action in order if table == name]
        assert actions == sorted(actions, key=list(Action).index)
        assert [run.action for run in runs if run.table == name] == [action.value for action in actions]
    assert daemon.state.working == {}
    assert daemon.state.due == 0
    assert {(run.table, run.action) for run in site.session.metastore.runs.since("")} == {
        (run.table, run.action) for run in runs
    }


def test_a_long_run_goes_on_beside_the_next_passes(
    make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table is left alone meanwhile, and all others have their turns; at the end nothing is left under way."""
    policy = {"enabled": True, "schedule": "1 s"}
    site = make_site(of_daemon={"interval": "1 s"}, catalogs={"lake": {"expire_snapshots": policy}})
    for name in ("huge", "small"):
        site.table(name, commits=2)
    site.later(days=2)
    daemon = site.daemon()
    released = threading.Event()
    turns: list[str] = []
    carry_out = Actions.carry_out

    def watched(actions: Actions, table: TableName, policy: ActionPolicy) -> ActionOutcome:
        turns.append(table.name)
        if table.name == "huge":
            assert released.wait(30)
        else:
            site.later(seconds=3)  # longer than an interval, and the next run is due
        return carry_out(actions, table, policy)

    monkeypatch.setattr(Actions, "carry_out", watched)

    def on_wait() -> None:
        if turns.count("small") == 3:
            site.stopped = True
            released.set()

    site.on_wait = on_wait
    daemon.run(lambda: None)
    assert turns.count("huge") == 1
    assert turns.count("small") == 3
    assert daemon.state.working == {}
