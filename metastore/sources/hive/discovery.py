"""Lists the tables of a Hive Metastore, for people and for programs that migrate many tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.tables import HiveTable


@dataclass(frozen=True, kw_only=True)
class FoundTable:
    """One table. ``format`` is None if unknown; ``obstacles`` are the reasons why its rows are not just its files."""

    database: str
    name: str
    kind: str
    format: str | None
    is_iceberg: bool
    partition_columns: tuple[str, ...]
    owner: str
    location: str
    obstacles: tuple[str, ...]


def discover(client: HiveClient, database: str | None = None) -> Iterator[FoundTable]:
    """Yields the tables of ``database``, or of all, by name. Raises NotFoundError if the database does not exist."""
    for each in client.databases() if database is None else [database]:
        tables = client.table_objects(each, client.tables(each))
        yield from sorted(map(_describe_table, map(HiveTable.of, tables)), key=lambda found: found.name)


def _describe_table(table: HiveTable) -> FoundTable:
    format_ = None if table.format is None or table.is_iceberg else str(table.format)
    return FoundTable(
        database=table.database,
        name=table.name,
        kind=table.kind,
        format=format_,
        is_iceberg=table.is_iceberg,
        partition_columns=tuple(each.name for each in table.raw.partitionKeys or ()),
        owner=table.owner,
        location=table.location,
        obstacles=() if table.is_iceberg else tuple(table.obstacles()),
    )
