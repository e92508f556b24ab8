"""What one Parquet schema, as one writer wrote it, lets us say about its columns: types, and how to read the bounds.

Made once per distinct (schema, writer) and applied to thousands of footers, so everything that can be decided before a
footer's numbers are seen is decided here. Bounds are compared in the domain their raw values come in (a date as a count
of days), and become :data:`~metastore.model.statistics.Value` only when they are written.

Guarantee: a bound is unknown unless format, writer and value together make it certain. Unknown are bounds of INT96 and
intervals (no order is defined), text that is not UTF-8, NaNs, moments beyond Python's years, and byte-array decimals of
writers that compared them as plain bytes. pyarrow itself already hides the bounds that such writers got wrong for text.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cached_property
from json.encoder import encode_basestring  # what the model's JSON of a text comes down to
from typing import Any, Final, TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq

from metastore.model.column_path import ColumnPath, quote
from metastore.model.drill_types import FLOAT_TYPES, DrillType, StructField, minor_type, parse_type
from metastore.model.statistics import ColumnStatistics, Value
from metastore.model.statistics_json import value_json
from metastore.model.tuple_schema import LOGICAL_TYPE, TIME_ZONE, SchemaColumn, TupleSchema, property_name

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DAY_MILLIS: Final = 86_400_000
_PYTHON_YEARS: Final = range((1 - _EPOCH_DAY) * _DAY_MILLIS, (date.max.toordinal() + 1 - _EPOCH_DAY) * _DAY_MILLIS)
"""Milliseconds since the epoch that a datetime can say."""
_SCHEMA_KEYS = frozenset({b"ARROW:schema", b"org.apache.spark.sql.parquet.row.metadata"})
"""Where writers leave the schema they started from."""

_TICKS = {"milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_WRITER = re.compile(r"(\S+)(?:.*?version (\d+)\.(\d+))?", re.DOTALL)


Bounds: TypeAlias = tuple[Any, Any, int | None, int | None]
"""One column in one row group or file: low and high bound in comparable form, nulls, values; None is "unknown".

A column without a value (values == 0) has no bounds, and none are missed. A plain tuple: there are sixty per file of
ten columns and two row groups, and a class would take a tenth of ANALYZE.
"""


@dataclass(frozen=True)
class Reading:
    """How the raw bounds of one type are read.

    ``comparable`` turns a raw bound into its comparable form, or None if it says nothing; without it, a raw bound is
    comparable as it is. ``low`` and ``high`` turn that into a value and whether it is the value itself. ``literal``
    gives the JSON of a bound directly, or None where more than one number or text must be written; it does so for
    ``samples``.
    """

    comparable: Callable[[Any], Any] | None = None
    low: Callable[[Any], tuple[Value | None, bool]] = lambda bound: (bound, True)
    high: Callable[[Any], tuple[Value | None, bool]] = lambda bound: (bound, True)
    literal: Callable[[Any], str | None] | None = None
    samples: tuple[Value, Value] = (10**18, 10**18 + 1)


@dataclass(frozen=True)
class Leaf:
    """One column with statistics: where it stands in the footer and how it is read and written."""

    index: int
    path: ColumnPath
    type: str
    required: bool
    reading: Reading | None
    exact: bool
    counts_nans: bool
    """True if bounds in a footer prove that no value is a NaN."""

    @cached_property
    def key(self) -> str:
        """The column's name in ``columnsStatistics``."""
        return quote(self.path)

    def measure(self, chunk: pq.ColumnChunkMetaData) -> Bounds:
        """What the footer says of this column in one row group."""
        rows = chunk.num_values
        statistics = chunk.statistics
        if statistics is None:
            if rows == 0 or self.type == "NULL":
                return None, None, rows, 0
            return (None, None, 0, rows) if self.required else (None, None, None, None)
        nulls = 0 if self.required else statistics.null_count
        values = None if nulls is None else rows - nulls
        low = statistics.min_raw
        if low is None or values == 0 or self.reading is None:
            return None, None, nulls, values
        high = statistics.max_raw
        if (comparable := self.reading.comparable) is not None:
            low, high = comparable(low), comparable(high)
            if low is None or high is None:
                # Where one bound is no good (a NaN, say) the other was made by the same comparisons.
                return None, None, nulls, values
        return low, high, nulls, values

    def statistics(self, bounds: Bounds, rows: int) -> ColumnStatistics:
        """``bounds`` over ``rows`` rows, in the model's form; the rows are left out where they are nulls + values.

        That is a fifth of the text of a footer's statistics, and of the time to write it.
        """
        raw_low, raw_high, nulls, values = bounds
        low = high = None
        low_exact = high_exact = True
        if self.reading is not None:
            if raw_low is not None:
                low, low_exact = self.reading.low(raw_low)
            if raw_high is not None:
                high, high_exact = self.reading.high(raw_high)
        return ColumnStatistics(
            self.type,
            low,
            high,
            low is None or (low_exact and self.exact),
            high is None or (high_exact and self.exact),
            nulls,
            values,
            rows if nulls is None else None,
            0 if self._has_no_nans(bounds) else None,
        )

    def json(self, bounds: Bounds, rows: int) -> str:
        """The JSON of :meth:`statistics`, without the way through it where the type allows."""
        low, high, nulls, values = bounds
        if low is not None and nulls is not None and self._literal is not None:
            low_text, high_text = self._literal(low), self._literal(high)
            if low_text is not None and high_text is not None:
                return self._pattern % (low_text, high_text, nulls, values)
        return self.statistics(bounds, rows).to_json()

    @cached_property
    def _is_whole(self) -> bool:
        return self.type not in FLOAT_TYPES

    def _has_no_nans(self, bounds: Bounds) -> bool:
        low, _, _, values = bounds
        return not self._is_whole and (values == 0 or (self.counts_nans and low is not None))

    @cached_property
    def _literal(self) -> Callable[[Any], str | None] | None:
        return None if self.reading is None else self.reading.literal

    @cached_property
    def _pattern(self) -> str:
        """The model's own JSON with blanks for what differs from one container to the next."""
        assert self.reading is not None
        low, high = self.reading.samples
        nulls, values = counts = (10**18 + 2, 10**18 + 3)
        nans = None if self._is_whole or not self.counts_nans else 0
        text = ColumnStatistics(self.type, low, high, self.exact, self.exact, nulls, values, nans=nans).to_json()
        for blank in (low, high, *counts):
            text = text.replace(value_json(blank), "%s")
        return text


def combined(parts: Sequence[Bounds]) -> Bounds:
    """Bounds of all ``parts`` together; for no parts those of no rows."""
    low = high = None
    nulls: int | None = 0
    values: int | None = 0
    low_known = high_known = True
    for part_low, part_high, part_nulls, part_values in parts:
        nulls = None if nulls is None or part_nulls is None else nulls + part_nulls
        values = None if values is None or part_values is None else values + part_values
        if part_values == 0:
            continue
        if part_low is None:
            low_known = False
        elif low is None or part_low < low:
            low = part_low
        if part_high is None:
            high_known = False
        elif high is None or part_high > high:
            high = part_high
    return low if low_known else None, high if high_known else None, nulls, values


@dataclass
class Plan:
    """Everything the footers of one schema and one writer have in common."""

    schema: TupleSchema
    leaves: tuple[Leaf, ...]
    file_schema: pq.ParquetSchema
    writer: str
    paths: tuple[str, ...]
    key_values: Mapping[bytes, bytes] | None
    tells_schema: bool = field(init=False)
    schema_json: str = field(init=False)
    keys: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.tells_schema = not _SCHEMA_KEYS.isdisjoint(self.key_values or ())
        self.schema_json = self.schema.to_json()
        self.keys = tuple(leaf.key for leaf in self.leaves)

    @classmethod
    def of(cls, metadata: pq.FileMetaData, columns: Sequence[ColumnPath] | None) -> Plan:
        """The plan for files like the one of ``metadata``; ``columns`` None means statistics of every leaf.

        A struct named in ``columns`` stands for all leaves below it.
        """
        builder = _SchemaReader(metadata)
        schema = builder.read()
        leaves = tuple(leaf for leaf in builder.leaves if columns is None or _is_among(leaf.path, columns))
        return cls(schema, leaves, metadata.schema, metadata.created_by, _paths(metadata.schema), metadata.metadata)

    def fits(self, metadata: pq.FileMetaData) -> bool:
        """Whether a footer has this schema and writer."""
        schema = metadata.schema
        # ParquetSchema.equals sees leaves only, so that a struct renamed would go unnoticed. Spelling out the paths
        # costs as much as a column's statistics; where the writer left its own schema, equal texts tell the same.
        return (
            metadata.created_by == self.writer
            and self.file_schema.equals(schema)
            and ((self.tells_schema and metadata.metadata == self.key_values) or _paths(schema) == self.paths)
        )


def _paths(schema: pq.ParquetSchema) -> tuple[str, ...]:
    return tuple(schema.column(index).path for index in range(len(schema)))


def _is_among(path: ColumnPath, chosen: Sequence[ColumnPath]) -> bool:
    return any(path[: len(column)] == column for column in chosen)


class _SchemaReader:
    """Walks the Arrow form of a schema for its structure and takes the leaves' types from the Parquet form.

    Parquet's own paths cannot tell a dotted name from a nested one; Arrow's types cannot tell JSON from text.
    """

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self._arrow = metadata.schema.to_arrow_schema()
        self._parquet = metadata.schema
        self._writer = _Writer.parse(metadata.created_by)
        self._next = 0
        self.leaves: list[Leaf] = []

    def read(self) -> TupleSchema:
        columns = []
        for arrow in self._arrow:
            properties: dict[str, str] = {}
            type_ = self._type(arrow.type, (arrow.name,), properties, repeated=False)
            columns.append(SchemaColumn(arrow.name, str(type_), not arrow.nullable, properties))
        return TupleSchema(tuple(columns))

    def _type(self, arrow: pa.DataType, path: ColumnPath, properties: dict[str, str], *, repeated: bool) -> DrillType:
        if isinstance(arrow, pa.BaseExtensionType):
            return self._type(arrow.storage_type, path, properties, repeated=repeated)
        if pa.types.is_struct(arrow):
            fields = (arrow.field(index) for index in range(arrow.num_fields))
            return DrillType(
                "STRUCT",
                fields=tuple(
                    StructField(
                        f.name, self._type(f.type, (*path, f.name), properties, repeated=repeated), not f.nullable
                    )
                    for f in fields
                ),
            )
        if pa.types.is_map(arrow):
            parts = (arrow.key_type, arrow.item_type)
            return DrillType("MAP", parts=tuple(self._type(part, path, properties, repeated=True) for part in parts))
        if pa.types.is_nested(arrow):  # a list of any kind
            return DrillType("ARRAY", parts=(self._type(arrow.field(0).type, path, properties, repeated=True),))
        return self._leaf(path, properties, repeated=repeated)

    def _leaf(self, path: ColumnPath, properties: dict[str, str], *, repeated: bool) -> DrillType:
        column = self._parquet.column(self._next)
        kind = _Kind.of(column)
        type_ = kind.type
        if not repeated:
            if kind.logical:
                properties[property_name(LOGICAL_TYPE, path)] = kind.logical
            if kind.zoned:
                properties[property_name(TIME_ZONE, path)] = "UTC"
            self.leaves.append(
                Leaf(
                    self._next,
                    path,
                    minor_type(type_),
                    column.max_definition_level == 0,
                    None if self._writer.misorders(column) else _reading(column, kind),
                    minor_type(type_) not in ("VARCHAR", "VARBINARY") or self._writer.keeps_bounds_whole,
                    self._writer.bounds_show_nans,
                )
            )
        self._next += 1
        return parse_type(type_)


@dataclass(frozen=True)
class _Writer:
    """What is known of a writer's habits from the footer's ``created_by``."""

    name: str
    version: tuple[int, int]

    @classmethod
    def parse(cls, created_by: str | None) -> _Writer:
        match = _WRITER.match(created_by or "")
        if match is None:
            return cls("", (0, 0))
        return cls(match.group(1), (int(match.group(2) or 0), int(match.group(3) or 0)))

    @property
    def keeps_bounds_whole(self) -> bool:
        """Whether bounds of text and bytes are values of the data; other writers may shorten long ones.

        Footers can mark shortened bounds, but pyarrow does not tell, so only a writer that never shortens is trusted.
        """
        return self.name == "parquet-cpp-arrow"

    @property
    def bounds_show_nans(self) -> bool:
        """Whether a NaN would have cost the column its bounds.

        parquet-mr orders NaN above all numbers since 1.10 and then writes no bounds; before, and in most other writers,
        NaNs are passed over. Releases from 1.18 may count NaNs apart, and are not trusted until they are known.
        """
        return self.name == "parquet-mr" and (1, 10) <= self.version < (1, 18)

    def misorders(self, column: pq.ColumnSchema) -> bool:
        """Whether the writer compared decimals in bytes as if they were text."""
        in_bytes = column.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
        old = self.name in ("parquet-mr", "parquet-cpp") and self.version < (1, 10)
        return old and in_bytes and column.logical_type.type == "DECIMAL"


@dataclass(frozen=True)
class _Kind:
    """A leaf's type: Drill's spelling, and what Drill's spelling cannot say."""

    type: str
    logical: str = ""
    zoned: bool = False
    unit: str = ""

    @classmethod
    def of(cls, column: pq.ColumnSchema) -> _Kind:
        annotation = json.loads(column.logical_type.to_json())
        match annotation["Type"]:
            case "Int":
                width = annotation["bitWidth"]
                return cls(_SIGNED[width] if annotation["isSigned"] else f"UINT{width // 8}")
            case "Decimal":
                return cls(f"DECIMAL({column.precision}, {column.scale})")
            case "Date":
                return cls("DATE")
            case "Time" | "Timestamp" as name:
                unit = annotation["timeUnit"]
                logical = name.lower() + "_ns" if unit == "nanoseconds" else ""
                return cls(name.upper(), logical, annotation["isAdjustedToUTC"] and name == "Timestamp", unit)
            case "String":
                return cls("VARCHAR")
            case "Enum" | "JSON" as name:
                return cls("VARCHAR", name.lower())
            case "Float16":
                return cls("FLOAT", "float16")
            case "Null":
                return cls("NULL")
            case "None" if column.physical_type == "INT96":
                return cls("TIMESTAMP", "int96")
            case "None":
                return cls(_PHYSICAL[column.physical_type])
            case other:
                return cls("VARBINARY", other.lower())


_SIGNED = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}
_PHYSICAL = {
    "BOOLEAN": "BOOLEAN",
    "INT32": "INT",
    "INT64": "BIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "BYTE_ARRAY": "VARBINARY",
    "FIXED_LEN_BYTE_ARRAY": "VARBINARY",
}
_ORDERED_BYTES = ("", "uuid", "bson")


def _reading(column: pq.ColumnSchema, kind: _Kind) -> Reading | None:
    """How bounds of this type are read, None where they mean nothing."""
    match minor_type(kind.type):
        case "BIT":
            return Reading(literal=value_json)
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return Reading(literal=str)
        case "UINT1" | "UINT2" | "UINT4" | "UINT8":
            mask = 0xFFFFFFFF if column.physical_type == "INT32" else 0xFFFFFFFFFFFFFFFF
            return Reading(lambda raw: raw & mask, literal=str)
        case "FLOAT4" | "FLOAT8":
            comparable = _half if kind.logical == "float16" else _number
            return Reading(
                comparable,
                lambda bound: (bound or -0.0, True),
                lambda bound: (bound or 0.0, True),
                # Zero is written with the sign that includes the other zero, which depends on the side.
                lambda bound: value_json(bound) if bound else None,
            )
        case "VARCHAR":
            return Reading(_text, literal=encode_basestring)
        case "VARBINARY" if kind.logical in _ORDERED_BYTES:
            return Reading(literal=value_json)
        case "VARDECIMAL":
            to_decimal = _decimal(column.scale or 0)
            counted = column.physical_type in ("INT32", "INT64")
            return Reading(
                None if counted else _signed,
                to_decimal,
                to_decimal,
                lambda unscaled: value_json(to_decimal(unscaled)[0]),
            )
        case "DATE":
            return Reading(_day, _date, _date, lambda days: str(days * _DAY_MILLIS))
        case "TIME" if kind.unit:
            return _moments(kind, _time_of_day, range(_DAY_MILLIS))
        case "TIMESTAMP" if kind.unit:
            return _moments(kind, _utc if kind.zoned else _local, _PYTHON_YEARS)
        case _:
            return None


def _number(raw: float) -> float | None:
    return None if raw != raw else raw


def _half(raw: bytes) -> float | None:
    return _number(struct.unpack("<e", raw)[0])


def _text(raw: bytes) -> str | None:
    """Code points order like their UTF-8 bytes, so text may be compared decoded."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _signed(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _decimal(scale: int) -> Callable[[int], tuple[Value, bool]]:
    # Arithmetic on decimals would round to the context's 28 digits; spelling the number out does not.
    return lambda unscaled: (Decimal(f"{unscaled}e-{scale}"), True)


def _day(days: int) -> int | None:
    return days if 1 <= days + _EPOCH_DAY <= date.max.toordinal() else None


def _date(days: int) -> tuple[Value, bool]:
    return date.fromordinal(days + _EPOCH_DAY), True


def _moments(kind: _Kind, moment: Callable[[int], Value | None], millis: range) -> Reading:
    """Bounds counted in a unit of time; nanoseconds round outwards to the microseconds that a bound can hold.

    ``moment`` makes a value of microseconds, or None beyond what Python can say, which ends where ``millis`` does.
    """
    per_second = _TICKS[kind.unit]

    def low(count: int) -> tuple[Value | None, bool]:
        micros, rest = divmod(count * 1_000_000, per_second)
        return moment(micros), rest == 0

    def high(count: int) -> tuple[Value | None, bool]:
        micros, rest = divmod(-count * 1_000_000, per_second)
        return moment(-micros), rest == 0

    def literal(count: int) -> str | None:
        milli, rest = divmod(count * 1000, per_second)
        return str(milli) if rest == 0 and milli in millis else None

    samples = moment(43_200_123_000), moment(43_201_456_000)
    return Reading(None, low, high, literal, cast("tuple[Value, Value]", samples))


def _time_of_day(micros: int) -> time | None:
    return (_EPOCH + timedelta(microseconds=micros)).time() if 0 <= micros < _DAY_MILLIS * 1000 else None


def _local(micros: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def _utc(micros: int) -> datetime | None:
    try:
        return _EPOCH_UTC + timedelta(microseconds=micros)
    except OverflowError:
        return None
