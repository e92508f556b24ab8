"""The values that directories ``name=value`` hold: their common type, and what a text is in it. One rule for all doors.

The type of a column is the one that Spark infers over all its values: INT, BIGINT, DECIMAL (integers beyond 64 bits),
DOUBLE, DATE, else VARCHAR; so ``2024-1-5`` is a day and ``1e3`` a number. Spark's TIMESTAMP depends on a session's
zone, and is text here. The reserved name and an empty value are null. Where DuckDB or Arrow would infer another type,
the column is not usable for pruning: an engine that reads the files itself would see other values.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Final
from urllib.parse import unquote

from metastore.model.drill_types import DrillType
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
_ANY_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:NaN|Infinity)", re.ASCII)
_ANY_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)

_WIDTHS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_MOST_DIGITS: Final = 38
_FLAGS: Final = {"true": True, "false": False}


def is_null(text: str) -> bool:
    """Whether the value ``text`` of a directory, as it stands in the name, is null."""
    return text in ("", NULL_DIRECTORY)


def inferred(values: Collection[str]) -> tuple[DrillType, bool]:
    """The type of a column with these ``values``, as they stand in names; and whether every engine infers it."""
    known = {unquote(value) for value in values if not is_null(value)}
    agreed = _agreed_type(known)
    if agreed is None:
        return _type_in_spark(known), False
    return DrillType(agreed), not any(_ESCAPED_BYTES.search(value) for value in values)


def value_of(text: str, type_: DrillType) -> Value:
    """What ``text``, which is not null and stands unescaped here, is in a column of ``type_``. ValueError for nothing.

    Types without such values (TIMESTAMP, TIME, …) raise ValueError too.
    """
    match type_.name:
        case "VARCHAR":
            return text
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT" as name if _ANY_INTEGER.fullmatch(text):
            number = int(text)
            if -(1 << _WIDTHS[name] - 1) <= number < 1 << _WIDTHS[name] - 1:
                return number
        case "FLOAT" | "DOUBLE" if _ANY_NUMBER.fullmatch(text):
            return float(text)
        case "DECIMAL" if _ANY_NUMBER.fullmatch(text):
            return Decimal(text)
        case "DATE" if found := _ANY_DATE.fullmatch(text):
            return date(*map(int, found.groups()))
        case "BOOLEAN" if text.lower() in _FLAGS:
            return _FLAGS[text.lower()]
    raise ValueError(text)


def _agreed_type(values: Collection[str]) -> str | None:
    """The type that every engine gives a column of ``values``, None where they would differ."""
    if not values or any(_TEXT.fullmatch(value) for value in values):
        return "VARCHAR"
    if all(_INTEGER.fullmatch(value) for value in values):
        return "INT" if all(-(2**31) <= int(value) < 2**31 for value in values) else "BIGINT"
    if all(_INTEGER.fullmatch(value) or _DECIMAL.fullmatch(value) for value in values):
        return "DOUBLE"
    return "DATE" if all(_DATE.fullmatch(value) and _is_day(value) for value in values) else None


def _type_in_spark(values: Collection[str]) -> DrillType:
    if all(_ANY_INTEGER.fullmatch(value) for value in values):
        for name in ("INT", "BIGINT"):
            if all(_is_of(value, DrillType(name)) for value in values):
                return DrillType(name)
        digits = max(len(value.lstrip("+-").lstrip("0")) for value in values)
        # Spark takes a BIGINT beside a DECIMAL for 20 digits.
        return DrillType("DECIMAL", (max(digits, 20), 0)) if digits <= _MOST_DIGITS else DrillType("DOUBLE")
    if all(_ANY_NUMBER.fullmatch(value) for value in values):
        return DrillType("DOUBLE")
    return DrillType("DATE" if all(map(_is_day, values)) else "VARCHAR")


def _is_of(text: str, type_: DrillType) -> bool:
    with suppress(ValueError):
        value_of(text, type_)
        return True
    return False


def _is_day(text: str) -> bool:
    return _is_of(text, DrillType("DATE"))
