"""What a format of data files is: a record with its names and its readers, and how a file of it is opened.

Place in the flow: the record of a format stands in the format's own module, and :mod:`metastore.lake.formats.names` has
all of them. A task opens a file here, measures its batches, and goes on to the next file. Promises: the columns are
the file's, in its order, or those that the user declared. A file of another format, or with a value that does not
fit its declared type, raises a FormatError that names it. Memory is bounded by stripes, blocks or batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from metastore.lake.formats.source_file import SourceFile, compression_of_suffix
from metastore.lake.formats.text.text_options import DEFAULTS, TextOptions
from metastore.lake.stores.arrow import open_location
from metastore.lake.stores.read_errors import reading_file
from metastore.model.column_path import ColumnPath
from metastore.model.statistics import ColumnStatistics
from metastore.model.tuple_schema import TupleSchema

Names = Sequence[str]
Source = Callable[[], Any]
"""Opens a file anew, in the form that its format's reader takes."""


class FooterStatistics(NamedTuple):
    """The rows of a file, and the statistics of those columns that the footer describes completely, by path.

    ``others`` has the footer's statistics of the other columns: counts, and bounds that are not exact.
    """

    rows: int
    columns: Mapping[ColumnPath, ColumnStatistics]
    others: Mapping[ColumnPath, ColumnStatistics]
    elements: Mapping[ColumnPath, ColumnStatistics]
    """What the footer states of elements, keys and values (:mod:`metastore.model.elements`)."""


@dataclass(frozen=True)
class FileData:
    """One file: its schema, and its rows; each batch has the requested columns of ``schema``.

    ``undeclared`` are the names of columns that a declared schema leaves out; for delimited text only. ``properties``
    are the metastore's properties of the schema. ``footer`` reads the footer's statistics of the columns.
    """

    schema: pa.Schema
    batches: Callable[[Names], Iterator[pa.RecordBatch]]
    undeclared: Names = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    footer: Callable[[], FooterStatistics | None] = lambda: None


@dataclass(frozen=True)
class FileFormat:
    """A format. ``name`` is stored as the table's type; ``suffixes``, in lower case, determine it.

    ``open_data`` opens one file; it is None for Parquet alone, which ANALYZE and scans read by row groups.
    """

    name: str
    suffixes: tuple[str, ...]
    open_data: Callable[[Source, Opening], FileData] | None = None
    rows: Callable[[Source, pa.Schema], Iterator[pa.RecordBatch]] | None = None
    """Reads rows with lists, maps and columns of several kinds. None if ``open_data`` gives whole columns."""
    rows_fit_any_type: bool = False
    """Whether ``rows`` converts values to any type of a table, or only to types like the file's own."""
    title: str = ""
    """The name in messages, if it is not ``name``."""
    has_footers: bool = False
    """Whether footers have statistics, which are claims."""
    is_text: bool = False
    """Whether a file is read from its beginning to its end, so it may be compressed."""
    takes_text_options: bool = False


@dataclass(frozen=True)
class Opening:
    """How the files of a table are opened: format, declared schema, and access to the store.

    ``arrow_version`` is the release of Arrow that reads them; ``text`` describes delimited text.
    """

    format: FileFormat
    location: str
    declared: TupleSchema | None = None
    options: Mapping[str, str] | None = None
    arrow_version: str = pa.__version__
    text: TextOptions = DEFAULTS

    @contextmanager
    def open(self, file: SourceFile) -> Iterator[FileData]:
        """Open ``file`` and return its data. Raises FormatError, NotFoundError or StorageError, which name the file.

        Raises EngineError, which names it too, if a library is missing or too old for the file.
        """
        assert self.format.open_data, "Parquet is read by row groups"
        with self.errors_of(file):
            yield self.format.open_data(lambda: self.source(file), self)

    @contextmanager
    def errors_of(self, file: SourceFile) -> Iterator[None]:
        """Within this context, an error while ``file`` is read becomes an error that names it, as in :meth:`open`."""
        with reading_data(file, self.format):
            yield

    def source(self, file: SourceFile) -> Any:
        """Returns the bytes of ``file``, in the form that its format's reader takes."""
        store, root = open_location(self.location, self.options)
        path = root + file.path[len(self.location) :]
        if self.format.is_text:
            return store.open_input_stream(path, compression=compression_of_suffix(file.name))
        return store.open_input_file(path)


def reading_data(file: SourceFile, format_: FileFormat) -> AbstractContextManager[None]:
    """Within this context, an error of a format's reader becomes an error of ours."""
    what = f"is no readable {format_.title or format_.name} file"
    return reading_file(file.path, what, gone="the table was listed; run ANALYZE again", errors=Exception)
