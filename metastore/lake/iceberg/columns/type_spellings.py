"""Types of format version 3 as other writers spell them, which PyIceberg alone does not parse.

PyIceberg refuses a table with an unsupported type as a whole. This module adds to its parser, for the whole process:
the type ``variant``; ``geometry(C)`` and ``geography(C, A)`` without quotes, as the specification writes them; defaults
of timestamps in nanoseconds; and the default ``{}`` of structs, whose fields have defaults of their own. Then all that
needs only metadata works. PyIceberg parses fields of structs, and elements of lists and maps, in different places; both
know the types. Defaults of decimals are written without exponents, as the specification has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field
from pyiceberg.conversions import from_json, to_json
from pyiceberg.typedef import TableVersion
from pyiceberg.types import (
    DecimalType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)

_VARIANT: Final = "variant"
_GEOMETRY: Final = re.compile(r"geometry\(\s*([^'()\s]+)\s*\)")
_GEOGRAPHY: Final = re.compile(r"geography\(\s*([^'(),\s]+)\s*(?:,\s*([^'(),\s]+)\s*)?\)")


class VariantType(PrimitiveType):
    """Values that have types of their own, in bytes that only engines with variants can read."""

    root: Literal["variant"] = Field(default=_VARIANT)

    def minimum_format_version(self) -> TableVersion:
        """Return the first format version with this type."""
        return 3


_parsed_by_pyiceberg: Final[Any] = IcebergType.handle_primitive_type


def _parse_type(value: Any, handler: Any) -> IcebergType:
    if value == _VARIANT:
        return VariantType()
    if isinstance(value, str):
        if found := _GEOMETRY.fullmatch(value):
            return GeometryType(found[1])
        if found := _GEOGRAPHY.fullmatch(value):
            return GeographyType(found[1], *found.groups()[1:] if found[2] else ())
    known: IcebergType = _parsed_by_pyiceberg(value, handler)
    return known


def _with_parsed_parts(kind: Any, *parts: str) -> None:
    """Let the constructor of ``kind`` parse the named ``parts`` if they are texts."""
    create = kind.__init__

    def create_parsed(self: Any, *arguments: Any, **data: Any) -> None:
        texts = {part: data[part] for part in parts if isinstance(data.get(part), str)}
        create(self, *arguments, **{**data, **{part: _parse_type(text, None) for part, text in texts.items()}})

    kind.__init__ = create_parsed


_with_parsed_parts(ListType, "element")
_with_parsed_parts(MapType, "key", "value")
IcebergType.handle_primitive_type = staticmethod(_parse_type)  # type: ignore[assignment,method-assign] # no registry there


# PyIceberg's fields keep no mapping as their default. This one is always empty, so a text stands for it.
_registered: Final[Any] = (from_json, to_json)
_registered[0].register(StructType, lambda _kind, value: str(value))
_registered[1].register(StructType, lambda _kind, _value: {})


def _nanoseconds(_kind: IcebergType, value: str | int) -> int:
    if isinstance(value, int):  # PyIceberg also asks for values that it has read before
        return value
    return int(np.datetime64(value.removesuffix("+00:00"), "ns").astype(np.int64))


def _with_nanoseconds(kind: IcebergType, value: int) -> str:
    return f"{np.datetime64(value, 'ns')}{'+00:00' if isinstance(kind, TimestamptzNanoType) else ''}"


for _kind in (TimestampNanoType, TimestamptzNanoType):
    _registered[0].register(_kind, _nanoseconds)
    _registered[1].register(_kind, _with_nanoseconds)


_registered[1].register(DecimalType, lambda _kind, value: f"{value:f}")  # PyIceberg writes small ones with exponents

_DEFAULTS: Final = ("initial-default", "write-default")


def specified_defaults(part: Any) -> Any:
    """Return fields in JSON with one spelling of each default, such as lower-case digits of bytes; without null ones.

    Raises the errors of PyIceberg's readers of values.
    """
    if isinstance(part, Sequence) and not isinstance(part, str):
        return [specified_defaults(each) for each in part]
    if not isinstance(part, Mapping):
        return part
    found = {}
    for key, value in part.items():
        if key not in _DEFAULTS:
            found[key] = specified_defaults(value)
        elif value is not None:
            kind = part["type"]
            parsed: Any = _parse_type(kind, None) if isinstance(kind, str) else None
            found[key] = value if parsed is None else to_json(parsed, from_json(parsed, value))
    return found


_QUOTED: Final = re.compile(r"(geometry|geography)\(('[^']*'(?:, '[^']*')?)\)")


def specified_types(kind: Any) -> Any:
    """Return a type, field or schema in JSON with geometries as the specification writes them, which has no quotes."""
    if isinstance(kind, str):
        found = _QUOTED.fullmatch(kind)
        return kind if found is None else f"{found[1]}({found[2].replace(chr(39), '')})"
    if isinstance(kind, Mapping):
        parts = {key: specified_types(kind[key]) for key in ("type", "element", "key", "value") if key in kind}
        fields = {"fields": [specified_types(field) for field in kind["fields"]]} if "fields" in kind else {}
        return {**kind, **parts, **fields}
    return kind
