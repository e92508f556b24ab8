"""Real processes: three that fight for one lease while they are stopped and killed, and a daemon that gets signals."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from metastore.config import Settings, load_text
from metastore.daemon.lease_stores import lease_store
from metastore.daemon.process import require_same_place
from metastore.errors import ConfigError

pytestmark = pytest.mark.integration

FIGHTER = """
import os, sys, threading, time
from datetime import timedelta
from metastore.daemon.lease import Election, Heartbeat
from metastore.daemon.lease_stores import LeaseFiles
from metastore.errors import MetastoreError
from metastore.lake.stores.pointer_store import LOCAL_POINTERS as store
folder, name = sys.argv[1:]
election = Election(LeaseFiles(store, f"{folder}/lease"), name, timedelta(seconds=1), time.monotonic)

def acts():
    return [int(each) for each in os.listdir(f"{folder}/acts") if each.isdigit()]

while True:
    token = election.campaign()
    if token is None:
        # Nobody is told that a lease is free: who wants it looks, here as in the daemon.
        threading.Event().wait(0.05)
        continue
    with Heartbeat(election):
        while True:
            planned = max(acts(), default=0) + 1
            try:
                election.check()
            except MetastoreError:
                break
            store.create_if_absent(f"{folder}/acts/{planned}", f"{token} {name}".encode())
            os.write(1, b".")
"""
"""Acts as the daemon does: plans on what it sees, proves the lease, and commits only onto what it planned on.

It tells each act on its standard output.
"""

HANGING = """
import sys, threading
from metastore.daemon import process
from metastore.daemon.actions import Actions
process.GRACE_S = 1.0
Actions.carry_out = lambda *_: (print("hanging", file=sys.stderr, flush=True), threading.Event().wait())
sys.argv[0] = "metastore"
from metastore.cli.main import main
main()
"""
"""The daemon with a step that does not end."""


DEFECTIVE = """
import sys
from itertools import count
from metastore.daemon import process
check, calls = process.check, count(1)

def defective(settings):
    if next(calls) == 2:
        raise LookupError("unheard of")
    check(settings)

process.check = defective
sys.argv[0] = "metastore"
from metastore.cli.main import main
main()
"""
"""The daemon with a defect in its first reload."""


def within(seconds: float, heard: int, what: Callable[[], Any]) -> Any:
    """What ``what`` returns when it is true, asked after each act that is told at ``heard``; fails when none comes."""
    while not (found := what()):
        assert select.select([heard], [], [], seconds)[0], "it takes too long"
        os.read(heard, 1 << 16)
    return found


@contextmanager
def started(*arguments: str, told: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    """An interpreter with these arguments, killed at the end; ``told`` is its standard output."""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=told, text=True, env=environ) as made:
        try:
            yield made
        finally:
            made.kill()


def said(process: subprocess.Popen[str], words: str) -> str:
    """The next line of the log that has ``words``."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return line
    raise AssertionError(f"it ended, and never said {words!r}")


def test_a_leader_that_is_stopped_or_killed_is_replaced_and_does_no_harm(tmp_path: Path) -> None:
    """Acts carry tokens that only grow: also those of one that was stopped, replaced, and woken again."""
    (tmp_path / "acts").mkdir()
    heard, told = os.pipe()

    def act(number: int) -> tuple[int, str]:
        token, name = (tmp_path / "acts" / f"{number}").read_text().split()
        return int(token), name

    def last() -> int:
        return max((int(each.name) for each in (tmp_path / "acts").iterdir() if each.name.isdigit()), default=0)

    with (
        started("-c", FIGHTER, str(tmp_path), "a", told=told) as a,
        started("-c", FIGHTER, str(tmp_path), "b", told=told) as b,
        started("-c", FIGHTER, str(tmp_path), "c", told=told) as c,
    ):
        fighters = {"a": a, "b": b, "c": c}
        first = act(within(60, heard, last))[1]
        os.kill(fighters[first].pid, signal.SIGSTOP)
        second = within(60, heard, lambda: act(last())[1] if act(last())[1] != first else None)
        os.kill(fighters[first].pid, signal.SIGCONT)
        begun = last()
        within(60, heard, lambda: last() > begun + 20)
        second = act(last())[1]
        fighters[second].kill()
        within(60, heard, lambda: act(last())[1] != second)
        begun = last()
        within(60, heard, lambda: last() > begun + 20)
    os.close(heard)
    os.close(told)
    tokens = [act(number)[0] for number in range(1, last() + 1)]
    assert tokens == sorted(tokens)
    assert len(set(tokens)) >= 3
    holders = dict(map(act, range(1, last() + 1)))
    assert all(act(number)[1] == holders[act(number)[0]] for number in range(1, last() + 1))


def conf_of(site: Any, policy: str) -> Path:
    """A file with the settings of ``site``, a quick daemon, and ``policy``."""
    file: Path = site.folder / "site.conf"
    file.write_text(f"""drill.metastore {{
        iceberg.location {{ base_path = "{site.folder}", relative_path = m }}
        catalogs.lake {{ type = sql, uri = "sqlite:///{site.folder}/lake.db", warehouse = "file://{site.folder}/lake" }}
        daemon {{ interval = 200 ms, http.port = null }}
        policies {{ {policy} }}
    }}""")
    return file


def test_signals_reload_and_end_a_daemon(make_site: Callable[..., Any]) -> None:
    """SIGHUP takes a good file and refuses a bad one; SIGTERM ends it at once, with the lease let go."""
    site = make_site()
    table = site.table("orders", commits=3)
    enabled = "catalogs.lake.expire_snapshots { enabled = true, older_than = 0 s, schedule = "
    file = conf_of(site, "")
    arguments = ("-m", "metastore.cli", "--conf", str(file), "daemon", "--log-format", "json")
    with started(*arguments) as daemon:
        said(daemon, "is active now, with token 1")
        conf_of(site, f'{enabled} "61 * * * *" }}')
        daemon.send_signal(signal.SIGHUP)
        refused = json.loads(said(daemon, "was refused"))
        assert refused["level"] == "error"
        assert "expire_snapshots.schedule" in refused["message"]
        conf_of(site, f'{enabled} "1 day" }}')
        daemon.send_signal(signal.SIGHUP)
        said(daemon, "was reloaded")
        run = json.loads(said(daemon, "expire_snapshots on lake.shop.orders: done"))["run"]
        assert (run["snapshotsBefore"], run["snapshotsAfter"], run["token"]) == (3, 1, 1)
        daemon.send_signal(signal.SIGTERM)
        asked = time.monotonic()
        assert daemon.wait(30) == 0
        assert time.monotonic() - asked < 10
    assert len(table.refresh().metadata.snapshots) == 1
    with lease_store(site.settings) as store:
        newest = store.newest()
    assert newest is not None
    assert newest.released


def test_no_reload_ends_a_daemon(make_site: Callable[..., Any]) -> None:
    """Whatever comes up in it is logged, the old configuration stays; the next one may be taken, policies or not."""
    site = make_site()
    site.table("orders", commits=3)
    file = conf_of(site, "")
    with started("-c", DEFECTIVE, "--conf", str(file), "daemon") as daemon:
        said(daemon, "is active now, with token 1")
        daemon.send_signal(signal.SIGHUP)
        assert "LookupError: unheard of" in said(daemon, "was refused, the old one stays")
        said(daemon, "in defective")
        with file.open("a") as more:
            more.write(f"\ndrill.metastore.catalogs.new {{ type = filesystem, warehouse = {site.folder}/none }}")
            more.write("\ndrill.metastore.policies.default.expire_snapshots.enabled = true")
            more.write("\ndrill.metastore.policies.default.old_metadata = null")
        daemon.send_signal(signal.SIGHUP)
        said(daemon, "was reloaded")
        said(daemon, "expire_snapshots on lake.shop.orders")
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0


def test_a_step_that_does_not_end_is_abandoned(make_site: Callable[..., Any]) -> None:
    """The process ends within its grace, with a code that says so; the table is whole, and the next run does it."""
    policy = {"enabled": True, "older_than": "0 s"}
    site = make_site(catalogs={"lake": {"expire_snapshots": policy}})
    table = site.table("orders", commits=3)
    file = conf_of(site, "catalogs.lake.expire_snapshots { enabled = true, older_than = 0 s }")
    with started("-c", HANGING, "--conf", str(file), "daemon") as daemon:
        said(daemon, "hanging")
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(10) == 75
    assert len(table.refresh().metadata.snapshots) == 3
    site.later(minutes=5)
    [run] = site.daemon().once()
    assert (run.status, len(table.refresh().metadata.snapshots)) == ("done", 1)


def test_what_a_reload_may_change() -> None:
    """All but the place and what reaches it, lease and endpoint; what stands in the way is named."""

    def settings(text: str) -> Settings:
        return load_text(f"drill.metastore {{ iceberg.location.base_path = /srv, {text} }}")

    old = settings("")
    for allowed in ("iceberg.expiration.retain_last = 5", "iceberg.commit.timeout = 1 s", "iceberg.cache.size = 1"):
        require_same_place(old, settings(allowed))
    for fixed, key in {
        "iceberg.location.relative_path = x": "iceberg.location",
        'iceberg.config.properties."s3.region" = x': "iceberg.config",
        "iceberg.catalog { type = sql, uri = x }": "iceberg.catalog",
        "iceberg.components.runs.location = x": "iceberg.components",
        "daemon.lease.duration = 5 s": "daemon.lease",
        "daemon.http.port = 1": "daemon.http",
    }.items():
        with pytest.raises(ConfigError, match=rf"drill\.metastore\.{key} cannot change while the daemon runs"):
            require_same_place(old, settings(fixed))
