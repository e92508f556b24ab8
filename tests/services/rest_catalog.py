"""Apache Iceberg's own REST catalog server for the session, on loopback: from Maven Central, by Maven."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from services.maven import class_path
from services.processes import BRIEFLY, free_port, serving

from metastore.engines.java import find_java

SOURCES = Path(__file__).with_name("rest")


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of the server."""
    folder, port = tmp_path_factory.mktemp("rest"), free_port()
    home = find_java().home
    # Iceberg writes files through Hadoop's client, which PySpark has.
    hadoop = sorted(str(jar) for jar in Path(pyspark.__file__).parent.glob("jars/hadoop-client-*.jar"))
    classpath = ":".join([class_path(SOURCES / "pom.xml", folder / "classpath", home), *hadoop])
    source = str(SOURCES / "RestCatalogServer.java")
    command = [str(home / "bin/java"), "-Xmx512m", *BRIEFLY, "-cp", classpath, source, str(port), str(folder)]
    with serving(command, port, folder):
        yield f"http://127.0.0.1:{port}"
