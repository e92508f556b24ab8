"""A lake of others beside a metastore, a daemon over it on clocks of the test, and what it is configured by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from metastore.components.metastore import Metastore
from metastore.config import Settings
from metastore.daemon.lease import Election
from metastore.daemon.lease_stores import lease_store
from metastore.daemon.loop import Daemon, Surroundings
from metastore.daemon.state import State
from metastore.engines.engine import LocalEngine
from metastore.ground.clock import Clock
from metastore.session import Session

SCHEMA = pa.schema([("id", pa.int64())])


@dataclass
class Site:
    """One deployment; ``now_ms`` is the time of metastore and procedures, which waiting moves."""

    folder: Path
    policies: dict[str, Any]
    now_ms: int = field(default_factory=lambda: int(datetime.now(tz=timezone.utc).timestamp() * 1000))
    stopped: bool = False
    of_daemon: dict[str, Any] = field(default_factory=dict)
    of_storage: dict[str, Any] = field(default_factory=dict)
    on_wait: Callable[[], object] = lambda: None
    opened: ExitStack = field(default_factory=ExitStack)
    _session: Session | None = None

    @property
    def document(self) -> dict[str, Any]:
        """What a file would say."""
        lake = {"type": "sql", "uri": f"sqlite:///{self.folder}/lake.db", "warehouse": f"file://{self.folder}/lake"}
        return {
            "drill.metastore.iceberg.location": {"base_path": str(self.folder), "relative_path": "m"},
            "drill.metastore.catalogs.lake": lake,
            "drill.metastore.daemon": {"jitter": 0.0, **self.of_daemon},
            "drill.metastore.policies": self.policies,
            "drill.metastore.storage": self.of_storage,
            "drill.metastore.storage.dfs.workspaces.a.location": str(self.folder / "a"),
            "drill.metastore.storage.dfs.workspaces.w": {"location": str(self.folder / "data"), "writable": True},
        }

    @property
    def settings(self) -> Settings:
        """As a file would say it."""
        return Settings.from_mapping(self.document, environ={})

    @property
    def session(self) -> Session:
        """Opened on the first use."""
        if self._session is None:
            clock = Clock(now_ms=lambda: self.now_ms, monotonic=lambda: self.now_ms / 1000, pause=self.wait)
            self._session = Session(Metastore(self.settings, clock), LocalEngine(1))
        return self._session

    def wait(self, seconds: float) -> None:
        """Takes no time, but moves the clock."""
        self.now_ms += round(seconds * 1000)
        self.on_wait()

    def later(self, **time: float) -> None:
        """Move the clock on."""
        self.now_ms += timedelta(**time) // timedelta(milliseconds=1)

    @property
    def lake(self) -> Catalog:
        """PyIceberg's own door."""
        return self.session.catalogs.open("lake")

    def table(self, name: str, commits: int = 0) -> Table:
        """The table ``shop.<name>``, with so many more commits of one row each."""
        self.lake.create_namespace_if_not_exists("shop")
        table = self.lake.create_table_if_not_exists(f"shop.{name}", SCHEMA)
        for number in range(commits):
            table.append(pa.table({"id": [number]}, schema=SCHEMA))
        return table

    def election(self, name: str = "here") -> Election:
        """One daemon's part in the election."""
        settings = self.settings
        store = self.opened.enter_context(lease_store(settings))
        return Election(store, name, settings.daemon.lease, lambda: self.now_ms / 1000)

    def daemon(self, since_ms: int | None = None, election: Election | None = None) -> Daemon:
        """A daemon on the clock of the test."""
        around = Surroundings(lambda: self.stopped, self.wait, lambda: self.now_ms / 1000)
        return Daemon(self.session, election or self.election(), around, State(), since_ms=since_ms)

    def close(self) -> None:
        """Close what was opened."""
        self.opened.close()
        if self._session is not None:
            self._session.close()


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Makes a deployment with these policies."""
    made: list[Site] = []

    def make(of_daemon: dict[str, Any] | None = None, **policies: Any) -> Site:
        made.append(Site(tmp_path, policies, of_daemon=of_daemon or {}))
        return made[-1]

    yield make
    for site in made:
        site.close()
