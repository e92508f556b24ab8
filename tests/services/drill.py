"""A real Apache Drill for the session, on loopback: a Drillbit with the metastore switched on, asked over HTTP."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from services.maven import class_path
from services.processes import BRIEFLY, free_port, serving

from metastore.engines.java import find_java

SOURCES = Path(__file__).with_name("drill")
RELEASE = "1.21.1"  # the newest of which Drill's Iceberg metastore is published
_OPENED_FLAGS = tuple(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "net", "nio", "util"))
_TIMEOUT_S = 120

_DRILL = """drill.exec {
  cluster-id: tests, http.enabled: true, http.port: %(http)d
  sys.store.provider.class: "org.apache.drill.exec.store.sys.store.provider.LocalPersistentStoreProvider"
  sys.store.provider.local.path: "%(folder)s/store", udf.directory.base: "%(folder)s/udf"
  tmp.directories: ["%(folder)s/tmp"], http.rest.errors.verbose: true
  options {
    metastore.enabled: true, exec.errors.verbose: true, drill.exec.http.rest.errors.verbose: true
    # Drill reads pages ahead by default, and a column of nulls then fails in 2 of 100 queries, metastore or not:
    # "can not read class PageHeader". Without, in none of 4,000.
    store.parquet.reader.pagereader.async: false
  }
}"""
_METASTORE = 'drill.metastore.iceberg.location { base_path: "%(folder)s", relative_path: "metastore" }'
_PLUGINS = """storage: { dfs: {
  type: "file", connection: "file:///", enabled: true
  formats: {
    parquet: { type: "parquet" }, json: { type: "json", extensions: ["json"] }
    avro: { type: "avro", extensions: ["avro"] }, csv: { type: "text", extensions: ["csv"], extractHeader: true }
  }
  workspaces: { lake: { location: "%(folder)s/lake", writable: true, defaultInputFormat: null } }
} }"""


class DrillError(Exception):
    """What Drill said of a query that failed."""


class Drill(NamedTuple):
    """A Drillbit; its metastore is ``folder/metastore``, its workspace ``dfs.lake`` is ``folder/lake``."""

    http: int
    folder: Path

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows; DrillError when the query fails."""
        asked = json.dumps({"queryType": "SQL", "query": sql, "autoLimit": 0}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http}/query.json", asked, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - our own address
                told = json.load(answer)
        except urllib.error.HTTPError as error:
            raise DrillError(error.read().decode()[:500]) from error
        if told["queryState"] != "COMPLETED":
            raise DrillError(f"{sql}: {told.get('errorMessage')}")
        rows: list[dict[str, Any]] = told["rows"]
        return rows

    def told_by(self, program: str) -> str:
        """What a Java program among the sources prints, which has Drill's classes and configuration."""
        home = find_java().home
        classes = f"{self.folder / 'conf'}:{(self.folder / 'classpath').read_text().strip()}"
        command = [str(home / "bin/java"), *BRIEFLY, *_OPENED_FLAGS, "-cp", classes, str(SOURCES / f"{program}.java")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
        if ran.returncode:
            raise DrillError(f"{program} failed: {ran.stderr[-2000:]}")
        return ran.stdout

    def plan(self, sql: str) -> str:
        """How Drill would carry out a query."""
        [row] = self.query(f"EXPLAIN PLAN FOR {sql}")
        return str(row["text"])


@pytest.fixture(scope="session")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """One Drillbit for all tests."""
    folder = tmp_path_factory.mktemp("drill")
    http, ready, home = free_port(), free_port(), find_java().home
    conf = folder / "conf"
    for made in (conf, folder / "lake"):
        made.mkdir()
    for name, text in (("drill", _DRILL), ("drill-metastore", _METASTORE), ("storage-plugins", _PLUGINS)):
        (conf / f"{name}-override.conf").write_text(text % {"folder": folder, "http": http})
    jars = class_path(SOURCES / "pom.xml", folder / "classpath", home, drill=RELEASE)
    with serving(_command(home, f"{conf}:{jars}", ready), ready, folder):
        yield Drill(http, folder)


def _command(home: Path, classes: str, ready: int) -> Sequence[str]:
    return [
        str(home / "bin/java"),
        *("-Xmx768m", "-XX:MaxDirectMemorySize=1g", *BRIEFLY),
        *(*_OPENED_FLAGS, "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "-Dio.netty.tryReflectionSetAccessible=true"),
        *("-cp", classes, str(SOURCES / "DrillServer.java"), str(ready)),
    ]
