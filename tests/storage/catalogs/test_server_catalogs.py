"""A server that takes connections and never answers: readers, writers and the daemon are told so, and go on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.config.settings import Settings
from metastore.errors import StorageError
from metastore.iceberg import server_catalogs
from metastore.metastore import Metastore


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of such a server: the system takes connections for it, and nobody reads."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["rest", "hive"])
def test_no_request_waits_for_ever(tmp_path: Path, silent: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the first nor one on a connection that was made anew after it."""
    monkeypatch.setattr(server_catalogs, "ANSWER_S", 0.05)
    scheme = {"rest": "http", "hive": "thrift"}[kind]
    keys = {
        "location": {"base_path": str(tmp_path), "relative_path": "m"},
        "catalog": {"type": kind, "uri": f"{scheme}://{silent}"},
    }
    settings = Settings.from_mapping({"drill.metastore.iceberg": keys}, environ={})
    with Metastore.open(settings) as metastore:
        for _ in range(2):
            with pytest.raises(StorageError, match="timed? ?out"):
                metastore.tables.metadata.history()
