"""Converts strings in paths to the values that Iceberg computes with: exactly, or they are refused."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from pyiceberg.expressions.literals import AboveMax, BelowMin, literal
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
)

from metastore.errors import ProcedureError

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_REAL: Final = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|Infinity)")
_SPELLINGS: Final[Mapping[type[PrimitiveType], re.Pattern[str]]] = {
    IntegerType: _WHOLE,
    LongType: _WHOLE,
    FloatType: _REAL,
    DoubleType: _REAL,
}
"""The spelling of numbers in paths. Python would also accept blanks and underscores."""


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
