"""Locks in the service: those of the dead are taken over where their death is certain, all others are respected."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from services.hive_tables import HiveMaker
from thrift.transport.TTransport import TTransportException

from metastore.config.settings import Settings
from metastore.errors import ConfigError, ConflictError, StorageError
from metastore.procedures.hive.migration import revert
from metastore.session import connect
from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.lock_holders import Holder, own_mark

pytestmark = pytest.mark.integration

LOCK_AND_WAIT = """
import sys
from metastore.sources.hive.client import HiveClient
client = HiveClient(sys.argv[1])
with client.lock_table(sys.argv[2], sys.argv[3]):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def own() -> Holder:
    """This process."""
    found = Holder.this_process()
    assert found is not None
    return found


def locker(uri: str, hive: HiveMaker, name: str) -> subprocess.Popen[str]:
    """A process that holds the lock on a table."""
    process = subprocess.Popen(
        [sys.executable, "-c", LOCK_AND_WAIT, uri, hive.database, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


def test_the_living_keep_theirs_and_the_dead_do_not(hive: HiveMaker, hive_metastore: str) -> None:
    """A living holder is named; once it is killed the lock is free at once."""
    name = hive.table({"id": "bigint"})
    process = locker(hive_metastore, hive, name)
    with HiveClient(hive_metastore, lock_polls=(0.01,)) as client:
        with (
            pytest.raises(ConflictError, match=f"process {process.pid}.*since 20.*hive.txn.timeout"),
            client.lock_table(hive.database, name),
        ):
            raise AssertionError
        process.kill()
        process.communicate()
        with client.lock_table(hive.database, name):
            [lock] = hive.client.locks(hive.database, name)
            assert Holder.parse(lock.agentInfo) == Holder.this_process()


def test_locks_of_the_dead_are_given_back_by_whoever_asks(hive: HiveMaker, hive_metastore: str) -> None:
    """Those of the living stay."""
    name = hive.table({"id": "bigint"})
    process = locker(hive_metastore, hive, name)
    with HiveClient(hive_metastore) as client:
        client.take_from_the_dead(hive.database, name)
        [lock] = client.locks(hive.database, name)
        parsed = Holder.parse(lock.agentInfo)
        assert parsed is not None
        assert parsed.pid == process.pid
        process.kill()
        process.communicate()
        client.take_from_the_dead(hive.database, name)
        assert client.locks(hive.database, name) == []


def test_a_reversion_that_is_called_again_gives_back_what_the_dead_held(
    hive: HiveMaker, hive_metastore: str, call: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds the table Hive's already, and has no need of a lock itself."""
    name = hive.table({"id": "bigint"})
    hive.write(name, {"id": [1]})
    call("migrate", name)
    with monkeypatch.context() as patch:
        patch.setattr(revert, "_clean", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            call("revert_migration", name)
    process = locker(hive_metastore, hive, name)
    process.kill()
    process.communicate()
    assert len(hive.client.locks(hive.database, name)) == 1
    assert call("revert_migration", name)["status"] == "already reverted"
    assert hive.client.locks(hive.database, name) == []


def test_what_a_mark_proves(own: Holder) -> None:
    """Death is certain where number and beginning say so on the same boot and in the same namespace, else nowhere."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert not own.is_dead(own)
    assert replace(own, began=own.began - 1).is_dead(own)
    assert replace(own, pid=gone.pid).is_dead(own)
    assert not replace(own, pid=gone.pid, boot="0" * 36).is_dead(own)
    assert not replace(own, pid=gone.pid, namespace=1).is_dead(own)
    assert not replace(own, pid=gone.pid).is_dead(None)


def test_a_mark_leads_back_to_its_process(own: Holder) -> None:
    """Whichever lock it was left with; and the marks of others lead nowhere."""
    marks = {own_mark() for _ in range(3)}
    assert len(marks) == 3
    assert {Holder.parse(mark) for mark in (str(own), *marks)} == {own}
    assert max(map(len, marks)) <= 128  # what the service keeps of it
    for other in (None, "", "Unknown", "hive_20240101", f"{own}x"):
        assert Holder.parse(other) is None


@pytest.mark.parametrize("lost", ["lock", "unlock"])
@pytest.mark.parametrize("is_done", [True, False])
def test_no_lock_outlives_a_lost_answer(
    hive: HiveMaker, hive_metastore: str, monkeypatch: pytest.MonkeyPatch, lost: str, is_done: bool
) -> None:
    """A lock whose answer is lost is found by its mark; one that was never made is told of; each is given back."""
    name = hive.table({"id": "bigint"})
    answer = HiveClient._result
    asked: list[str] = []

    def losing(client: HiveClient, what: str, call: str, arguments: Any) -> Any:
        asked.append(call)
        is_lost = call == lost and asked.count(lost) == 1
        found = answer(client, what, call, arguments) if is_done or not is_lost else None
        if is_lost:
            raise TTransportException(message="gone")
        return found

    is_held = lost == "unlock" or is_done
    with HiveClient(hive_metastore) as client, monkeypatch.context() as patch:
        patch.setattr(HiveClient, "_result", losing)
        refused: AbstractContextManager[Any] = (
            nullcontext() if is_held else pytest.raises(StorageError, match="nothing was changed")
        )
        with refused, client.lock_table(hive.database, name):
            asked.append("held")
    assert ("held" in asked) == is_held
    assert hive.client.locks(hive.database, name) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("lock-check-retries", "often"), ("lock-check-min-wait-time", "-1"), ("lock-check-max-wait-time", "nan")],
)
def test_waits_for_locks_are_numbers(tmp_path: Path, key: str, value: str) -> None:
    """A property that says how long to wait, and is no time, is refused before the service is asked."""
    lake = {"type": "hive", "uri": "thrift://127.0.0.1:1", key: value}
    location = {"base_path": str(tmp_path), "relative_path": "m"}
    keys = {"drill.metastore": {"iceberg.location": location, "catalogs.lake": lake}}
    with (
        connect(Settings.from_mapping(keys, environ={})) as session,
        pytest.raises(ConfigError, match=f"{key} is '{value}'"),
    ):
        session.call("lake.system.migrate", schema_name="d", table_name="t")
