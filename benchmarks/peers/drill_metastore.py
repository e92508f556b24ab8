"""Apache Drill's Iceberg metastore, as published, in a Java process of its own; ``drill/Peer.java`` drives it.

Maven builds the driver and brings Drill's artifacts. Commands and answers are lines of JSON, so that a call costs a
tenth of a millisecond beside what Drill does. Drill's metastore for relational databases is not among the artifacts
that are published, so it cannot be a peer.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from metastore.engines.java import find_java
from metastore.model.identity import TableInfo
from metastore.model.mapping.rows import from_arrow
from metastore.model.table_unit import TableMetadataUnit

NAME: Final = "Drill's Iceberg metastore 1.21.1"

_SOURCE: Final = os.path.join(os.path.dirname(__file__), "drill")
_HEAP: Final = "-Xmx2g"


class DrillMetastore:
    """Drill's metastore below ``folder``; a context manager. Raises OSError when it cannot be built or started."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder)
        self._process = self._start(_built(os.path.join(folder, "driver")))
        self._ask(do="open", folder=folder)

    def load(self, rows: pa.Table) -> int:
        """Hand over the units of the next transaction; how many there are."""
        path = os.path.join(self._folder, "units.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for unit in from_arrow(TableMetadataUnit, rows):
                given = {name: value for name, value in unit.to_columns().items() if value is not None}
                file.write(json.dumps(given) + "\n")
        return int(self._ask(do="load", file=path))

    def commit(self) -> None:
        """Overwrite the partitions of the units that were loaded, in one transaction."""
        self._ask(do="commit")

    def list(self) -> Sequence[Any]:
        """Plugin, workspace, name and time of every table."""
        found: list[Any] = self._ask(do="list")
        return found

    def units(self, table: TableInfo) -> int:
        """Read all units of a table; how many there are."""
        return int(self._ask(do="table", plugin=table.storage_plugin, workspace=table.workspace, name=table.name))

    def __enter__(self) -> DrillMetastore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()  # closes the pipes too

    def _start(self, classpath: str) -> subprocess.Popen[str]:
        java = str(find_java().home / "bin/java")
        with open(os.path.join(self._folder, "log"), "w", encoding="utf-8") as log:
            return subprocess.Popen(  # noqa: S603 - our own driver
                [java, _HEAP, "-cp", classpath, "Peer"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def _ask(self, **command: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            with open(os.path.join(self._folder, "log"), encoding="utf-8") as log:
                raise OSError(f"Drill's metastore ended at {command['do']}: {log.read()[-2000:]}")
        return json.loads(answer)


def _built(folder: str) -> str:
    """Compile the driver in a copy, so that the source tree stays clean; its class path."""
    maven = shutil.which("mvn")
    if maven is None:
        raise OSError("Maven (mvn) is not installed, and it brings Drill's metastore")
    shutil.copytree(_SOURCE, folder)
    classpath = os.path.join(folder, "classpath")
    command = [maven, "-q", "-B", "compile", "dependency:build-classpath", f"-Dmdep.outputFile={classpath}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise OSError(f"Maven could not build the driver of Drill's metastore: {done.stdout[-2000:]}")
    with open(classpath, encoding="utf-8") as file:
        return os.pathsep.join((os.path.join(folder, "target", "classes"), file.read().strip()))
