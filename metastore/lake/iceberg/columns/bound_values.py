"""Bounds of columns in Iceberg's binary form: what manifests hold of the values that a footer states.

Promises: a bound is truncated as requested and never becomes narrower. The encoding itself is PyIceberg's.
"""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import Any, Final
from uuid import UUID

from pyiceberg.conversions import to_bytes
from pyiceberg.types import BinaryType, DecimalType, FixedType, PrimitiveType, StringType, UUIDType
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string

_ALL_DIGITS: Final = Context(prec=100)


def bound_bytes(kind: PrimitiveType, bound: Any, length: int | None, *, upper: bool) -> bytes | None:
    """Returns Iceberg's binary form of a bound, truncated outwards to ``length``; None if there is no bound."""
    value = internal(kind, bound)
    if value is None or isinstance(kind, FixedType) or value != value:
        return None
    if length is not None and isinstance(kind, (StringType, BinaryType)) and len(value) > length:
        value = above_all_with(value[:length]) if upper else value[:length]
    return None if value is None else to_bytes(kind, value)


def internal(kind: PrimitiveType, value: Any) -> Any:
    """Returns a footer's value as Iceberg computes with it (days, microseconds, UUIDs); None stays None."""
    match value:
        case datetime():
            return datetime_to_micros(value.replace(tzinfo=None))
        case date():
            return date_to_days(value)
        case time():
            return time_to_micros(value)
        case bytes() if isinstance(kind, UUIDType):
            return UUID(bytes=value)
        case Decimal() if isinstance(kind, DecimalType):
            # ORC footers omit trailing zeros.
            scaled = value.quantize(Decimal((0, (1,), -kind.scale)), context=_ALL_DIGITS)
            return scaled if scaled == value else None
        case _:
            return value


def above_all_with(prefix: Any) -> Any:
    """Returns the least text or bytes of at most that length above all that begin with ``prefix``; None if none is."""
    if isinstance(prefix, bytes):
        return truncate_upper_bound_binary_string(prefix + b"\0", len(prefix))
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Half of a surrogate pair is not a valid text.
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)
