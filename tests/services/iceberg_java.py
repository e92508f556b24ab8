"""Iceberg for Java on Spark, in a process and an environment of its own: the judge of what an Iceberg table holds.

The newest release of Iceberg that has a runtime for a Spark, and PySpark of that Spark, whatever the tests run on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from services.answering_program import AnsweringProgram
from services.maven import class_path
from services.programs import installed

from metastore.engines.java import find_java

SOURCES: Final = Path(__file__).with_name("iceberg_java_program")
ICEBERG: Final = "1.12.0"
SPARK: Final = "4.1.4"


class IcebergJava:
    """The other side of the driver; its catalog ``lake`` is the Hive Metastore of the tests."""

    def __init__(self, program: AnsweringProgram, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._answers = 0

    def rows(self, query: str) -> pa.Table:
        """The rows of a query; RuntimeError with what Spark says when it fails."""
        self._answers += 1
        target = self._folder / f"answer{self._answers}"
        self._program.ask(query, str(target))
        return pq.read_table(target)

    def run(self, statement: str) -> None:
        """Run a statement without rows; RuntimeError as above."""
        self._program.ask(statement, None)


@pytest.fixture(scope="session")
def iceberg_java(hive_metastore: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergJava]:
    """The judge, once it is ready."""
    folder = tmp_path_factory.mktemp("iceberg_java")
    home = find_java().home
    jar = class_path(SOURCES / "pom.xml", folder / "classpath", home, iceberg=ICEBERG)
    make = f'"{sys.executable}" -m venv {{}} && {{}}/bin/pip install -q pyspark=={SPARK}'
    environment = installed(f"pyspark-{SPARK}", ["sh", "-c", make], hint="a shell")
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    python = str(environment / "bin/python")
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [python, str(SOURCES / "driver.py"), str(folder), jar, hive_metastore],
            cwd=folder,
            env={**own, "JAVA_HOME": str(home), "PYSPARK_PYTHON": python},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "READY":
            raise RuntimeError((folder / "log").read_text()[-3000:])
        yield IcebergJava(AnsweringProgram(process), folder)
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(60)
