"""Apache Flink with Iceberg's connector, in an environment of its own: a judge of served tables.

The newest Flink for which there is a connector on Maven Central, as a Python package; each question is a process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from services.maven import PLUGIN
from services.programs import installed

from metastore.engines.java import find_java

FLINK: Final = "2.1.3"
CONNECTOR: Final = "1.11.0"
_HADOOP: Final = "3.4.1"
_JARS: Final = (
    f"org.apache.iceberg:iceberg-flink-runtime-2.1:{CONNECTOR}",
    f"org.apache.hadoop:hadoop-client-api:{_HADOOP}",
    f"org.apache.hadoop:hadoop-client-runtime:{_HADOOP}",
)
_PROGRAM: Final = """
import json, sys
from pathlib import Path
from pyflink.table import EnvironmentSettings, TableEnvironment
asked = json.load(sys.stdin)
session = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
session.get_config().set("parallelism.default", "1").set("table.local-time-zone", "UTC")
properties = ", ".join(f"'{name}' = '{value}'" for name, value in asked["catalog"].items())
session.execute_sql(f"CREATE CATALOG served WITH ('type' = 'iceberg', {properties})")
found = []
for query in asked["queries"]:
    with session.execute_sql(query).collect() as rows:
        found.append([list(row) for row in rows])
Path(asked["target"]).write_text(json.dumps(found, default=str))
"""

FlinkJudge = Callable[[Mapping[str, str], list[str]], list[list[list[Any]]]]
"""Returns the rows of each query on the catalog ``served`` of these properties; values that JSON has not are texts."""


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory) -> FlinkJudge:
    """Asks Flink; RuntimeError with what it says when a query fails."""
    copy = f"mvn -B -q {PLUGIN}:copy -DoutputDirectory={{}}/jars -Dartifact="
    steps = [f'"{sys.executable}" -m venv {{}}', f"{{}}/bin/pip install -q apache-flink=={FLINK} 'setuptools<81'"]
    steps += [f"{copy}{jar}" for jar in _JARS]
    steps += ["cp {}/jars/*.jar {}/lib/python*/site-packages/pyflink/lib/"]
    environment = installed(f"flink-{FLINK}-{CONNECTOR}", ["sh", "-c", " && ".join(steps)], hint="a shell")
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "FLINK"))}
    target = tmp_path_factory.mktemp("flink") / "answer.json"

    def asked(catalog: Mapping[str, str], queries: list[str]) -> list[list[list[Any]]]:
        ran = subprocess.run(
            [str(environment / "bin/python"), "-c", _PROGRAM],
            input=json.dumps({"catalog": catalog, "queries": queries, "target": str(target)}),
            capture_output=True,
            text=True,
            check=False,
            env={**own, "JAVA_HOME": str(find_java().home)},
        )
        if ran.returncode:
            raise RuntimeError(ran.stderr[-100_000:])  # The reason is before traces of Java.
        rows: list[list[list[Any]]] = json.loads(target.read_text())
        return rows

    return asked
