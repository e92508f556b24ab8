"""Results of commands that need large parts of the package, such as a query engine or a client of Hive.

The types are plain data in a module of their own, so that showing results loads none of those parts. Promises of rows:
every value has its own column, also if two columns share a name. A value that Python has no type for, such as a date
after the year 9999, is text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

if TYPE_CHECKING:
    from metastore.scan.pruning.result import Count
    from metastore.sources.hive.discovery import FoundTable


@dataclass(frozen=True)
class Rows:
    """The rows of a statement: the names of its columns, and the rows, each with one value a column.

    ``readable``: on a screen, values are for people: sizes with units, times to the second, a dash for nothing.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    readable: bool = False

    @classmethod
    def of(cls, table: pa.Table, maps_as_pydicts: Literal["strict"] | None = None, *, readable: bool = False) -> Rows:
        """Returns the rows of an Arrow table."""
        values = [_values(column, maps_as_pydicts) for column in table.columns]
        return cls(tuple(table.column_names), tuple(zip(*values, strict=True)), readable)

    @classmethod
    def by_name(cls, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Rows:
        """Returns readable rows from dictionaries with distinct names."""
        return cls(tuple(columns), tuple(tuple(row[name] for name in columns) for row in rows), readable=True)

    def as_document(self) -> Mapping[str, Any]:
        """Returns each row as an object by column names; a second column ``a`` is called ``a_2``."""
        names = list(_apart(self.columns))
        return {"columns": names, "rows": [dict(zip(names, row, strict=True)) for row in self.rows]}


@dataclass(frozen=True)
class Results:
    """The results of several statements, in their order."""

    results: tuple[Rows, ...]


@dataclass(frozen=True)
class Left:
    """The prompt ended after this number of statements."""

    statements: int


@dataclass(frozen=True)
class DaemonEnd:
    """The daemon or the server ended after a signal; the daemon's runs are in the history."""


@dataclass(frozen=True)
class HiveTables:
    """The tables of one storage plugin."""

    plugin: str
    tables: tuple[FoundTable, ...]


@dataclass(frozen=True)
class Skipping:
    """Number of files, or of row groups in files that are read, that were skipped because no row can pass ``test``."""

    test: str
    count: int


@dataclass(frozen=True)
class SegmentReport:
    """Whether the analyzed files of a segment may contain a matching row, and why."""

    segment: str
    kept: bool
    reason: str


@dataclass(frozen=True)
class KeptFileReport:
    """A file to read; ``row_groups`` are the row groups to read, None for all."""

    path: str
    reason: str
    bytes: int | None
    row_groups: tuple[int, ...] | None


@dataclass(frozen=True)
class SkippedFileReport:
    """A skipped file in a segment that is read."""

    path: str
    reason: str


@dataclass(frozen=True)
class PruneReport:
    """The decision on a table. ``new``, ``changed`` and ``missing`` count files since the last ANALYZE.

    ``kept_files`` and ``skipped_files`` are None unless requested.
    """

    table: str
    predicate: str
    notes: tuple[str, ...]
    segments: Count
    files: Count
    row_groups: Count
    bytes: Count | None
    skipped_by: tuple[Skipping, ...]
    row_groups_skipped_by: tuple[Skipping, ...]
    new: int
    changed: int
    missing: int
    segment_decisions: tuple[SegmentReport, ...]
    kept_files: tuple[KeptFileReport, ...] | None
    skipped_files: tuple[SkippedFileReport, ...] | None


def _apart(columns: Sequence[str]) -> Iterator[str]:
    """Returns the names, with numbers added to repeated ones."""
    taken, seen = set(columns), set[str]()
    for name in columns:
        own, number = name, 1
        while own in seen or (number > 1 and own in taken):
            number += 1
            own = f"{name}_{number}"
        seen.add(own)
        yield own


def _values(column: pa.ChunkedArray[Any], maps_as_pydicts: Literal["strict"] | None) -> list[Any]:
    try:
        return column.to_pylist(maps_as_pydicts=maps_as_pydicts)
    except (OverflowError, ValueError):
        return [_value(each, maps_as_pydicts) for each in column]


def _value(scalar: pa.Scalar[Any], maps_as_pydicts: Literal["strict"] | None) -> Any:
    """Returns the value in Python's types, or with its times as text if those types cannot hold them."""
    try:
        return scalar.as_py(maps_as_pydicts=maps_as_pydicts)
    except (OverflowError, ValueError):  # ValueError: nanoseconds, where pandas is not installed
        return scalar.cast(_with_times_as_text(scalar.type)).as_py(maps_as_pydicts=maps_as_pydicts)


def _with_times_as_text(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.StructType):
        return pa.struct([(field.name, _with_times_as_text(field.type)) for field in kind])
    if isinstance(kind, pa.ListType):
        return pa.list_(_with_times_as_text(kind.value_type))
    if isinstance(kind, pa.MapType):
        return pa.map_(_with_times_as_text(kind.key_type), _with_times_as_text(kind.item_type))
    return pa.string() if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else kind
