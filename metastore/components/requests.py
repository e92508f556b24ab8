"""Ready requests to the tables component: common questions of query planners, without writing filters.

Each request prunes by partition columns as far as its arguments allow, so it opens only the files of the named
segments. Requests for one object return None when it does not exist, and raise an error when several match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, In, Or

from metastore.components.operations.read import Read
from metastore.errors import FormatError
from metastore.model.fields import column_names
from metastore.model.identity import MetadataInfo, TableInfo
from metastore.model.mapping.filters import all_of
from metastore.model.mapping.schema import iceberg_schema
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType
from metastore.predicates.given_filter import Filter, expression_of

_Units = list[TableMetadataUnit]


@dataclass(frozen=True)
class MetastoreTableInfo:
    """State of a table at a version of the metastore; ``last_modified_time`` in epoch ms, None if unknown."""

    table: TableInfo
    exists: bool
    last_modified_time: int | None
    version: int


@dataclass(frozen=True)
class Request:
    """A request built from parts. A part that is None does not narrow the result; an empty sequence matches nothing.

    ``filter`` has the meaning of Apache Drill: NULL differs from every value, so it passes ``!=`` and ``NOT IN``.
    """

    table: TableInfo | None = None
    metadata_types: Sequence[MetadataType] = (MetadataType.ALL,)
    metadata_keys: Sequence[str] | None = None
    identifiers: Sequence[str] | None = None
    locations: Sequence[str] | None = None
    paths: Sequence[str] | None = None
    column: str | None = None
    filter: Filter | None = None
    columns: Sequence[str] | None = None

    def expression(self) -> BooleanExpression:
        """The conjunction of all parts but the metadata types."""
        lists = {
            "metadataKey": self.metadata_keys,
            "metadataIdentifier": self.identifiers,
            "location": self.locations,
            "path": self.paths,
        }
        parts: list[BooleanExpression] = [In(name, set(values)) for name, values in lists.items() if values is not None]
        if self.table is not None:
            parts.append(of_table(self.table))
        if self.column is not None:
            parts.append(EqualTo("column", self.column))
        if self.filter is not None:
            parts.append(expression_of(self.filter, iceberg_schema(TableMetadataUnit)))
        return all_of(parts)


@lru_cache(maxsize=1024)
def of_table(table: TableInfo) -> BooleanExpression:
    """Return a filter for the rows of one table. Cached, because building it takes longer than looking it up."""
    return all_of(
        [
            EqualTo("storagePlugin", table.storage_plugin),
            EqualTo("workspace", table.workspace),
            EqualTo("tableName", table.name),
        ]
    )


def of_names(names: Iterable[str]) -> BooleanExpression:
    """Return a filter for the rows of the tables with these names, in any workspace."""
    return In("tableName", set(names))


@lru_cache(maxsize=1024)
def _general_information(table: TableInfo) -> BooleanExpression:
    return Request(table, metadata_keys=(GENERAL_INFO,)).expression()


class TablesRequests:
    """Ready requests; ``read`` starts a read of the component, ``version`` returns its current version."""

    def __init__(self, read: Callable[[], Read[TableMetadataUnit]], version: Callable[[], int]) -> None:
        self._read = read
        self._version = version

    def request(self, request: Request) -> _Units:
        """Units of a custom request."""
        read = self._read().metadata_types(*request.metadata_types)
        expression = request.expression()
        if not isinstance(expression, AlwaysTrue):
            read = read.drill_filter(expression)
        if request.columns is not None:
            read = read.columns(*request.columns)
        return read.execute()

    def metastore_table_info(self, table: TableInfo) -> MetastoreTableInfo:
        """Return whether the table has metadata, when that last changed, and the metastore version of this answer."""
        version = self._version()
        unit = _single(table, self._general(table, ("lastModifiedTime",)))
        return MetastoreTableInfo(table, unit is not None, unit.last_modified_time if unit else None, version)

    def has_metastore_table_info_changed(self, info: MetastoreTableInfo) -> bool:
        """Whether the table's metadata differs from ``info``; an unchanged version is answered without reading.

        True as well for tables that keep no times (of Iceberg and databases), once the version has changed.
        """
        if info.version == self._version():
            return False
        current = self.metastore_table_info(info.table)
        if current.exists and current.last_modified_time is None:
            return True
        return (current.exists, current.last_modified_time) != (info.exists, info.last_modified_time)

    def tables_metadata(self, filter_: Filter | None = None) -> _Units:
        """Return the general information of all tables that match the filter."""
        columns = column_names(TableMetadataUnit, (MetadataType.TABLE,))
        return self.request(Request(metadata_types=(MetadataType.TABLE,), filter=filter_, columns=columns))

    def table_metadata(self, table: TableInfo) -> TableMetadataUnit | None:
        """Return the general information of one table, or None when it has no metadata."""
        return _single(table, self._general(table, column_names(TableMetadataUnit, (MetadataType.TABLE,))))

    def segments_metadata_by_metadata_key(
        self, table: TableInfo, locations: Sequence[str], metadata_key: str
    ) -> _Units:
        """Return the segments of one top-level segment at the given locations."""
        return self._of_type(MetadataType.SEGMENT, Request(table, metadata_keys=(metadata_key,), locations=locations))

    def segments_metadata_by_column(self, table: TableInfo, locations: Sequence[str], column: str) -> _Units:
        """Return the segments that belong to the directory column ``column``, at the given locations."""
        return self._of_type(MetadataType.SEGMENT, Request(table, locations=locations, column=column))

    def segments_metadata(self, table: TableInfo, infos: Iterable[MetadataInfo]) -> _Units:
        """Segments named by ``infos``."""
        return self._of_type(MetadataType.SEGMENT, _of_infos(table, infos))

    def metadata(self, table: TableInfo, infos: Iterable[MetadataInfo]) -> _Units:
        """Units of any type named by ``infos``."""
        wanted = list(infos)
        if not wanted:
            return []
        types = tuple(dict.fromkeys(info.type for info in wanted))
        found = self.request(_of_infos(table, wanted, types))
        named = {(str(info.type), info.key, info.identifier) for info in wanted}
        return [unit for unit in found if (unit.metadata_type, unit.metadata_key, unit.metadata_identifier) in named]

    def partitions_metadata(self, table: TableInfo, metadata_keys: Sequence[str], column: str) -> _Units:
        """Partitions by ``column`` (back-quoted) within the given top-level segments."""
        return self._of_type(MetadataType.PARTITION, Request(table, metadata_keys=metadata_keys, column=column))

    def files_metadata(self, table: TableInfo, metadata_key: str, paths: Sequence[str]) -> _Units:
        """Files of one top-level segment, by path."""
        return self._of_type(MetadataType.FILE, Request(table, metadata_keys=(metadata_key,), paths=paths))

    def files_metadata_by_infos(self, table: TableInfo, infos: Iterable[MetadataInfo]) -> _Units:
        """Files named by ``infos``."""
        return self._of_type(MetadataType.FILE, _of_infos(table, infos))

    def file_metadata(self, table: TableInfo, metadata_key: str, path: str) -> TableMetadataUnit | None:
        """One file; None when it is not known."""
        return _single(table, self.files_metadata(table, metadata_key, (path,)))

    def row_groups_metadata(self, table: TableInfo, metadata_key: str, path: str) -> _Units:
        """Row groups of one file."""
        return self._of_type(MetadataType.ROW_GROUP, Request(table, metadata_keys=(metadata_key,), paths=(path,)))

    def row_groups_metadata_by_paths(
        self, table: TableInfo, metadata_keys: Sequence[str], paths: Sequence[str]
    ) -> _Units:
        """Row groups of several files in several top-level segments."""
        return self._of_type(MetadataType.ROW_GROUP, Request(table, metadata_keys=metadata_keys, paths=paths))

    def row_groups_metadata_by_infos(self, table: TableInfo, infos: Iterable[MetadataInfo]) -> _Units:
        """Row groups named by ``infos``."""
        return self._of_type(MetadataType.ROW_GROUP, _of_infos(table, infos))

    def full_segments_metadata_without_partitions(
        self, table: TableInfo, infos: Iterable[MetadataInfo | str], locations: Sequence[str] | None = None
    ) -> _Units:
        """Return all metadata of some top-level segments except partitions: segments, files, row groups.

        ``infos`` are the segments' metadata keys, or infos that hold them. With ``locations``, folders, the result has
        only the segments of these folders, and the files and row groups directly in them.
        """
        keys = tuple(dict.fromkeys(info if isinstance(info, str) else info.key for info in infos))
        types = (MetadataType.SEGMENT, MetadataType.FILE, MetadataType.ROW_GROUP)
        return self.request(Request(table, types, metadata_keys=keys, locations=locations))

    def files_last_modified_time(
        self,
        table: TableInfo,
        metadata_key: str,
        locations: Sequence[str] = (),
        *,
        paths: Sequence[str] = (),
    ) -> dict[str, int | None]:
        """Return the last modified times (epoch ms) of one top-level segment's files, by path.

        As in Drill, ``locations`` are folders and mean the files directly in them. They may also name single files, as
        may ``paths``.
        """
        wanted = {*locations, *paths}
        request = Request(
            table,
            (MetadataType.FILE,),
            (metadata_key,),
            filter=Or(In("location", wanted), In("path", wanted)),
            columns=("path", "lastModifiedTime"),
        )
        return {unit.path: unit.last_modified_time for unit in self.request(request) if unit.path is not None}

    def segments_last_modified_time(self, table: TableInfo, locations: Sequence[str]) -> dict[str, int | None]:
        """Return last modified times (epoch ms) of the segments at ``locations``, by the segments' metadata keys."""
        columns = ("metadataKey", "lastModifiedTime")
        found = self.request(Request(table, (MetadataType.SEGMENT,), locations=locations, columns=columns))
        return {unit.metadata_key: unit.last_modified_time for unit in found if unit.metadata_key is not None}

    def interesting_columns_and_partition_keys(self, table: TableInfo) -> TableMetadataUnit | None:
        """Return the table's unit with only interesting columns and partition keys; None when it has no metadata."""
        return _single(table, self._general(table, ("interestingColumns", "partitionKeys")))

    def _general(self, table: TableInfo, columns: Sequence[str]) -> _Units:
        read = self._read().metadata_types(MetadataType.TABLE).filter(_general_information(table))
        return read.columns(*columns).execute()

    def _of_type(self, kind: MetadataType, request: Request) -> _Units:
        columns = column_names(TableMetadataUnit, (kind,))
        read = self._read().metadata_types(kind).filter(request.expression()).columns(*columns)
        return read.execute()


def _of_infos(
    table: TableInfo, infos: Iterable[MetadataInfo], types: Sequence[MetadataType] = (MetadataType.ALL,)
) -> Request:
    named = list(infos)
    keys = tuple(dict.fromkeys(info.key for info in named))
    return Request(table, types, keys, tuple(dict.fromkeys(info.identifier for info in named)))


def _single(table: TableInfo, units: _Units) -> TableMetadataUnit | None:
    if len(units) > 1:
        raise FormatError(f"the metastore holds {len(units)} units of {table} where one is expected; run ANALYZE again")
    return units[0] if units else None
