"""Converts rows that are Python mappings to Arrow batches in the requested types.

It is the slow path for formats whose fast readers cannot be used: Avro, and JSON with several kinds of values in a
column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from metastore.lake.formats.arrow_schema import rows_without_columns
from metastore.lake.formats.casts import cast_to_nearest
from metastore.model.statistics import nearest_double

_ROWS: Final = 16_384


def rows_of_mappings(
    mappings: Iterable[Mapping[str, Any]], schema: pa.Schema, text: Callable[[Any], str]
) -> Iterator[pa.RecordBatch]:
    """Converts rows that are mappings; ``text`` spells a value that is not text for a text column."""
    rows = iter(mappings)
    while taken := list(islice(rows, _ROWS)):
        columns: dict[str, Any] = {
            field.name: pa.array([_fitting(row.get(field.name), field.type, text) for row in taken], field.type)
            for field in schema
            if not pa.types.is_null(field.type)
        }
        yield as_asked(columns, len(taken), schema)


def _fitting(value: Any, type_: Any, text: Callable[[Any], str]) -> Any:
    """Returns ``value`` as Arrow takes it for ``type_``."""
    if value is None:
        return None
    if pa.types.is_struct(type_) and isinstance(value, Mapping):
        return {field.name: _fitting(value.get(field.name), field.type, text) for field in type_.fields}
    if pa.types.is_map(type_) and isinstance(value, Mapping):
        return [(key, _fitting(each, type_.item_type, text)) for key, each in value.items()]
    if pa.types.is_list(type_) and isinstance(value, list):
        return [_fitting(each, type_.value_type, text) for each in value]
    if pa.types.is_null(type_):
        return None
    if pa.types.is_floating(type_) and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return nearest_double(value)  # Arrow refuses decimals, and integers that a double does not hold exactly
    if pa.types.is_decimal(type_) and isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(str(value))
    if pa.types.is_string(type_) and not isinstance(value, str):
        return text(value)
    return value


def as_asked(columns: Mapping[str, Any], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """Returns ``columns`` in the order and types of ``schema``, with nulls for missing ones."""
    if not len(schema):
        return rows_without_columns(rows)
    # Arrow cannot cast a null type within a list, not even to itself.
    arrays: Sequence[Any] = [
        cast_to_nearest(columns[field.name], field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
