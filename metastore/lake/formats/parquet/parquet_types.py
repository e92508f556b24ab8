"""Parquet's types: Drill's spelling of them, and how their bounds in footers are read.

Bounds are compared as their raw values (a date as a count of days), and become
:data:`~metastore.model.statistics.Value` only when they are written. A bound that cannot be trusted is ignored: NaNs,
text that is not UTF-8, times beyond Python's years, days that Spark moves to another calendar, and all bounds of types
without a defined order (INT96, intervals).
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from json.encoder import encode_basestring  # the function that writes the model's texts as JSON
from typing import Any, Final, cast

import pyarrow.parquet as pq

from metastore.ground.epoch import EPOCH, EPOCH_DAY, EPOCH_UTC
from metastore.model.drill_types import INTEGER_LIMITS, minor_type
from metastore.model.statistics import Value
from metastore.model.statistics_json import micros, value_json
from metastore.model.tuple_schema import IN_UTC

_DAY_MILLIS: Final = 86_400_000
_PYTHON_YEARS: Final = range((1 - EPOCH_DAY) * _DAY_MILLIS, (date.max.toordinal() + 1 - EPOCH_DAY) * _DAY_MILLIS)
"""Milliseconds since the epoch that a datetime can represent."""

_GREGORIAN_DAY: Final = date(1582, 10, 15).toordinal() - EPOCH_DAY
_ALIKE_FROM: Final = -2_208_988_800
"""The first second of 1900 in UTC. From then on, both calendars agree, and so do the zones' local times in them."""

_OLD_CALENDAR: Final = re.compile(rb"org\.apache\.spark\.(?:legacyDateTime|version\x18.[0-2]\.)", re.DOTALL)
"""In a footer: what Spark writes beside days and moments of the Julian calendar, and by what it knows its versions
that had no other (a text of thrift has a byte for its type and one for its length before it)."""

_TICKS: Final = {"milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}


@dataclass(frozen=True)
class BoundReading:
    """How the raw bounds of one type are read.

    ``comparable`` turns a raw bound into its comparable form, or None if it is unusable; without it, raw bounds are
    compared as they are. ``low`` and ``high`` turn the comparable form into a value, and say whether it is exact.
    ``literal`` returns the part of a bound's JSON that differs between bounds, or None if more than that must be
    written; ``shown`` returns the same for a value, and ``samples`` are two values that occur nowhere else in the JSON.
    ``micros`` returns a time's microseconds, or None if it has none; it does so for ``fine_samples``, which are not
    whole milliseconds.
    """

    comparable: Callable[[Any], Any] | None = None
    low: Callable[[Any], tuple[Value | None, bool]] = lambda bound: (bound, True)
    high: Callable[[Any], tuple[Value | None, bool]] = lambda bound: (bound, True)
    literal: Callable[[Any], str | None] | None = None
    samples: tuple[Value, Value] = (10**18, 10**18 + 1)
    shown: Callable[[Any], str] = str
    micros: Callable[[Any], int | None] | None = None
    limits: tuple[Any, Any] | None = None
    fine_samples: tuple[Value, Value] = (10**18, 10**18 + 1)


@dataclass(frozen=True)
class ParquetType:
    """A leaf's type: Drill's spelling, and the properties that Drill's spelling lacks."""

    type: str
    logical: str = ""
    zoned: bool = False
    unit: str = ""

    @classmethod
    def of(cls, column: pq.ColumnSchema) -> ParquetType:
        """Returns the type of one leaf of a schema."""
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
                in_utc = annotation["isAdjustedToUTC"]
                logical = IN_UTC if in_utc and name == "Time" else ""
                logical = name.lower() + "_ns" if unit == "nanoseconds" else logical
                return cls(name.upper(), logical, in_utc and name == "Timestamp", unit)
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
_SMALL_SAMPLES: Final = (2_000_000_001, 2_000_000_002)


def reading_of(column: pq.ColumnSchema, kind: ParquetType) -> BoundReading | None:
    """Returns how bounds of this type are read; None if they have no meaning."""
    match minor_type(kind.type):
        case "BIT":
            return BoundReading(literal=value_json, samples=_SMALL_SAMPLES, shown=value_json)
        case "TINYINT" | "SMALLINT" | "INT" as name:
            return BoundReading(literal=str, samples=_SMALL_SAMPLES, limits=INTEGER_LIMITS.get(name))
        case "BIGINT":
            return BoundReading(literal=str)
        case "UINT1" | "UINT2" | "UINT4" | "UINT8" as name:
            mask = 0xFFFFFFFF if column.physical_type == "INT32" else 0xFFFFFFFFFFFFFFFF
            return BoundReading(lambda raw: raw & mask, limits=INTEGER_LIMITS.get(name))
        case "FLOAT4" | "FLOAT8":
            comparable = _half if kind.logical == "float16" else _number
            return BoundReading(
                comparable,
                lambda bound: (bound or -0.0, True),
                lambda bound: (bound or 0.0, True),
                _float_literal,
                (1e18, 2e18),
                repr,
            )
        case "VARCHAR":
            return BoundReading(_text, literal=encode_basestring, samples=("low", "high"), shown=encode_basestring)
        case "VARBINARY" if kind.logical in _ORDERED_BYTES:
            return BoundReading(literal=value_json, samples=(b"low", b"high"), shown=value_json)
        case "VARDECIMAL":
            to_decimal = _decimal(column.scale or 0)
            counted = column.physical_type in ("INT32", "INT64")
            largest = 10 ** (column.precision or 0) - 1
            return BoundReading(
                None if counted else _read_signed,
                to_decimal,
                to_decimal,
                lambda unscaled: value_json(to_decimal(unscaled)[0]),
                _SMALL_SAMPLES,
                value_json,
                limits=(-largest, largest),
            )
        case "DATE":
            return BoundReading(_day, _date, _date, lambda days: str(days * _DAY_MILLIS))
        case "TIME" if kind.unit:
            last = _DAY_MILLIS // 1000 * _TICKS[kind.unit] - 1
            return replace(_moments(kind, _time_of_day, range(_DAY_MILLIS)), limits=(0, last))
        case "TIMESTAMP" if kind.unit:
            return _moments(kind, _utc if kind.zoned else _local, _PYTHON_YEARS)
        case _:
            return None


def is_of_old_calendar(footer: bytes) -> bool:
    """Whether Spark changes old days of this file when it reads them, because of the file's calendar."""
    return _OLD_CALENDAR.search(footer) is not None


def moved_by_spark(kind: ParquetType, reading: BoundReading | None) -> BoundReading | None:
    """Returns ``reading`` for a file of the old calendar, without bounds that Spark moves and other readers do not."""
    if reading is None or not (kind.type == "DATE" or (kind.type == "TIMESTAMP" and kind.unit)):
        return reading
    first = _GREGORIAN_DAY if kind.type == "DATE" else _ALIKE_FROM * _TICKS[kind.unit]
    comparable = reading.comparable or (lambda bound: bound)
    return replace(reading, comparable=lambda raw: comparable(raw) if raw >= first else None)


def _number(raw: float) -> float | None:
    return None if raw != raw else raw


def _float_literal(bound: float) -> str | None:
    """A zero gets the sign that includes the other zero, which depends on the side; JSON has no infinity."""
    return repr(bound) if bound and bound - bound == 0 else None


def _half(raw: bytes) -> float | None:
    return _number(struct.unpack("<e", raw)[0])


def _text(raw: bytes) -> str | None:
    """Code points have the order of their UTF-8 bytes, so decoded text may be compared."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _read_signed(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _decimal(scale: int) -> Callable[[int], tuple[Value, bool]]:
    # Decimal arithmetic would round to the context's 28 digits; formatting the number does not.
    return lambda unscaled: (Decimal(f"{unscaled}e-{scale}"), True)


def _day(days: int) -> int | None:
    return days if 1 <= days + EPOCH_DAY <= date.max.toordinal() else None


def _date(days: int) -> tuple[Value, bool]:
    return date.fromordinal(days + EPOCH_DAY), True


def _moments(kind: ParquetType, moment: Callable[[int], Value | None], millis: range) -> BoundReading:
    """Bounds counted in a unit of time; nanoseconds are rounded outwards to the microseconds that a bound can hold.

    ``moment`` makes a value from microseconds, or None beyond Python's range, which ends where ``millis`` does.
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

    def whole_micros(count: int) -> int | None:
        micros, rest = divmod(count * 1_000_000, per_second)
        return micros if rest == 0 and micros // 1000 in millis else None

    samples = cast("tuple[Value, Value]", (moment(43_200_123_000), moment(43_201_456_000)))
    fine_samples = cast("tuple[Value, Value]", (moment(43_200_123_457), moment(43_201_456_789)))
    return BoundReading(None, low, high, literal, samples, _millis, whole_micros, fine_samples=fine_samples)


def _millis(moment: datetime | time) -> str:
    return str(micros(moment) // 1000)


def _time_of_day(micros: int) -> time | None:
    return (EPOCH + timedelta(microseconds=micros)).time() if 0 <= micros < _DAY_MILLIS * 1000 else None


def _local(micros: int) -> datetime | None:
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def _utc(micros: int) -> datetime | None:
    try:
        return EPOCH_UTC + timedelta(microseconds=micros)
    except OverflowError:
        return None
