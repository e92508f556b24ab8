"""A process killed at any step of a refresh leaves what was served, and the next refresh goes on as if it had not been.

Each case is a process of its own that kills itself, by SIGKILL, before its Nth step: running a query, copying,
writing down the sources, analyzing, linking a version of a component into place, sweeping.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import metastore as package
from metastore.config.settings import Settings
from metastore.metastore import Metastore
from metastore.model.identity import TableInfo
from metastore.session import Session
from metastore.storage.commit import Clock
from metastore.views.refresh import remove_unneeded

pytestmark = [pytest.mark.integration, pytest.mark.slow]

QUERY = "SELECT g, count(*) AS n, sum(k) AS s, avg(k) AS a FROM t GROUP BY g"
OLD = [{"g": 0, "n": 2, "s": 2, "a": 1.0}, {"g": 1, "n": 2, "s": 4, "a": 2.0}]
NEW = [{"g": 0, "n": 3, "s": 6, "a": 2.0}, {"g": 1, "n": 3, "s": 9, "a": 3.0}]

CHILD = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from metastore.config.settings import Settings
from metastore.metastore import Metastore
from metastore.session import Session
from metastore.views import folders, refresh, runner

count, kill_at = 0, int(sys.argv[3])

def step():
    global count
    count += 1
    if count == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)

def stepping(owner, name):
    real = getattr(owner, name)
    def call(*arguments, **options):
        step()
        return real(*arguments, **options)
    setattr(owner, name, call)

folder = sys.argv[2]
workspaces = {"tmp": {"location": folder + "/data", "writable": True}}
location = {"base_path": folder, "relative_path": "m"}
settings = Settings.from_mapping(
    {"drill.metastore": {"iceberg.location": location, "storage.dfs.workspaces": workspaces}}, environ={}
)
with Session(Metastore.open(settings)) as session:
    for owner, name in (
        (runner.DuckDBRunner, "write"),
        (folders.Folder, "copy_rows_from"),
        (folders.Folder, "forget_new_state"),
        (folders.Folder, "complete"),
        (refresh, "remove_unneeded"),
        (os, "link"),
    ):
        stepping(owner, name)
    session.materialized_views.refresh("dfs.tmp.m")
    step()
print(count)
"""


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


def killed(before: Path, folder: Path, kill_at: int) -> subprocess.CompletedProcess[str]:
    """Refresh in a copy of ``before`` made at ``folder``, in a process that dies at step ``kill_at`` (0: never)."""
    # The metastore knows absolute paths: the copy takes the original's place.
    shutil.copytree(before, folder)
    child = [sys.executable, "-c", CHILD, str(Path(package.__file__).parents[1]), str(before), str(kill_at)]
    return subprocess.run(child, capture_output=True, text=True, check=False)


def test_a_refresh_killed_at_any_step(before: Path, tmp_path: Path) -> None:
    """Old rows or new ones are served, never others; then a refresh ends well, and nothing is left behind."""
    ran = killed(before, tmp_path / "whole", 0)
    assert ran.returncode == 0, ran.stderr
    steps = int(ran.stdout)
    assert steps >= 9
    seen = set()
    for kill_at in range(1, steps + 1):
        shutil.rmtree(before)
        shutil.copytree(tmp_path / "whole", before, copy_function=shutil.copy2)
        ran = killed(before, tmp_path / str(kill_at), kill_at)
        assert ran.returncode == -9, (kill_at, ran.stderr)
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
    assert seen == {True, False}
