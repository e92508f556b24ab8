"""A bucket for each test on each store whose server can be had, and metastores in it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from obstore.store import AzureStore, GCSStore, S3Store
from support.opened_metastores import OpenMetastore, opened_metastores, settings_in
from support.store_server import StoreServer

from metastore.config.settings import Settings
from metastore.ground.clock import Clock
from metastore.lake.stores.hadoop_properties import file_io_properties
from metastore.lake.stores.objects.object_store import ObjectPointers
from metastore.lake.stores.objects.object_store_client import Buckets

KINDS = (
    "s3",
    pytest.param("azure", marks=[pytest.mark.integration, pytest.mark.azure]),
    pytest.param("gcs", marks=[pytest.mark.integration, pytest.mark.gcs]),
)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The store's kind: each of them, or those that the test says."""
    return str(request.param)


@pytest.fixture
def server(kind: str, request: pytest.FixtureRequest) -> StoreServer:
    """The server of the kind, from tests/services."""
    found: StoreServer = request.getfixturevalue(f"{kind}_server")
    return found


@pytest.fixture
def hadoop(server: StoreServer) -> dict[str, str]:
    """The keys of Hadoop's connector for the server."""
    keys: dict[str, str] = server.hadoop(server.endpoint)
    return keys


@pytest.fixture
def pyiceberg_properties(hadoop: dict[str, str], root: str) -> dict[str, str]:
    """PyIceberg's keys for the server."""
    return {key: value for key, value in file_io_properties(root, hadoop).items() if key not in hadoop}


@pytest.fixture
def bucket(server: StoreServer) -> AzureStore | GCSStore | S3Store:
    """A new empty bucket, to look at directly."""
    return server.create(f"test-{uuid.uuid4()}")


@pytest.fixture
def root(server: StoreServer, bucket: AzureStore | GCSStore | S3Store) -> str:
    """The location of the bucket."""
    named: dict[str, Any] = {**bucket.config}
    return server.root(named.get("bucket") or named["container_name"])


@pytest.fixture
def pointers(hadoop: dict[str, str], root: str) -> ObjectPointers:
    """Pointers in the bucket."""
    return ObjectPointers(Buckets(file_io_properties(root, hadoop)))


@pytest.fixture
def settings(server: StoreServer, root: str) -> Callable[..., Settings]:
    """Settings of a metastore in the bucket, by ``endpoint``, with more keys of ``drill.metastore.iceberg``."""

    def make(endpoint: str | None = None, **iceberg: Any) -> Settings:
        return settings_in(root, server.hadoop(endpoint or server.endpoint), **iceberg)

    return make


@pytest.fixture
def open_metastore(settings: Callable[..., Settings], clock: Clock) -> Iterator[OpenMetastore]:
    """Open the metastore in the bucket; keyword arguments are keys below ``drill.metastore.iceberg``."""
    with opened_metastores(settings, clock) as open_:
        yield open_
