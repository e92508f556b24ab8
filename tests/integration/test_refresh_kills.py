"""A process killed at any step of a refresh leaves what was served, and the next refresh goes on as if it had not been.

Each case forks a process that kills itself, by SIGKILL, before its Nth step: running a query, copying,
writing down the sources, analyzing, linking a version of a component into place, sweeping.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.ground.clock import Clock
from metastore.model.identity import TableInfo
from metastore.session import Session
from metastore.sql.views import folders, refresh, runner
from metastore.sql.views.refresh import remove_unneeded

pytestmark = [pytest.mark.integration, pytest.mark.slow]

QUERY = "SELECT g, count(*) AS n, sum(k) AS s, avg(k) AS a FROM t GROUP BY g"
OLD = [{"g": 0, "n": 2, "s": 2, "a": 1.0}, {"g": 1, "n": 2, "s": 4, "a": 2.0}]
NEW = [{"g": 0, "n": 3, "s": 6, "a": 2.0}, {"g": 1, "n": 3, "s": 9, "a": 3.0}]

STEPS = (
    (runner.DuckDBRunner, "write"),
    (folders.RefreshFolder, "copy_rows_from"),
    (folders.RefreshFolder, "forget_new_state"),
    (folders.RefreshFolder, "complete"),
    (refresh, "remove_unneeded"),
    (os, "link"),
)
"""Calls before which the process may die."""


def opened(folder: Path, clock: Clock | None = None) -> Session:
    """A session on the metastore in ``folder``."""
    workspaces = {"tmp": {"location": str(folder / "data"), "writable": True}}
    location = {"base_path": str(folder), "relative_path": "m"}
    given = {"iceberg.location": location, "storage.dfs.workspaces": workspaces}
    return Session(Metastore.open(Settings.from_mapping({"drill.metastore": given}, environ={}), clock=clock))


def served(session: Session) -> list[dict[str, Any]]:
    """The rows that the view's location names."""
    unit = session.materialized_views.get("dfs.tmp.m")
    found = session.tables.scan(TableInfo("dfs", "tmp", unit.data_location or "")).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["g"])


def write(path: Path, numbers: list[int]) -> None:
    """A file of table t."""
    columns: list[pa.Field[Any]] = [pa.field("k", pa.int32()), pa.field("g", pa.int64())]
    rows = [{"k": n, "g": n % 2} for n in numbers]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(columns)), path)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A refreshed view, and a new file of its source that it has not read."""
    folder = tmp_path_factory.mktemp("before")
    (folder / "data/t").mkdir(parents=True)
    write(folder / "data/t/a.parquet", [0, 1, 2, 3])
    with opened(folder) as session:
        session.analyze("dfs.tmp.t")
        session.materialized_views.define("dfs.tmp.m", QUERY)
        session.materialized_views.refresh("dfs.tmp.m")
        assert served(session) == OLD
    write(folder / "data/t/b.parquet", [4, 5])
    return folder


class Steps:
    """Counts steps; the process dies before number ``kill_at``."""

    def __init__(self, kill_at: int) -> None:
        self.kill_at, self.count = kill_at, 0

    def step(self) -> None:
        """One is about to happen."""
        self.count += 1
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """``real``, which is a step."""

        def call(*arguments: Any, **options: Any) -> Any:
            self.step()
            return real(*arguments, **options)

        return call


def run(folder: Path, kill_at: int, counted: Any) -> None:
    """Refresh in this process, which dies on the way unless ``kill_at`` is beyond its last step."""
    steps = Steps(kill_at)
    with opened(folder) as session:
        for owner, name in STEPS:
            setattr(owner, name, steps.before(getattr(owner, name)))
        session.materialized_views.refresh("dfs.tmp.m")
        steps.step()
    counted.value = steps.count


@pytest.mark.exhaustive
def test_a_refresh_killed_at_any_step(before: Path, forks: ForkServerContext, tmp_path: Path) -> None:
    """Old rows or new ones are served, never others; then a refresh ends well, and nothing is left behind."""
    # The metastore knows absolute paths: each round takes the place of the one before.
    shutil.copytree(before, tmp_path / "saved")
    counted, seen = forks.Value("i", 0), set()
    kill_at = 0
    while counted.value == 0:
        kill_at += 1
        shutil.rmtree(before)
        shutil.copytree(tmp_path / "saved", before)
        child = forks.Process(target=run, args=(before, kill_at, counted))
        child.start()
        child.join(60)
        assert child.exitcode == (0 if counted.value else -signal.SIGKILL), kill_at
        now = SimpleNamespace(ms=0)
        with opened(before) as session:
            rows = served(session)
            seen.add(rows == NEW)
            assert rows in (OLD, NEW), kill_at
            result = session.materialized_views.refresh("dfs.tmp.m")
            assert result.mode == ("up to date" if rows == NEW else "incremental"), kill_at
            assert served(session) == NEW, kill_at
            now.ms = session.metastore.clock.now_ms() + timedelta(days=2) // timedelta(milliseconds=1)
            session.materialized_views.expiration.expire()
        with opened(before, Clock(now_ms=lambda: now.ms)) as later:  # noqa: B023 - closed within the round
            remove_unneeded(later, TableInfo.parse("dfs.tmp.m"))
            [left] = (before / "data/m").iterdir()
            assert later.materialized_views.get("dfs.tmp.m").data_location == f"m/{left.name}", kill_at
            known = {unit.table_name for unit in later.tables.requests.tables_metadata()}
            assert known == {"t", f"m/{left.name}"}, kill_at
    assert kill_at > 9
    assert seen == {True, False}
