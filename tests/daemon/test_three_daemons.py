"""Three whole daemons over one lake: the one that works is paused between the question and the act, the next is killed.

Each daemon is a process of ``metastore daemon``. What it says is read as it comes, and is what the test goes by.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pytest

from metastore.session import Session

pytestmark = [pytest.mark.integration, pytest.mark.slow]

DAEMON = """
import os, signal, sys
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.cli.main import main

folder = sys.argv.pop(1)
publish = TargetTable.commit

def first_of_all(name):
    try:
        os.close(os.open(f"{folder}/{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def commit(self, *arguments):
    if self.name == "paused" and first_of_all("was-paused"):
        os.write(2, b"pausing before its commit\\n")
        os.kill(os.getpid(), signal.SIGSTOP)
    done = publish(self, *arguments)
    if self.name == "killed" and first_of_all("was-killed"):
        os.write(2, b"dying after its commit\\n")
        os.kill(os.getpid(), signal.SIGKILL)
    return done

TargetTable.commit = commit
sys.argv[0] = "metastore"
main()
"""
"""The daemon, in which whoever comes first is paused when the lease was proven, or dies when files are to be deleted.

The guard stands above this commit: it has been asked by then.
"""


class Daemons:
    """Three processes by name, and the lines of them all in one queue."""

    def __init__(self, folder: Path, conf: Path) -> None:
        self.lines: queue.Queue[tuple[str, str]] = queue.Queue()
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.listeners: list[threading.Thread] = []
        environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        for name in "abc":
            command = [sys.executable, "-c", DAEMON, str(folder), "--conf", str(conf), "daemon"]
            made = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environ)
            self.processes[name] = made
            assert made.stderr is not None
            self.listeners.append(threading.Thread(target=self._listen, args=(name, made.stderr), daemon=True))
            self.listeners[-1].start()

    def _listen(self, name: str, stream: TextIO) -> None:
        with stream:
            for line in stream:
                self.lines.put((name, line))

    def heard(self, words: str, of: str = "abc") -> tuple[str, str]:
        """The next line that has ``words``, said by one of these, and who said it."""
        passed_over: list[str] = []
        while True:
            try:
                name, line = self.lines.get(timeout=120)
            except queue.Empty:
                raise AssertionError(f"none of {of} said {words!r}, but: {passed_over}") from None
            if name in of and words in line:
                return name, line
            passed_over.append(f"{name}: {line.rstrip()}")

    def close(self) -> None:
        """None of them stays."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        for listener in self.listeners:
            listener.join()


@contextmanager
def daemons(site: Any) -> Iterator[Daemons]:
    """Three over the lake of ``site``, which expire what is in its schema ``shop``, at once and then once a day.

    The catalog's database has a log of its own for writers: a daemon that is paused while it reads locks nobody out.
    """
    with closing(sqlite3.connect(site.folder / "lake.db")) as database:
        assert database.execute("PRAGMA journal_mode = wal").fetchone() == ("wal",)
    conf = site.folder / "site.conf"
    conf.write_text(f"""drill.metastore {{
        iceberg.location {{ base_path = "{site.folder}", relative_path = m }}
        catalogs.lake {{ type = sql, uri = "sqlite:///{site.folder}/lake.db", warehouse = "file://{site.folder}/lake" }}
        daemon {{ interval = 200 ms, http.port = null, jitter = 0, lease.duration = 10 s }}
        policies.namespaces."lake.shop".expire_snapshots {{ enabled = true, older_than = 0 s, schedule = "1 day" }}
    }}""")
    with ExitStack() as opened:
        made = Daemons(site.folder, conf)
        opened.callback(made.close)
        yield made


def shown(site: Any, name: str, commits: int) -> Any:
    """The table ``shop.<name>``, which comes into sight with all its commits at once."""
    site.lake.create_namespace_if_not_exists("apart")
    table = site.lake.create_table(f"apart.{name}", pa.schema([("id", pa.int64())]))
    for number in range(commits):
        table.append(pa.table({"id": [number]}))
    return site.lake.rename_table(f"apart.{name}", f"shop.{name}")


def standing(table: Any) -> set[str]:
    """Files of the table that are no metadata.json."""
    folder = Path(table.metadata.location.removeprefix("file://"))
    return {str(path) for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".metadata.json")}


def reached(table: Any) -> set[str]:
    """What its snapshots reach, by PyIceberg."""
    found = set()
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return {path.removeprefix("file://") for path in found}


def test_leadership_moves_and_nothing_runs_twice(make_site: Callable[..., Any]) -> None:
    """A paused leader that wakes changes nothing, what a killed one left undone is done, each table has one run."""
    site = make_site()
    site.lake.create_namespace("shop")
    with daemons(site) as three:
        shown(site, "calm", commits=3)
        first, _ = three.heard("expire_snapshots on lake.shop.calm: done")

        paused = shown(site, "paused", commits=3)
        assert three.heard("pausing before its commit") == (first, "pausing before its commit\n")
        os.waitid(os.P_PID, three.processes[first].pid, os.WSTOPPED | os.WNOWAIT)
        others = "abc".replace(first, "")
        second, told = three.heard("this daemon is active now", others)
        assert re.search(r"token ([2-9]|\d\d)", told)
        assert three.heard("expire_snapshots on lake.shop.paused: done", others)[0] == second
        # What others do while it sleeps is what it would undo.
        paused.refresh().append(pa.table({"id": [3]}))
        before = paused.refresh().metadata_location
        os.kill(three.processes[first].pid, signal.SIGCONT)
        three.heard("expire_snapshots on lake.shop.paused: stopped", first)
        assert paused.refresh().metadata_location == before
        assert sorted(paused.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
        assert reached(paused) <= standing(paused)

        # A run that its daemon has not written yet is made again after the daemon's death.
        recorded = ("lake.shop.paused", "done", three.processes[second].pid)
        deadline = time.monotonic() + 120
        while recorded not in history(site.session):
            assert time.monotonic() < deadline, "the run was never written"

        killed = shown(site, "killed", commits=3)
        assert three.heard("dying after its commit")[0] == second
        assert three.processes[second].wait(120) == -signal.SIGKILL
        assert len(killed.refresh().metadata.snapshots) == 1
        assert reached(killed) < standing(killed), "nothing was left undone"
        third, _ = three.heard("expire_snapshots on lake.shop.killed: done", "abc".replace(second, ""))
        assert standing(killed.refresh()) == reached(killed)

        for name in "abc".replace(second, ""):
            three.processes[name].send_signal(signal.SIGTERM)
        assert {three.processes[name].wait(120) for name in "abc".replace(second, "")} == {0}
    runs = history(site.session)
    done = [(table, host) for table, status, host in runs if status == "done"]
    pids = {name: process.pid for name, process in three.processes.items()}
    expected = [("calm", first), ("paused", second), ("killed", third)]
    assert [(table, host) for table, host in done] == [(f"lake.shop.{table}", pids[name]) for table, name in expected]
    # A slow leader may stop before a run has changed anything, and the next repeats one that is not written yet.
    statuses = {(table, host): status for table, status, host in runs if status != "done"}
    assert statuses["lake.shop.paused", pids[first]] == "stopped"
    assert set(statuses.values()) <= {"stopped", "nothing"}


def history(session: Session) -> list[tuple[str, str, int]]:
    """Table, status and process of every run, in the order of their beginnings."""
    runs = sorted(session.metastore.runs.since(""), key=lambda run: run.started or 0)
    return [(run.table or "", run.status or "", int((run.host or "").split(":")[1])) for run in runs]
