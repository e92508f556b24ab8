"""The column ``partition`` of metadata tables: a struct of all partition fields that the table has had.

A table that was never partitioned has no such column.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, UnknownType, UUIDType

from metastore.lake.iceberg.columns.partition_type import partition_fields

_TEXT: Final[pa.DataType] = pa.string()
_FIELD_ID: Final = b"PARQUET:field_id"


class PartitionColumn:
    """The column ``partition`` of one table; ``fields`` has it as Arrow's field, or is empty."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._specs = metadata.specs()
        self._fields = partition_fields(metadata)
        kinds = [pa.field(name, arrow_type(kind)) for name, kind in self._fields.values()]
        self.fields: list[pa.Field[Any]] = [pa.field("partition", pa.struct(kinds))] if kinds else []

    def of(self, file: DataFile) -> dict[str, Any]:
        """Returns the value for ``file`` by the column's name; nothing if there is no such column."""
        if not self._fields:
            return {}
        spec = self._specs[file.spec_id]
        values = dict.fromkeys(name for name, _ in self._fields.values())
        for position, field in enumerate(spec.fields):
            name, kind = self._fields[field.field_id]
            value = file.partition[position]
            values[name] = str(value) if value is not None and arrow_type(kind) is _TEXT else value
        return {"partition": values}

    def from_statistics(self, partitions: Any) -> dict[str, Any] | None:
        """Returns the column from a column of partition statistics; None if that lacks a field, or has other types."""
        if not self._fields:
            return {}
        held = partitions.combine_chunks()
        parts = {int((field.metadata or {}).get(_FIELD_ID, -1)): held.field(n) for n, field in enumerate(held.type)}
        arrays = []
        for field_id, (_, kind) in self._fields.items():
            part = parts.get(field_id)
            if part is None or isinstance(kind, UUIDType | UnknownType):
                return None
            try:
                arrays.append(part.cast(arrow_type(kind)))
            except pa.ArrowException:
                return None
        [own] = self.fields
        kinds: Any = own.type
        return {"partition": pa.StructArray.from_arrays(arrays, fields=list(kinds))}


def arrow_type(kind: IcebergType) -> Any:
    """Returns Arrow's type for values of ``kind``; text for those that Arrow builds no array of."""
    return _TEXT if isinstance(kind, UUIDType | UnknownType) else schema_to_pyarrow(kind)
