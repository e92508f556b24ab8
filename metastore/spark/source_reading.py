"""What Spark's data source ``metastore`` reads: the version, the schema and the reader of each kind of table.

Place in the flow: the processes that plan and carry out a read load this module; those that only create the source or
write do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from logging import getLogger
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from metastore.components.metastore import Metastore
from metastore.errors import InvalidRequestError
from metastore.scan.pruning.row_id import ROW_ID
from metastore.spark.own_tables import OwnTable, OwnTableReader, Versions
from metastore.spark.scan_source import TableScanReader, table_schema, table_version
from metastore.spark.source_options import SourceRequest
from metastore.spark.spark_types import spark_schema

_log: Final = getLogger(__name__)


def columns_of(request: SourceRequest, versions: Versions) -> StructType:
    """Returns the columns that ``request`` reads at ``versions``, with Spark's types."""
    table = OwnTable.find(request.name)
    if table is None:
        version, names = versions["tables"], request.columns or ()
        found = table_schema(request.settings, request.name, version=version, row_id=request.row_id, names=names)
        if request.where is None and not request.push_filters:
            _warn_of_filters(request.name)
    else:
        with Metastore.open(request.settings) as metastore:
            found = spark_schema(table.schema(metastore))[0]
    return _choose_columns(found, request.columns)


def reader_of(request: SourceRequest, versions: Versions, schema: StructType) -> DataSourceReader:
    """Returns a reader of the columns of ``schema``. Raises InvalidRequestError for others than the table's."""
    table = OwnTable.find(request.name)
    reader: DataSourceReader
    if table is not None:
        with Metastore.open(request.settings) as metastore:
            _require_known(spark_schema(table.schema(metastore))[0], schema)
        reader = OwnTableReader(request.settings, table, schema.names, versions=versions, where=request.where)
    else:
        version, row_id = versions["tables"], ROW_ID in schema.names
        known = table_schema(request.settings, request.name, version=version, row_id=row_id, names=schema.names)
        _require_known(known, schema)
        reader = TableScanReader(request.settings, request.name, schema, version=version, where=request.where)
    return reader if request.push_filters else _UnfilteredReader(reader)


class _UnfilteredReader(DataSourceReader):
    """A reader that Spark does not push filters to, because it does not override ``pushFilters``."""

    def __init__(self, reader: DataSourceReader) -> None:
        self._reader = reader

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the partitions of the wrapped reader."""
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Returns the rows of the wrapped reader."""
        return iter(self._reader.read(partition))


@cache
def _warn_of_filters(name: str) -> None:
    """Say once in a process what Spark's plan cannot say of a Python source."""
    _log.warning(
        "%s is loaded without the option where: .where(…) after load gives the right rows, and skips no file", name
    )


def versions_of(request: SourceRequest) -> Versions:
    """Returns the versions of components that the options mean at this moment."""
    table = OwnTable.find(request.name)
    if table is not None:
        with Metastore.open(request.settings) as metastore:
            return table.versions(metastore, request.version, request.time)
    if request.time is not None:
        raise InvalidRequestError(f"asOf is for the metastore's own tables; {request.name} keeps no earlier rows")
    return {"tables": table_version(request.settings) if request.version is None else request.version}


def _require_known(schema: StructType, declared: StructType) -> None:
    """Raises InvalidRequestError unless every declared column is in ``schema`` with the same type."""
    types = {field.name: field.dataType for field in schema}
    for field in declared:
        found = types.get(field.name)
        if found != field.dataType:
            what = f"is {found.simpleString()}, not {field.dataType.simpleString()}" if found else "is unknown"
            raise InvalidRequestError(f"column {field.name} {what}; the columns are {schema.simpleString()}")


def _choose_columns(schema: StructType, columns: tuple[str, ...] | None) -> StructType:
    """Returns the columns of these names, in any case. Raises InvalidRequestError for an unknown column."""
    if columns is None:
        return schema
    by_lower = {field.name.lower(): field for field in schema}
    if unknown := [name for name in columns if name.lower() not in by_lower]:
        raise InvalidRequestError(f"unknown column {', '.join(unknown)}; there are {', '.join(schema.names)}")
    return StructType([by_lower[name.lower()] for name in columns])
