"""Rows of files without row groups: ORC, Avro, CSV, TSV and JSON as Arrow batches in their table's types.

Place in the flow: the task of a scan (:mod:`metastore.scan.rows`) reads Parquet by Arrow's own dataset reader, and
every other format here. Files are opened as ANALYZE opened them, so that rows agree with the statistics. ANALYZE skips
lists, maps and columns of several kinds, but here the whole row is read. A column that a file lacks is null; a value
that does not fit its column raises a FormatError that names the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa

from metastore.lake.formats.arrow_schema import tuple_schema
from metastore.lake.formats.file_format import Opening
from metastore.lake.formats.mapped_rows import as_asked
from metastore.lake.formats.source_file import SourceFile


def read_file(opening: Opening, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the file at ``path`` in the columns of ``schema``.

    Without columns, batches that only count rows. Raises FormatError, NotFoundError or StorageError, which name the
    file, and EngineError without a reader for Avro.
    """
    file = SourceFile((), path.rpartition("/")[2], path, 0, 0)
    with opening.errors_of(file):
        if opening.format.rows is None:
            yield from _columns(opening, file, schema)
        else:
            yield from opening.format.rows(partial(opening.source, file), schema)


def _columns(opening: Opening, file: SourceFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Reads by a reader that returns columns; text is read as the table's types."""
    with replace(opening, declared=tuple_schema(schema)[0]).open(file) as data:
        known = frozenset(data.schema.names)
        present = [name for name in schema.names if name in known]
        if present:
            for batch in data.batches(present):
                yield as_asked({name: batch.column(name) for name in present}, batch.num_rows, schema)
            return
    with replace(opening, declared=None).open(file) as data:
        for batch in data.batches(data.schema.names[:1]):
            yield as_asked({}, batch.num_rows, schema)
