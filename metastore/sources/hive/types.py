"""Hive's types: parses the metastore's spelling, and converts to the types of Iceberg and Drill. Pure functions.

Integers of one and two bytes become Iceberg's ``int``, ``char`` and ``varchar`` become ``string``; all is optional.
Hive's types do not say whether a ``timestamp`` is a moment or a local time. That depends on the files, so it is passed
in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from metastore.errors import FormatError
from metastore.model.drill_types import DrillType, StructField

Path = tuple[str, ...]
"""The path of a column or of a part of it; parts of lists and maps have Iceberg's names."""

ELEMENT: Final = "element"
KEY: Final = "key"
VALUE: Final = "value"

_TOKEN = re.compile(r"\s*([A-Za-z_][\w ]*|\d+|[<>(),:]|`[^`]*`)")
_NAME = re.compile(r"\s*(?:`([^`]*)`|([^:<>,`]+?))\s*:")

_ICEBERG: Final[dict[str, PrimitiveType]] = {
    "boolean": BooleanType(),
    "tinyint": IntegerType(),
    "smallint": IntegerType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "char": StringType(),
    "varchar": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
}
_DRILL: Final = {
    "string": "VARCHAR",
    "char": "VARCHAR",
    "varchar": "VARCHAR",
    "binary": "VARBINARY",
    "timestamptz": "TIMESTAMP",
}
_SYNONYMS: Final = {
    "integer": "int",
    "numeric": "decimal",
    "double precision": "double",
    "timestamp with local time zone": "timestamptz",
    "timestamplocaltz": "timestamptz",
}
_DEFAULT_DECIMAL: Final = (10, 0)


@dataclass(frozen=True)
class HiveType:
    """A parsed type: ``decimal(9,2)`` has arguments, a struct has fields, an array and a map have parts.

    ``timestamptz`` stands for Hive's ``timestamp with local time zone``.
    """

    name: str
    arguments: tuple[int, ...] = ()
    parts: tuple[HiveType, ...] = ()
    fields: tuple[tuple[str, HiveType], ...] = ()

    def __str__(self) -> str:
        if self.name == "struct":
            return f"struct<{','.join(f'{name}:{type_}' for name, type_ in self.fields)}>"
        if self.parts:
            return f"{self.name}<{','.join(map(str, self.parts))}>"
        name = "timestamp with local time zone" if self.name == "timestamptz" else self.name
        return f"{name}({','.join(map(str, self.arguments))})" if self.arguments else name

    @property
    def is_nested(self) -> bool:
        """Whether it has parts with values of their own."""
        return bool(self.parts or self.fields)

    def children(self) -> Iterator[tuple[str, HiveType]]:
        """Yields its parts with their names."""
        match self.name:
            case "struct":
                yield from self.fields
            case "array":
                yield ELEMENT, self.parts[0]
            case "map":
                yield KEY, self.parts[0]
                yield VALUE, self.parts[1]


@dataclass(frozen=True)
class HiveLeaf:
    """A part of a column that holds values itself; ``repeated`` if it is inside a list or a map."""

    path: Path
    type: HiveType
    repeated: bool


@lru_cache(maxsize=1024)
def parse(text: str) -> HiveType:
    """Returns ``text`` parsed. Raises FormatError if it is not a type, or for unsupported types (unions, intervals)."""
    reader = _Reader(text)
    found = reader.type()
    reader.end()
    return found


def leaves_of(columns: Sequence[tuple[str, HiveType]]) -> list[HiveLeaf]:
    """Returns all leaves of ``columns``, depth first: the order of every columnar format."""
    return [leaf for name, type_ in columns for leaf in _leaves((name,), type_, repeated=False)]


def iceberg_type(
    type_: HiveType, path: Path, *, is_moment: Callable[[Path], bool], next_id: Callable[[], int]
) -> IcebergType:
    """Returns the Iceberg type; ``is_moment`` maps the path of each ``timestamp`` to whether it is adjusted to UTC."""

    def of(name: str, inner: HiveType) -> IcebergType:
        return iceberg_type(inner, (*path, name), is_moment=is_moment, next_id=next_id)

    match type_.name:
        case "struct":
            return StructType(
                *(NestedField(next_id(), name, of(name, inner), required=False) for name, inner in type_.fields)
            )
        case "array":
            return ListType(next_id(), of(ELEMENT, type_.parts[0]), element_required=False)
        case "map":
            key, value = type_.parts
            return MapType(next_id(), of(KEY, key), next_id(), of(VALUE, value), value_required=False)
        case "timestamp" if is_moment(path):
            return TimestamptzType()
        case _:
            return primitive_type(type_)


def primitive_type(type_: HiveType) -> PrimitiveType:
    """Returns the Iceberg type of one that is not nested; timestamps are taken as local times."""
    return DecimalType(*type_.arguments) if type_.name == "decimal" else _ICEBERG[type_.name]


def drill_type(type_: HiveType) -> DrillType:
    """Returns the type in Drill's words."""
    match type_.name:
        case "struct":
            return DrillType(
                "STRUCT", fields=tuple(StructField(name, drill_type(inner)) for name, inner in type_.fields)
            )
        case "array" | "map" as name:
            return DrillType(name.upper(), parts=tuple(map(drill_type, type_.parts)))
        case "decimal":
            return DrillType("DECIMAL", type_.arguments)
        case name:
            return DrillType(_DRILL.get(name, name.upper()))


def _leaves(path: Path, type_: HiveType, *, repeated: bool) -> Iterator[HiveLeaf]:
    if not type_.is_nested:
        yield HiveLeaf(path, type_, repeated)
    for name, inner in type_.children():
        yield from _leaves((*path, name), inner, repeated=repeated or type_.name != "struct")


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def type(self) -> HiveType:
        """Read one type; a decimal without numbers is (10, 0), as in Hive. Unknown words are refused by name."""
        word = self._word()
        match word:
            case "array":
                return HiveType(word, parts=tuple(self._between("<", ">", 1)))
            case "map":
                return HiveType(word, parts=tuple(self._between("<", ">", 2)))
            case "struct":
                return HiveType(word, fields=tuple(self._struct()))
            case "decimal":
                given = tuple(self._numbers())
                return HiveType(word, given + _DEFAULT_DECIMAL[len(given) :])
            case "char" | "varchar":
                return HiveType(word, tuple(self._numbers()))
            case _ if word in _ICEBERG:
                return HiveType(word)
            case _:
                raise self._refusal(f"{word!r} is no type that Iceberg has a counterpart for")

    def end(self) -> None:
        if self._text[self._at :].strip():
            raise self._refusal(f"nothing was expected at {self._text[self._at :]!r}")

    def _word(self) -> str:
        word = " ".join(self._token().lower().split())
        return _SYNONYMS.get(word, word)

    def _token(self) -> str:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise self._refusal(f"a type was expected at {self._text[self._at :]!r}")
        self._at = match.end()
        return match.group(1)

    def _expect(self, token: str) -> None:
        if (found := self._token()) != token:
            raise self._refusal(f"{token!r} was expected, and there is {found!r}")

    def _between(self, opening: str, closing: str, count: int) -> Iterator[HiveType]:
        self._expect(opening)
        for index in range(count):
            if index:
                self._expect(",")
            yield self.type()
        self._expect(closing)

    def _struct(self) -> Iterator[tuple[str, HiveType]]:
        self._expect("<")
        while True:
            match = _NAME.match(self._text, self._at)
            if match is None:
                raise self._refusal(f"the name of a field was expected at {self._text[self._at :]!r}")
            self._at = match.end()
            yield match.group(1) or match.group(2), self.type()
            if (mark := self._token()) == ">":
                return
            if mark != ",":
                raise self._refusal(f"',' or '>' was expected, and there is {mark!r}")

    def _numbers(self) -> Iterator[int]:
        if not self._text[self._at :].lstrip().startswith("("):
            return
        self._expect("(")
        while True:
            number = self._token()
            if not number.isdecimal():
                raise self._refusal(f"a number was expected, and there is {number!r}")
            yield int(number)
            if (mark := self._token()) == ")":
                return
            if mark != ",":
                raise self._refusal(f"',' or ')' was expected, and there is {mark!r}")

    def _refusal(self, why: str) -> FormatError:
        return FormatError(f"the Hive type {self._text!r} cannot be used: {why}")
