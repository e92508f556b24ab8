"""Metrics of columns as metadata tables show them: by the column's name, with bounds as values and as text.

Metrics are what the manifest says. A bound that does not fit its column's type is shown as text in hexadecimal, and is
NULL as a value: writers have stored such bounds.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, Transform
from pyiceberg.types import IcebergType, PrimitiveType, UUIDType

from metastore.lake.iceberg.columns.type_spellings import VariantType
from metastore.lake.inspection.partition_columns import arrow_type

_LONG: Final[pa.DataType] = pa.int64()
_COUNTS: Final = ("column_size", "value_count", "null_value_count", "nan_value_count")
_UNDECODABLE: Final = (ValueError, TypeError, struct.error, ArithmeticError)


class ReadableMetrics:
    """Shows the metrics of one table's files, by its current schema."""

    def __init__(self, schema: Schema) -> None:
        self.columns: Final = _leaves(schema)
        """Name and type of each column with metrics, by id. Names differ in more than case."""
        self._names = {field_id: schema.find_column_name(field_id) for field_id in schema.field_ids}

    @property
    def readable_fields(self) -> list[pa.Field[Any]]:
        """The column ``readable_metrics``: a struct of the table's columns; none if no column has metrics."""
        kinds = []
        for name, kind in self.columns.values():
            bounds = [pa.field(each, arrow_type(kind)) for each in ("lower_bound", "upper_bound")]
            kinds.append(pa.field(name, pa.struct([*(pa.field(each, _LONG) for each in _COUNTS), *bounds])))
        return [pa.field("readable_metrics", pa.struct(kinds))] if kinds else []

    def readable(self, file: DataFile) -> dict[str, Any]:
        """Returns the value of ``readable_metrics`` by its name; nothing if there is no such column."""
        if not self.columns:
            return {}
        sources = (file.column_sizes, file.value_counts, file.null_value_counts, file.nan_value_counts)
        lows, highs = file.lower_bounds or {}, file.upper_bounds or {}
        shown = {
            name: {
                **{each: (source or {}).get(field_id) for each, source in zip(_COUNTS, sources, strict=True)},
                "lower_bound": shown_value(kind, decode_bound(kind, lows.get(field_id))),
                "upper_bound": shown_value(kind, decode_bound(kind, highs.get(field_id))),
            }
            for field_id, (name, kind) in self.columns.items()
        }
        return {"readable_metrics": shown}

    def counts(self, counts: Mapping[int, int] | None) -> list[tuple[str, int]] | None:
        """Returns counts by the column's name now, or by its id if the column is gone."""
        return None if counts is None else [(self._name(key), count) for key, count in sorted(counts.items())]

    def bounds(self, bounds: Mapping[int, bytes] | None) -> list[tuple[str, str | None]] | None:
        """Returns bounds as text, by the column as in :meth:`counts`."""
        if bounds is None:
            return None
        return [(self._name(key), as_text(self._type(key), bound)) for key, bound in sorted(bounds.items())]

    def _name(self, field_id: int) -> str:
        return self._names.get(field_id) or str(field_id)

    def _type(self, field_id: int) -> IcebergType | None:
        return self.columns[field_id][1] if field_id in self.columns else None


def decode_bound(kind: IcebergType | None, bound: bytes | None) -> Any:
    """Returns a stored bound as PyIceberg's value; None if it is not one of ``kind``."""
    if bound is None or not isinstance(kind, PrimitiveType):
        return None
    try:
        return from_bytes(kind, bound)
    except _UNDECODABLE:
        return None


def shown_value(kind: PrimitiveType, value: Any) -> Any:
    """Returns PyIceberg's value as one of the type that :func:`arrow_type` gives its column."""
    if value is None or not isinstance(kind, UUIDType):
        return value
    return str(UUID(bytes=value) if isinstance(value, bytes) else value)


def as_text(kind: IcebergType | None, bound: bytes | None, transform: Transform[Any, Any] | None = None) -> str | None:
    """Returns a stored bound as people write it, or in hexadecimal if it is not a value of ``kind``."""
    if bound is None:
        return None
    value = decode_bound(kind, bound)
    if value is None or kind is None:
        return bound.hex()
    shown: Transform[Any, Any] = transform or IdentityTransform()
    try:
        return shown.to_human_string(kind, value)
    except _UNDECODABLE:
        return bound.hex()


def _leaves(schema: Schema) -> dict[int, tuple[str, PrimitiveType]]:
    """Returns the columns that hold values, those in lists, maps and structs too, in the order of their ids.

    Variants are left out, as their bounds are no values of a type that SQL has.
    Of columns whose names differ in case alone, all but the first have their id behind the name. DuckDB has no struct
    with both.
    """
    found: dict[int, tuple[str, PrimitiveType]] = {}
    taken: set[str] = set()
    for field_id in sorted(schema.field_ids):
        name, kind = schema.find_column_name(field_id) or str(field_id), schema.find_type(field_id)
        if not isinstance(kind, PrimitiveType) or isinstance(kind, VariantType):
            continue
        if name.lower() in taken:
            name = f"{name}_{field_id}"
        taken.add(name.lower())
        found[field_id] = name, kind
    return found
