"""Finders of this layer: Iceberg by its catalog, Delta by its log, databases by JDBC.

A finder does not list a table's data files. Only the location of an Iceberg table is requested at once.
"""

from __future__ import annotations

from dataclasses import replace

from metastore.config.plugins import StoragePluginSettings
from metastore.model.identity import TableInfo
from metastore.sources.database import DatabaseSource
from metastore.sources.delta import DeltaSource
from metastore.sources.finding import FinderResources
from metastore.sources.iceberg import IcebergSource
from metastore.sources.source_table import SourceTable


def iceberg_table(source: SourceTable, plugin: StoragePluginSettings, resources: FinderResources) -> SourceTable:
    """Returns an Iceberg table of the plugin's catalog. Raises NotFoundError if there is none."""
    assert plugin.catalog is not None
    return table_of_catalog(source, (plugin.catalog, source.table.workspace, source.table.name), resources)


def table_of_catalog(source: SourceTable, name: tuple[str, str, str], resources: FinderResources) -> SourceTable:
    """Returns ``source`` as the Iceberg table ``name``: catalog, schema, table. Raises NotFoundError if none exists."""
    iceberg = IcebergSource(lambda: resources.catalogs().load(*name))
    return replace(source, location=iceberg.location, provided=iceberg, partition_columns={})


def readable_table(named: TableInfo, resources: FinderResources) -> SourceTable | None:
    """Returns the table ``named`` of a configured catalog; None if no catalog has the name of the plugin.

    A storage plugin hides a catalog of the same name: the caller asks here only for names that no plugin has.
    """
    catalogs = resources.catalogs()
    if named.storage_plugin.lower() not in {name.lower() for name in catalogs.metastore.settings.catalogs}:
        return None
    if named.storage_plugin in catalogs.metastore.settings.storage:
        return None
    schema, _, name = f"{named.workspace}.{named.name}".rpartition(".")
    return table_of_catalog(SourceTable(named, ""), (named.storage_plugin, schema, name), resources)


def delta_table(source: SourceTable, plugin: StoragePluginSettings, resources: FinderResources) -> SourceTable:  # noqa: ARG001 - a finder
    """Returns a Delta table in a folder of the plugin."""
    delta = DeltaSource(source.location, source.options, resources.limits.limit_of("delta_log"))
    return replace(source, provided=delta, partition_columns={})


def database_table(source: SourceTable, plugin: StoragePluginSettings, resources: FinderResources) -> SourceTable:
    """Returns a table of the plugin's database."""
    table = source.table
    database = DatabaseSource(
        plugin.connection, table.workspace, table.name, plugin.properties, resources.database_reader
    )
    return replace(source, location=database.location, provided=database, partition_columns={})
