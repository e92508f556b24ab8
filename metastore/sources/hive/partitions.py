"""Partitions of Hive tables: values as text and as typed values, and the names of folders. Pure functions.

The metastore stores the values of a partition as plain text, and these are authoritative. Folder names hold them
escaped, but a partition may lie in a folder of any other name. A reserved value stands for null.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Final
from urllib.parse import unquote

from metastore.errors import FormatError, InvalidRequestError
from metastore.model.drill_types import INTEGER_LIMITS
from metastore.sources.directory_values import NULL_DIRECTORY
from metastore.sources.hive.types import HiveType

PartitionValue = bool | int | float | str | Decimal | date | datetime | None

_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^") | {chr(code) for code in range(1, 32)} | {"\x7f"}
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
# Python's own parsers accept more: underscores, blanks, digits of other scripts, weeks.
_EXACT: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_REAL: Final = re.compile(rf"{_EXACT.pattern}|[+-]?Infinity", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?)?", re.ASCII)

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")

PARTITION_TYPES: Final = frozenset(
    {*_INTEGERS, "boolean", "float", "double", "string", "char", "varchar", "date", "timestamp", "decimal"}
)
"""Types whose values a partition can have."""


def typed_value(text: str, type_: HiveType) -> PartitionValue:
    """Returns the typed value of the text of a partition column; None for null. Raises FormatError if it is invalid."""
    if text == NULL_DIRECTORY:
        return None
    try:
        return _parse_value(text, type_)
    except (ValueError, InvalidOperation) as error:
        raise FormatError(f"{text!r} is no {type_}") from error


def partition_name(values: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    """Returns the default folder name of a partition: ``k=v/l=w``, escaped as Hive does."""
    pairs = values.items() if isinstance(values, Mapping) else values
    return "/".join(f"{escape_name(name)}={escape_name(value) if value else NULL_DIRECTORY}" for name, value in pairs)


def escape_name(text: str) -> str:
    """Returns ``text`` escaped for a folder's name."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def folder_value(folder: str) -> tuple[str, str] | None:
    """Returns the column and value in a folder's name, unescaped, or None for a name of another form."""
    name, equals, value = folder.partition("=")
    return (unquote(name, errors="strict"), unquote(value, errors="strict")) if equals and name and value else None


def has_values(values: Mapping[str, str], wanted_values: Mapping[str, str]) -> bool:
    """Returns whether a partition has all ``wanted_values`` values. Names ignore case; the reserved value means null.

    Raises InvalidRequestError for a column that partitions do not have.
    """
    by_lower = {name.lower(): value for name, value in values.items()}
    for name, value in wanted_values.items():
        if name.lower() not in by_lower:
            raise InvalidRequestError(f"{name} is no partition column; the table has {', '.join(values)}")
        if by_lower[name.lower()] != value:
            return False
    return True


def _parse_value(text: str, type_: HiveType) -> PartitionValue:
    """The value of a partition's text, exact in its type; ValueError or ArithmeticError for any other text."""
    match type_.name:
        case "string" | "char" | "varchar":
            return text
        case name if name in _INTEGERS and _INTEGER.fullmatch(text):
            least, most = INTEGER_LIMITS[name.upper()]
            return number if least <= (number := int(text)) <= most else _refuse(text)
        case "boolean":
            return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else _refuse(text)
        case "double" if _REAL.fullmatch(text):
            return float(text)
        case "float" if _REAL.fullmatch(text):
            return _single(text)
        case "decimal" if _EXACT.fullmatch(text):
            precision, scale = type_.arguments
            value = Decimal(text)
            # Hive writes 1.10 as 1.1: zeros at the end may be missing, but no digit may be lost or exceed the scale.
            exact = value.quantize(Decimal(1).scaleb(-scale), context=Context(prec=precision))
            return exact if exact == value else _refuse(text)
        case "date" if _DATE.fullmatch(text):
            return date.fromisoformat(text)
        case "timestamp":
            return _timestamp(text)
        case _:
            return _refuse(text)


def _single(text: str) -> float:
    """Returns ``text`` as the nearest number of four bytes, as ``float`` stores it."""
    try:
        kept: float = struct.unpack("<f", struct.pack("<f", float(text)))[0]
    except OverflowError as error:
        raise ValueError(text) from error
    return kept


def _timestamp(text: str) -> datetime:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(text)
    day, clock, fraction = match.groups()
    if fraction and fraction[6:].strip("0"):
        raise ValueError(text)
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    return datetime.fromisoformat(f"{day}T{clock or '00:00:00'}").replace(microsecond=micros)


def _refuse(text: str) -> PartitionValue:
    raise ValueError(text)
