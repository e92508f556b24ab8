"""An HDFS cluster for the session, on loopback: Hadoop's own mini cluster, of the release that PySpark has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest
from services.maven import class_path
from services.processes import BRIEFLY, free_port, serving

from metastore.engines.java import find_java

SOURCES = Path(__file__).with_name("hdfs")
SUPERUSER = "hdfs"


class HdfsCluster(NamedTuple):
    """Where its namenode is: for Hadoop's clients and over HTTP, each as host and port."""

    rpc: str
    http: str


@pytest.fixture(scope="session")
def hdfs_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """One namenode and one datanode; :data:`SUPERUSER` may do anything."""
    folder = tmp_path_factory.mktemp("hdfs")
    rpc, http, ready = free_port(), free_port(), free_port()
    home, jars = find_java().home, Path(pyspark.__file__).parent / "jars"
    hadoop = [
        jar for name in ("hadoop-client-*", "slf4j-api-*", "jcl-over-slf4j-*") for jar in jars.glob(f"{name}.jar")
    ]
    [release] = {match[1] for jar in hadoop if (match := re.search(r"hadoop-client-api-(.+)\.jar", jar.name))}
    minicluster = class_path(SOURCES / "pom.xml", folder / "classpath", home, hadoop=release)
    command = [
        str(home / "bin/java"),
        *("-Xmx384m", *BRIEFLY, f"-DHADOOP_USER_NAME={SUPERUSER}"),
        *("-cp", ":".join([minicluster, *map(str, hadoop)]), str(SOURCES / "HdfsServer.java")),
        *(str(rpc), str(http), str(ready), str(folder / "data")),
    ]
    with serving(command, ready, folder):
        yield HdfsCluster(f"127.0.0.1:{rpc}", f"127.0.0.1:{http}")
