"""A change of a catalog's entries whose request or answer is lost: StorageError would say that nothing was changed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import pytest
from support.wire import Wire

from metastore.config.settings import Settings
from metastore.errors import OutcomeUnknownError
from metastore.session import Session, connect

CHANGES = {
    "CREATE SCHEMA lake.s2": b"create_database",
    "DROP SCHEMA lake.empty": b"drop_database",
    "CREATE TABLE lake.s.made (id BIGINT)": b"create_table",
    "DROP TABLE lake.s.t": b"drop_table",
    "DROP TABLE lake.s.t PURGE": b"drop_table",
    "ALTER TABLE lake.s.t RENAME TO lake.s.moved": b"alter_table",
    "CALL lake.system.unregister_table('s', 't')": b"drop_table",
    "CALL lake.system.register_table('s', 'again', '{metadata}')": b"create_table",
}
"""Statements, and what stands in the request that makes the change."""


class HangsUp(BaseHTTPRequestHandler):
    """A REST catalog with one empty schema, which hangs up when it has dropped it."""

    def do_GET(self) -> None:
        """One answer to all questions."""
        schemas = [] if "parent" in self.path else [["empty"]]
        answer = {"defaults": {}, "overrides": {}, "namespaces": schemas, "identifiers": []}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def do_DELETE(self) -> None:
        """No answer."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


def site(uri: str, folder: Path, kind: str = "hive") -> Session:
    """A session over the catalog at ``uri``."""
    lake = {"type": kind, "uri": uri, "warehouse": f"file://{folder}/lake"}
    given = {"iceberg.location.base_path": f"{folder}/md", "catalogs.lake": lake}
    return connect(Settings.from_mapping({"drill.metastore": given}, environ={}))


@pytest.fixture(scope="module")
def own(hive_metastore: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Session, Wire]]:
    """Two sessions: one that asks the service itself, and one over a wire."""
    folder = tmp_path_factory.mktemp("lost")
    wire = Wire(("127.0.0.1", int(hive_metastore.rpartition(":")[2])))
    with site(hive_metastore, folder) as direct, site(f"thrift://127.0.0.1:{wire.port}", folder) as wired:
        yield direct, wired, wire
    wire.close()


def entries(session: Session) -> set[str]:
    """The test's schemas, and their tables. The service has those of many tests."""
    catalog = session.catalogs.open("lake")
    schemas = {("s",), ("s2",), ("empty",)} & set(catalog.list_namespaces())
    return {".".join(name) for each in schemas for name in (each, *catalog.list_tables(each))}


@pytest.mark.integration
@pytest.mark.parametrize("lost", ["request", "answer"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_whose_outcome_is_unknown_is_said_to_be_so(
    own: tuple[Session, Session, Wire], change: str, lost: Literal["request", "answer"]
) -> None:
    """It is made if its answer was lost, else not; and no file is deleted."""
    direct, wired, wire = own
    direct.sql("DROP SCHEMA IF EXISTS lake.s CASCADE")
    direct.sql("DROP SCHEMA IF EXISTS lake.s2")
    direct.sql("CREATE SCHEMA lake.s")
    direct.sql("CREATE SCHEMA IF NOT EXISTS lake.empty")
    for name in ("t", "other"):
        direct.sql(f"CREATE TABLE lake.s.{name} (id BIGINT)")
        direct.sql(f"INSERT INTO lake.s.{name} VALUES (1)")
    tables = [direct.catalogs.open("lake").load_table(f"s.{name}") for name in ("t", "other")]
    direct.sql("CALL lake.system.unregister_table('s', 'other')")
    before = entries(direct)
    assert entries(wired) == before

    wire.cut = (CHANGES[change], lost)
    with pytest.raises(OutcomeUnknownError, match="unknown"):
        wired.sql(change.format(metadata=tables[1].metadata_location))
    assert (entries(direct) == before) == (lost == "request")
    assert entries(wired) == entries(direct)
    assert tables[0].scan().to_arrow().to_pylist() == [{"id": 1}]


def test_a_schema_is_not_said_to_stay_when_its_answer_is_lost(tmp_path: Path) -> None:
    """A broken line is an OSError, as a folder that is not empty is one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), HangsUp) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        with site(url, tmp_path, "rest") as session, pytest.raises(OutcomeUnknownError, match="change was made"):
            session.sql("DROP SCHEMA lake.empty")
        server.shutdown()
