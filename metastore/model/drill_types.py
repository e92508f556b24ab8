"""Drill's type names: their spelling in schemas and in statistics, and the common type of two types.

Schemas use SQL spelling (``DECIMAL(9, 2)``, ``STRUCT<`a` INT>``), statistics the minor type (``VARDECIMAL``). Both form
a semilattice under :func:`common_type`: a column's type does not depend on the order in which files are merged.

* integers widen; signed and unsigned give the next wider signed type, UINT8 and signed give DECIMAL(20, 0);
* integers and decimals give a decimal, or DOUBLE if 38 digits do not suffice;
* FLOAT and FLOAT give FLOAT; every other number with FLOAT or DOUBLE gives DOUBLE;
* structs merge field by field, arrays and maps by their elements; all else gives VARCHAR.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from metastore.errors import FormatError
from metastore.model.column_path import quoted_name, unquote_name

_Item = TypeVar("_Item")

NO_TYPE = "NULL"
"""The type of a column without any value; every other type replaces it."""

_MINOR_OF = {
    "BOOLEAN": "BIT",
    "FLOAT": "FLOAT4",
    "DOUBLE": "FLOAT8",
    "DECIMAL": "VARDECIMAL",
    "INTEGER": "INT",
    "STRUCT": "STRUCT",
    "ARRAY": "LIST",
    "MAP": "DICT",
    "CHARACTER VARYING": "VARCHAR",
    "BINARY VARYING": "VARBINARY",
    "INTERVAL YEAR": "INTERVALYEAR",
    "INTERVAL DAY": "INTERVALDAY",
}
_SQL_OF = {"BIT": "BOOLEAN", "FLOAT4": "FLOAT", "FLOAT8": "DOUBLE", "VARDECIMAL": "DECIMAL"}

_SIGNED = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_UNSIGNED = ("UINT1", "UINT2", "UINT4", "UINT8")
_INTEGER_DIGITS = dict(zip((*_SIGNED, *_UNSIGNED), (3, 5, 10, 19, 5, 10, 19, 20), strict=True))
"""Digits of a decimal that holds the type. An unsigned type counts like the next wider signed type, their common type.
Otherwise the digits would depend on the order in which three types are merged."""

_MAX_DIGITS = 38

INTEGER_TYPES = frozenset(_INTEGER_DIGITS)
_BITS = (8, 16, 32, 64)
INTEGER_LIMITS = {
    **{name: (-(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in zip(_SIGNED, _BITS, strict=True)},
    **{name: (0, (1 << bits) - 1) for name, bits in zip(_UNSIGNED, _BITS, strict=True)},
}
"""The least and the largest whole number of each type."""

FLOAT_TYPES = frozenset({"FLOAT4", "FLOAT8"})


@dataclass(frozen=True)
class DrillType:
    """A parsed type: ``DECIMAL(9, 2)`` has arguments, arrays and maps have parts, a struct may have fields."""

    name: str
    arguments: tuple[int, ...] = ()
    fields: tuple[StructField, ...] = ()
    parts: tuple[DrillType, ...] = ()

    @property
    def precision_and_scale(self) -> tuple[int, int]:
        """Those of a DECIMAL; 38 and 0 if they are not given."""
        return (self.arguments or (_MAX_DIGITS,))[0], (*self.arguments, 0, 0)[1]

    def __str__(self) -> str:
        if self.name == "STRUCT":
            return f"STRUCT<{', '.join(map(str, self.fields))}>"
        if self.parts:
            return f"{self.name}<{', '.join(map(str, self.parts))}>"
        return f"{self.name}({', '.join(map(str, self.arguments))})" if self.arguments else self.name


@dataclass(frozen=True)
class StructField:
    """One field of a struct type."""

    name: str
    type: DrillType
    required: bool = False

    def __str__(self) -> str:
        return f"{quoted_name(self.name)} {self.type}{' NOT NULL' if self.required else ''}"


def minor_type(sql_type: str) -> str:
    """The minor type that statistics use for ``sql_type``; an unknown type is its own minor type."""
    name = sql_type.split("(", 1)[0].split("<", 1)[0].strip().upper()
    return _MINOR_OF.get(name, name)


@lru_cache(maxsize=1024)
def parse_type(text: str) -> DrillType:
    """Parses ``text``; raises FormatError with the position if it is not a type."""
    reader = _TypeReader(text)
    parsed = reader.type()
    reader.end()
    return parsed


@lru_cache(maxsize=1024)
def spelled_for_drill(text: str) -> str:
    """``text`` with INT in place of types that Drill has no word for: types without values, and empty structs."""
    type_ = parse_type(text)
    spelled = _for_drill(type_)
    return text if spelled == type_ else str(spelled)


def _for_drill(type_: DrillType) -> DrillType:
    if type_.name == NO_TYPE or (type_.name == "STRUCT" and not type_.fields):
        return DrillType("INT")
    fields = tuple(replace(field, type=_for_drill(field.type)) for field in type_.fields)
    return replace(type_, fields=fields, parts=tuple(map(_for_drill, type_.parts)))


@lru_cache(maxsize=4096)
def common_type(left: str, right: str) -> str:
    """The narrowest SQL type that holds the values of both (see the module's rules)."""
    if left == right:
        return left
    return str(_join(parse_type(left), parse_type(right)))


def has_twin_fields(type_: DrillType) -> bool:
    """Whether two fields of one struct, at any depth, have names that differ only in case."""
    is_twin = len({field.name.lower() for field in type_.fields}) < len(type_.fields)
    return is_twin or any(map(has_twin_fields, (*(field.type for field in type_.fields), *type_.parts)))


def folded_fields(type_: DrillType) -> DrillType:
    """``type_`` with fields joined, at every depth, if their names differ only in case; the first name is kept."""
    fields: dict[str, StructField] = {}
    for field in type_.fields:
        same = fields.setdefault(field.name.lower(), field)
        if same is not field:
            fields[field.name.lower()] = StructField(same.name, _join(same.type, field.type))
    whole = tuple(replace(field, type=folded_fields(field.type)) for field in fields.values())
    return replace(type_, fields=whole, parts=tuple(map(folded_fields, type_.parts)))


@lru_cache(maxsize=4096)
def common_minor_type(left: str, right: str) -> str:
    """:func:`common_type` for minor types, whose decimals have no digits: integers and decimals give VARDECIMAL."""
    if left == right:
        return left
    # A decimal without digits counts as the widest integer decimal, so it includes integers and nothing overflows.
    sql = [
        DrillType("DECIMAL", (_MAX_DIGITS, 0)) if m == "VARDECIMAL" else DrillType(_SQL_OF.get(m, m))
        for m in (left, right)
    ]
    return minor_type(str(_join(*sql)))


def _join(left: DrillType, right: DrillType) -> DrillType:
    if left == right or right.name == NO_TYPE:
        return left
    if left.name == NO_TYPE:
        return right
    if (digits := _digits(left)) and (others := _digits(right)):
        return _join_exact(left, right, digits, others)
    if _is_number(left) and _is_number(right):
        return DrillType("DOUBLE")
    if left.name == right.name == "STRUCT":
        return DrillType("STRUCT", fields=tuple(_join_fields(left, right)))
    if left.name == right.name and left.parts and len(left.parts) == len(right.parts):
        return DrillType(left.name, parts=tuple(_join(a, b) for a, b in zip(left.parts, right.parts, strict=True)))
    return DrillType("VARCHAR")


def _join_exact(left: DrillType, right: DrillType, digits: tuple[int, int], others: tuple[int, int]) -> DrillType:
    if left.name in INTEGER_TYPES and right.name in INTEGER_TYPES:
        for family in (_SIGNED, _UNSIGNED):
            if left.name in family and right.name in family:
                return max(left, right, key=lambda t: family.index(t.name))
        signed, unsigned = (left, right) if left.name in _SIGNED else (right, left)
        wide_enough = _UNSIGNED.index(unsigned.name) + 1
        if wide_enough < len(_SIGNED):
            return DrillType(_SIGNED[max(wide_enough, _SIGNED.index(signed.name))])
    scale = max(digits[1], others[1])
    precision = max(digits[0] - digits[1], others[0] - others[1]) + scale
    return DrillType("DECIMAL", (precision, scale)) if precision <= _MAX_DIGITS else DrillType("DOUBLE")


def _digits(type_: DrillType) -> tuple[int, int] | None:
    """Precision and scale of an exact number, None for other types."""
    if type_.name == "DECIMAL":
        return type_.precision_and_scale
    return (_INTEGER_DIGITS[type_.name], 0) if type_.name in INTEGER_TYPES else None


def _is_number(type_: DrillType) -> bool:
    return type_.name in ("FLOAT", "DOUBLE") or _digits(type_) is not None


def _join_fields(left: DrillType, right: DrillType) -> Iterator[StructField]:
    ours, theirs = ({f.name: f for f in t.fields} for t in (left, right))
    for name in dict.fromkeys((*ours, *theirs)):
        a, b = ours.get(name), theirs.get(name)
        if a and b:
            yield StructField(name, _join(a.type, b.type), a.required and b.required)
        elif only := a or b:
            yield StructField(name, only.type)


_TOKEN = re.compile(r"\s*(?:`((?:[^`\\]|``|\\.)*)`|(\w+)|([<>(),]))", re.DOTALL)
_LONG_NAMES = {"CHARACTER": "VARCHAR", "BINARY": "VARBINARY", "INTEGER": "INT"}


class _TypeReader:
    """Recursive descent over one type text; a length (``VARCHAR(20)``) is ignored, a decimal's digits are kept."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def type(self) -> DrillType:
        name = self._next().upper()
        self._take("VARYING")
        name = _LONG_NAMES.get(name, name)
        if name == "INTERVAL":
            name += next((f" {unit}" for unit in ("YEAR", "DAY") if self._take(unit)), "")
        if self._take("<"):
            if name == "STRUCT":
                return DrillType(name, fields=() if self._take(">") else self._items(self._field, ">"))
            return DrillType(name, parts=self._items(self.type, ">"))
        if self._take("("):
            digits = self._items(self._number, ")")
            return DrillType(name, digits if name == "DECIMAL" else ())
        return DrillType(name)

    def end(self) -> None:
        if self._text[self._position :].strip():
            raise self._error("the end")

    def _field(self) -> StructField:
        name, type_ = self._next(), self.type()
        required = self._take("NOT") and self._take("NULL")
        return StructField(name, type_, required)

    def _number(self) -> int:
        word = self._next()
        if not word.isdecimal():
            raise self._error("a number")
        return int(word)

    def _items(self, item: Callable[[], _Item], closing: str) -> tuple[_Item, ...]:
        items = [item()]
        while self._take(","):
            items.append(item())
        if not self._take(closing):
            raise self._error(repr(closing))
        return tuple(items)

    def _next(self) -> str:
        match = _TOKEN.match(self._text, self._position)
        if match is None or match.group(3):
            raise self._error("a name")
        self._position = match.end()
        quoted, bare, _ = match.groups()
        return bare if quoted is None else unquote_name(quoted)

    def _take(self, expected: str) -> bool:
        match = _TOKEN.match(self._text, self._position)
        if match is None or expected != (match.group(3) or (match.group(2) or "").upper()):
            return False
        self._position = match.end()
        return True

    def _error(self, expected: str) -> FormatError:
        return FormatError(f"{self._text!r} is no column type: {expected} is expected at position {self._position + 1}")
