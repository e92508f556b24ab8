"""A deployment that is served: a catalog in a database and one of folders, the component tables, and its callers."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import RestCatalog

from metastore.components.metastore import Metastore
from metastore.config import Settings
from metastore.daemon.publications import renew
from metastore.engines.engine import LocalEngine
from metastore.serve.server import RestServer
from metastore.session import Session


@dataclass
class Reply:
    """What the server answered; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body's JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        """Code and type of the error in Iceberg's model."""
        error = self.document["error"]
        assert error["code"] == self.status
        assert error["message"]
        return error["code"], error["type"]


@dataclass
class Lake:
    """One deployment, its session, and its server once it was asked for."""

    folder: Path
    serve: Mapping[str, Any]
    catalogs: Mapping[str, Any] = field(default_factory=dict)
    opened: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        """Open the session."""
        given = {
            "drill.metastore.iceberg.location": {"base_path": str(self.folder), "relative_path": "m"},
            "drill.metastore.catalogs.lake": {
                "type": "sql",
                "uri": f"sqlite:///{self.folder}/lake.db",
                "warehouse": f"file://{self.folder}/lake",
            },
            "drill.metastore.catalogs.folders": {"type": "filesystem", "warehouse": f"{self.folder}/folders"},
            **{f"drill.metastore.catalogs.{name}": properties for name, properties in self.catalogs.items()},
            "drill.metastore.storage.dfs.workspaces.w.location": str(self.folder / "data"),
            "drill.metastore.serve": {"port": 0, "catalogs": ["metastore", "lake", "folders"], **self.serve},
        }
        self.settings = Settings.from_mapping(given, environ={})
        self.session = self.opened.enter_context(Session(Metastore(self.settings), LocalEngine(1)))

    def sql(self, *statements: str) -> None:
        """Run statements."""
        for each in statements:
            self.session.sql(each)

    @property
    def server(self) -> RestServer:
        """The server, which is started at the first use."""
        if "_server" not in vars(self):
            self._server = self.opened.enter_context(
                RestServer(self.settings.serve, self.session.catalogs, renew=partial(renew, self.session))
            )
        return self._server

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Reply:
        """The answer to one request; underscores in names of headers are dashes."""
        connection = http.client.HTTPConnection(self.server.url.partition("://")[2], timeout=30)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): each for name, each in headers.items()})
            answer = connection.getresponse()
            return Reply(answer.status, {name.lower(): each for name, each in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def client(self, warehouse: str, **properties: str) -> RestCatalog:
        """PyIceberg's client of one served catalog."""
        given = {"uri": self.server.url, "warehouse": warehouse, **properties}
        client = RestCatalog("served", **given)
        self.opened.callback(client.close)
        return client

    def files(self) -> dict[str, tuple[int, int]]:
        """Size and time of every file of the deployment, the database aside."""
        found = {}
        for folder, _, names in os.walk(self.folder):
            for path in (os.path.join(folder, name) for name in names):
                if "lake.db" not in path:
                    found[path] = (os.stat(path).st_size, os.stat(path).st_mtime_ns)
        return found


MakeLake = Callable[..., Lake]
"""Makes a deployment; keyword arguments are keys below ``drill.metastore.serve``, and ``own`` are further catalogs."""
