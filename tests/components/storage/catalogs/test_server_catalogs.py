"""A server that takes connections and never answers: readers, writers and the daemon are told so, and go on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.errors import ConfigError, StorageError
from metastore.lake.iceberg.catalogs.server_catalogs import HIVE_ANSWER, REST_ANSWER


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of such a server: the system takes connections for it, and nobody reads."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["rest", "hive"])
def test_no_request_waits_for_ever(tmp_path: Path, silent: str, kind: str) -> None:
    """Neither the first nor one on a connection that was made anew after it; a property says how long."""
    with _opened(tmp_path, silent, kind, "50 ms") as metastore:
        for _ in range(2):
            with pytest.raises(StorageError, match="timed? ?out"):
                metastore.tables.metadata.history()


@pytest.mark.parametrize("kind", ["rest", "hive"])
@pytest.mark.parametrize("limit", ["soon", "0", "-1"])
def test_a_time_limit_is_a_time(tmp_path: Path, silent: str, kind: str, limit: str) -> None:
    """The property and its value are named."""
    with (
        _opened(tmp_path, silent, kind, limit) as metastore,
        pytest.raises(ConfigError, match=f"timeout.* is '{limit}'"),
    ):
        metastore.tables.metadata.history()


def _opened(folder: Path, address: str, kind: str, limit: str) -> Metastore:
    """A metastore in the catalog at ``address``, whose answers are waited for as long as ``limit`` says."""
    scheme, key = {"rest": ("http", REST_ANSWER), "hive": ("thrift", HIVE_ANSWER)}[kind]
    keys = {
        "location": {"base_path": str(folder), "relative_path": "m"},
        "catalog": {"type": kind, "uri": f"{scheme}://{address}", f'"{key}"': limit},
    }
    return Metastore.open(Settings.from_mapping({"drill.metastore.iceberg": keys}, environ={}))
