"""A session over a metastore and two catalogs of others, one in SQLite and one that is a folder; tables in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from support.catalog_lake import delete_positions, lake, make_lake, rows  # noqa: F401 - fixtures for the folders below
from support.procedures_site import Site, rows_with

from metastore.config import Settings
from metastore.procedures.framework.model import Procedure, columns
from metastore.session import Session, connect


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
