"""The real service, a database of each test's own on it, and sessions that have it as catalog and as plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from services.hive_tables import HiveMaker

from metastore.config.settings import Settings
from metastore.session import Session, connect
from metastore.sources.hive.client import HiveClient


@pytest.fixture(scope="session")
def hive_client(hive_metastore: str) -> Iterator[HiveClient]:
    """A connection to the service."""
    with HiveClient(hive_metastore) as client:
        yield client


@pytest.fixture
def hive(hive_client: HiveClient, tmp_path: Path) -> HiveMaker:
    """A database of the test's own, in its folder."""
    folder = tmp_path / "hive"
    folder.mkdir()
    return HiveMaker(hive_client, folder)


@pytest.fixture
def session(hive_metastore: str, tmp_path: Path) -> Iterator[Session]:
    """A session that has the service as catalog ``lake`` and as storage plugin ``hive``."""
    settings = Settings.from_mapping(
        {
            "drill.metastore": {
                "iceberg.location": {"base_path": str(tmp_path), "relative_path": "metastore"},
                "catalogs.lake": {
                    "type": "hive",
                    "uri": hive_metastore,
                    "hive.hive2-compatible": "true",
                    "lock-check-retries": 2,
                    "lock-check-min-wait-time": 0.01,
                },
                "storage.hive": {"type": "hive", "uri": hive_metastore},
                "engine.processes": 1,
            }
        },
        environ={},
    )
    with connect(settings) as opened:
        yield opened


Call = Callable[..., dict[str, Any]]


@pytest.fixture
def call(session: Session, hive: HiveMaker) -> Call:
    """Call a procedure on a table of the test's database; the one row that it returns."""

    def run(procedure: str, table: str, **arguments: Any) -> dict[str, Any]:
        rows: Sequence[dict[str, Any]] = session.call(
            f"lake.system.{procedure}", schema_name=hive.database, table_name=table, **arguments
        ).to_pylist()
        [row] = rows
        return row

    return run
