"""Files without row groups, as rows: ORC, Avro, CSV, TSV and JSON -> Arrow batches in their table's types.

Place in the flow: the task of a scan (:mod:`metastore.scan.rows`) reads Parquet by Arrow's own dataset reader, and
every other format here. Files are opened as ANALYZE opened them, so that a row holds what statistics were made of; but
where ANALYZE passes over lists, maps and columns of several kinds, all of a row is read here. A column that a file
lacks is null; a value that does not fit its column is a FormatError that names the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pyarrow as pa

from metastore.errors import FormatError
from metastore.formats.arrow_schema import tuple_schema
from metastore.formats.avro_files import records
from metastore.formats.data_files import Opening
from metastore.formats.json_files import json_rows
from metastore.formats.mapped_rows import as_asked, rows_of_mappings
from metastore.formats.source_file import SourceFile

Source = Callable[[], Any]


def read_file(opening: Opening, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the file at ``path`` in the columns of ``schema``; without columns, batches that only count.

    Raises FormatError, NotFoundError or StorageError, which name the file, and EngineError without a reader for Avro.
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
    """ORC and delimited text, whose readers give columns; text is read as the types that the table has."""
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
    raise FormatError(f"{value!r} stands in a column of a type that contains itself, which has no columns")
