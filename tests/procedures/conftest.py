"""A session over a metastore and two catalogs of others, one in SQLite and one that is a folder; tables in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from support.catalog_lake import delete_positions, lake, make_lake, rows  # noqa: F401 - fixtures for the folders below

from metastore.config import Settings
from metastore.procedures.framework.model import Procedure, columns
from metastore.session import Session, connect

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "city", StringType(), required=False))


@dataclass(frozen=True)
class Site:
    """One table ``db.t`` of ``catalog``, seen by the session and by PyIceberg."""

    session: Session
    catalog: str

    def create(self, **more: Any) -> Table:
        """Make the table, with columns ``id`` and ``city``."""
        catalog = self.session.catalogs.open(self.catalog)
        catalog.create_namespace("db")
        return catalog.create_table(("db", "t"), SCHEMA, **more)

    @property
    def table(self) -> Table:
        """The newest version, as PyIceberg loads it."""
        return self.session.catalogs.open(self.catalog).load_table(("db", "t"))

    def append(self, *ids: int, **more: Any) -> int:
        """Append rows with these ids and city ``c<id % 3>``; the id of the snapshot."""
        before = {each.snapshot_id for each in self.table.metadata.snapshots}
        self.table.append(rows_with(*ids), **more)
        [made] = {each.snapshot_id for each in self.table.metadata.snapshots} - before
        return made

    def ids(self, **scan: Any) -> list[int]:
        """The ids in the table, sorted."""
        found: list[Any] = self.table.scan(**scan).to_arrow()["id"].to_pylist()
        return sorted(found)

    def call(self, procedure: str, **arguments: Any) -> list[dict[str, Any]]:
        """Rows of ``system.<procedure>`` on the table."""
        name = f"{self.catalog}.system.{procedure}"
        return self.session.call(name, schema="db", table_name="t", **arguments).to_pylist()


def rows_with(*ids: int) -> pa.Table:
    """Rows of the table."""
    return pa.table({"id": pa.array(ids, pa.int64()), "city": [f"c{each % 3}" for each in ids]})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A metastore, the catalog ``lake`` in SQLite, and the catalog ``folder`` that is one."""
    in_sql = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"}
    folder = {"type": "filesystem", "warehouse": f"{tmp_path}/folder"}
    location = {"base_path": str(tmp_path), "relative_path": "metastore"}
    return Settings.from_mapping(
        {
            "drill.metastore.iceberg": {"location": location, "commit.timeout": "5 s"},
            "drill.metastore.catalogs": {"lake": in_sql, "folder": folder},
        },
        environ={},
    )


@pytest.fixture
def session(settings: Settings) -> Iterator[Session]:
    """A session of its own for the test; its catalogs are there."""
    with connect(settings) as opened:
        opened.catalogs.open("lake")
        yield opened


@pytest.fixture
def parted(session: Session) -> Site:
    """A table by city in ``lake``, with the rows 1, 2 and 3: one a city."""
    made = Site(session, "lake")
    made.create(partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")))
    made.append(1, 2, 3)
    return made


@pytest.fixture(params=["lake", "folder"])
def site(request: pytest.FixtureRequest, session: Session) -> Site:
    """An empty table, in each kind of catalog."""
    made = Site(session, str(request.param))
    made.create()
    return made


@pytest.fixture(scope="session")
def rows_of() -> Callable[..., pa.Table]:
    """Rows of the table, by their ids."""
    return rows_with


@pytest.fixture
def echo() -> Callable[..., Procedure]:
    """Make a procedure ``system.echo`` that returns its one argument ``x`` as a text."""

    def make(argument: Any) -> Procedure:
        def function(context: Any, x: Any) -> dict[str, Any]:  # noqa: ARG001 - every procedure gets the context
            return {"x": repr(x)}

        return Procedure("system", "echo", [argument], function=function, result=columns(x=pa.string()))

    return make
