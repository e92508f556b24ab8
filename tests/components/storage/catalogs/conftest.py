"""What opens a metastore in this folder does so on each catalog that can be had; its files are on the local disk."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from support.opened_metastores import OpenMetastore, opened_metastores, settings_in

from metastore.config.settings import Settings
from metastore.ground.clock import Clock
from metastore.lake.iceberg.catalogs.catalog_entry import CatalogEntry
from metastore.lake.iceberg.catalogs.catalogs import ConfiguredCatalog

KINDS = (
    "sqlite",
    pytest.param("hive", marks=[pytest.mark.integration]),
    pytest.param("postgres", marks=[pytest.mark.integration, pytest.mark.postgres]),
    pytest.param("rest", marks=[pytest.mark.integration, pytest.mark.rest]),
    pytest.param("glue", marks=[pytest.mark.integration, pytest.mark.glue]),
)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The catalog's kind: each of them, or those that the test says."""
    return str(request.param)


@pytest.fixture
def now(kind: str, now: SimpleNamespace) -> SimpleNamespace:
    """The time of the test; a server that has a clock of its own takes no snapshot from long before it."""
    if kind == "rest":
        now.ms = time.time_ns() // 1_000_000
    return now


@pytest.fixture
def catalog_keys(kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Keys below ``drill.metastore.iceberg.catalog``: a namespace of the test's own in a catalog of the kind."""
    own = {"namespace": f"test_{uuid.uuid4().hex}"}
    match kind:
        case "sqlite":
            return {**own, "type": "sql", "uri": f"sqlite:///{tmp_path_factory.mktemp('sqlite')}/catalog.db"}
        case "postgres":
            return {**own, "type": "sql", "uri": request.getfixturevalue("postgres_uri")}
        case "hive":
            return {**own, "type": "hive", "uri": request.getfixturevalue("hive_metastore")}
        case "glue":
            endpoint = request.getfixturevalue("glue_server")
            credentials = {'"glue.access-key-id"': "AKIALOOPBACKTESTS", '"glue.secret-access-key"': "made up"}
            place = {"glue.endpoint": endpoint, "glue.region": "us-east-1", "glue.max-retries": "2"}
            return {**own, "type": "glue", **place, **credentials}
        case _:
            return {**own, "type": "rest", "uri": request.getfixturevalue("rest_catalog")}


@pytest.fixture
def settings(tmp_path: Path, catalog_keys: dict[str, str]) -> Callable[..., Settings]:
    """Settings of a metastore in the test's folder, with more keys of ``drill.metastore.iceberg``."""
    return partial(settings_in, str(tmp_path), catalog=catalog_keys)


@pytest.fixture
def open_metastore(settings: Callable[..., Settings], clock: Clock) -> Iterator[OpenMetastore]:
    """Open the metastore; keyword arguments are keys below ``drill.metastore.iceberg``."""
    with opened_metastores(settings, clock) as open_:
        yield open_


@dataclass(frozen=True)
class Others:
    """Another program's view of the metastore's tables, by their names, through PyIceberg."""

    catalog: ConfiguredCatalog
    settings: Settings

    def entry(self, name: str) -> CatalogEntry:
        """The entry of the table."""
        return CatalogEntry.of(self.catalog, self.settings.iceberg.components[name])

    def load_table(self, name: str) -> Table:
        """The table."""
        return self.entry(name).catalog.load_table(self.entry(name).identifier)

    def create_table(
        self, name: str, schema: Schema, partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC
    ) -> Table:
        """The table, made by them."""
        entry = self.entry(name)
        entry.catalog.create_namespace_if_not_exists(entry.identifier[:-1])
        return entry.catalog.create_table(entry.identifier, schema, entry.location, partition_spec)

    def drop_table(self, name: str) -> None:
        """Its entry goes, its files stay."""
        self.entry(name).catalog.drop_table(self.entry(name).identifier)


@pytest.fixture
def catalog(settings: Callable[..., Settings]) -> Iterator[Others]:
    """Another program's catalog."""
    configured = ConfiguredCatalog(settings().iceberg)
    yield Others(configured, settings())
    configured.close()
