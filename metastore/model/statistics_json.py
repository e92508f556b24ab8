"""Values and holders in Drill's JSON: the smallest pieces of the statistics that stand on disk.

A holder is ``{"statisticsValue":1,"statisticsKind":{"exact":true,"name":"rowCount"}}``. JSON has no word for decimals
and bytes, so Drill wraps them with their Java class; dates and timestamps are epoch milliseconds, times milliseconds
of the day. What milliseconds cannot say is the caller's to add (:mod:`metastore.model.statistics`).
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, TypeAlias

from metastore.errors import FormatError, InvalidRequestError

Value: TypeAlias = bool | int | float | str | bytes | Decimal | date | time | datetime

_DECIMAL = "java.math.BigDecimal"
_BYTES = "[B"
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_MILLIS = 86_400_000
_MICROSECOND = timedelta(microseconds=1)


def micros(value: datetime | time) -> int:
    """Microseconds since the epoch (of an aware datetime: in UTC), or since midnight for a time."""
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND


def from_micros(count: int, minor_type: str, *, zoned: bool = False) -> datetime | time | None:
    """The TIME or TIMESTAMP that is ``count`` microseconds after midnight or the epoch; None beyond Python's years."""
    try:
        moment = (_EPOCH_UTC if zoned else _EPOCH) + count * _MICROSECOND
    except OverflowError:
        return None
    return moment.time() if minor_type == "TIME" else moment


def _decimal_json(value: Decimal) -> str:
    if not value.is_finite():
        raise InvalidRequestError(f"{value} is no decimal that statistics can hold")
    return f'{{"{_DECIMAL}":{value}}}'


_string_json: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode

_ENCODERS: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    float: lambda value: repr(value) if math.isfinite(value) else f'"{json.dumps(value)}"',
    str: _string_json,
    bytes: lambda value: f'{{"{_BYTES}":"{b64encode(value).decode()}"}}',
    Decimal: _decimal_json,
    date: lambda value: str((value.toordinal() - _EPOCH_DAY) * _DAY_MILLIS),
    time: lambda value: str(micros(value) // 1000),
    datetime: lambda value: str(micros(value) // 1000),
}


def value_json(value: Value) -> str:
    """The JSON of one value; timestamps and times are floored to milliseconds.

    Raises InvalidRequestError for a value of another type, such as a NumPy scalar.
    """
    encode = _ENCODERS.get(type(value))
    if encode is None:
        raise InvalidRequestError(f"{value!r} of type {type(value).__name__} is no statistics value")
    return encode(value)


def read_value(stored: Any, minor_type: str, *, zoned: bool = False, ceil: bool = False) -> Value | None:
    """The value that ``stored`` (decoded JSON) means for a column of ``minor_type``; None where it is not usable.

    Not usable are NaN, what does not fit the type, and moments beyond Python's years. ``ceil`` rounds a DATE that is
    no whole day upwards instead of downwards. FormatError for a wrapped value that is none of its Java class.
    """
    if isinstance(stored, dict):
        return _read_wrapped(stored)
    kind = type(stored)
    if minor_type in ("FLOAT4", "FLOAT8"):
        return _read_float(stored)
    if minor_type in ("DATE", "TIME", "TIMESTAMP"):
        return _read_moment(stored, minor_type, zoned, ceil) if kind is int else None
    if minor_type == "VARDECIMAL":
        return Decimal(stored) if kind in (int, Decimal) else Decimal(repr(stored)) if kind is float else None
    if minor_type == "BIT":
        return stored if kind is bool else None
    return stored if kind in (int, str, bool) else float(stored) if kind in (float, Decimal) else None


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
    return date.fromordinal(days + _EPOCH_DAY) if 1 <= days + _EPOCH_DAY <= date.max.toordinal() else None


def _read_wrapped(stored: dict[str, Any]) -> Value | None:
    """What stands under a Java class; None under another one. FormatError for a value that is none of its class."""
    try:
        if _DECIMAL in stored:
            number = stored[_DECIMAL]
            decimal = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
            return decimal if decimal.is_finite() else None
        return b64decode(stored[_BYTES]) if _BYTES in stored else None
    except (TypeError, ValueError, ArithmeticError) as error:
        raise FormatError(f"{str(stored)[:80]} is no value that statistics hold: {error!r}") from error


def decode(text: str) -> Any:
    """``text`` as JSON, with decimals to their last digit; raises FormatError where it is no JSON."""
    try:
        # Only decimals need every digit of a JSON number; parsing all numbers so costs a third more.
        return json.loads(text, parse_float=Decimal) if _DECIMAL in text else json.loads(text)
    except ValueError as error:
        raise FormatError(f"statistics are no JSON: {error}; they start with {text[:80]!r}") from error


def holder_json(name: str, value: Value | None, exact: bool = True) -> str:
    """One statistics holder; a None value leaves ``statisticsValue`` out, an estimate leaves ``exact`` out."""
    kind = (
        f'"statisticsKind":{{"exact":true,"name":"{name}"}}}}' if exact else f'"statisticsKind":{{"name":"{name}"}}}}'
    )
    return "{" + kind if value is None else f'{{"statisticsValue":{value_json(value)},{kind}'


def holder_pattern(name: str) -> str:
    """:func:`holder_json` of whole numbers, with ``%d`` where the number stands."""
    blank = 10**18
    return holder_json(name, blank).replace(str(blank), "%d")


def read_holders(texts: Iterable[str]) -> dict[str, Any]:
    """Name to value of the holders in ``texts``; of a name that stands twice, the last one counts.

    Values are what JSON gives (so dates stay milliseconds), decimals and bytes are unwrapped. Raises FormatError.
    """
    return _named(decode(text) for text in texts)


def read_many_holders(lists: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """:func:`read_holders` of many units at once, in their order."""
    together = [f"[{','.join(texts)}]" for texts in lists]
    found = []
    for start in range(0, len(together), _BATCH):
        some = together[start : start + _BATCH]
        documents = decode(f"[{','.join(some)}]")
        if [len(document) for document in documents] != [len(texts) for texts in lists[start : start + _BATCH]]:
            raise FormatError("one text of many holds several statistics holders")
        found += [_named(document) for document in documents]
    return found


_BATCH = 200
"""Units decoded in one go."""


def _named(holders: Iterable[Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    holder: Any = None
    try:
        for holder in holders:
            stored = holder.get("statisticsValue")
            values[holder["statisticsKind"]["name"]] = _read_wrapped(stored) if isinstance(stored, dict) else stored
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{holder!r} is no statistics holder: statisticsKind.name is missing") from error
    return values
