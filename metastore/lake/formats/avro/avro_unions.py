"""Avro's unions of several types, as Spark reads them.

A union of int and long is long; a union of float and double is double. Any other union of several types is a struct
with a field ``member0``, ``member1`` … for each type but null; one of the fields has the value. fastavro does not
report the type of a union's value, so the value's own type decides.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from metastore.errors import FormatError

_Convert = Callable[[Any], Any]

_WIDER: Final = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (float,),
    "double": (float,),
    "bytes": (bytes,),
    "string": (str,),
    "fixed": (bytes,),
    "enum": (str,),
    "array": (list,),
    "map": (dict,),
    "decimal": (Decimal,),
    "uuid": (UUID,),
    "date": (dt.date,),
    "record": (dict,),
    "error": (dict,),
}


def members(union: Sequence[Any]) -> list[Any]:
    """Returns the types of a union but null; int and long are one type, and so are float and double."""
    held = [each for each in union if each != "null"]
    names = frozenset(each for each in held if isinstance(each, str))
    return [_WIDER[names]] if len(held) == len(names) and names in _WIDER else held


def member_name(place: int) -> str:
    """Returns the name of the field for a union's type."""
    return f"member{place}"


def converter(avro: Any, names: Mapping[str, Any], around: tuple[str, ...] = ()) -> _Convert | None:
    """Returns a function that puts values of unions into structs, in values of the type ``avro``.

    It raises FormatError for a decimal beyond the digits of its type. Returns None without unions and decimals.
    """
    if isinstance(avro, str):
        return converter(names[avro], names, (*around, avro)) if avro in names and avro not in around else None
    if isinstance(avro, list):
        return _of_union(members(avro), names, around)
    match avro["type"]:
        case "record" | "error":
            inner = (*around, avro["name"])
            inside = {each["name"]: converter(each["type"], names, inner) for each in avro["fields"]}
            return _of_record({name: convert for name, convert in inside.items() if convert is not None})
        case "array" | "map" as kind:
            convert = converter(avro["items" if kind == "array" else "values"], names, around)
            return None if convert is None else _of_many(convert)
        case list() | dict() as other:
            return converter(other, names, around)
        case _ if avro.get("logicalType") == "decimal":
            return _decimal_of(avro["precision"], avro.get("scale", 0))
        case _:
            return None


def _of_record(inside: Mapping[str, _Convert]) -> _Convert | None:
    """Converts the fields of a record that ``inside`` names; None if there are none."""
    if not inside:
        return None

    def convert(record: Any) -> Any:
        if not isinstance(record, Mapping):
            return record
        converted = dict(record)
        for name, each in inside.items():
            if name in record:
                try:
                    converted[name] = each(record[name])
                except FormatError as error:
                    raise FormatError(f"column {name}: {error}") from error
        return converted

    return convert


def _decimal_of(precision: int, scale: int) -> _Convert:
    """Returns a check: fastavro rounds a decimal of too many digits, which another exponent shows."""

    def check_scale(value: Any) -> Any:
        if isinstance(value, Decimal) and value.as_tuple().exponent != -scale:
            raise FormatError(f"it has a decimal of more digits than DECIMAL({precision}, {scale}) has; write it anew")
        return value

    return check_scale


def _of_many(each: _Convert) -> _Convert:
    def convert(values: Any) -> Any:
        if isinstance(values, Mapping):
            return {key: each(value) for key, value in values.items()}
        return None if values is None else [each(value) for value in values]

    return convert


def _of_union(held: Sequence[Any], names: Mapping[str, Any], around: tuple[str, ...]) -> _Convert | None:
    """Converts a value to its member of the struct; None if the union has one type, whose values stay as they are."""
    inside = [converter(each, names, around) for each in held]
    if len(held) < 2:
        return inside[0] if held else None
    kinds = [_kind(each, names) for each in held]

    def convert(value: Any) -> Any:
        if value is None:
            return None
        named, content = value if isinstance(value, tuple) else ("", value)
        for place, kind in enumerate(kinds):
            if _is_of(content, named, held[place], kind, names):
                own = inside[place]
                return {member_name(place): content if own is None else own(content)}
        return None

    return convert


def _kind(avro: Any, names: Mapping[str, Any]) -> str:
    """Returns what distinguishes a type's values: its logical type if Python has a type for it, else its own."""
    if isinstance(avro, str):
        return _kind(names[avro], names) if avro in names else avro
    logical = avro.get("logicalType", "")
    if logical.startswith(("timestamp", "local-timestamp")):
        return "moment"
    if logical.startswith("time-"):
        return "time"
    if logical in _PYTHON:
        return str(logical)
    return avro["type"] if isinstance(avro["type"], str) else _kind(avro["type"], names)


def _is_of(value: Any, named: str, avro: Any, kind: str, names: Mapping[str, Any]) -> bool:
    """Whether ``value`` is of the type ``avro``; ``named`` is the name of its record type if it came with one."""
    written = names[avro] if isinstance(avro, str) and avro in names else avro
    if named:
        return isinstance(written, Mapping) and written.get("name") == named
    match kind:
        case "moment":
            return isinstance(value, dt.datetime)
        case "time":
            return isinstance(value, dt.time)
        case "date":
            return isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31
        case "long":
            return isinstance(value, int) and not isinstance(value, bool)
        case "enum":
            return value in written["symbols"]
        case "record" | "error":
            return isinstance(value, Mapping) and {each["name"] for each in written["fields"]} == value.keys()
        case _:
            return isinstance(value, _PYTHON.get(kind, ()))
