"""Which tables somebody else keeps, and how each is asked: Iceberg by its catalog, Delta by its log, databases by JDBC.

Place in the flow: a session resolves a name to a source table; here the source learns what its kind of storage knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from metastore.catalogs import Catalogs
from metastore.config.settings import StoragePluginSettings
from metastore.sources.database import DatabaseSource, JdbcReader
from metastore.sources.delta import DeltaSource
from metastore.sources.iceberg import IcebergSource
from metastore.sources.source_table import SourceTable
from metastore.stores.bounded_reading import ReadLimits


def asked_for(
    source: SourceTable,
    plugin: StoragePluginSettings,
    catalogs: Callable[[], Catalogs],
    reader: Callable[[], JdbcReader],
    limits: ReadLimits,
) -> SourceTable:
    """``source``, of storage ``plugin``, with what is known of its files there; as it is if it is a directory of files.

    Nothing is asked yet but where an Iceberg table lies: NotFoundError if there is none.
    """
    table = source.table
    if plugin.type == "iceberg":
        assert plugin.catalog is not None
        catalog = plugin.catalog
        iceberg = IcebergSource(lambda: catalogs().table(catalog, table.workspace, table.name).load())
        return replace(source, location=iceberg.location, provided=iceberg, partition_columns={})
    if plugin.type == "delta":
        delta = DeltaSource(source.location, source.options, limits.named("delta_log"))
        return replace(source, provided=delta, partition_columns={})
    if plugin.type == "jdbc":
        database = DatabaseSource(plugin.connection, table.workspace, table.name, plugin.properties, reader)
        return replace(source, location=database.location, provided=database, partition_columns={})
    return source
