"""Data files of every format as a schema and Arrow batches, for statistics that only the data provides.

Place in the flow: a task opens a file here, measures its batches, and goes on to the next file. Promises: the columns
are the file's, in its order, or those that the user declared. A file of another format, or with a value that does not
fit its declared type, raises a FormatError that names it. Memory is bounded by stripes, blocks or batches. Times in ORC
are read only by an Arrow release that never changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from pyarrow import orc

from metastore.errors import FormatError
from metastore.lake.formats.avro.avro_files import open_avro
from metastore.lake.formats.names import compression_of_suffix
from metastore.lake.formats.orc.orc_facts import read_orc
from metastore.lake.formats.orc.orc_statistics import OrcStatistics, orc_statistics
from metastore.lake.formats.orc.orc_times import in_microseconds, require_safe_times, type_in_microseconds
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.formats.text.csv_files import open_csv
from metastore.lake.formats.text.json_files import open_json
from metastore.lake.formats.text.text_options import DEFAULTS, DELIMITED, TextOptions
from metastore.lake.stores.arrow import open_location
from metastore.lake.stores.read_errors import reading_file
from metastore.model.column_path import repeated_names
from metastore.model.tuple_schema import TupleSchema

Names = Sequence[str]


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
    footer: Callable[[], OrcStatistics | None] = lambda: None


@dataclass(frozen=True)
class Opening:
    """How the files of a table are opened: format, declared schema, and access to the store.

    ``arrow_version`` is the release of Arrow that reads them; ``text`` describes delimited text.
    """

    format: str
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
        with self.guarded(file):
            data = self._data(lambda: self.source(file))
            yield self._with_safe_times(data) if self.format == "ORC" else data

    def _data(self, source: Callable[[], Any]) -> FileData:
        if (delimiter := DELIMITED.get(self.format)) is not None:
            return FileData(*open_csv(source, self.declared, delimiter, self.text))
        return _READERS[self.format](source, self.declared)

    @contextmanager
    def guarded(self, file: SourceFile) -> Iterator[None]:
        """Within this context, an error while ``file`` is read becomes an error that names it, as in :meth:`open`."""
        with reading_data(file, self.format):
            yield

    def source(self, file: SourceFile) -> Any:
        """Returns the bytes of ``file``, in the form that its format's reader takes."""
        store, root = open_location(self.location, self.options)
        path = root + file.path[len(self.location) :]
        if self.format in _TEXT:  # read from its beginning to its end, so it may be compressed
            return store.open_input_stream(path, compression=compression_of_suffix(file.name))
        return store.open_input_file(path)

    def _with_safe_times(self, data: FileData) -> FileData:
        """Returns ``data``, which refuses columns whose times this release of Arrow would change."""

        def batches(names: Names) -> Iterator[pa.RecordBatch]:
            require_safe_times(pa.schema([data.schema.field(name) for name in names]), self.arrow_version)
            return data.batches(names)

        return replace(data, batches=batches)


def reading_data(file: SourceFile, format_: str) -> AbstractContextManager[None]:
    """Within this context, an error of a format's reader becomes an error of ours."""
    what = f"is no readable {_SPELLED.get(format_, format_)} file"
    return reading_file(file.path, what, gone="the table was listed; run ANALYZE again", errors=Exception)


def _open_orc(source: Callable[[], Any], _declared: TupleSchema | None) -> FileData:
    file = orc.ORCFile(source())
    if repeated := repeated_names(file.schema.names):
        raise FormatError(f"its schema names {repeated} more than once")
    schema = pa.schema([field.with_type(type_in_microseconds(field.type)) for field in file.schema])
    if str(_OF_HIVE_11) in str(file.schema):
        with source() as tail:
            read_orc(tail, tail.size())

    def batches(names: Names) -> Iterator[pa.RecordBatch]:
        for stripe in range(file.nstripes):
            try:
                batch = file.read_stripe(stripe, columns=list(names))
            except pa.ArrowException as error:
                found = filter(None, (_unreadable_column(file, stripe, name) for name in names))
                raise next(found, FormatError(str(error))) from error
            own = [schema.field(name) for name in batch.schema.names]
            cut = [in_microseconds(column, field.type) for column, field in zip(batch.columns, own, strict=True)]
            yield pa.RecordBatch.from_arrays(cut, schema=pa.schema(own)) if own else batch

    def footer() -> OrcStatistics | None:
        with source() as tail:
            return orc_statistics(tail)

    return FileData(schema, batches, footer=footer)


def _unreadable_column(file: orc.ORCFile, stripe: int, name: str) -> FormatError | None:
    """Returns why a column of a stripe cannot be read by itself; None if it can."""
    try:
        file.read_stripe(stripe, columns=[name])
    except pa.ArrowException as error:
        text = f"column {name}: {error}"
        if "nanosecond" in str(error):
            text += "; only times from 1677 to 2262 can be read from ORC here: select the other columns"
        return FormatError(text)
    return None


def _reader(
    open_: Callable[[Callable[[], Any], TupleSchema | None], tuple[pa.Schema, Any]],
) -> Callable[[Callable[[], Any], TupleSchema | None], FileData]:
    return lambda source, declared: FileData(*open_(source, declared))


_OF_HIVE_11: Final = pa.decimal128(38, 6)
"""Arrow's type for decimals without a precision, which the footer tells from others; read_orc refuses them."""
_TEXT: Final = (*DELIMITED, "JSON")
_SPELLED: Final = {"PARQUET": "Parquet", "AVRO": "Avro"}
_READERS: Final = {
    "ORC": _open_orc,
    "AVRO": _reader(open_avro),
    "JSON": _reader(open_json),
}
