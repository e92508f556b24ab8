"""Tables whose files and statistics somebody else keeps: Iceberg and Delta tables, and tables of databases.

Place in the flow: such a table says itself which files it has, and what is known of each; ANALYZE turns that into the
same units that it makes of files which it has read. Nothing here is listed, and no data file is opened. Where the table
says, too, what the rows of its files are (names of columns, deleted rows), scans read them by its :class:`Reader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from metastore.digests import number_of
from metastore.formats.source_file import SourceFile
from metastore.model.column_path import quote
from metastore.model.statistics import ColumnStatistics, Value, merge
from metastore.model.tuple_schema import TupleSchema


@dataclass(frozen=True)
class ProvidedFile:
    """One file (or what stands for one), with statistics by quoted column path.

    ``whole`` is False where rows of the file are deleted elsewhere: then ``rows`` counts these, too.
    """

    file: SourceFile
    schema: TupleSchema
    statistics: Mapping[str, ColumnStatistics]
    rows: int
    whole: bool = True


class Provided(Protocol):
    """One version of such a table."""

    @property
    def format(self) -> str:
        """The table type, as it stands in the metastore."""

    @property
    def schema(self) -> TupleSchema | None:
        """The columns as they are now, also of a table without rows; None where only rows tell them."""

    @property
    def location(self) -> str:
        """Where the table lies, as the paths of its files have it."""

    def files(self) -> Sequence[SourceFile]:
        """All files, sorted by directories and name."""

    def contents(self, files: Sequence[SourceFile]) -> Iterator[ProvidedFile]:
        """What is known of some of them."""

    def modified_times(self) -> Mapping[str, int] | None:
        """When each file was last changed, in epoch nanoseconds by path; None where the table tells no times."""


class Reader(Protocol):
    """Reads files of one version of such a table; plain data, so that tasks can carry it."""

    def of(self, paths: Sequence[str]) -> Reader:
        """What reads these of its files, and no others."""

    def groups(self, paths: Sequence[str]) -> Iterator[Sequence[str]]:
        """``paths`` in their order, cut into those that are best read together."""

    def rows(self, paths: Sequence[str], schema: pa.Schema, *, threads: bool) -> Iterator[pa.RecordBatch]:
        """The rows of some files, file by file in their order, in the columns of ``schema``; ``threads``: in several.

        ``schema`` has columns of the table, of types that its own can be cast to. Raises StorageError and FormatError,
        which name the file, and InvalidRequestError for one of a format that the library does not read.
        """


@runtime_checkable
class ReadableTable(Provided, Protocol):
    """A table that also says what its rows are; all of one version of it."""

    @property
    def schema(self) -> TupleSchema:
        """The columns as they are now."""

    def reader(self, paths: Sequence[str]) -> Reader:
        """What reads these files. NotFoundError for one that the table has not, InvalidRequestError for what it cannot.

        What cannot be read is a file or a table in which something is stored that the library does not know.
        """


class Measures(NamedTuple):
    """What a table says of one column of one file, as it says it; None for nothing."""

    low: Value | None
    high: Value | None
    nulls: int | None
    nans: int | None = None
    exact: bool = True


def column_statistics(type_: str, rows: int, said: Measures, *, whole: bool) -> ColumnStatistics:
    """The statistics of a column of minor type ``type_``; of a file that is not whole only what holds for any rest.

    Bounds of which the lower one is above the upper one are unknown, and so are nulls that are more than the rows.
    """
    low, high, nulls = said.low, said.high, said.nulls
    if low is not None and high is not None and low > high:  # type: ignore[operator] # both are of the column's type
        low = high = None
    if nulls is not None and not 0 <= nulls <= rows:
        nulls = None
    if nulls is not None and not whole and nulls not in (0, rows):
        nulls = None
    values = None if nulls is None else rows - nulls
    exact = said.exact and whole
    known = ColumnStatistics(
        type_,
        low,
        high,
        exact or low is None,
        exact or high is None,
        nulls,
        values,
        rows if nulls is None and whole else None,
        said.nans if said.nans == 0 or whole else None,
    )
    return merge([known])  # a zero gets the sign that includes the other zero


def source_file(path: str, size: int, state: int) -> SourceFile:
    """The file at ``path``, in no directory: those of such a table say nothing of its rows.

    A directory may still be called ``k=5`` when column ``k`` has got another name, and another column this one.
    """
    return SourceFile((), path.rpartition("/")[2], path, size, state)


def state_of(*known: object) -> int:
    """A number that is another one where ``known`` (values with a faithful ``repr``) is something else: 56 bits."""
    return number_of(repr(known), 7)


def by_key(paths: Mapping[tuple[str, ...], ColumnStatistics]) -> dict[str, ColumnStatistics]:
    """Statistics by quoted path."""
    return {quote(path): statistics for path, statistics in paths.items()}
