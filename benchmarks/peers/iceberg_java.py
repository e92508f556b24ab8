"""Iceberg for Java on Spark, in a process and an environment of its own; ``iceberg/driver.py`` runs its statements.

Maven brings Iceberg's runtime, and pip the PySpark that it is made for.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from types import TracebackType
from typing import Any, Final

from metastore.engines.java import find_java

NAME: Final = "Iceberg for Java 1.12 on Spark"

_PYSPARK: Final = "pyspark==4.1.4"
_SOURCE: Final = os.path.join(os.path.dirname(__file__), "iceberg")
_SHOWN: Final = 2_000


class IcebergJava:
    """Spark with a catalog ``lake`` over the folder ``warehouse``; a context manager.

    Raises OSError if it cannot be brought or started.
    """

    def __init__(self, folder: str, warehouse: str) -> None:
        os.makedirs(folder)
        self._log = os.path.join(folder, "log")
        home = str(find_java().home)
        python = _environment(os.path.join(folder, "environment"))
        command = [python, os.path.join(_SOURCE, "driver.py"), folder, _class_path(folder, home), warehouse]
        own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own driver
                command,
                cwd=folder,
                env={**own, "JAVA_HOME": home, "PYSPARK_PYTHON": python},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        if self._answer() != "READY":
            raise OSError(f"Spark did not start: {self._said()}")

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement; returns its rows. Raises OSError with what Spark says."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._answer() or '{"error": "it ended"}')
        if "error" in answer:
            raise OSError(f"Spark cannot run {statement}: {answer['error']}")
        rows: list[dict[str, Any]] = answer["rows"]
        return rows

    def __enter__(self) -> IcebergJava:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()  # closes the pipes too

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _said(self) -> str:
        with open(self._log, encoding="utf-8") as log:
            return log.read()[-_SHOWN:]


def _environment(folder: str) -> str:
    """Make an environment with PySpark; the path of its Python."""
    python = os.path.join(folder, "bin", "python")
    _run([sys.executable, "-m", "venv", folder])
    _run([python, "-m", "pip", "install", "--quiet", _PYSPARK])
    return python


def _class_path(folder: str, home: str) -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise OSError("Maven (mvn) is not installed, and it brings Iceberg for Java")
    path = os.path.join(folder, "classpath")
    pom = os.path.join(_SOURCE, "pom.xml")
    _run([maven, "-q", "-B", "-f", pom, "dependency:build-classpath", f"-Dmdep.outputFile={path}"], JAVA_HOME=home)
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def _run(command: list[str], **environment: str) -> None:
    done = subprocess.run(  # noqa: S603 - commands of this module
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    if done.returncode:
        raise OSError(f"{command[0]} failed: {(done.stderr or done.stdout)[-_SHOWN:]}")
