"""Apache Iceberg's own REST catalog server for the session, on loopback: from Maven Central, by Maven."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from services.processes import free_port, serving

from metastore.java import find_java

SOURCES = Path(__file__).with_name("rest")


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of the server."""
    folder, port = tmp_path_factory.mktemp("rest"), free_port()
    home = find_java().home
    # Iceberg writes files through Hadoop's client, which PySpark has.
    hadoop = sorted(str(jar) for jar in Path(pyspark.__file__).parent.glob("jars/hadoop-client-*.jar"))
    classpath = ":".join([_resolved(folder / "classpath", home), *hadoop])
    source = str(SOURCES / "RestCatalogServer.java")
    command = [str(home / "bin/java"), "-Xmx512m", "-cp", classpath, source, str(port), str(folder)]
    with serving(command, port, folder):
        yield f"http://127.0.0.1:{port}"


def _resolved(output: Path, home: Path) -> str:
    """The class path of the server, downloaded if need be."""
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError("no Maven on this machine, which brings the REST server: apt-get install maven")
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
    command = [maven, "-B", "-q", "-f", str(SOURCES / "pom.xml"), goal, f"-Dmdep.outputFile={output}"]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "JAVA_HOME": str(home)}
    )
    if ran.returncode:
        raise RuntimeError(f"Maven could not bring the REST server: {ran.stdout[-2000:]}")
    return output.read_text().strip()
