"""Hive tables as sources of ANALYZE and of scans: ``hive.<database>.<table>``, as the metastore service describes them.

The service defines the partitions, the types of columns, the owner and the format; files in folders that it does not
know are not data. Metadata units follow folders if each partition lies in the folder that its values imply, which is
the default. Other tables are described file by file (:mod:`metastore.sources.hive.described_table`): tables of text,
tables with ``char``, which readers pad, and tables whose partitions lie in other folders or have several formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from metastore.config.plugins import StoragePluginSettings
from metastore.engines.engine import Engine
from metastore.errors import FormatError, InvalidRequestError, NotFoundError
from metastore.ground.digests import number_of
from metastore.ground.suggestions import did_you_mean
from metastore.lake.formats.source_file import SourceFile
from metastore.model.identity import TableInfo
from metastore.sources.finding import FinderResources
from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.columns import HiveColumns
from metastore.sources.hive.described_table import DescribedTable, needs_description
from metastore.sources.hive.listing import plain_location
from metastore.sources.hive.tables import MIGRATABLE, HiveFormat, HivePartition, HiveTable
from metastore.sources.hive.types import HiveType, drill_type
from metastore.sources.listing import Listing, list_files
from metastore.sources.source_table import SourceTable

_THREADS: Final = 16
_SECOND_NS: Final = 1_000_000_000


def hive_table(source: SourceTable, plugin: StoragePluginSettings, resources: FinderResources) -> SourceTable:
    """Returns the table that ``source`` names, of a ``plugin`` that is a Hive Metastore.

    Raises NotFoundError for a missing database or table, InvalidRequestError if the table's rows are not just files
    that can be analyzed, StorageError if the service does not answer.
    """
    named, engine = source.table, resources.engine
    with HiveClient(plugin.connection) as client:
        found = _table(client, named)
        partitions = tuple(map(HivePartition.of, client.partitions(found.database, found.name)))
    if obstacles := list(found.obstacles()):
        raise InvalidRequestError(f"{named} cannot be analyzed: {'; '.join(obstacles)}")
    if found.is_iceberg:
        raise InvalidRequestError(f"{named} is an Iceberg table; name it by its catalog")
    location = plain_location(found.location)
    types = _partition_columns(named, found)
    source = SourceTable(named, location, options=plugin.properties, owner=found.owner or None, partition_columns={})
    if needs_description(found, partitions):
        return replace(source, provided=_describe_table(named, found, partitions, plugin.properties, engine))
    format_ = _format(named, found, partitions)
    columns = _columns(named, found, format_)
    return replace(
        source,
        format=str(format_),
        partition_columns={name: str(drill_type(type_)) for name, type_ in types.items()},
        lister=lambda: _listing(found, partitions, location, plugin.properties, columns),
        columns=columns,
    )


def _table(client: HiveClient, named: TableInfo) -> HiveTable:
    try:
        return HiveTable.of(client.table(named.workspace, named.name))
    except NotFoundError as error:
        databases = client.databases()
        if named.workspace not in databases:
            raise NotFoundError(
                f"{named}: there is no database {named.workspace}; known: {', '.join(databases)}"
            ) from error
        hint = did_you_mean(named.name, client.tables(named.workspace))
        raise NotFoundError(f"{named}: the Hive Metastore has no such table{hint}") from error


def _partition_columns(named: TableInfo, table: HiveTable) -> dict[str, HiveType]:
    try:
        return dict(table.partition_columns)
    except FormatError as error:
        raise InvalidRequestError(f"{named} cannot be analyzed: {error}") from error


def _columns(named: TableInfo, table: HiveTable, format_: HiveFormat) -> HiveColumns:
    try:
        return HiveColumns.of(table, format_)
    except FormatError as error:
        raise InvalidRequestError(f"{named} cannot be analyzed: {error}") from error


def _format(named: TableInfo, table: HiveTable, partitions: Sequence[HivePartition]) -> HiveFormat:
    [format_] = {each.format for each in partitions} or {table.format}
    if format_ not in MIGRATABLE:
        known = ", ".join(map(str, MIGRATABLE))
        raise InvalidRequestError(
            f"{named} is in {format_ or table.input_format or 'no format'}; Hive tables of {known} and TEXT can be "
            "analyzed"
        )
    return format_


def _describe_table(
    named: TableInfo,
    table: HiveTable,
    partitions: Sequence[HivePartition],
    options: Mapping[str, str],
    engine: Callable[[int], Engine],
) -> DescribedTable:
    try:
        return DescribedTable(table, partitions, options, engine)
    except FormatError as error:
        raise InvalidRequestError(f"{named} cannot be analyzed: {error}") from error


def _listing(
    table: HiveTable,
    partitions: Sequence[HivePartition],
    location: str,
    options: Mapping[str, str],
    columns: HiveColumns,
) -> Listing:
    """Returns the files of the table, or of all its partitions. Nested folders are ignored, as in Hive.

    The table's columns are part of each file's state: if they are altered, all files count as changed.
    """
    places = []
    for each in partitions:
        place = plain_location(each.location)
        places.append((place, tuple(place.removeprefix(f"{location}/").split("/"))))
    with ThreadPoolExecutor(_THREADS) as threads:
        listed = threads.map(
            lambda place: _files(place[0], place[1], options), places if table.is_partitioned else [(location, ())]
        )
        files = sorted(file._replace(mtime_ns=state_with_columns(file, columns)) for found in listed for file in found)
    return Listing(location, files)


def state_with_columns(file: SourceFile, columns: HiveColumns) -> int:
    """Returns the file's time: whole seconds, and below these a number that depends on the file and the columns."""
    state = columns.state + str(file.mtime_ns).encode()
    below = number_of(state, 8) % _SECOND_NS
    return file.mtime_ns // _SECOND_NS * _SECOND_NS + below


def _files(place: str, directories: tuple[str, ...], options: Mapping[str, str]) -> list[SourceFile]:
    try:
        found = list_files(place, lambda _: False, options=options).files
    except NotFoundError:  # a partition may be created before its first file
        return []
    return [file._replace(directories=directories) for file in found if not file.directories]
