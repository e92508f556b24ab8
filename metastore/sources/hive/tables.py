"""Translates the service's description of a table: columns, locations, formats, and the kind of table. Pure functions.

Descriptions are read leniently, so a table of any kind can be listed. Properties that only some uses need are computed
on demand, and raise errors then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Final

from hive_metastore.ttypes import FieldSchema, Partition, StorageDescriptor, Table

from metastore.errors import FormatError
from metastore.sources.hive.types import HiveType, parse

LAST_DDL_TIME: Final = "transient_lastDdlTime"
TABLE_TYPE: Final = "table_type"
METADATA_LOCATION: Final = "metadata_location"
SPARK_PROVIDER: Final = "spark.sql.sources.provider"

_SPARK_PLACEHOLDER: Final = (("col", "array<string>"),)
"""The columns that Spark gives a table whose schema Hive cannot express."""


class HiveFormat(str, Enum):
    """A format of data files of Hive tables."""

    PARQUET = "PARQUET"
    ORC = "ORC"
    AVRO = "AVRO"
    TEXT = "TEXT"

    def __str__(self) -> str:
        return self.value


MIGRATABLE: Final = (HiveFormat.PARQUET, HiveFormat.ORC, HiveFormat.AVRO)
"""The formats that Iceberg supports."""

Columns = tuple[tuple[str, HiveType], ...]


@dataclass(frozen=True)
class HivePartition:
    """One partition: its values as text, in the order of the partition columns, and its location and format."""

    values: tuple[str, ...]
    location: str
    input_format: str
    raw: Partition = field(compare=False, repr=False)

    @classmethod
    def of(cls, partition: Partition) -> HivePartition:
        """Returns the partition of a service's description."""
        sd = partition.sd
        return cls(tuple(partition.values), _location(sd), str(sd.inputFormat or ""), partition)

    @property
    def format(self) -> HiveFormat | None:
        """The format of its files, or None if unknown."""
        return format_of(self.input_format)


@dataclass(frozen=True)
class HiveTable:
    """One table; ``raw`` is the service's own description, which must not be changed."""

    database: str
    name: str
    owner: str
    kind: str
    location: str
    input_format: str
    parameters: Mapping[str, str]
    raw: Table = field(compare=False, repr=False)

    @classmethod
    def of(cls, table: Table) -> HiveTable:
        """Returns the table of a service's description."""
        sd = table.sd
        return cls(
            table.dbName,
            table.tableName,
            table.owner or "",
            table.tableType or "MANAGED_TABLE",
            _location(sd),
            str(sd.inputFormat or ""),
            dict(table.parameters or {}),
            table,
        )

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def format(self) -> HiveFormat | None:
        """The format of its files, or None if unknown; its partitions may have other formats."""
        return format_of(self.input_format)

    @property
    def is_iceberg(self) -> bool:
        """Whether it is an Iceberg table."""
        return self.parameters.get(TABLE_TYPE, "").lower() == "iceberg"

    @property
    def is_partitioned(self) -> bool:
        """Whether it has partition columns."""
        return bool(self.raw.partitionKeys)

    @cached_property
    def columns(self) -> Columns:
        """The columns in the files, with types. Raises FormatError for an unsupported type; it names the column."""
        return tuple(self._parse_types(self.raw.sd.cols or ()))

    @cached_property
    def partition_columns(self) -> Columns:
        """The partition columns, with types. Raises FormatError for an unsupported type."""
        return tuple(self._parse_types(self.raw.partitionKeys or ()))

    @property
    def column_names(self) -> list[str]:
        """Names of all columns, partition columns last."""
        return [each.name for each in (*(self.raw.sd.cols or ()), *(self.raw.partitionKeys or ()))]

    def obstacles(self) -> Iterator[str]:
        """Yields the reasons why its rows are not exactly those of its files, as clauses; none for a plain table."""
        parameters = {key.lower(): value.lower() for key, value in self.parameters.items()}
        provider = parameters.get(SPARK_PROVIDER, "")
        sd = self.raw.sd
        if self.kind.upper() not in ("MANAGED_TABLE", "EXTERNAL_TABLE"):
            yield f"it is a {self.kind.lower().replace('_', ' ')}, and has no files of its own"
            return
        if parameters.get("transactional") == "true":
            yield "it is transactional: its files hold deltas that only Hive can put together"
        for kind in ("delta", "hudi"):
            if kind in (provider, parameters.get(TABLE_TYPE)) or kind in self.input_format.lower():
                yield f"it is a {kind.capitalize()} table"
        if handler := parameters.get("storage_handler"):
            yield f"its rows come from another system, by {handler}"
        if sd.storedAsSubDirectories:
            yield "it keeps skewed values in directories of their own"
        if tuple((each.name, each.type) for each in sd.cols or ()) == _SPARK_PLACEHOLDER and provider:
            yield "its schema is only in Spark's own table properties, which Hive does not read"
        elif not sd.cols:
            yield "the Hive Metastore lists no columns for it"

    def _parse_types(self, columns: Sequence[FieldSchema]) -> Iterator[tuple[str, HiveType]]:
        for each in columns:
            yield each.name, self._type(each)

    def _type(self, column: FieldSchema) -> HiveType:
        try:
            return parse(column.type)
        except FormatError as error:
            raise FormatError(f"column {column.name} of {self}: {error}") from error


def format_of(input_format: str) -> HiveFormat | None:
    """Returns the format that a Hadoop input format reads, by the name of its class without its package."""
    return _BY_CLASS.get(input_format.rpartition(".")[2].lower())


FORMAT_CLASSES: Final = {
    HiveFormat.PARQUET: "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    HiveFormat.ORC: "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
    HiveFormat.AVRO: "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat",
    HiveFormat.TEXT: "org.apache.hadoop.mapred.TextInputFormat",
}
"""The input format that Hive gives a table of each format."""

_BY_CLASS: Final = {
    **{name.rpartition(".")[2].lower(): format_ for format_, name in FORMAT_CLASSES.items()},
    "deprecatedparquetinputformat": HiveFormat.PARQUET,
}


def _location(descriptor: StorageDescriptor) -> str:
    return str(descriptor.location or "").rstrip("/")
