"""What PyIceberg by itself reads differently from Iceberg for Java on Spark: the one list of it.

Readers of this package, Spark and Trino agree on such values. PyIceberg's own scans do not, and its ``delete``,
``overwrite`` and ``upsert`` rewrite files from what these scans read: rows that stay are then stored with other values.
A test for each difference fails when PyIceberg mends it (``tests/hive/test_reader_differences.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyiceberg.manifest import FileFormat

from metastore.hive.facts import INT96


@dataclass(frozen=True)
class Difference:
    """``what`` says what PyIceberg reads, ``concerns`` whether a column of a file may hold such values."""

    what: str
    concerns: Callable[[Any], bool]


def _is_int96(field: Any) -> bool:
    return INT96 in (field.metadata or {})


def _holds_structs(field: Any) -> bool:
    type_ = field.type
    inner = type_.item_type if pt.is_map(type_) else getattr(type_, "value_type", None)
    return inner is not None and pt.is_struct(inner)


KNOWN: Final[Mapping[str, Difference]] = {
    "INT96 times": Difference("times before 1677-09-22 and after 2262-04-11 are read as other times", _is_int96),
    "null lists of structs": Difference("a null list or map of structs is read as an empty one", _holds_structs),
}
"""By what they are called in warnings."""

_UNREAD: Final = (FileFormat.AVRO,)
"""Formats of data files that PyIceberg refuses."""


def is_read(format_: FileFormat) -> bool:
    """Whether PyIceberg reads data files of a format at all."""
    return format_ not in _UNREAD


def columns_to_read(types: Mapping[str, Any]) -> list[str]:
    """The columns that PyIceberg may read differently, whatever the files are like; ``types`` are Arrow's by name."""
    return [name for name, type_ in types.items() if any(map(_may_differ, _fields(pa.field(name, type_))))]


def _may_differ(field: Any) -> bool:
    # Which times are INT96 only files say.
    return pt.is_timestamp(field.type) or any(each.concerns(field) for each in KNOWN.values())


def found_in(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """The differences that a file of ``schema`` may show: the column, and the name of the difference."""
    for column in schema:
        for name, each in KNOWN.items():
            if any(map(each.concerns, _fields(column))):
                yield column.name, name


def _fields(field: Any) -> Iterator[Any]:
    yield field
    type_ = field.type
    if pt.is_map(type_):
        yield from _fields(type_.key_field)
        yield from _fields(type_.item_field)
    elif pt.is_nested(type_):
        for index in range(type_.num_fields):
            yield from _fields(type_.field(index))
