"""Values and holders in Drill's JSON: the smallest parts of stored statistics.

A holder is ``{"statisticsValue":{"java.lang.Long":1},"statisticsKind":{"exact":true,"name":"rowCount"}}``. Booleans,
texts, ints and finite doubles are plain JSON. Everything else is wrapped with its Java class, and Drill casts a value
to the very class that it would have written. Dates and timestamps are Longs of epoch milliseconds, times are ints of
milliseconds of the day. The caller adds what milliseconds cannot express (:mod:`metastore.model.statistics`).
"""

from __future__ import annotations

import json
import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TypeAlias

from metastore.errors import FormatError, InvalidRequestError
from metastore.ground.epoch import EPOCH, EPOCH_DAY, EPOCH_UTC, MICROSECOND, micros_since_epoch
from metastore.model.drill_types import INTEGER_TYPES
from metastore.model.vocabulary import MetadataType, Statistic

Value: TypeAlias = bool | int | float | str | bytes | Decimal | date | time | datetime

_DECIMAL = "java.math.BigDecimal"
_BYTES = "[B"
_LONG = "java.lang.Long"
_FLOAT = "java.lang.Float"
_DOUBLE = "java.lang.Double"
_LEVEL = "org.apache.drill.metastore.metadata.MetadataType"
_HISTOGRAM = "org.apache.drill.exec.planner.common.NumericEquiDepthHistogram"
_AS_IT_STANDS = frozenset({_DOUBLE, "java.lang.Integer", "java.math.BigInteger", _LEVEL, _HISTOGRAM})
"""Classes, besides Long, whose JSON is the value itself."""

_INTS = INTEGER_TYPES - {"BIGINT", "UINT8"}
"""Minor types whose values are Java ints."""

_JAVA_INTS, _JAVA_LONGS = range(-(2**31), 2**31), range(-(2**63), 2**63)
_DAY_MILLIS = 86_400_000
_SINGLE = struct.Struct("<f")


def micros(value: datetime | time) -> int:
    """Microseconds since the epoch (of an aware datetime: in UTC), or since midnight for a time."""
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return micros_since_epoch(value)


def from_micros(count: int, minor_type: str, *, zoned: bool = False) -> datetime | time | None:
    """The TIME or TIMESTAMP that is ``count`` microseconds after midnight or the epoch; None beyond Python's years."""
    try:
        moment = (EPOCH_UTC if zoned else EPOCH) + count * MICROSECOND
    except OverflowError:
        return None
    return moment.time() if minor_type == "TIME" else moment


def _decimal_json(value: Decimal) -> str:
    if not value.is_finite():
        raise InvalidRequestError(f"{value} is no decimal that statistics can hold")
    return f'{{"{_DECIMAL}":{value}}}'


_string_json: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode


def long_json(value: int) -> str:
    """The JSON of a whole number, as Drill reads counts and BIGINT, DATE and TIMESTAMP bounds."""
    return f'{{"{_LONG if value in _JAVA_LONGS else "java.math.BigInteger"}":{value}}}'


def _double_json(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'{{"{_DOUBLE}":"{json.dumps(value)}"}}'


_ENCODERS: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    int: long_json,
    float: _double_json,
    str: _string_json,
    bytes: lambda value: f'{{"{_BYTES}":"{b64encode(value).decode()}"}}',
    Decimal: _decimal_json,
    date: lambda value: long_json((value.toordinal() - EPOCH_DAY) * _DAY_MILLIS),
    time: lambda value: str(micros(value) // 1000),
    datetime: lambda value: long_json(micros(value) // 1000),
}


def bound_json(value: Value, minor_type: str) -> str:
    """The JSON of a bound of a column of ``minor_type``; raises as :func:`value_json`."""
    if minor_type in _INTS and type(value) is int and value in _JAVA_INTS:
        return str(value)
    if minor_type == "FLOAT4" and type(value) is float:
        return f'{{"{_FLOAT}":{value if math.isfinite(value) else _string_json(json.dumps(value))}}}'
    return value_json(value)


def histogram_json(rows_per_bucket: float, borders: Sequence[float]) -> str:
    """The JSON of an equi-depth histogram."""
    return json.dumps({_HISTOGRAM: {"numRowsPerBucket": rows_per_bucket, "buckets": borders}}, separators=(",", ":"))


def value_json(value: Value) -> str:
    """The JSON of one value; timestamps and times are floored to milliseconds.

    Raises InvalidRequestError for a value of another type, such as a NumPy scalar.
    """
    encode = _ENCODERS.get(type(value))
    if encode is None:
        raise InvalidRequestError(f"{value!r} of type {type(value).__name__} is no statistics value")
    return encode(value)


def read_value(stored: Any, minor_type: str, *, zoned: bool = False, ceil: bool = False) -> Value | None:
    """The value of ``stored`` (decoded JSON) for a column of ``minor_type``; None if it is not usable.

    NaN, values that do not fit the type, and moments beyond Python's years are not usable. ``ceil`` rounds a DATE that
    is not a whole day up instead of down. Raises FormatError for a wrapped value that does not fit its Java class.
    """
    if isinstance(stored, dict):
        stored = unwrap_value(stored)
        if isinstance(stored, (Decimal, bytes)):
            return stored
    kind = type(stored)
    if minor_type in INTEGER_TYPES:
        return stored if kind is int else None
    if minor_type in ("FLOAT4", "FLOAT8"):
        return _read_float(stored)
    if minor_type in ("DATE", "TIME", "TIMESTAMP"):
        return _read_moment(stored, minor_type, zoned, ceil) if kind is int else None
    if minor_type == "VARDECIMAL":
        return Decimal(stored) if kind in (int, Decimal) else Decimal(repr(stored)) if kind is float else None
    if minor_type == "BIT":
        return stored if kind is bool else None
    # Drill converts bytes to text, and loses bytes that are not text.
    return stored if kind is str and minor_type != "VARBINARY" else None


def _read_float(stored: Any) -> float | None:
    try:
        value = float(stored)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(value) else value


def _read_moment(count: int, minor_type: str, zoned: bool, ceil: bool) -> Value | None:
    if minor_type != "DATE":
        return from_micros(count * 1000, minor_type, zoned=zoned)
    days = -(-count // _DAY_MILLIS) if ceil else count // _DAY_MILLIS
    return date.fromordinal(days + EPOCH_DAY) if 1 <= days + EPOCH_DAY <= date.max.toordinal() else None


def unwrap_value(stored: Mapping[str, Any]) -> Any:
    """The value wrapped in a Java class: decimals, bytes and floats converted, numbers and names as in JSON.

    Returns None for an unknown class. Raises FormatError for a value that does not fit its class.
    """
    class_: str
    value: Any
    class_, value = next(iter(stored.items()), ("", None))
    if class_ == _LONG or class_ in _AS_IT_STANDS:
        return value
    try:
        if class_ == _DECIMAL:
            decimal = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
            return decimal if decimal.is_finite() else None
        if class_ == _FLOAT:  # stored with as few digits as distinguish it from other floats
            return _SINGLE.unpack(_SINGLE.pack(float(value)))[0]
        return b64decode(value) if class_ == _BYTES else None
    except (TypeError, ValueError, ArithmeticError) as error:
        raise FormatError(f"{str(stored)[:80]} is no value that statistics hold: {error!r}") from error


def decode(text: str) -> Any:
    """``text`` decoded as JSON, with all digits of decimals; raises FormatError if it is not JSON."""
    try:
        # Only decimals need every digit of a JSON number; parsing all numbers this way costs a third more.
        return json.loads(text, parse_float=Decimal) if _DECIMAL in text else json.loads(text)
    except ValueError as error:
        raise FormatError(f"statistics are no JSON: {error}; they start with {text[:80]!r}") from error


def holder_json(name: str, value: Value | None, exact: bool = True) -> str:
    """One statistics holder; a None value leaves ``statisticsValue`` out, an estimate leaves ``exact`` out."""
    return holder_of(name, None if value is None else value_json(value), exact)


def holder_of(name: str, value: str | None, exact: bool = True) -> str:
    """:func:`holder_json` for a value that is already JSON."""
    kind = (
        f'"statisticsKind":{{"exact":true,"name":"{name}"}}}}' if exact else f'"statisticsKind":{{"name":"{name}"}}}}'
    )
    return "{" + kind if value is None else f'{{"statisticsValue":{value},{kind}'


def level_holder(level: MetadataType) -> str:
    """The holder of the level of ANALYZE.

    Drill calls its deepest level ALL. Another value makes Drill's own ANALYZE rebuild everything. Otherwise it would
    keep our PARTITION units beside its new segments, which have none, and take these segments for pruned.
    """
    return holder_of(Statistic.ANALYZE_LEVEL, f'{{"{_LEVEL}":"{level}"}}', exact=False)


def read_level(holders: Iterable[str]) -> str | None:
    """The level of ANALYZE from the holders of a TABLE unit; None if they do not contain it."""
    level = read_holders(holders).get(Statistic.ANALYZE_LEVEL)
    return MetadataType.ROW_GROUP.value if level == MetadataType.ALL.value else level


def holder_pattern(name: str) -> str:
    """:func:`holder_json` for whole numbers, with ``%d`` in place of the number."""
    blank = 10**18
    return holder_json(name, blank).replace(str(blank), "%d")


def read_holders(texts: Iterable[str]) -> dict[str, Any]:
    """Name to value of the holders in ``texts``; if a name occurs twice, the last one counts.

    Values are as in JSON, without their wrappers; dates stay milliseconds. Raises FormatError.
    """
    return _values_by_name(decode(text) for text in texts)


def counts_exactly(texts: Iterable[str]) -> bool:
    """Whether the row count among the holders in ``texts`` is marked exact; with deleted rows it is not."""
    counts = (decode(text)["statisticsKind"] for text in texts if f'"{Statistic.ROW_COUNT}"' in text)
    return all(kind.get("exact", False) for kind in counts)


def read_row_count(texts: Sequence[str] | None) -> int | None:
    """The exact row count in the holders ``texts``; None if there is none."""
    count: int | None = read_holders(texts).get(Statistic.ROW_COUNT) if texts and counts_exactly(texts) else None
    return count


def read_column_holders(text: str) -> dict[str, Any]:
    """:func:`read_holders` for all holders in the JSON of one column's statistics."""
    document = decode(text)
    return _values_by_name(document.get("statistics", ()) if isinstance(document, dict) else ())


def read_many_holders(lists: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """:func:`read_holders` for many units at once, in order."""
    together = [f"[{','.join(texts)}]" for texts in lists]
    found = []
    for start in range(0, len(together), _BATCH):
        some = together[start : start + _BATCH]
        documents = decode(f"[{','.join(some)}]")
        if [len(document) for document in documents] != [len(texts) for texts in lists[start : start + _BATCH]]:
            raise FormatError("one text of many holds several statistics holders")
        found += [_values_by_name(document) for document in documents]
    return found


_BATCH = 200
"""Number of units decoded at once."""


def _values_by_name(holders: Iterable[Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    holder: Any = None
    try:
        for holder in holders:
            stored = holder.get("statisticsValue")
            values[holder["statisticsKind"]["name"]] = unwrap_value(stored) if isinstance(stored, dict) else stored
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{holder!r} is no statistics holder: statisticsKind.name is missing") from error
    return values
