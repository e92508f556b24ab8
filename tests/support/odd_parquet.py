"""Parquet files as old and foreign writers make them: layouts of maps and lists, types and groups that are rare.

Each is written by Arrow, and its footer changed into what the other writer says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from support.footers import (
    LIST,
    LOGICAL,
    MAP,
    MAP_KEY_VALUE,
    OPTIONAL,
    REPEATED,
    REQUIRED,
    annotate,
    change_schema,
    element,
    group,
    rename,
    set_numbers,
)

from metastore.lake.formats.parquet.thrift_structs import Struct

Change = Callable[[list[Struct]], None]

PAIRS: pa.Array[Any] = pa.array([[("a", 1), ("b", None)], None, [], [("c", 3)]], pa.map_(pa.string(), pa.int64()))
STRUCTS: pa.Array[Any] = pa.array(
    [[{"key": "a", "value": 1}, {"key": "b", "value": None}], None, [], [{"key": "c", "value": 3}]],
    pa.list_(pa.field("e", pa.struct([("key", pa.string()), ("value", pa.int64())]), nullable=False)),
)
NULL_KEY: Final = pa.array([[{"key": None, "value": 1}], None, [], [{"key": "c", "value": 3}]], STRUCTS.type)
KEYS: Final = pa.array(
    [[{"key": "a"}, {"key": "b"}], None, [], [{"key": "c"}]],
    pa.list_(pa.field("e", pa.struct([("key", pa.string())]), nullable=False)),
)
NUMBERS: pa.Array[Any] = pa.array([[1, 2], None, [], [3]], pa.list_(pa.field("e", pa.int64(), nullable=False)))
TEXTS: Final = pa.array([["a", "b"], None, [], ["c"]], pa.list_(pa.field("key", pa.string(), nullable=False)))
POINTS: Final = pa.array([b"\x01\x01\0\0\0" + bytes(16), None, b"\x01\x01\0\0\0" + b"\1" * 16, b""], pa.binary())
SHORT: Final = pa.array([(10**15).to_bytes(8, "big"), None, (-150).to_bytes(2, "big", signed=True), b"\0"], pa.binary())
LONG: Final = pa.array([(10**40).to_bytes(20, "big"), None, (-150).to_bytes(2, "big", signed=True), b"\0"], pa.binary())
MONTHS: Final = pa.array([bytes(12), None, b"\1" * 12, b"\2" * 12], pa.binary(12))
LOGICAL_MAP, UNKNOWN, GEOMETRY, GEOGRAPHY, NEWER = 2, 11, 17, 18, 40
"""Logical types by number; no specification has the last one."""
DECIMAL, ENUM, BSON, INTERVAL = 5, 4, 20, 21
"""Converted types."""


def _as_written(_: list[Struct]) -> None:
    """Change nothing."""


def _old_map(converted: int, middle: str, inner: int | None = None) -> Change:
    """The group ``v`` annotated as in files of before 2014, with a repeated group called ``middle``."""

    def change(elements: list[Struct]) -> None:
        outer = element(elements, "v")
        outer.pop(LOGICAL, None)
        set_numbers(outer, converted=converted)
        repeated = elements[elements.index(outer) + 1]
        rename(repeated, middle)
        set_numbers(repeated, converted=inner)

    return change


def _optional_keys(name: str = "v", converted: int = MAP, *, children: int = 2) -> Change:
    """The first list of structs called ``name`` becomes a map whose keys may be null, as Presto wrote them."""

    def change(elements: list[Struct]) -> None:
        outer = element(elements, name)
        outer.pop(LOGICAL, None)
        set_numbers(outer, converted=converted)
        place = elements.index(outer) + 1
        elements[place : place + 2] = [group("key_value", children, REPEATED)]

    return change


def _logical_map(elements: list[Struct]) -> None:
    """Optional keys again, where both annotations say that it is a map, as newer writers have it."""
    _optional_keys()(elements)
    annotate(element(elements, "v"), LOGICAL_MAP)


def _decimal_in_struct(elements: list[Struct]) -> None:
    column = element(elements, "x")
    set_numbers(column, converted=DECIMAL, scale=2, precision=80)


def _two_levels(elements: list[Struct]) -> None:
    """A list of two levels, as Thrift and old Avro wrote it."""
    outer = element(elements, "v")
    outer.pop(LOGICAL, None)
    set_numbers(outer, converted=LIST)
    del elements[elements.index(outer) + 1]
    set_numbers(element(elements, "element"), repetition=REPEATED)


def _repeated_structs(name: str, converted: int = LIST) -> Change:
    """A list or map of two levels whose repeated group is called ``name``."""

    def change(elements: list[Struct]) -> None:
        outer = element(elements, "v")
        outer.pop(LOGICAL, None)
        set_numbers(outer, converted=converted)
        place = elements.index(outer) + 1
        del elements[place]
        rename(elements[place], name)
        set_numbers(elements[place], repetition=REPEATED)

    return change


def _lists_of_two_levels(inner: int | None, *, logical: int | None = None) -> Change:
    """Lists of lists, or of maps, as old Avro wrote them: the repeated group is itself annotated as ``inner``."""

    def change(elements: list[Struct]) -> None:
        _repeated_structs("array")(elements)
        place = elements.index(element(elements, "array"))
        elements[place].pop(LOGICAL, None)
        set_numbers(elements[place], converted=inner)
        if logical is not None:
            annotate(elements[place], logical)
        if inner == LIST:
            del elements[place + 1]
            rename(elements[place + 1], "array")
            set_numbers(elements[place + 1], repetition=REPEATED)

    return change


def _list_named(name: str) -> Change:
    """A list of three levels whose repeated group is called ``name``."""

    def change(elements: list[Struct]) -> None:
        outer = element(elements, "v")
        outer.pop(LOGICAL, None)
        set_numbers(outer, converted=LIST)
        rename(elements[elements.index(outer) + 1], name)

    return change


def _without_annotation(elements: list[Struct]) -> None:
    outer = element(elements, "v")
    outer.pop(LOGICAL, None)
    set_numbers(outer, converted=None)


def _annotated(converted: int) -> Change:
    return lambda elements: set_numbers(element(elements, "v"), converted=converted)


def _entries_that_are_values(elements: list[Struct]) -> None:
    _two_levels(elements)
    set_numbers(element(elements, "v"), converted=MAP)


def _beside_group(repetition: int) -> Change:
    """A group without fields becomes the column ``v``, and what was called so is ``w``."""

    def change(elements: list[Struct]) -> None:
        rename(element(elements, "v"), "w")
        set_numbers(elements[0], children=3)
        elements.append(group("v", 0, repetition))

    return change


def _around_group(elements: list[Struct]) -> None:
    """A group without fields becomes the first field of the struct ``v``."""
    outer = element(elements, "v")
    set_numbers(outer, children=2)
    elements.insert(elements.index(outer) + 1, group("nothing", 0, OPTIONAL))


def _logical(number: int, crs: str | None = None) -> Change:
    return lambda elements: annotate(element(elements, "v"), number, crs=crs)


def _converted(number: int, scale: int | None = None, precision: int | None = None) -> Change:
    def change(elements: list[Struct]) -> None:
        column = element(elements, "v")
        column.pop(LOGICAL, None)
        set_numbers(column, converted=number, scale=scale, precision=precision)

    return change


def _renamed(elements: list[Struct]) -> None:
    _old_map(MAP, "entries")(elements)
    rename(element(elements, "key"), "k")
    rename(element(elements, "value"), "item")


def _wide(digits: int) -> pa.Array[Any]:
    return pa.array([Decimal(10) ** (digits - 3), None, Decimal("-1.5"), Decimal(0)], pa.decimal256(digits, 2))


def _inside(values: pa.Array[Any]) -> pa.Array[Any]:
    """A struct of a number and these values."""
    fields = [pa.field("n", pa.int64()), pa.field("m", values.type)]
    return pa.StructArray.from_arrays([pa.array([1, 2, None, 4]), values], fields=fields)


def _valued(values: pa.Array[Any]) -> pa.Array[Any]:
    """Maps with a text as key, and these values, one each."""
    made: Any = pa.MapArray.from_arrays
    maps: pa.Array[Any] = made(pa.array([0, 1, 2, 3, 4], pa.int32()), pa.array(["a", "b", "c", "d"]), values)
    return maps


_MAPS: Final = pa.list_(STRUCTS.type)
_ONE: Final = pa.struct([("x", pa.int64())])
_TWO: Final = pa.struct([("x", pa.int64()), ("y", pa.string())])
_THREE: Final = pa.struct([("key", pa.string()), ("value", pa.int64()), ("more", pa.float64())])
ONES: pa.Array[Any] = pa.array(
    [[{"x": 1}, {"x": 2}], None, [], [{"x": 3}]], pa.list_(pa.field("e", _ONE, nullable=False))
)
TRIPLES: pa.Array[Any] = pa.array(
    [[{"key": "a"}], None, [], [{"more": 1.5}]], pa.list_(pa.field("e", _THREE, nullable=False))
)
LISTS: pa.Array[Any] = pa.array([[[1, 2], []], None, [], [[3]]], pa.list_(pa.field("e", NUMBERS.type, nullable=False)))
LISTS_OF_PAIRS: pa.Array[Any] = pa.array(
    [[[("a", 1)], []], None, [], [[("b", None)]]], pa.list_(pa.field("e", PAIRS.type, nullable=False))
)
STRUCT_OF_ONE: Final = pa.array([{"x": 1}, None, {"x": None}, {"x": 2}], _ONE)
STRUCT_OF_TWO: Final = pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}, {"x": 2, "y": None}], _TWO)
_WIDE: Final = pa.struct([("x", pa.binary(34))])

FILES: Final[Mapping[str, tuple[pa.Array[Any], Change]]] = {
    "map_of_2013": (PAIRS, _old_map(MAP, "map", MAP_KEY_VALUE)),
    "map_of_hive": (PAIRS, _old_map(MAP_KEY_VALUE, "map")),
    "map_named_otherwise": (PAIRS, _renamed),
    "map_of_optional_keys": (STRUCTS, _optional_keys()),
    "map_of_optional_keys_of_hive": (STRUCTS, _optional_keys(converted=MAP_KEY_VALUE)),
    "map_of_optional_keys_of_flink": (STRUCTS, _logical_map),
    "map_of_optional_keys_in_struct": (_inside(STRUCTS), _optional_keys("m")),
    "map_of_optional_keys_in_list": (
        pa.array([[[{"key": "a", "value": 1}], []], None, [], [None]], _MAPS),
        _optional_keys("element"),
    ),
    "map_of_optional_keys_in_map": (_valued(STRUCTS), _optional_keys("value")),
    "optional_keys_alone": (KEYS, _optional_keys(children=1)),
    "map_with_null_key": (NULL_KEY, _optional_keys()),
    "map_of_keys_alone": (TEXTS, _old_map(MAP, "key_value")),
    "list_of_two_levels": (NUMBERS, _two_levels),
    "list_of_repeated_structs": (STRUCTS, _repeated_structs("bag")),
    "list_of_repeated_structs_of_one": (ONES, _repeated_structs("bag")),
    "list_of_repeated_arrays_of_one": (ONES, _repeated_structs("array")),
    "list_of_repeated_tuples_of_one": (ONES, _repeated_structs("v_tuple")),
    "list_of_arrays": (NUMBERS, _list_named("array")),
    "list_of_bags": (NUMBERS, _list_named("bag")),
    "list_of_lists_of_two_levels": (LISTS, _lists_of_two_levels(LIST)),
    "list_of_maps_of_two_levels": (LISTS_OF_PAIRS, _lists_of_two_levels(MAP)),
    "list_of_newer_maps_of_two_levels": (LISTS_OF_PAIRS, _lists_of_two_levels(MAP, logical=LOGICAL_MAP)),
    "repeated_without_annotation": (STRUCTS, _without_annotation),
    "list_of_value": (pa.array([1, None, 2, 3]), _annotated(LIST)),
    "list_that_does_not_repeat": (STRUCT_OF_ONE, _annotated(LIST)),
    "list_of_two_fields": (STRUCT_OF_TWO, _annotated(LIST)),
    "map_that_does_not_repeat": (STRUCT_OF_ONE, _annotated(MAP)),
    "map_of_two_fields": (STRUCT_OF_TWO, _annotated(MAP_KEY_VALUE)),
    "map_of_three_fields": (TRIPLES, _repeated_structs("key_value", MAP)),
    "map_of_hive_of_three_fields": (TRIPLES, _repeated_structs("key_value", MAP_KEY_VALUE)),
    "map_of_values": (NUMBERS, _entries_that_are_values),
    "group_without_fields": (pa.array(["x", None, "y", "z"]), _beside_group(OPTIONAL)),
    "required_group_without_fields": (pa.array(["x", None, "y", "z"]), _beside_group(REQUIRED)),
    "group_in_struct": (pa.array([{"x": 1}, None, {"x": None}, {"x": 2}]), _around_group),
    "null_of_bytes": (pa.array([b"a", None, b"b", b""], pa.binary()), _logical(UNKNOWN)),
    "null_of_doubles": (pa.array([1.0, None, 2.0, 3.0]), _logical(UNKNOWN)),
    "null_of_no_bytes": (pa.nulls(4, pa.binary()), _logical(UNKNOWN)),
    "decimal_of_39": (_wide(39), _as_written),
    "decimal_of_76": (_wide(76), _as_written),
    "decimal_in_short_bytes": (SHORT, _converted(DECIMAL, 2, 20)),
    "decimal_in_long_bytes": (LONG, _converted(DECIMAL, 2, 45)),
    "decimal_of_80": (pa.array([bytes(34), None, b"\1" * 34, bytes(34)], pa.binary(34)), _converted(DECIMAL, 2, 80)),
    "decimal_of_80_in_struct": (
        pa.array([{"x": bytes(34)}, None, {"x": None}, {"x": b"\1" * 34}], _WIDE),
        _decimal_in_struct,
    ),
    "half": (pa.array([1.5, None, float("nan"), -0.0], pa.float16()), _as_written),
    "half_in_list": (pa.array([[1.5], None, [], [None]], pa.list_(pa.float16())), _as_written),
    "uuid": (pa.array([b"0" * 16, None, b"1" * 16, bytes(16)], pa.uuid()), _as_written),
    "interval": (MONTHS, _converted(INTERVAL)),
    "bson": (POINTS, _converted(BSON)),
    "enum": (pa.array(["a", None, "b", "c"]), _converted(ENUM)),
    "geometry": (POINTS, _logical(GEOMETRY)),
    "geometry_of_crs": (POINTS, _logical(GEOMETRY, crs="EPSG:3857")),
    "geography": (POINTS, _logical(GEOGRAPHY)),
    "newer_type": (POINTS, _logical(NEWER)),
}
"""The column ``v`` and the change of the footer, by what is odd about the file."""


_CODECS: Final[Sequence[Any]] = ("brotli", "lz4", "none", "gzip")


def write_odd_parquet(folder: Path, kinds: Sequence[str] = tuple(FILES)) -> None:
    """One file of each kind into ``folder``: columns ``id``, 1 to 4, and ``v``."""
    for number, kind in enumerate(kinds):
        column, change = FILES[kind]
        path = folder / f"{kind}.parquet"
        codec = _CODECS[number % 4]
        pq.write_table(pa.table({"id": [1, 2, 3, 4], "v": column}), path, compression=codec)
        if change is not _as_written:
            change_schema(path, change)
