"""Converts rows of a query to rows of a table: each column is widened to the table's type, or refused by name.

Place in the flow: a statement gets its rows from DuckDB, and converts them here before anything is written. A value is
stored unchanged or refused: no text becomes a number, no fraction is rounded, no number is truncated.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType, UUIDType

from metastore.errors import InvalidRequestError
from metastore.lake.formats.casts import cast_to_nearest
from metastore.lake.formats.variant_arrays import VariantArrowType
from metastore.lake.iceberg.columns.readable_columns import require_values_can_be_made
from metastore.lake.iceberg.columns.type_spellings import VariantType
from metastore.lake.iceberg.rows.projection import in_arrow_type

_ANY_INTEGER: Final = pa.decimal128(38, 0)

Column = Any
"""An Arrow chunked array of any type."""


def conform_columns(
    columns: Mapping[str, Column],
    schema: Schema,
    arrow: pa.Schema,
    length: int,
    defaulted: Mapping[str, Sequence[int]] | None = None,
) -> pa.Table:
    """Returns all columns of ``schema``, whose Arrow types are ``arrow``.

    Columns that ``columns`` lacks have their write default, or NULL; so do the rows ``defaulted`` of a column. Raises
    InvalidRequestError for a column that does not fit, for NULL in a required one, and for a value of a variant or
    geometry.
    """
    arrays = []
    for field, wanted in zip(schema.fields, arrow, strict=True):
        given = columns.get(field.name)
        if given is None:
            given = default_column(field, wanted, length)
        elif defaulted and field.name in defaulted:
            given = _with_defaults(field, wanted, given, defaulted[field.name])
        arrays.append(conformed_column(field, wanted, given))
    return pa.Table.from_arrays(arrays, schema=arrow)


def conformed_column(field: NestedField, arrow: pa.Field[Any], values: Column) -> Column:
    """Returns ``values`` in the type of the table's column ``field``. Raises as :func:`conform_columns`."""
    made = _cast_column(field, arrow, values)
    for chunk in made.chunks:
        _require_values(field, chunk, field.name)
    return made


def _cast_column(field: NestedField, arrow: pa.Field[Any], values: Column) -> Any:
    whole = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    if not len(whole):  # the types of a query say before it runs whether its values fit
        kind: Any = whole.type
        require_storable(field, arrow.type, _stored_type(kind))
    return pa.chunked_array([_cast(field, arrow.type, chunk) for chunk in whole.chunks], type=arrow.type)


def _with_defaults(field: NestedField, arrow: pa.Field[Any], values: Column, rows: Sequence[int]) -> Column:
    """Returns ``values`` in the column's type, with its write default in ``rows``."""
    typed = _cast_column(field, arrow, values)
    places = np.arange(len(typed))
    places[list(rows)] = len(typed)
    return pa.chunked_array([*typed.chunks, default_column(field, arrow, 1)], type=arrow.type).take(places)


def default_column(field: NestedField, target_field: pa.Field[Any], length: int) -> Column:
    """Returns the write default of ``field`` as an array of ``length``; NULL if it has none."""
    if field.write_default is None:
        return pa.nulls(length, target_field.type)
    if isinstance(field.field_type, StructType):  # its default is empty, which means those of its fields
        kind: Any = target_field.type
        parts = list(kind)
        own = [default_column(inner, part, length) for inner, part in zip(field.field_type.fields, parts, strict=True)]
        return pa.StructArray.from_arrays(own, fields=parts)
    return pa.repeat(pa.scalar(field.write_default, target_field.type), length)


def require_storable(field: NestedField, target: Any, own: Any) -> None:
    """Raises InvalidRequestError if no value of the Arrow type ``own`` can be stored in ``field``."""
    require_values_can_be_made(field)
    is_fitting = isinstance(own, VariantArrowType) == isinstance(field.field_type, VariantType) and (
        isinstance(field.field_type, UUIDType | VariantType) or _is_widened(own, target)
    )
    if not is_fitting:
        raise InvalidRequestError(
            f"column {field.name} is {field.field_type}, and the query gives {own}; write the conversion, as "
            f"CAST(… AS …), if it is meant"
        )


def require_zones(field: NestedField, target: Any, own: Any) -> None:
    """Raises InvalidRequestError if ``own`` lacks the zone of ``field``, and Spark would take that of its session."""
    if _lacks_zone(own, target):
        raise InvalidRequestError(
            f"column {field.name} is {field.field_type}, and Spark gives {own}, whose times have no zone: CAST(… AS "
            "TIMESTAMP) takes the zone of Spark's session"
        )


def _lacks_zone(own: Any, target: Any) -> bool:
    if pa.types.is_timestamp(own) and pa.types.is_timestamp(target):
        return own.tz is None and target.tz is not None
    is_alike = pa.types.is_nested(own) and pa.types.is_nested(target) and own.num_fields == target.num_fields
    return is_alike and any(
        _lacks_zone(own.field(place).type, target.field(place).type) for place in range(own.num_fields)
    )


def _cast(field: NestedField, target: Any, values: Any) -> Any:
    """The values in the type of the table; InvalidRequestError if one would change, even by rounding."""
    if values.null_count == len(values):  # an untyped NULL has a numeric type
        return pa.nulls(len(values), target)
    stored = values.storage if isinstance(values.type, pa.BaseExtensionType) else values
    require_storable(field, target, _stored_type(values.type))
    if isinstance(field.field_type, VariantType):
        parts = [stored.field(place).cast(part.type) for place, part in enumerate(target)]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=stored.is_null())
    if isinstance(field.field_type, UUIDType):
        return _uuids(field, target, values)
    try:
        if pa.types.is_nested(target):
            return in_arrow_type(field.field_type, stored, target)
        if pa.types.is_decimal(target) and pa.types.is_integer(stored.type):
            stored = stored.cast(_ANY_INTEGER)  # Arrow compares the digits of the types, not those of the values
        return cast_to_nearest(stored, target, whole=True)
    except pa.ArrowException as error:
        raise InvalidRequestError(f"column {field.name} is {field.field_type}: {error}") from error


def _stored_type(kind: Any) -> Any:
    """Returns how values of an Arrow type are stored; variants stay what they are."""
    is_extension = isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, VariantArrowType)
    return kind.storage_type if is_extension else kind


def _uuids(field: NestedField, target: Any, values: Any) -> Any:
    """Converts UUIDs, which DuckDB returns as texts."""
    if isinstance(values.type, pa.BaseExtensionType):
        return values.cast(target)
    try:
        texts = [None if each is None else uuid.UUID(each).bytes for each in values.to_pylist()]
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidRequestError(f"column {field.name} is uuid, and the query gives what is none: {error}") from error
    storage = target.storage_type if isinstance(target, pa.BaseExtensionType) else target
    made: Any = pa.array(texts, storage)
    return pa.ExtensionArray.from_storage(target, made) if isinstance(target, pa.BaseExtensionType) else made


def _is_widened(own: Any, target: Any) -> bool:
    """Whether a column of type ``own`` may be stored as ``target`` if each value fits."""
    types = pa.types
    if types.is_null(own) or own.equals(target):
        return True
    if types.is_nested(own) or types.is_nested(target):
        return _is_widened_inside(own, target)
    if types.is_integer(own):
        return types.is_integer(target) or types.is_decimal(target) or types.is_floating(target)
    if types.is_decimal(own):
        # A literal with a point is a decimal; sums of whole numbers are decimals without fraction digits.
        return types.is_decimal(target) or types.is_floating(target) or (types.is_integer(target) and own.scale == 0)
    if types.is_floating(own):
        return types.is_floating(target) and own.bit_width <= target.bit_width
    if types.is_date(own):
        return types.is_date(target) or (types.is_timestamp(target) and target.tz is None)
    if types.is_timestamp(own):
        # The session's zone is UTC.
        return types.is_timestamp(target) and (own.tz is None or target.tz is not None)
    if types.is_time(own):
        return types.is_time(target)
    if _is_text(own):
        return _is_text(target)
    return _is_binary(own) and _is_binary(target)


def _is_widened_inside(own: Any, target: Any) -> bool:
    types = pa.types
    if types.is_struct(own) and types.is_struct(target):
        names = [field.name for field in own]
        return names in ([field.name for field in target], _of_row(target.num_fields)) and all(
            _is_widened(mine.type, other.type) for mine, other in zip(own, target, strict=True)
        )
    if types.is_map(own) and types.is_map(target):
        return _is_widened(own.key_type, target.key_type) and _is_widened(own.item_type, target.item_type)
    if _is_list(own) and _is_list(target):
        return _is_widened(own.value_type, target.value_type)
    return False


def _of_row(length: int) -> list[str]:
    """Returns the names of the fields of ROW(…), whose values go to the fields of a struct by place."""
    return [f"element{number}" for number in range(1, length + 1)]


def _is_text(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_binary(kind: Any) -> bool:
    types = pa.types
    return (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _is_list(kind: Any) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _require_values(field: NestedField, values: Any, name: str) -> None:
    """Raises InvalidRequestError for NULL where the schema requires a value, within structs, lists and maps too."""
    if field.required and values.null_count:
        raise InvalidRequestError(f"column {name} is required: {values.null_count} rows have no value for it")
    kind: IcebergType = field.field_type
    if isinstance(kind, StructType):
        present = values.drop_null()
        for position, inner in enumerate(kind.fields):
            _require_values(inner, pc.struct_field(present, position), f"{name}.{inner.name}")
    elif isinstance(kind, ListType):
        _require_values(kind.element_field, pc.list_flatten(values), f"{name}.element")
    elif isinstance(kind, MapType) and kind.value_required:
        maps: Any = values.drop_null()
        first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
        _require_values(kind.value_field, maps.items.slice(first, last - first), f"{name}.value")
