"""Types of procedure arguments, and the cast from given values to the values that a procedure receives.

Place in the flow: SQL constants and Python values both go through this cast, so both are accepted and refused alike.
Pure functions. Promises: a cast never changes a value (a number that does not fit is refused, not rounded); every point
in time has a zone; each declared type has one Python type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, Final
from zoneinfo import ZoneInfo

from metastore.errors import InvalidRequestError

_PLAIN: Final = ("VARCHAR", "BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP")
_BITS: Final = {"INTEGER": 31, "BIGINT": 63}
_MAX_PRECISION: Final = 38

_NAME: Final = re.compile(r"\s*([A-Za-z]+)\s*")
_NUMBER: Final = re.compile(r"\s*(\d+)\s*")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP: Final = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<clock>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?"
    r"\s*(?P<zone>Z|[+-]\d{2}(?::?\d{2}(?::\d{2})?)?|[A-Za-z]\w*(?:/[\w+-]+)*)?"
)


@dataclass(frozen=True)
class ArgumentType:
    """A type: its name, and its parameters: precision and scale, or the types of its elements."""

    name: str
    elements: tuple[ArgumentType, ...] = ()
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        """The SQL name of the type, in upper case."""
        if self.elements:
            return f"{self.name}({', '.join(map(str, self.elements))})"
        return f"DECIMAL({self.precision}, {self.scale})" if self.name == "DECIMAL" else self.name


@lru_cache(maxsize=256)
def parse_type(text: str) -> ArgumentType:
    """Returns the type that ``text`` names, in any case. Raises InvalidRequestError if it is unknown."""
    found, rest = _parse_type(text, text)
    if rest.strip():
        raise _unknown(text)
    return found


def _parse_type(text: str, whole: str) -> tuple[ArgumentType, str]:
    """The type at the start of ``text``, and the rest; ``whole`` is for the error."""
    match = _NAME.match(text)
    name = match[1].upper() if match else ""
    rest = text[match.end() :] if match else text
    if name in _PLAIN:
        return ArgumentType(name), rest
    if name == "DECIMAL":
        return _decimal(rest, whole)
    if name == "ARRAY":
        element, rest = _parse_type(_after(rest, "(", whole), whole)
        return ArgumentType(name, (element,)), _after(rest, ")", whole)
    if name == "MAP":
        key, rest = _parse_type(_after(rest, "(", whole), whole)
        value, rest = _parse_type(_after(rest, ",", whole), whole)
        return ArgumentType(name, (key, value)), _after(rest, ")", whole)
    raise _unknown(whole)


def _decimal(text: str, whole: str) -> tuple[ArgumentType, str]:
    """DECIMAL with the precision and scale that ``text`` begins with, 38 and 0 by default; and the rest."""
    if not text.startswith("("):
        return ArgumentType("DECIMAL", precision=_MAX_PRECISION), text
    numbers = []
    for opening in "(,":
        if not text.startswith(opening):
            break
        match = _NUMBER.match(text, 1)
        if match is None:
            raise _unknown(whole)
        numbers.append(int(match[1]))
        text = text[match.end() :]
    precision, scale = (*numbers, 0)[:2]
    if not (1 <= precision <= _MAX_PRECISION and scale <= precision):
        raise _unknown(whole)
    return ArgumentType("DECIMAL", precision=precision, scale=scale), _after(text, ")", whole)


def _after(text: str, sign: str, whole: str) -> str:
    if not text.startswith(sign):
        raise _unknown(whole)
    return text[1:].lstrip()


def _unknown(text: str) -> InvalidRequestError:
    known = ", ".join((*_PLAIN, "DECIMAL(p, s)", "ARRAY(T)", "MAP(K, V)"))
    return InvalidRequestError(f"Unknown procedure argument type: {text}; there are {known}")


def cast_to(kind: str | ArgumentType, value: Any) -> Any:
    """Returns ``value`` as the Python type of ``kind``. None stays None, but is refused inside a list or map.

    The Python types are str, bool, int (INTEGER, BIGINT), float, Decimal, date, datetime in UTC, list and dict. Only
    lossless casts are made: an int to a DOUBLE or a DECIMAL, a string to a DATE or a TIMESTAMP. Raises
    InvalidRequestError.
    """
    wanted = parse_type(kind) if isinstance(kind, str) else kind
    if value is None:
        return None
    if wanted.name == "ARRAY" and isinstance(value, list | tuple):
        return [_within(wanted.elements[0], each, "an element of an array") for each in value]
    if wanted.name == "MAP" and isinstance(value, Mapping):
        return _as_map(wanted, value)
    if wanted.name in ("DATE", "TIMESTAMP"):
        return _when(wanted, value)
    return _cast_scalar(wanted, value)


def _cast_scalar(type_: ArgumentType, value: Any) -> Any:
    match type_.name:
        case "VARCHAR" if isinstance(value, str):
            return str(value)
        case "BOOLEAN" if isinstance(value, bool):
            return value
        case "INTEGER" | "BIGINT" if _is_whole(value):
            return _whole(type_, int(value))
        case "DOUBLE" if _is_number(value):
            return _as_double(value)
        case "DECIMAL" if _is_whole(value) or isinstance(value, Decimal):
            return _as_decimal(type_, value)
    raise _no_cast(type_, value)


def _when(type_: ArgumentType, value: Any) -> date:
    is_timestamp = type_.name == "TIMESTAMP"
    match value:
        case str():
            return parse_timestamp(value) if is_timestamp else parse_date(value)
        case datetime() if is_timestamp:
            return _in_utc(value)
        case date() if not is_timestamp and not isinstance(value, datetime):
            return value
    raise _no_cast(type_, value)


def _no_cast(type_: ArgumentType, value: object) -> InvalidRequestError:
    return InvalidRequestError(f"Cannot cast type {type_of(value)} to {str(type_).lower()}")


def type_of(value: object) -> str:
    """Returns the SQL name of the type of a Python value; the Python name if SQL has none."""
    match value:
        case bool():
            return "boolean"
        case Integral():
            return "integer" if abs(int(value)) >> _BITS["INTEGER"] == 0 else "bigint"
        case Real():
            return "double"
        case Decimal():
            return "decimal"
        case str():
            return "varchar"
        case datetime():
            return "timestamp"
        case date():
            return "date"
        case list() | tuple():
            return "array"
        case Mapping():
            return "map"
    return type(value).__name__


def parse_date(text: str) -> date:
    """Parse a date ``YYYY-MM-DD``. Raises InvalidRequestError."""
    if _DATE.fullmatch(text.strip()):
        try:
            return date.fromisoformat(text.strip())
        except ValueError as error:
            raise InvalidRequestError(f"{text!r} is not a date: {error}") from error
    raise InvalidRequestError(f"{text!r} is not a date such as '2026-01-31'")


def parse_timestamp(text: str, zone: str | None = "UTC") -> datetime:
    """Returns the point in time in UTC that ``text`` names with its zone: ``2026-01-31 12:00:00 Europe/Berlin``.

    The zone is ``UTC``, ``Z``, an offset, or a region. Without one it is ``zone``, by default that of SQL's session;
    None refuses such a text. T may replace the space. Without a time of day it is midnight. In the hour that is
    repeated in autumn, the first one is meant. Raises InvalidRequestError.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise InvalidRequestError(f"{text!r} is not a timestamp such as '2026-01-31 12:00:00 UTC'")
    try:
        naive = datetime.fromisoformat(f"{match['date']} {_clock(match['clock'])}")
    except ValueError as error:
        raise InvalidRequestError(f"{text!r} is not a timestamp: {error}") from error
    named = match["zone"] or zone
    if named is None:
        raise InvalidRequestError(f"{text!r} has no time zone; add one, such as UTC, +02:00 or Europe/Berlin")
    return _to_utc(naive.replace(tzinfo=_zone(named, text)))


def _clock(text: str | None) -> str:
    """Returns the time of day with six digits of fraction: Python 3.10 parses fractions of three or six digits only."""
    whole, _, fraction = (text or "00:00").partition(".")
    return f"{whole}.{fraction:<06}" if fraction else whole


def _zone(name: str, text: str) -> timezone | ZoneInfo:
    if name in ("Z", "z") or name.upper() in ("UTC", "GMT"):
        return timezone.utc
    if name[0] in "+-":
        try:
            offset = datetime.strptime(name.replace(":", "").ljust(5, "0"), "%z").tzinfo
        except ValueError as error:
            raise InvalidRequestError(f"{text!r}: there is no offset {name}") from error
        assert isinstance(offset, timezone)
        return offset
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidRequestError(f"{text!r}: there is no time zone {name}") from error


def _in_utc(value: datetime) -> datetime:
    if value.utcoffset() is None:
        raise InvalidRequestError(
            f"the timestamp '{value.isoformat(sep=' ')}' has no time zone, and a program's own may be any; add one: "
            "datetime(…, tzinfo=timezone.utc)"
        )
    return _to_utc(value)


def _to_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(timezone.utc)
    except OverflowError as error:
        raise InvalidRequestError(f"{value.isoformat(sep=' ')} is out of range in UTC") from error


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return type_of(value) in ("integer", "bigint", "double", "decimal")


def _whole(type_: ArgumentType, value: int) -> int:
    bits = _BITS[type_.name]
    if not -(1 << bits) <= value < 1 << bits:
        raise InvalidRequestError(f"{value} is out of range for {type_.name.lower()}")
    return value


def _as_double(value: Any) -> float:
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if math.isinf(found) and value not in (math.inf, -math.inf):
        raise InvalidRequestError(f"{value} is out of range for double")
    if isinstance(value, Integral) and found != int(value):
        raise InvalidRequestError(f"{value} does not fit double without loss")
    return found


def _as_decimal(type_: ArgumentType, value: Any) -> Decimal:
    number = value if isinstance(value, Decimal) else Decimal(int(value))
    if not number.is_finite():
        raise InvalidRequestError(f"{number} is no number that {type_} can hold")
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    significant = "".join(map(str, digits)).rstrip("0")
    fraction = -exponent - (len(digits) - len(significant))
    if significant and (fraction > type_.scale or number.adjusted() >= type_.precision - type_.scale):
        raise InvalidRequestError(f"{number} does not fit {type_} without loss")
    return number


def _as_map(type_: ArgumentType, value: Mapping[Any, Any]) -> dict[Any, Any]:
    key, element = type_.elements
    if key.elements:
        raise InvalidRequestError(f"a key of a map cannot be of type {str(key).lower()}")
    if None in value:
        raise InvalidRequestError("a key of a map cannot be NULL")
    return {cast_to(key, each): _within(element, one, "a value of a map") for each, one in value.items()}


def _within(type_: ArgumentType, value: Any, what: str) -> Any:
    """Cast a value inside a list or map. NULL is refused there; leave the argument out instead."""
    if value is None:
        raise InvalidRequestError(f"{what} cannot be NULL")
    return cast_to(type_, value)
