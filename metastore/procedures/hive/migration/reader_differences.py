"""The list of values that readers of Iceberg tables read differently from each other, or from Spark over a Hive table.

This package and Spark by rows agree; PyIceberg alone reads some values differently. Its ``delete``, ``overwrite`` and
``upsert`` rewrite files from its own scans, so rows that stay are then stored with other values. Spark reads files of
the old calendar differently as a Hive table than any reader of Iceberg.
For each entry, a test in ``tests/sources/hive/test_reader_differences.py`` fails when the difference no longer exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyiceberg.manifest import FileFormat

from metastore.lake.formats.facts import INT96, OLD_CALENDAR
from metastore.sources.hive.time_units import READ_OTHERWISE, VECTORS, is_told


@dataclass(frozen=True)
class Difference:
    """Values that readers read differently.

    ``concerns`` returns whether a column of a file, or a piece of it, may hold such values. ``what`` is a clause for
    messages. If ``excluded_by_bounds``, a file with bounds for the column has no such value. Without ``nested``, pieces
    in lists, maps and structs have none.
    """

    what: str
    concerns: Callable[[Any], bool]
    excluded_by_bounds: bool = False
    nested: bool = True


def _is_int96(field: Any) -> bool:
    return INT96 in (field.metadata or {})


def _is_of_old_calendar(field: Any) -> bool:
    return OLD_CALENDAR in (field.metadata or {})


def _holds_structs(field: Any) -> bool:
    type_ = field.type
    inner = type_.item_type if pt.is_map(type_) else getattr(type_, "value_type", None)
    return inner is not None and pt.is_struct(inner)


_STORED: Final = "and stores that when it deletes or overwrites rows of the file"

_MILLISECONDS: Final = "times in milliseconds"

KNOWN: Final[Mapping[str, Difference]] = {
    "INT96 times": Difference(
        f"PyIceberg reads those before 1677-09-22 and after 2262-04-11 as other times, {_STORED}; "
        "migrate with rewrite_int96 => true, or call rewrite_data_files first",
        _is_int96,
    ),
    "null lists or maps of structs": Difference(
        f"PyIceberg reads them as empty ones, {_STORED}; delete rows by Spark or Trino", _holds_structs
    ),
    "days before 1582-10-15 or times before 1900 in the calendar of Spark 2": Difference(
        "Spark shifts them when it reads a Hive table, and no reader of Iceberg does, so they change with the "
        "migration; write such files anew first",
        _is_of_old_calendar,
        excluded_by_bounds=True,
    ),
    _MILLISECONDS: Difference(
        f"{VECTORS}, {READ_OTHERWISE['INT64 in milliseconds'][VECTORS]}; set the table's property "
        "read.parquet.vectorization.enabled to false, or call rewrite_data_files first",
        lambda field: is_told(field.type),
        nested=False,
    ),
}
"""The differences, by the name of the values."""

UNREAD: Final[Mapping[str, str]] = {
    FileFormat.AVRO.value: "PyIceberg by itself does not read Avro data files, nor deletes rows of them; this package, "
    "Spark and Trino do, and rewrite_data_files makes Parquet of them",
}
"""Formats of data files that PyIceberg refuses, with a clause for messages."""


HIDDEN_PARTITIONS: Final = (
    "PyIceberg by itself finds no rows by a condition on a partition column that the scan does not select, since the "
    "files have no such column; select it too"
)
"""Applies to every partitioned Hive table."""


def is_read(format_: FileFormat) -> bool:
    """Returns whether PyIceberg reads data files of a format at all."""
    return format_.value not in UNREAD


def columns_to_read(types: Mapping[str, Any]) -> list[str]:
    """Returns the columns that PyIceberg may read differently in some file; ``types`` are Arrow's types by name."""
    return [name for name, type_ in types.items() if any(map(_may_differ, pieces_of(pa.field(name, type_))))]


def _may_differ(field: Any) -> bool:
    # Only files tell which times are INT96.
    return pt.is_timestamp(field.type) or _holds_structs(field)


def found_in(schema: pa.Schema, *, is_parquet: bool = True) -> Iterator[tuple[str, str]]:
    """Yields the differences that a file of ``schema`` may show: the file's name of the column, and the values."""
    for column in schema:
        for name, each in KNOWN.items():
            if (is_parquet or name != _MILLISECONDS) and any(
                map(each.concerns, pieces_of(column) if each.nested else (column,))
            ):
                yield column.name, name


def holds_int96(column: Any) -> bool:
    """Returns whether a column of a file, or a piece of it, has times in INT96."""
    return any(map(_is_int96, pieces_of(column)))


def pieces_of(field: Any) -> Iterator[Any]:
    """Yields a field of Arrow and all fields nested in it."""
    yield field
    type_ = field.type
    if pt.is_map(type_):
        yield from pieces_of(type_.key_field)
        yield from pieces_of(type_.item_field)
    elif pt.is_nested(type_):
        for index in range(type_.num_fields):
            yield from pieces_of(type_.field(index))
