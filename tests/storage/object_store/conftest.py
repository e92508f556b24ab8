"""An S3 API server on loopback for the session, a bucket for each test, and metastores in it."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from obstore.store import S3Store

from metastore.config.settings import Settings
from metastore.metastore import Metastore
from metastore.storage.commit import Clock
from metastore.storage.hadoop_properties import file_io_properties
from metastore.storage.object_store import ObjectPointers
from metastore.storage.object_store_client import Buckets

READY_WITHIN_S = 60
ACCESS_KEY, SECRET_KEY = "AKIALOOPBACKTESTS", "made-up/secret+for=loopback"


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Endpoint of moto's server, a process of its own that speaks S3 over HTTP."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("moto") / "log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        server = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        wait_for(port, server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    """Until something listens on the port."""
    deadline = time.monotonic() + READY_WITHIN_S
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        threading.Event().wait(0.05)
    raise RuntimeError(f"the S3 server did not answer: {log.read_text()}")


@pytest.fixture
def hadoop(s3_server: str) -> dict[str, str]:
    """S3A's keys for the server."""
    return {
        "fs.s3a.endpoint": s3_server,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.access.key": ACCESS_KEY,
        "fs.s3a.secret.key": SECRET_KEY,
        "fs.s3a.path.style.access": "true",
    }


@pytest.fixture
def pyiceberg_properties(s3_server: str) -> dict[str, str]:
    """PyIceberg's keys for the server."""
    return {
        "s3.endpoint": s3_server,
        "s3.region": "us-east-1",
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
    }


@pytest.fixture
def bucket(s3_server: str) -> S3Store:
    """A new empty bucket, to look at directly."""
    name = f"test-{uuid.uuid4()}"
    with urlopen(Request(f"{s3_server}/{name}", data=b"", method="PUT")):  # noqa: S310 - loopback
        return S3Store(
            name,
            endpoint=s3_server,
            region="us-east-1",
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
            client_options={"allow_http": True},
        )


@pytest.fixture
def pointers(hadoop: dict[str, str], bucket: S3Store) -> ObjectPointers:
    """Pointers in the bucket."""
    return ObjectPointers(Buckets(file_io_properties(root_of(bucket), hadoop)))


@pytest.fixture
def settings(hadoop: dict[str, str], bucket: S3Store) -> Callable[..., Settings]:
    """Settings of a metastore in the bucket, by ``endpoint``, with more keys of ``drill.metastore.iceberg``."""

    def make(endpoint: str | None = None, **iceberg: Any) -> Settings:
        location = {"base_path": root_of(bucket), "relative_path": "metastore"}
        given = {**hadoop, "fs.s3a.endpoint": endpoint or hadoop["fs.s3a.endpoint"]}
        quoted = {f'"{key}"': value for key, value in given.items()}  # bare, one key would be a path into another
        keys = {"location": location, "config.properties": quoted, **iceberg}
        return Settings.from_mapping({"drill.metastore.iceberg": keys}, environ={})

    return make


@pytest.fixture
def open_metastore(settings: Callable[..., Settings], clock: Clock) -> Iterator[Callable[..., Metastore]]:
    """Open the metastore in the bucket; keyword arguments are keys below ``drill.metastore.iceberg``."""
    opened = []

    def open_(*, clock: Clock | None = clock, **iceberg: Any) -> Metastore:
        opened.append(Metastore.open(settings(**iceberg), clock=clock))
        return opened[-1]

    yield open_
    for metastore in opened:
        metastore.tables.expiration_worker.join()
        metastore.close()


def root_of(bucket: S3Store) -> str:
    """The bucket's location."""
    return f"s3a://{bucket.config['bucket']}"
