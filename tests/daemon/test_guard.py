"""The guard: a lease that is lost in the middle of a run, and budgets of what is rewritten."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from metastore.config import Settings
from metastore.daemon.actions import Actions
from metastore.daemon.guard import Guard
from metastore.daemon.inquiry import Inquiries
from metastore.daemon.policy import Action, Budget, TableName, policies
from metastore.errors import ConflictError, StorageError
from metastore.lake.stores.deletion import DeletionChunk
from metastore.lake.stores.local import LocalFileIO
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO
from metastore.session import Session, connect

ORDERS = TableName("lake", "shop", "orders")
OWN = TableName("metastore", "components", "tables")
ENABLED = {
    "rewrite_data_files": {"enabled": True, "min_input_files": 2},
    "rewrite_manifests": {"enabled": True, "min_manifests": 2},
    "expire_snapshots": {"enabled": True, "older_than": "0 s"},
    "remove_orphan_files": {"enabled": True},
    "old_metadata": {"enabled": True},
}


class Lease:
    """One that is held when a run begins, and lost by the first look, which is right before a change."""

    looks = 0

    def check(self) -> None:
        """Raises always."""
        self.looks += 1
        raise ConflictError("lost")


def carry_out(site: Any, table: TableName, action: Action, lease: Callable[[], None]) -> Any:
    """One action, under a lease."""
    [policy] = [each for each in policies(site.settings.policies, table) if each.action is action]
    return Actions(site.session, lease, lambda: False).carry_out(table, policy)


@pytest.mark.parametrize("action", [Action(name) for name in ENABLED])
def test_a_lease_that_is_lost_in_a_run_lets_nothing_be_changed(make_site: Callable[..., Any], action: Action) -> None:
    """After planning, right before the commit or the deletion: the table is as it was, and the next leader's."""
    site = make_site(default=ENABLED)
    table = site.table("orders", commits=4)
    stray = Path(table.metadata.location.removeprefix("file://")) / "data" / "stray.parquet"
    stray.write_bytes(b"left behind")
    os.utime(stray, (0, 0))
    site.later(days=4)
    lease = Lease()
    outcome = carry_out(site, ORDERS, action, lease.check)
    assert (outcome.status, lease.looks) == ("stopped", 1)
    assert table.refresh().metadata_location == table.metadata_location
    assert len(table.metadata.snapshots) == 4
    assert stray.exists()
    assert carry_out(site, ORDERS, action, lambda: None).status == "done"


def test_so_it_is_with_the_metastores_own_tables(make_site: Callable[..., Any]) -> None:
    """Whose expiration is their own handler's."""
    site = make_site(default=ENABLED)
    unit = TableMetadataUnit("dfs", "tmp", "t", metadata_type="TABLE", metadata_key=GENERAL_INFO)
    for _ in range(2):
        site.session.tables.modify().overwrite([unit]).execute()
        site.session.tables.modify().purge()
    kept = len(site.session.tables.metadata.history())
    site.later(days=4)
    assert carry_out(site, OWN, Action.EXPIRE_SNAPSHOTS, Lease().check).status == "stopped"
    assert len(site.session.tables.metadata.history()) == kept
    assert carry_out(site, OWN, Action.EXPIRE_SNAPSHOTS, lambda: None).status == "done"
    assert len(site.session.tables.metadata.history()) == 1


def test_a_budget_of_bytes_bounds_a_rewrite_and_keeps_what_is_done(make_site: Callable[..., Any]) -> None:
    """Groups are committed as they come; runs after it do the rest, and no row is lost."""
    site = make_site(default=ENABLED)
    table = site.table("orders")
    for start in range(0, 60, 10):
        table.append(pa.table({"id": pa.array(range(start, start + 10), pa.int64())}))
    size = next(iter(table.scan().plan_files())).file.file_size_in_bytes
    site.policies["default"]["rewrite_data_files"]["budget"] = {"bytes": 2 * size}
    outcome = carry_out(site, ORDERS, Action.REWRITE_DATA_FILES, lambda: None)
    assert outcome.status == "bounded"
    assert (outcome.before.files, outcome.after.files) == (6, 5)
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == list(range(60))


def test_the_first_file_is_always_let_in() -> None:
    """And then as many as there is room for; the rest is not counted."""
    chunk = DeletionChunk(LocalFileIO(), ["a", "b", "c", "d"])
    sizes = {"a": 500, "b": 1, "c": 1, "d": 1}

    def admitted(budget: Budget) -> list[str]:
        guard = Guard(lambda: None, lambda: False, lambda: 0.0, budget, sizes)
        found = list(guard.admit(chunk).locations)
        assert (guard.files, guard.bytes) == (len(found), sum(sizes[each] for each in found))
        return found

    assert admitted(Budget()) == ["a", "b", "c", "d"]
    assert admitted(Budget(files=3)) == ["a", "b", "c"]
    assert admitted(Budget(bytes=100)) == ["a"]
    assert admitted(Budget(files=2, bytes=501)) == ["a", "b"]


def test_whoever_is_to_stop_is_refused_first() -> None:
    """Without asking the store for the lease."""
    lease = Lease()
    guard = Guard(lease.check, lambda: True, lambda: 0.0)
    with pytest.raises(StorageError, match="is stopping"):
        guard.before_change()
    assert (guard.why, lease.looks) == ("stopped", 0)


class HalfDeaf:
    """A REST catalog ``/v1`` with the tables ``s.one``, ``s.three`` and ``s.two``, none of which is ever loaded."""

    def __init__(self) -> None:
        self.loads: list[str] = []
        self.released = threading.Event()
        deaf = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                if path.startswith("/v1/namespaces/s/tables/"):
                    deaf.loads.append(path.rpartition("/")[2])
                    deaf.released.wait(60)
                names = [{"namespace": ["s"], "name": name} for name in ("one", "three", "two")]
                answers: dict[str, Any] = {
                    "/v1/config": {"defaults": {}, "overrides": {}},
                    "/v1/namespaces": {"namespaces": [] if "parent" in query else [["s"]]},
                    "/v1/namespaces/s/tables": {"identifiers": names},
                }
                said = json.dumps(answers.get(path, {})).encode()
                self.send_response(200 if path in answers else 404)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@pytest.fixture
def half_deaf() -> Iterator[HalfDeaf]:
    """It runs as long as the test."""
    made = HalfDeaf()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.05})
    with made.server:
        thread.start()
        yield made
        made.released.set()
        made.server.shutdown()
        thread.join()


@pytest.fixture
def beside_half_deaf(tmp_path: Path, half_deaf: HalfDeaf) -> Iterator[Session]:
    """A session with a good catalog, ``lake``, and the one that is half deaf, ``aa``."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}/lake"}
    keys = {
        "drill.metastore.iceberg.location.base_path": f"{tmp_path}/m",
        "drill.metastore.catalogs": {
            "aa": {"type": "rest", "uri": f"http://127.0.0.1:{half_deaf.server.server_port}"},
            "lake": lake,
        },
        "drill.metastore.policies.default": ENABLED,
    }
    with connect(Settings.from_mapping(keys, environ={})) as session:
        yield session


def test_a_proof_waits_once_for_a_catalog_that_lists_tables_and_loads_none(
    beside_half_deaf: Session, half_deaf: HalfDeaf
) -> None:
    """As long as an answer may take. Nothing is deleted, and the run says which table it is that nobody can load."""
    session = beside_half_deaf
    lake = session.catalogs.open("lake")
    lake.create_namespace("shop")
    table = lake.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    stray = Path(table.metadata.location.removeprefix("file://")) / "data" / "stray.parquet"
    stray.write_bytes(b"left behind")
    os.utime(stray, (0, 0))
    [policy] = [p for p in policies(session.settings.policies, ORDERS) if p.action is Action.REMOVE_ORPHAN_FILES]
    inquiries = Inquiries(1)
    outcome = Actions(session, lambda: None, lambda: False, inquiries=inquiries).carry_out(ORDERS, policy)
    assert outcome.status == "failed"
    assert outcome.error is not None
    assert (
        "aa.s.one (table aa.s.one has not answered within 1 s (drill.metastore.daemon.answer_timeout))" in outcome.error
    )
    for name in ("three", "two"):
        assert f"aa.s.{name} (it is not queried while table aa.s.one does not answer)" in outcome.error
    assert half_deaf.loads == ["one"]
    assert inquiries.hanging_of("aa") == "table aa.s.one"
    assert inquiries.hanging_of("lake") is None
    assert stray.exists()
