"""Converts columns of a data file to the table's: by field id; renamed, reordered, widened, filled with defaults.

PyIceberg has a projection too, but it turns null lists and maps of structs into empty ones. This one rebuilds nested
columns from their parts and keeps every null. Types that Iceberg does not promote to the table's type are refused:
Arrow would read the text "1" as a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import ResolveError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, promote
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UnknownType,
)

from metastore.errors import FormatError
from metastore.lake.formats.arrow_schema import rows_without_columns
from metastore.lake.formats.casts import cast_to_nearest
from metastore.lake.formats.map_arrays import map_array

_arrow: Any = pa
"""Arrow, for arguments that its stubs do not accept."""

Array = Any
"""An Arrow array of any type."""

_TIMES = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
"""These types are read as each other, as in all Iceberg readers: a file's numbers do not depend on its type."""

_SHAPES = (GeometryType, GeographyType)
"""Files store these types as bytes, in the well-known binary form; readers return the bytes."""


class Projection:
    """Converts batches of one file to batches of the table; created once for each schema of a file."""

    def __init__(
        self, file_schema: Schema, table_schema: Schema, arrow_schema: pa.Schema, constants: Mapping[int, Any]
    ) -> None:
        """``arrow_schema`` belongs to ``table_schema``; ``constants`` are values of missing columns by field id."""
        self._sources = {field.field_id: field for field in file_schema.fields}
        self._table = table_schema
        self._arrow = arrow_schema
        self._constants = constants
        wanted = {field.field_id for field in table_schema.fields}
        self.columns = [field.name for field in file_schema.fields if field.field_id in wanted]
        """Names of the file's columns to read, in the file's order."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch of :attr:`columns` to the table's columns. FormatError if it does not fit."""
        try:
            arrays = []
            for field, arrow in zip(self._table.fields, self._arrow, strict=True):
                source = self._sources.get(field.field_id)
                found = None if source is None else batch.column(source.name)
                arrays.append(self._field(source, found, field, arrow.type, batch.num_rows))
            if not arrays:  # without columns, Arrow does not have the number of rows
                return rows_without_columns(batch.num_rows)
            return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)
        except (pa.ArrowException, ResolveError) as error:
            raise FormatError(f"its columns do not fit those of the table: {error}") from error

    def _field(
        self, source: NestedField | None, array: Array, field: NestedField, arrow: pa.DataType, length: int
    ) -> Array:
        """The values of one column; without a ``source`` its partition value or default, else nulls if allowed."""
        if isinstance(field.field_type, UnknownType):  # some writers store it, as another type
            return _arrow.nulls(length, arrow)
        if source is not None:
            return self.values(source.field_type, array, field.field_type, arrow)
        value = self._constants.get(field.field_id, field.initial_default)
        if value is not None and isinstance(field.field_type, StructType):
            # The default of a struct is empty, which means the defaults of its fields.
            parts = [arrow.field(place) for place in range(arrow.num_fields)]
            own = zip(field.field_type.fields, parts, strict=True)
            children = [self._field(None, None, inner, part.type, length) for inner, part in own]
            return pa.StructArray.from_arrays(children, fields=parts)
        if value is not None:
            return pa.array([value], arrow).take(np.zeros(length, dtype=np.int64))
        if field.required:
            raise FormatError(f"it lacks the required column {field.name!r}")
        return _arrow.nulls(length, arrow)

    def values(self, source: IcebergType, array: Array, target: IcebergType, arrow: pa.DataType) -> Array:
        """Convert values of the type ``source`` to ``target``. Raises ResolveError and Arrow's errors."""
        if array.type.equals(arrow, check_metadata=True):
            return array
        if pa.types.is_null(array.type):
            return _arrow.nulls(len(array), arrow)
        if isinstance(source, StructType) and isinstance(target, StructType):
            return self._struct(source, array, target, arrow)
        if isinstance(source, ListType) and isinstance(target, ListType):
            return self._list(source, array, target, arrow)
        if isinstance(source, MapType) and isinstance(target, MapType):
            return self._map(source, array, target, arrow)
        if source != target and not _is_stored_alike(source, target):
            promote(source, target)
        return _cast(array, arrow)

    def _struct(self, source: StructType, array: Array, target: StructType, arrow: Any) -> Array:
        positions = {field.field_id: position for position, field in enumerate(source.fields)}
        fields = [arrow.field(position) for position in range(arrow.num_fields)]
        children = []
        for field, child in zip(target.fields, fields, strict=True):
            position = positions.get(field.field_id)
            known = None if position is None else source.fields[position]
            values = None if position is None else array.field(position)
            children.append(self._field(known, values, field, child.type, len(array)))
        return pa.StructArray.from_arrays(children, fields=fields, mask=pc.is_null(array))

    def _list(self, source: ListType, array: Array, target: ListType, arrow: Any) -> Array:
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        offsets, first, length = _offsets(array)
        values = self.values(
            source.element_type, array.values.slice(first, length), target.element_type, arrow.value_type
        )
        large = pa.types.is_large_list(arrow)
        kind: Any = pa.LargeListArray if large else pa.ListArray
        offsets = offsets.cast(pa.int64() if large else pa.int32())
        return kind.from_arrays(offsets, values, type=arrow, mask=pc.is_null(array))

    def _map(self, source: MapType, array: Array, target: MapType, arrow: Any) -> Array:
        offsets, first, length = _offsets(array)
        keys = self.values(source.key_type, array.keys.slice(first, length), target.key_type, arrow.key_type)
        items = self.values(source.value_type, array.items.slice(first, length), target.value_type, arrow.item_type)
        return map_array(offsets, keys, items, arrow, pc.is_null(array))


def _is_stored_alike(source: IcebergType, target: IcebergType) -> bool:
    """Whether a file's values of ``source`` are values of ``target`` too; PyIceberg's promotions do not list these."""
    if isinstance(target, _SHAPES):
        return isinstance(source, (BinaryType, *_SHAPES))
    return isinstance(source, _TIMES) and isinstance(target, _TIMES)


def in_arrow_type(kind: IcebergType, array: Array, arrow: pa.DataType) -> Array:
    """Return ``array``, with values of ``kind`` in any Arrow types, as ``arrow``. Raises Arrow's errors.

    Unlike Arrow's cast, it keeps a NULL struct NULL even if its fields are required.
    """
    return Projection(Schema(), Schema(), pa.schema([]), {}).values(kind, array, kind, arrow)


def partition_constants(spec: PartitionSpec, partition: Record) -> dict[int, Any]:
    """Return, by field id, the partition's values for columns that the file may lack, as Hive's files do."""
    return {
        field.source_id: partition[position]
        for position, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform) and partition[position] is not None
    }


def _offsets(array: Array) -> tuple[Array, int, int]:
    """Return the offsets of a list or map from 0 on, and the start and length of its part of the values."""
    offsets = array.offsets
    first, end = offsets[0].as_py(), offsets[-1].as_py()
    return pc.subtract(offsets, first), first, end - first


def _cast(array: Array, arrow: pa.DataType) -> Array:
    if isinstance(arrow, pa.BaseExtensionType):
        storage = array.storage if isinstance(array.type, pa.BaseExtensionType) else array
        return pa.ExtensionArray.from_storage(arrow, storage.cast(arrow.storage_type))
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        return array.cast(arrow, safe=False)  # the table holds microseconds
    return cast_to_nearest(array, arrow, whole=True)
