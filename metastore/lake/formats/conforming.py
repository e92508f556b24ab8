"""Converts a column of a file to its table's type: narrower types are widened, others raise an error that names both.

Place in the flow: scans convert a file's column if the table's keeper, and not the file, determines the column's type.
Fields of structs are matched by name, ignoring case; a field that the file lacks is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from metastore.errors import FormatError
from metastore.lake.formats.casts import cast_to_nearest, rounds
from metastore.lake.formats.map_arrays import map_array
from metastore.lake.formats.parquet.refused_footers import has_map_as_list, is_map_as_list
from metastore.model.column_path import places_alike

_TEXTS: Final = (pt.is_string, pt.is_large_string, pt.is_string_view, pt.is_binary, pt.is_large_binary)


def conform_array(values: Any, type_: Any, column: str) -> Any:
    """Returns the array ``values`` of ``column`` as ``type_``.

    Raises FormatError if its type cannot be widened to ``type_``, and pyarrow's errors for a value out of range.
    """
    if values.type == type_:
        return values
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, conform_array(values, type_.storage_type, column))
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.type == type_:
        return values
    if pt.is_struct(values.type) and pt.is_struct(type_):
        return _struct(values, type_, column)
    if pt.is_nested(values.type) and pt.is_nested(type_):
        return _conform_repeated(values, type_, column)
    if not fits(values.type, type_):
        raise FormatError(f"column {column} is {values.type} in it, and the table says {type_}")
    return cast_to_nearest(values, type_)


def as_stored(schema: pa.Schema, own: pa.Schema) -> pa.Schema:
    """Returns the columns of ``schema`` of a file with ``own`` columns; maps read as lists keep the file's type."""
    fields: list[Any] = [
        own.field(field.name) if field.name in own.names and has_map_as_list(own.field(field.name).type) else field
        for field in schema
    ]
    return pa.schema(fields)


def with_maps_restored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns ``batch``, read by :func:`as_stored`, in the columns of ``schema``. Raises as :func:`conform_array`."""
    return batch if batch.schema.types == schema.types else conform_batch(batch, schema)


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns ``batch`` in ``schema``, column by column in order. Raises as :func:`conform_array`."""
    if not len(schema):
        return batch.select([])
    arrays: list[Any] = [
        conform_array(column, field.type, field.name) for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def fits(own: Any, wanted: Any) -> bool:
    """Whether values of a file's type ``own`` fit into ``wanted``; neither is nested."""
    if pt.is_null(own) or own == wanted:
        return True
    if pt.is_integer(own):
        return pt.is_integer(wanted) or pt.is_float64(wanted) or pt.is_decimal(wanted)
    if pt.is_floating(own):
        return pt.is_floating(wanted) and wanted.bit_width >= own.bit_width
    if pt.is_decimal(own):
        return bool(pt.is_decimal(wanted) or pt.is_float64(wanted))
    if any(is_text(own) for is_text in _TEXTS):
        return any(is_text(wanted) for is_text in _TEXTS)
    return any(test(own) and test(wanted) for test in (pt.is_timestamp, pt.is_date, pt.is_time, pt.is_boolean))


def rounds_inside(own: Any, wanted: Any) -> bool:
    """Whether a cast from ``own`` to ``wanted`` may round a number, at any depth."""
    if pt.is_struct(own) and pt.is_struct(wanted):
        fields = {field.name.lower(): field.type for field in _fields(own)}
        pairs = [(fields.get(field.name.lower()), field.type) for field in _fields(wanted)]
        return any(mine is not None and rounds_inside(mine, theirs) for mine, theirs in pairs)
    if pt.is_nested(own) and pt.is_nested(wanted) and own.num_fields == wanted.num_fields:
        return any(rounds_inside(own.field(place).type, wanted.field(place).type) for place in range(own.num_fields))
    return rounds(own, wanted)


def spelled_as(type_: Any, own: Any) -> Any:
    """Returns ``type_`` with its fields named like those of a file's type ``own``, at every depth, ignoring case.

    Numbers that a cast to ``type_`` rounds keep their own type, because Arrow's readers do not round correctly. Raises
    FormatError if several fields match one.
    """
    if pt.is_struct(type_) and pt.is_struct(own):
        of_file = _fields(own)
        places = _places(_fields(type_), of_file)
        return pa.struct(
            field
            if (place := places.get(field.name)) is None
            else field.with_name(of_file[place].name).with_type(spelled_as(field.type, of_file[place].type))
            for field in _fields(type_)
        )
    if pt.is_list(type_) and (pt.is_list(own) or pt.is_large_list(own)):
        return pa.list_(type_.value_field.with_type(spelled_as(type_.value_type, own.value_type)))
    if pt.is_map(type_) and pt.is_map(own):
        return pa.map_(
            type_.key_field.with_type(spelled_as(type_.key_type, own.key_type)),
            type_.item_field.with_type(spelled_as(type_.item_type, own.item_type)),
        )
    return own if rounds(own, type_) else type_


def _fields(struct: Any) -> list[pa.Field[Any]]:
    return [struct.field(place) for place in range(struct.num_fields)]


def _places(wanted: Sequence[pa.Field[Any]], own: Sequence[pa.Field[Any]]) -> Mapping[str, int]:
    """Returns, for each field ``wanted``, by name, the position of its counterpart in ``own``."""
    names = [field.name for field in own]
    return {name: names.index(found) for name, found in places_alike([field.name for field in wanted], names).items()}


def _struct(values: Any, type_: Any, column: str) -> Any:
    fields, own = _fields(type_), _fields(values.type)
    places = _places(fields, own)
    children = [
        conform_array(values.field(place), wanted.type, f"{column}.{wanted.name}")
        if (place := places.get(wanted.name)) is not None
        else pa.nulls(len(values), wanted.type)
        for wanted in fields
    ]
    return pa.StructArray.from_arrays(children, fields=fields, mask=values.is_null())


def _conform_repeated(values: Any, type_: Any, column: str) -> Any:
    """Converts a list or a map: its offsets stay, its content is converted."""
    whole = values.take(pa.array(range(len(values)), pa.int64())) if values.offset else values
    null = whole.is_null() if whole.null_count else None
    if pt.is_map(values.type) and pt.is_map(type_):
        keys = conform_array(whole.keys, type_.key_type, f"{column}.key")
        items = conform_array(whole.items, type_.item_type, f"{column}.value")
        return map_array(whole.offsets, keys, items, type_, null)
    if is_map_as_list(values.type) and pt.is_map(type_):
        return _map(whole, type_, null, column)
    if (pt.is_list(values.type) or pt.is_large_list(values.type)) and pt.is_list(type_):
        inner = conform_array(whole.values, type_.value_type, f"{column}.element")
        listed: Any = pa.ListArray.from_arrays
        return listed(whole.offsets.cast(pa.int32()), inner, type_, mask=null)
    raise FormatError(f"column {column} is {values.type} in it, and the table says {type_}")


def _map(values: Any, type_: Any, null: Any, column: str) -> Any:
    """Returns a list of entries as a map. Raises FormatError if a key is null."""
    if values.flatten().field(0).null_count:
        raise FormatError(
            f"column {column} has a map with a null key, which no map of Arrow holds: select the other columns"
        )
    keys = conform_array(values.values.field(0), type_.key_type, f"{column}.key")
    items = conform_array(values.values.field(1), type_.item_type, f"{column}.value")
    return map_array(values.offsets, keys, items, type_, null)
