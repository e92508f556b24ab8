"""Tables of storage plugins every night: what changed is analyzed, new tables are found, views are refreshed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.errors import ConfigError

ANALYZE = {"catalogs": {"dfs": {"analyze": {"enabled": True}, "refresh": {"enabled": True}}}}


def write(site: Any, path: str, ids: list[int]) -> Path:
    """A data file of the workspace ``dfs.w``, as old as the deployment."""
    file = Path(site.folder, "data", path)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": ids}), file)
    os.utime(file, (site.now_ms / 1000, site.now_ms / 1000))
    return file


def brief(runs: Any) -> list[tuple[str, str, str]]:
    """Table, action and status of runs, in order of names."""
    return sorted((run.table, run.action, run.status) for run in runs)


def test_new_and_changed_tables_are_analyzed(make_site: Callable[..., Any]) -> None:
    """A directory with data is a table; empty and hidden ones are none. What did not change is left alone."""
    site = make_site(**ANALYZE)
    write(site, "sales/a.parquet", [1, 2])
    write(site, "_hidden/a.parquet", [1])
    Path(site.folder, "data", "empty").mkdir()
    [run] = site.daemon().once()
    assert brief([run]) == [("dfs.w.sales", "analyze", "done")]
    assert run.result is not None
    assert '"new": 1' in run.result
    assert site.session.tables.scan("dfs.w.sales").count() == 2
    site.later(days=1)
    write(site, "orders/a.parquet", [1])
    assert brief(site.daemon().once()) == [("dfs.w.orders", "analyze", "done"), ("dfs.w.sales", "analyze", "nothing")]
    site.later(days=1)
    write(site, "sales/b.parquet", [3])
    assert brief(site.daemon().once()) == [("dfs.w.orders", "analyze", "nothing"), ("dfs.w.sales", "analyze", "done")]
    assert site.session.tables.scan("dfs.w.sales").count() == 3


def test_materialized_views_are_refreshed_and_not_analyzed(make_site: Callable[..., Any]) -> None:
    """After the tables that they are made of."""
    site = make_site(**ANALYZE)
    write(site, "sales/a.parquet", [1, 2])
    site.daemon().once()
    site.session.sql("CREATE MATERIALIZED VIEW dfs.w.twice AS SELECT id * 2 AS id FROM dfs.w.sales")
    site.later(days=1)
    write(site, "sales/b.parquet", [3])
    done = [("dfs.w.sales", "analyze", "done"), ("dfs.w.twice", "refresh", "done")]
    assert brief(site.daemon().once()) == done
    assert sorted(site.session.sql("SELECT id FROM dfs.w.twice")["id"].to_pylist()) == [2, 4, 6]


def test_a_table_that_fails_stops_no_other(make_site: Callable[..., Any]) -> None:
    """Its run says why."""
    site = make_site(**ANALYZE)
    write(site, "good/a.parquet", [1])
    write(site, "bad/a.parquet", [1]).write_bytes(b"no parquet")
    runs = site.daemon().once()
    assert brief(runs) == [("dfs.w.bad", "analyze", "failed"), ("dfs.w.good", "analyze", "done")]
    assert next(run.error for run in runs if run.status == "failed").startswith("format.invalid")


def test_a_workspace_that_cannot_be_listed_hides_no_other(make_site: Callable[..., Any]) -> None:
    """It is passed over by name, and policies for it are not said to match nothing."""
    site = make_site(namespaces={'"dfs.a"': {"analyze": {"enabled": True}}, '"dfs.w"': {"analyze": {"enabled": True}}})
    write(site, "sales/a.parquet", [1])
    (Path(site.folder) / "a").write_text("no folder")
    daemon = site.daemon()
    assert brief(daemon.once()) == [("dfs.w.sales", "analyze", "done")]
    assert list(daemon.state.passed_over) == ["workspace dfs.a"]
    assert daemon.state.unmatched == []


def test_a_table_is_left_alone_while_its_files_change(make_site: Callable[..., Any]) -> None:
    """Until the newest of them is as old as the policy says."""
    site = make_site(tables={'"dfs.w.sales"': {"analyze": {"enabled": True, "quiet": "10 minutes"}}})
    write(site, "sales/a.parquet", [1])
    write(site, "orders/a.parquet", [1])
    assert brief(site.daemon().once()) == []
    site.later(minutes=11)
    assert brief(site.daemon().once()) == [("dfs.w.sales", "analyze", "done")]


def test_a_dry_run_changes_nothing(make_site: Callable[..., Any]) -> None:
    """It tells what it would do."""
    site = make_site(**ANALYZE)
    write(site, "sales/a.parquet", [1])
    [run] = site.daemon().dry()
    assert (run.status, run.result) == ("done", '{"would": "analyze what changed"}')
    assert site.session.metastore.tables.metadata.version == 0


def test_shipped_workspaces_are_looked_into_only_by_name(make_site: Callable[..., Any]) -> None:
    """Nobody wants every folder of the disk to become a table."""
    site = make_site(**ANALYZE)
    assert site.daemon().once() == []
    assert {*site.settings.storage["dfs"].workspaces} == {"root", "tmp", "w", "a"}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "catalogs.lake.analyze.enabled",
            "on tables of the catalog lake: analyze, refresh are for",
        ),
        ("catalogs.dfs.expire_snapshots.enabled", "on tables of the storage plugin dfs: analyze, refresh are for"),
        ("default.analyze.budget.files", "on any table: a table is analyzed, published or refreshed as a whole"),
    ],
)
def test_what_has_no_effect_is_warned_of(make_site: Callable[..., Any], name: str, told: str) -> None:
    """By its key."""
    policies: dict[str, Any] = {}
    inner = policies
    *path, last = name.split(".")
    for part in path:
        inner = inner.setdefault(part, {})
    inner[last] = 1 if last == "files" else True
    assert any(name in warning and told in warning for warning in make_site(**policies).settings.warnings)


def test_a_policy_of_an_unknown_plugin_is_refused(make_site: Callable[..., Any]) -> None:
    """As one of an unknown catalog."""
    with pytest.raises(ConfigError, match="no catalog or storage plugin elsewhere is configured"):
        assert make_site(catalogs={"elsewhere": {"analyze": {"enabled": True}}}).settings
