"""The values of directories ``name=value``: their common type, and a text's value in it.

ANALYZE and scans share this rule. The type of a column is the one that Spark infers over all its values: INT, BIGINT,
DECIMAL (whole numbers in another spelling, or beyond 64 bits), DOUBLE, DATE (exactly ten characters, so ``2024-1-5`` is
text), else VARCHAR. Spark's TIMESTAMP depends on a session's zone, and is text here. The reserved name and an empty
value are null. If DuckDB or Arrow would infer another type, the column is not used for pruning, because such an engine
would read other values from the files.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Final
from urllib.parse import unquote

from metastore.model.drill_types import INTEGER_LIMITS, DrillType
from metastore.model.statistics import Value

NULL_DIRECTORY: Final = "__HIVE_DEFAULT_PARTITION__"

_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,15}\.\d{1,15}", re.ASCII)
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", re.ASCII)
_TEXT = re.compile(r"(?!t\d|nan|inf|epoch)[^\W\d_].*", re.IGNORECASE | re.DOTALL)
"""Text to every engine: no number, date or time starts with such a letter."""

_ESCAPED_BYTES = re.compile(r"%[89a-f][0-9a-f]", re.IGNORECASE)
"""Escapes beyond ASCII, which engines decode in different ways."""

_ANY_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_ANY_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?|[+-]?(?:NaN|Infinity)", re.ASCII)
_SUFFIXES: Final = "dDfFNy"
"""Suffixes that only a floating-point number has, including those of NaN and Infinity."""

_DIGITS: Final = {"INT": 10, "BIGINT": 20}
"""Digits of the decimals to which Spark widens integers."""

_MOST_DIGITS: Final = 38
_FLAGS: Final = {"true": True, "false": False}


def is_null(text: str) -> bool:
    """Whether ``text``, the value of a directory as written in its name, is null."""
    return text in ("", NULL_DIRECTORY)


def infer_type(values: Collection[str]) -> tuple[DrillType, bool]:
    """Returns the type of a column with these ``values``, as written in names, and whether every engine infers it."""
    known = {unquote(value) for value in values if not is_null(value)}
    agreed = _agreed_type(known)
    if agreed is None:
        return _type_in_spark(known), False
    return DrillType(agreed), not any(_ESCAPED_BYTES.search(value) for value in values)


def value_of(text: str, type_: DrillType) -> Value:
    """Returns the value of ``text``, which is unescaped and not null, in a column of ``type_``.

    Raises ValueError for a text without a value, and for types without such values (TIMESTAMP, TIME, …).
    """
    match type_.name:
        case "VARCHAR":
            return text
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT" as name if _ANY_INTEGER.fullmatch(text):
            least, most = INTEGER_LIMITS[name]
            if least <= (number := int(text)) <= most:
                return number
        case "FLOAT" | "DOUBLE" if _ANY_NUMBER.fullmatch(text):
            return float(text.rstrip("dDfF"))
        case "DECIMAL" if _ANY_NUMBER.fullmatch(text) and text[-1] not in _SUFFIXES:
            return Decimal(text)
        case "DATE" if _DATE.fullmatch(text):
            return date.fromisoformat(text)
        case "BOOLEAN" if text.lower() in _FLAGS:
            return _FLAGS[text.lower()]
    raise ValueError(text)


def _agreed_type(values: Collection[str]) -> str | None:
    """Returns the type that every engine gives a column of ``values``; None if engines differ."""
    if not values or any(_TEXT.fullmatch(value) for value in values):
        return "VARCHAR"
    if all(_INTEGER.fullmatch(value) for value in values):
        return "INT" if all(-(2**31) <= int(value) < 2**31 for value in values) else "BIGINT"
    if all(_INTEGER.fullmatch(value) or _DECIMAL.fullmatch(value) for value in values):
        return "DOUBLE"
    return "DATE" if all(_DATE.fullmatch(value) and _is_day(value) for value in values) else None


def _type_in_spark(values: Collection[str]) -> DrillType:
    kinds = {_kind_in_spark(value) for value in values}
    if len(kinds) == 1:
        return kinds.pop()
    names = {kind.name for kind in kinds}
    if names <= {"INT", "BIGINT"}:
        return DrillType("BIGINT")
    if names <= {"INT", "BIGINT", "DECIMAL"}:
        return DrillType("DECIMAL", (max(_DIGITS.get(kind.name) or kind.arguments[0] for kind in kinds), 0))
    # Spark reads a DECIMAL together with a DOUBLE as text.
    return DrillType("DOUBLE" if names <= {"INT", "BIGINT", "DOUBLE"} else "VARCHAR")


def _kind_in_spark(text: str) -> DrillType:
    """Returns Spark's type of one value; for a number without a fraction, the exact type that holds it."""
    for name in ("INT", "BIGINT"):
        if _is_of(text, DrillType(name)):
            return DrillType(name)
    if _ANY_NUMBER.fullmatch(text) and text[-1] not in _SUFFIXES:
        number = Decimal(text)
        exponent = number.as_tuple().exponent
        if isinstance(exponent, int) and exponent >= 0:
            digits = len(number.as_tuple().digits) + exponent
            return DrillType("DECIMAL", (digits, 0)) if digits <= _MOST_DIGITS else DrillType("DOUBLE")
    if _is_of(text, DrillType("DOUBLE")):
        return DrillType("DOUBLE")
    return DrillType("DATE" if _DATE.fullmatch(text) and _is_day(text) else "VARCHAR")


def _is_of(text: str, type_: DrillType) -> bool:
    with suppress(ValueError):
        value_of(text, type_)
        return True
    return False


def _is_day(text: str) -> bool:
    return _is_of(text, DrillType("DATE"))
