"""One table of a catalog, seen by a session and by PyIceberg."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType
from support.catalog_lake import delete_positions, lake, make_lake, rows  # noqa: F401 - fixtures for the folders below

from metastore.session import Session

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
