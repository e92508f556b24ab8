"""Converts values in footers and paths for ``add_files`` to the values that Iceberg computes with and stores.

Promises: a bound is truncated as requested and never becomes narrower. A string in a path is converted exactly, or
refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import Any, Final
from uuid import UUID

from pyiceberg.conversions import to_bytes
from pyiceberg.expressions.literals import AboveMax, BelowMin, literal
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    UUIDType,
)
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string, truncate_upper_bound_text_string

from metastore.errors import ProcedureError

_ALL_DIGITS: Final = Context(prec=100)
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_REAL: Final = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|Infinity)")
_SPELLINGS: Final[Mapping[type[PrimitiveType], re.Pattern[str]]] = {
    IntegerType: _WHOLE,
    LongType: _WHOLE,
    FloatType: _REAL,
    DoubleType: _REAL,
}
"""The spelling of numbers in paths. Python would also accept blanks and underscores."""


def bound_bytes(kind: PrimitiveType, bound: Any, length: int | None, *, upper: bool) -> bytes | None:
    """Returns Iceberg's binary form of a bound, truncated outwards to ``length``; None if there is no bound."""
    value = internal(kind, bound)
    if value is None or isinstance(kind, FixedType):
        return None
    try:
        if length is not None and isinstance(kind, StringType):
            value = truncate_upper_bound_text_string(value, length) if upper else value[:length]
        elif length is not None and isinstance(kind, BinaryType):
            value = truncate_upper_bound_binary_string(value, length) if upper else value[:length]
        return None if value is None else to_bytes(kind, value)
    except UnicodeEncodeError:  # The next larger string would contain half of a surrogate pair.
        return None


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


def key_value(kind: PrimitiveType, text: str | None, name: str) -> Any:
    """Returns the exact value of ``text``. PyIceberg would cut off fractions and clamp values out of range.

    Raises ProcedureError if ``text`` is not a value of ``kind``.
    """
    if text is None:
        return None
    spelling = _SPELLINGS.get(type(kind))
    try:
        found = literal(text).to(kind)
    except (ValueError, TypeError) as error:
        raise ProcedureError(f"its path says {name}={text!r}, which is no {kind}") from error
    value: Any = found.value
    overflows = isinstance(value, float) and math.isinf(value) and "inf" not in text.lower()
    if (spelling and not spelling.fullmatch(text)) or isinstance(found, AboveMax | BelowMin) or overflows:
        raise ProcedureError(f"its path says {name}={text!r}, which is no {kind}")
    return value
