"""Files without row groups, as rows: ORC, Avro, CSV, TSV and JSON -> Arrow batches in their table's types.

Place in the flow: the task of a scan (:mod:`metastore.scan.rows`) reads Parquet by Arrow's own dataset reader, and
every other format here. Files are opened as ANALYZE opened them, so that a row holds what statistics were made of; but
where ANALYZE passes over lists, maps and columns of several kinds, all of a row is read here. A column that a file
lacks is null; a value that does not fit its column is a FormatError that names the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from metastore.errors import FormatError
from metastore.formats.arrow_schema import tuple_schema
from metastore.formats.avro_files import records
from metastore.formats.data_files import Opening
from metastore.formats.json_files import documents, parsed, pieces
from metastore.formats.source_file import SourceFile

_ROWS: Final = 16_384

Source = Callable[[], Any]


def read_file(opening: Opening, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the file at ``path`` in the columns of ``schema``; without columns, batches that only count.

    Raises FormatError, NotFoundError or StorageError, which name the file, and EngineError without a reader for Avro.
    """
    file = SourceFile((), path.rpartition("/")[2], path, 0, 0)
    with opening.guarded(file):
        source = partial(opening.source, file)
        if opening.format == "JSON":
            yield from _json_rows(source, schema)
        elif opening.format == "AVRO":
            yield from _rows(records(source), schema, _avro_text)
        else:
            yield from _columns(opening, file, schema)


def _columns(opening: Opening, file: SourceFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """ORC and delimited text, whose readers give columns; text is read as the types that the table has."""
    declared = None if opening.format == "ORC" else tuple_schema(schema)[0]
    with replace(opening, declared=declared).open(file) as data:
        present = [name for name in schema.names if name in data.schema.names]
        if present:
            for batch in data.batches(present):
                yield _as_asked({name: batch.column(name) for name in present}, batch.num_rows, schema)
            return
    with replace(opening, declared=None).open(file) as data:
        for batch in data.batches(data.schema.names[:1]):
            yield _as_asked({}, batch.num_rows, schema)


def _json_rows(source: Source, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    readable = pa.schema([field for field in schema if not pa.types.is_null(field.type)])
    for piece in pieces(source()):
        try:
            table = parsed(piece, readable)
        except FormatError:  # as when a column of text holds numbers, too: object by object, which takes far longer
            yield from _rows(documents(piece), schema, _json_text)
            continue
        for batch in table.to_batches():
            columns = {name: batch.column(name) for name in readable.names}
            yield _as_asked(columns, batch.num_rows, schema)


def _rows(
    found: Iterable[Mapping[str, Any]], schema: pa.Schema, text: Callable[[Any], str]
) -> Iterator[pa.RecordBatch]:
    """Rows that come as mappings; ``text`` spells a value that is none in a column of text."""
    rows = iter(found)
    while taken := list(islice(rows, _ROWS)):
        columns: dict[str, Any] = {
            field.name: pa.array([_fitting(row.get(field.name), field.type, text) for row in taken], field.type)
            for field in schema
            if not pa.types.is_null(field.type)
        }
        yield _as_asked(columns, len(taken), schema)


def _fitting(value: Any, type_: Any, text: Callable[[Any], str]) -> Any:
    """``value`` as Arrow takes it for ``type_``."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {field.name: _fitting(value.get(field.name), field.type, text) for field in type_.fields}
    if pa.types.is_map(type_):
        return [(key, _fitting(each, type_.item_type, text)) for key, each in value.items()]
    if pa.types.is_list(type_):
        return [_fitting(each, type_.value_type, text) for each in value]
    if pa.types.is_string(type_) and not isinstance(value, str):
        return text(value)
    return value


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _avro_text(value: Any) -> str:
    if isinstance(value, UUID):
        return str(value)
    raise FormatError(f"{value!r} stands in a union of several types, which has no one type to be read as")


def _as_asked(columns: Mapping[str, Any], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """``columns`` in the order and the types of ``schema``, nulls for those that are not there."""
    if not len(schema):
        counted: Any = pa.array([{}] * rows, pa.struct([]))
        return pa.RecordBatch.from_struct_array(counted)
    arrays: Sequence[Any] = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
