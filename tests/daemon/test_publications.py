"""The daemon renews published tables: what changed in their folders is analyzed and published, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from daemon.conftest import Site

ALL = {"enabled": True, "quiet": "0 s"}


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """One published table and one of others, with every action enabled in the catalog."""
    names = ("publish", "expire_snapshots", "remove_orphan_files", "rewrite_manifests", "rewrite_data_files")
    made = make_site(catalogs={"lake": {name: dict(ALL) for name in (*names, "old_metadata")}})
    write(made, "a.parquet")
    made.session.sql("ANALYZE TABLE dfs.w.sales REFRESH METADATA PUBLISH AS lake.shop.sales")
    return made


def write(site: Site, name: str) -> None:
    """One file of the folder."""
    file = Path(site.folder, "data", "sales", name)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [1]}), file)
    os.utime(file, (site.now_ms / 1000, site.now_ms / 1000))


def runs(site: Site) -> dict[str, str]:
    """The status of each action on the published table in one pass."""
    return {str(run.action): str(run.status) for run in site.daemon().once() if run.table == "lake.shop.sales"}


def files(site: Site) -> int:
    """As PyIceberg plans them."""
    return len(list(site.lake.load_table(("shop", "sales")).scan().plan_files()))


def test_what_changed_is_published(site: Site) -> None:
    """Other actions find nothing to do on a publication, instead of failing each time."""
    assert set(runs(site).values()) == {"nothing"}
    write(site, "b.parquet")
    site.later(days=8)
    assert runs(site) == {
        **dict.fromkeys(("expire_snapshots", "remove_orphan_files", "rewrite_manifests"), "nothing"),
        **dict.fromkeys(("rewrite_data_files", "old_metadata"), "nothing"),
        "publish": "done",
    }
    assert files(site) == 2


def test_a_dry_run_publishes_nothing(site: Site) -> None:
    """It says what it would do."""
    write(site, "b.parquet")
    said = {run.action: run.result for run in site.daemon().dry() if run.table == "lake.shop.sales"}
    assert "analyze what changed of dfs.w.sales" in str(said["publish"])
    assert files(site) == 1


def test_a_folder_that_cannot_be_published_fails_by_name(site: Site) -> None:
    """The run says which files, and the last publication stays."""
    file = Path(site.folder, "data", "sales", "b.parquet")
    pq.write_table(pa.table({"id": ["text"]}), file)
    site.later(days=8)
    [error] = [run.error for run in site.daemon().once() if run.action == "publish" and run.status == "failed"]
    assert "b.parquet" in str(error)
    assert files(site) == 1


def test_what_a_dead_publisher_left_goes(site: Site) -> None:
    """Its manifests are orphans; the plain files are none, though the table does not own them."""
    dead = Path(site.lake.load_table(("shop", "sales")).location().removeprefix("file://"), "metadata", "dead-m0.avro")
    dead.touch()
    os.utime(dead, (0, 0))
    site.later(days=8)
    assert runs(site)["remove_orphan_files"] == "done"
    assert (dead.exists(), files(site)) == (False, 1)
    assert Path(site.folder, "data", "sales", "a.parquet").exists()
