"""A lake to look into, opened as a program would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.session import Session, connect


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session with a catalog ``iceberg`` that has one schema, ``logging``."""
    uri = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}/lake"}
    location = {"base_path": str(tmp_path), "relative_path": "metastore"}
    settings = Settings.from_mapping(
        {"drill.metastore.iceberg.location": location, "drill.metastore.catalogs.iceberg": uri}, environ={}
    )
    with LocalEngine(1) as engine, connect(settings, engine=engine) as opened:
        opened.catalogs.open("iceberg").create_namespace("logging")
        yield opened
