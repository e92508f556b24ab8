"""Tables whose files and statistics another program keeps: Iceberg and Delta tables, and tables of databases.

Place in the flow: such a table lists its own files, with statistics of each. ANALYZE turns these into the same units
that it makes from files that it has read. This module lists no directory and opens no data file. If the table also
describes the rows of its files (column names, deleted rows), scans read them by its :class:`ProvidedReader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from metastore.ground.digests import number_of
from metastore.lake.formats.claims import believed_nans, check_claims, limits_of
from metastore.lake.formats.source_file import SourceFile
from metastore.model.column_path import ColumnPath, quote
from metastore.model.drill_types import minor_type
from metastore.model.statistics import ColumnStatistics, Value, merge
from metastore.model.tuple_schema import TupleSchema


@dataclass(frozen=True)
class ProvidedFile:
    """One file (or an object that counts as one), with statistics by quoted column path.

    ``whole`` is False if rows of the file are deleted by other files; ``rows`` then includes the deleted rows.
    """

    file: SourceFile
    schema: TupleSchema
    statistics: Mapping[str, ColumnStatistics]
    rows: int
    whole: bool = True


class ProvidedTable(Protocol):
    """One version of such a table."""

    @property
    def format(self) -> str:
        """The table type, as it is stored in the metastore."""

    @property
    def schema(self) -> TupleSchema | None:
        """The current columns, also for a table without rows; None if only the rows determine them."""

    @property
    def location(self) -> str:
        """The location of the table, in the form that the paths of its files have."""

    def files(self) -> Sequence[SourceFile]:
        """Returns all files, sorted by directories and name."""

    def contents(
        self, files: Sequence[SourceFile], columns: Sequence[ColumnPath] | None = None
    ) -> Iterator[ProvidedFile]:
        """Returns the statistics of some of the files. Other columns than ``columns`` and theirs may be left out."""

    def modified_times(self) -> Mapping[str, int] | None:
        """Returns when each file was last changed, in epoch nanoseconds by path.

        Returns None for a table without such times.
        """


class ProvidedReader(Protocol):
    """Reads files of one version of such a table. It holds plain data only, so that it can be sent to tasks."""

    def of(self, paths: Sequence[str]) -> ProvidedReader:
        """Returns a reader of only these files."""

    def groups(self, paths: Sequence[str]) -> Iterator[Sequence[str]]:
        """Returns ``paths`` in their order, divided into groups that are best read together."""

    def rows(self, paths: Sequence[str], schema: pa.Schema, *, threads: bool) -> Iterator[pa.RecordBatch]:
        """Yields the rows of files, file by file in order, in the columns of ``schema``.

        ``threads`` allows several threads. ``schema`` has columns of the table, in types to which the table's own can
        be cast. Raises StorageError and FormatError, which name the file, and InvalidRequestError for a file format
        that the library does not read.
        """


@runtime_checkable
class ReadableTable(ProvidedTable, Protocol):
    """A table that also describes its rows, all at one version."""

    @property
    def schema(self) -> TupleSchema:
        """The current columns."""

    def reader(self, paths: Sequence[str]) -> ProvidedReader:
        """Returns a reader of these files.

        Raises NotFoundError for a file that the table does not have, and InvalidRequestError if a file or the table
        uses a feature that the library does not support.
        """


class Measures(NamedTuple):
    """The measures that a table states of one column of one file; None for an unknown one."""

    low: Value | None
    high: Value | None
    nulls: int | None
    nans: int | None = None
    exact: bool = True


def column_statistics(type_: str, rows: int, measures: Measures, *, whole: bool) -> ColumnStatistics:
    """Returns the statistics of a column of the SQL type ``type_``, as far as they are believed.

    For a file that is not whole, they contain only what holds for any remaining rows.
    """
    low, high, nulls, values = check_claims(measures.low, measures.high, measures.nulls, rows, limits_of(type_))
    nans = believed_nans(measures.nans, low, high, values)
    if not whole and nulls not in (0, rows):
        nulls = values = None
    exact = measures.exact and whole
    known = ColumnStatistics(
        minor_type(type_),
        low,
        high,
        exact or low is None,
        exact or high is None,
        nulls,
        values,
        rows if nulls is None and whole else None,
        nans if nans == 0 or whole else None,
    )
    return merge([known])  # a zero bound gets the sign that includes the other zero


def source_file(path: str, size: int, state: int) -> SourceFile:
    """Returns the file at ``path``, without directories, because such a table's directories do not determine rows.

    A directory may still be called ``k=5`` after column ``k`` was renamed and another column got its name.
    """
    return SourceFile((), path.rpartition("/")[2], path, size, state)


def state_of(*known: object) -> int:
    """Returns a 56-bit number that differs if ``known`` (values with a faithful ``repr``) differs."""
    return number_of(repr(known), 7)


def by_key(paths: Mapping[tuple[str, ...], ColumnStatistics]) -> dict[str, ColumnStatistics]:
    """Returns statistics by quoted path."""
    return {quote(path): statistics for path, statistics in paths.items()}
