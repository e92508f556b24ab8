"""Every door that writes from Spark: a worker is killed while it writes, or the driver before or after the commit.

The table or the folder has its rows of before or of after, and files of lost attempts are in neither.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

import metastore
from metastore.session import Session, connect

pytestmark = [pytest.mark.clusters, pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(600)]

Driver = Callable[..., dict[str, Any]]

ROWS: Final = 100_000
OLD: Final = set(range(10))
NEW: Final = set(range(10, ROWS))
DOORS: Final = {
    "appended": OLD | NEW,
    "replaced": {*range(5), *NEW},
    "branched": OLD | NEW,
    "merged": {*range(5), *NEW},
    "folder": OLD | NEW,
}
"""Each door, and the ids after its write; before it they are ``OLD``."""

CLUSTER: Final = "local-cluster[2,1,1024]"
"""Two executors, each a process."""

WRITES: Final = """
import os, pathlib, signal, threading
from metastore.spark import SparkEngine, connect, merge, register_source

root, rows = os.environ["ROOT"], int(os.environ["ROWS"])
engine = SparkEngine(settings={os.environ["SETTING"]: os.environ["CHOSEN"], "spark.task.maxFailures": "3"})
spark = engine.spark
register_source(spark)

def write(door):
    frame = spark.range(5 if door == "merged" else 10, rows, 1, 2).selectExpr(
        "id", "id % 2 AS k", "concat(sha2(string(id), 512), sha2(string(-id), 512)) AS t"
    )
    if door == "merged":
        when = ("WHEN MATCHED THEN DELETE", "WHEN NOT MATCHED THEN INSERT *")
        with connect(spark, root + "/site.conf") as ms:
            return merge(ms, frame, "lake.shop.merged", "target.id = source.id", *when)
    options = {
        "replaced": {"replaceWhere": "id >= 5"}, "branched": {"branch": "audit"}, "folder": {"analyze": "true"}
    }.get(door, {})
    writer = frame.write.format("metastore").option("conf", root + "/site.conf").options(**options)
    name = "dfs.shop.folder" if door == "folder" else f"lake.shop.{door}"
    writer.mode("overwrite" if door == "replaced" else "append").save(name)
"""
WITH_KILLS: Final = (
    WRITES
    + """
def writers(folder):
    "Python workers of Spark that write a file below the folder."
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" not in (process / "cmdline").read_bytes():
                continue
            for opened in (process / "fd").iterdir():
                flags = (process / "fdinfo" / opened.name).read_text().split("flags:")[1].split()[0]
                if os.readlink(opened).startswith(folder) and int(flags, 8) & os.O_ACCMODE:
                    yield int(process.name)
        except OSError:
            pass

def kill_one(folder, done, killed):
    while not done.is_set() and not killed:
        for process in writers(folder):
            os.kill(process, signal.SIGKILL)
            killed.append(process)
            return
        done.wait(0.005)

for door in os.environ["DOORS"].split(","):
    done, killed = threading.Event(), []
    folder = root + ("/lake/folder" if door == "folder" else f"/wh/shop/{door}/data")
    killer = threading.Thread(target=kill_one, args=(folder, done, killed))
    killer.start()
    write(door)
    done.set()
    killer.join()
    answer[door] = len(killed)
engine.close()
"""
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site with a table of a catalog for each door, and a folder; each has the rows ``OLD`` in partitions."""
    (tmp_path / "site.conf").write_text(
        f'drill.metastore.iceberg.location.base_path = "{tmp_path}/md"\n'
        f'drill.metastore.storage.dfs.workspaces.shop {{ location = "{tmp_path}/lake", writable = true }}\n'
        f'drill.metastore.catalogs.lake {{ type = sql, uri = "sqlite:///{tmp_path}/c.db" }}\n'
        f'drill.metastore.catalogs.lake.warehouse = "file://{tmp_path}/wh"\n'
    )
    rows = "SELECT i AS id, i % 2 AS k, 'old' AS t FROM range(10) r(i)"
    with connect(tmp_path / "site.conf") as ms:
        ms.sql("CREATE SCHEMA lake.shop")
        for door in DOORS:
            ms.sql(f"CREATE TABLE lake.shop.{door} PARTITIONED BY (k) AS {rows}")
    target = tmp_path / "lake" / "folder"
    target.mkdir(parents=True)
    duckdb.execute(f"COPY ({rows}) TO '{target}' (FORMAT parquet, PARTITION_BY (k), OVERWRITE_OR_IGNORE)")
    return tmp_path


def ids(ms: Session, site: Path, door: str) -> set[int]:
    """The ids that a reader of the table, its branch or its folder finds: PyIceberg, or DuckDB; none is there twice."""
    if door == "folder":
        files = [str(path) for path in visible(site)]
        found = [row[0] for row in duckdb.execute("SELECT id FROM read_parquet(?)", [files]).fetchall()]
    else:
        table = ms.catalogs.open("lake").load_table(f"shop.{door}")
        branch = table.metadata.refs.get("audit")
        scan = table.scan(snapshot_id=None if branch is None else branch.snapshot_id)
        found = scan.select("id").to_arrow()["id"].to_pylist()
    assert len(found) == len(set(found))
    return set(found)


def visible(site: Path) -> list[Path]:
    """The data files of the folder, by Spark's rule for hidden names."""
    root = site / "lake" / "folder"
    return [
        path for path in root.rglob("*.parquet") if not any(part[0] in "._" for part in path.relative_to(root).parts)
    ]


def stray(ms: Session, site: Path, door: str) -> set[str]:
    """The files below the table's data, or the folder, that no snapshot and no reader has."""
    if door == "folder":
        there = {str(path) for path in (site / "lake" / "folder").rglob("*") if path.is_file()}
        return there - {str(path) for path in visible(site)}
    table = ms.catalogs.open("lake").load_table(f"shop.{door}")
    named = {str(path).removeprefix("file://") for path in table.inspect.all_files()["file_path"].to_pylist()}
    return {str(path) for path in (site / "wh" / "shop" / door / "data").rglob("*.parquet")} - named


@pytest.mark.parametrize("where", ["local[2,3]", "connect"])
def test_a_worker_that_is_killed_while_it_writes_leaves_nothing(run_driver: Driver, site: Path, where: str) -> None:
    """Spark runs its task again; all rows are there once, and the files of the lost attempt are gone."""
    key, master = ("spark.remote", "local[2,3]") if where == "connect" else ("spark.master", where)
    given = {"ROOT": str(site), "ROWS": str(ROWS), "SETTING": key, "CHOSEN": master, "DOORS": ",".join(DOORS)}
    given |= {"SPARK_CONNECT_MODE_ENABLED": "1"} if where == "connect" else {}
    answer = run_driver(WITH_KILLS, **given)
    with connect(site / "site.conf") as ms:
        for door, after in DOORS.items():
            assert answer[door] == 1, f"no worker was caught while it wrote: {door}"
            assert ids(ms, site, door) == after, door
            assert stray(ms, site, door) == set(), door
        assert ms.analyze("dfs.shop.folder").status == "up to date"


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("door", DOORS)
def test_a_driver_that_is_killed_leaves_the_rows_of_before_or_of_after(site: Path, door: str, moment: str) -> None:
    """Killed with all its processes: when a task has begun a file, or when the commit is seen. The next write works."""
    program = f"import sys; sys.path.insert(0, {str(Path(metastore.__file__).parents[1])!r})\n{WRITES}\nwrite({door!r})"
    master = CLUSTER if door == "appended" else "local[2]"
    given = {"ROOT": str(site), "ROWS": str(ROWS), "SETTING": "spark.master", "CHOSEN": master}
    with connect(site / "site.conf") as ms, (site / "log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=site,
            env={**os.environ, **given},
            start_new_session=True,
            stdout=log,
            stderr=log,
        )
        try:
            while driver.poll() is None:
                if ids(ms, site, door) != OLD if moment == "after" else stray(ms, site, door):
                    break
                threading.Event().wait(0.05)
            assert driver.poll() is None, (site / "log").read_text(errors="replace")[-3000:]
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
        left = ids(ms, site, door)
        if door == "folder" and moment == "after":  # a folder has no commit: files that were moved stay
            assert OLD < left <= DOORS[door]
        else:
            assert left == (DOORS[door] if moment == "after" else OLD)
        if door == "folder":
            assert ms.analyze("dfs.shop.folder").rows == len(left)
        else:
            table = f"lake.shop.{door}" + (".branch_audit" if door == "branched" and moment == "after" else "")
            ms.sql(f"INSERT INTO {table} VALUES (-1, 0, 'next')")
            assert ids(ms, site, door) == left | {-1}
