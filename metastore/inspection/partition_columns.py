"""The column ``partition`` of metadata tables: a struct of all partition fields that the table has had.

A table that was never partitioned has no such column.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField
from pyiceberg.table import Table
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import IcebergType, UnknownType, UUIDType

_TEXT: Final[pa.DataType] = pa.string()


class PartitionColumn:
    """The column ``partition`` of one table; ``fields`` has it as Arrow's field, or is empty."""

    def __init__(self, table: Table) -> None:
        self._specs = table.metadata.specs()
        self._fields = _partition_fields(table)
        kinds = [pa.field(name, arrow_type(kind)) for name, kind in self._fields.values()]
        self.fields: list[pa.Field[Any]] = [pa.field("partition", pa.struct(kinds))] if kinds else []

    def of(self, file: DataFile) -> dict[str, Any]:
        """Return the value for ``file`` by the column's name; nothing if there is no such column."""
        if not self._fields:
            return {}
        spec = self._specs[file.spec_id]
        values = dict.fromkeys(name for name, _ in self._fields.values())
        for position, field in enumerate(spec.fields):
            name, kind = self._fields[field.field_id]
            value = file.partition[position]
            values[name] = str(value) if value is not None and arrow_type(kind) is _TEXT else value
        return {"partition": values}


def type_of(table: Table, field: PartitionField) -> IcebergType:
    """Return the type of a partition field's values, by the newest schema that knows its source."""
    for schema in (table.schema(), *sorted(table.metadata.schemas, key=lambda each: -each.schema_id)):
        if field.source_id in schema.field_ids:
            return field.transform.result_type(schema.find_type(field.source_id))
    return UnknownType()


def arrow_type(kind: IcebergType) -> Any:
    """Return Arrow's type for values of ``kind``; text for those that Arrow builds no array of."""
    return _TEXT if isinstance(kind, UUIDType | UnknownType) else schema_to_pyarrow(kind)


def _partition_fields(table: Table) -> dict[int, tuple[str, IcebergType]]:
    """Return name and type of every partition field that the table has had, by id.

    Names are those of the newest spec. Of fields that share one, which a struct cannot have, older ones have their id
    behind it, as Iceberg itself calls them in tables of format 1. There a dropped field stays as one of nothing, and
    its type is that of the values it had.
    """
    current = table.metadata.default_spec_id
    specs = sorted(table.metadata.partition_specs, key=lambda spec: (spec.spec_id == current, spec.spec_id))
    names: dict[int, str] = {}
    types: dict[int, IcebergType] = {}
    for field in (field for spec in specs for field in spec.fields):
        names[field.field_id] = field.name
        if field.field_id not in types or not isinstance(field.transform, VoidTransform):
            types[field.field_id] = type_of(table, field)
    newest = {field.name.lower(): field.field_id for spec in specs for field in spec.fields}
    return {
        field_id: (name if newest[name.lower()] == field_id else f"{name}_{field_id}", types[field_id])
        for field_id, name in names.items()
    }
