"""An HDFS cluster for the session, a folder of it for each test, and metastores in it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from services.hdfs_cluster import SUPERUSER, HdfsCluster
from support.opened_metastores import OpenMetastore, opened_metastores, settings_in

from metastore.config.settings import Settings
from metastore.ground.clock import Clock
from metastore.lake.stores.hdfs.hdfs import HdfsPointers
from metastore.lake.stores.hdfs.webhdfs import Clusters


@pytest.fixture
def hadoop(hdfs_cluster: HdfsCluster) -> dict[str, str]:
    """Hadoop's keys for the cluster."""
    return {"dfs.namenode.http-address": hdfs_cluster.http, "hadoop.user.name": SUPERUSER}


@pytest.fixture
def root(hdfs_cluster: HdfsCluster) -> str:
    """The location of a folder that nobody else uses, and that is not there yet."""
    return f"hdfs://{hdfs_cluster.rpc}/tests/{uuid.uuid4()}"


@pytest.fixture
def clusters(hadoop: dict[str, str]) -> Clusters:
    """The cluster, to look at directly."""
    return Clusters(hadoop)


@pytest.fixture
def pointers(clusters: Clusters) -> HdfsPointers:
    """Pointers on the cluster."""
    return HdfsPointers(clusters)


@pytest.fixture
def settings(hadoop: dict[str, str], root: str) -> Callable[..., Settings]:
    """Settings of a metastore in the folder, by the address ``http``, with more keys of ``drill.metastore.iceberg``."""

    def make(http: str | None = None, **iceberg: Any) -> Settings:
        address = {"dfs.namenode.http-address": http or hadoop["dfs.namenode.http-address"]}
        return settings_in(root, {**hadoop, **address}, **iceberg)

    return make


@pytest.fixture
def open_metastore(settings: Callable[..., Settings], clock: Clock) -> Iterator[OpenMetastore]:
    """Open the metastore in the folder; keyword arguments are keys below ``drill.metastore.iceberg``."""
    with opened_metastores(settings, clock) as open_:
        yield open_
