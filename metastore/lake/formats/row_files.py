"""Rows of files without row groups: ORC, Avro, CSV, TSV and JSON as Arrow batches in their table's types.

Place in the flow: the task of a scan (:mod:`metastore.scan.rows`) reads Parquet by Arrow's own dataset reader, and
every other format here. Files are opened as ANALYZE opened them, so that rows agree with the statistics. ANALYZE skips
lists, maps and columns of several kinds, but here the whole row is read. A column that a file lacks is null; a value
that does not fit its column raises a FormatError that names the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pyarrow as pa

from metastore.errors import FormatError
from metastore.lake.formats.arrow_schema import tuple_schema
from metastore.lake.formats.avro.avro_files import records
from metastore.lake.formats.data_files import Opening
from metastore.lake.formats.mapped_rows import as_asked, rows_of_mappings
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.formats.text.json_files import json_rows

Source = Callable[[], Any]


def read_file(opening: Opening, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the file at ``path`` in the columns of ``schema``.

    Without columns, batches that only count rows. Raises FormatError, NotFoundError or StorageError, which name the
    file, and EngineError without a reader for Avro.
    """
    file = SourceFile((), path.rpartition("/")[2], path, 0, 0)
    with opening.guarded(file):
        source = partial(opening.source, file)
        if opening.format == "JSON":
            yield from json_rows(source, schema)
        elif opening.format == "AVRO":
            yield from rows_of_mappings(records(source), schema, _avro_text)
        else:
            yield from _columns(opening, file, schema)


def _columns(opening: Opening, file: SourceFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Reads ORC and delimited text, whose readers return columns; text is read as the table's types."""
    declared = None if opening.format == "ORC" else tuple_schema(schema)[0]
    with replace(opening, declared=declared).open(file) as data:
        known = frozenset(data.schema.names)
        present = [name for name in schema.names if name in known]
        if present:
            for batch in data.batches(present):
                yield as_asked({name: batch.column(name) for name in present}, batch.num_rows, schema)
            return
    with replace(opening, declared=None).open(file) as data:
        for batch in data.batches(data.schema.names[:1]):
            yield as_asked({}, batch.num_rows, schema)


def _avro_text(value: Any) -> str:
    if isinstance(value, UUID):
        return str(value)
    raise FormatError(f"{value!r} is in a column whose type contains itself, which is not supported")
