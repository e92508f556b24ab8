"""A daemon with four policies beside writers and a reader, over many tables, half of them of version 3.

``SOAK_SECONDS`` is how long they work together, ``SOAK_TABLES`` the number of tables. The figures are printed: tables
served, memory and descriptors of the daemon, and what reads and commits take at the beginning and at the end.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from metastore.config import load_text
from metastore.session import Session, connect

pytestmark = [pytest.mark.exhaustive, pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(7200)]

SECONDS = float(os.environ.get("SOAK_SECONDS", "90"))
TABLES = int(os.environ.get("SOAK_TABLES", "30"))
LONG = 600
"""In runs of at least these seconds, figures of the beginning and the end are compared."""

WRITERS = 2
LOOK_S = 2.0
PACE, PACE_S = threading.Event(), 0.3
"""People and jobs leave a machine some time for the daemon; the event never comes."""

CONF = """drill.metastore {{
  iceberg.location {{ base_path = "{folder}", relative_path = m }}
  catalogs.lake {{ type = sql, uri = "sqlite:///{folder}/lake.db", warehouse = "file://{folder}/lake" }}
  daemon {{ interval = 1 s, jitter = 0.0, http.port = null }}
  policies.catalogs.lake {{
    expire_snapshots {{ enabled = true, older_than = 30 s, retain_last = 2, schedule = 1 minute }}
    rewrite_data_files {{ enabled = true, quiet = 0 s, schedule = 5 minutes }}
    rewrite_manifests {{ enabled = true, quiet = 0 s, min_manifests = 5, schedule = 5 minutes }}
    old_metadata {{ enabled = true, keep = 5, schedule = 5 minutes }}
  }}
}}"""


def opened(folder: Path) -> Session:
    """A session on the site in ``folder``."""
    return connect(load_text(CONF.format(folder=folder)))


def build(folder: Path) -> None:
    """Tables of one row; every other one is of version 3."""
    with opened(folder) as session:
        session.catalogs.open("lake")
        session.sql("CREATE SCHEMA lake.db")
        for number in range(TABLES):
            version = 2 + number % 2
            properties = f"TBLPROPERTIES ('format-version' = '{version}')"
            session.sql(f"CREATE TABLE lake.db.t{number} (id BIGINT) {properties}")
            session.sql(f"INSERT INTO lake.db.t{number} VALUES (0)")


def write(folder: Path, writer: int, until: float) -> tuple[list[float], dict[int, int]]:
    """Insert into tables that no other writer has; returns the seconds of each, and the rows that each table has."""
    chance = random.Random(writer)
    took, rows = [], dict.fromkeys(range(writer, TABLES, WRITERS), 1)
    with opened(folder) as session:
        while time.time() < until:
            number = chance.choice([*rows])
            began = time.monotonic()
            session.sql(f"INSERT INTO lake.db.t{number} VALUES ({rows[number]})")
            took.append(time.monotonic() - began)
            rows[number] += 1
            PACE.wait(PACE_S)
    return took, rows


def read(folder: Path, until: float) -> list[float]:
    """Select from any table; returns the seconds of each. Rows never go."""
    chance, took, seen = random.Random(99), [], dict.fromkeys(range(TABLES), 1)
    with opened(folder) as session:
        while time.time() < until:
            number = chance.randrange(TABLES)
            began = time.monotonic()
            [row] = session.sql(f"SELECT count(*) AS n, count(DISTINCT id) AS d FROM lake.db.t{number}").to_pylist()
            took.append(time.monotonic() - began)
            assert row["n"] == row["d"] >= seen[number]
            seen[number] = row["n"]
            PACE.wait(PACE_S)
    return took


@contextmanager
def daemon(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``metastore daemon``, a process of its own, which ends well when it is asked to."""
    (folder / "site.conf").write_text(CONF.format(folder=folder))
    command = [sys.executable, "-m", "metastore", "--conf", str(folder / "site.conf"), "daemon"]
    with (folder / "daemon.log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) in (0, 75)  # 75: an action did not end within the grace


def resources(process: int) -> tuple[int, int]:
    """The memory of a process in KiB, and its open descriptors."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    [memory] = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
    return memory, len(os.listdir(f"/proc/{process}/fd"))


def parts(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the second and of the last quarter; the first one has the start of processes in it."""
    quarter = max(1, len(values) // 4)
    return statistics.median(values[quarter : 2 * quarter] or values), statistics.median(values[-quarter:])


def test_care_beside_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No error to anybody, no row lost, every table served; resources flat, reads and commits as fast at the end."""
    build(tmp_path)
    until = time.time() + SECONDS
    used: list[tuple[int, int]] = []
    with multiprocessing.get_context("spawn").Pool(WRITERS + 1) as pool, daemon(tmp_path) as process:
        writers = [pool.apply_async(write, (tmp_path, number, until)) for number in range(WRITERS)]
        reader = pool.apply_async(read, (tmp_path, until))
        while not reader.ready():
            reader.wait(LOOK_S)
            used.append(resources(process.pid))
        reads, written = reader.get(), [each.get() for each in writers]
    with opened(tmp_path) as session:
        runs = session.metastore.runs.since("")
        for _, rows in written:
            for number, count in rows.items():
                assert session.sql(f"SELECT count(*) AS n FROM lake.db.t{number}").to_pylist() == [{"n": count}]
    served = {run.table for run in runs if run.status != "stopped"}
    failed = [(run.table, run.action, run.error) for run in runs if run.status == "failed"]
    memory, descriptors = (parts([float(each[which]) for each in used]) for which in (0, 1))
    commits, selects = parts([each for took, _ in written for each in took]), parts(reads)
    figures = (
        f"{len(runs)} runs on {len(served)} of {TABLES} tables in {SECONDS:.0f} s, {len(failed)} failed",
        f"memory {memory[0] / 1024:.0f} -> {memory[1] / 1024:.0f} MiB, descriptors {descriptors}",
        f"{sum(len(took) for took, _ in written)} commits, {commits[0]:.3f} -> {commits[1]:.3f} s",
        f"{len(reads)} reads, {selects[0]:.3f} -> {selects[1]:.3f} s",
    )
    with capsys.disabled():
        sys.stdout.write("\n".join(("", *figures, "")))
    assert failed == []
    assert len(served) == TABLES
    assert descriptors[1] <= descriptors[0] + 8
    if SECONDS >= LONG:
        assert memory[1] <= 1.5 * memory[0]
        assert commits[1] <= 1.5 * commits[0]
        assert selects[1] <= 1.5 * selects[0]
