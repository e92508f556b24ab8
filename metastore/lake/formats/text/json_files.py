"""JSON files as Arrow: a sequence of objects, or one list of them; types from all values, or declared.

Types are JSON's own (BOOLEAN, BIGINT, DOUBLE, VARCHAR, STRUCT, ARRAY), as in Spark: a text that looks like a date is a
text, and integers beyond 64 bits are DECIMAL up to 38 digits. A file is read piece by piece, once for the types and
once for the values, so that no later line can contradict the types. A column with values of several kinds is text to
Drill, and has no statistics. ANALYZE and scans read rows by the same function, :func:`json_rows`.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import json as pj

from metastore.errors import FormatError
from metastore.lake.formats.arrow_schema import OPAQUE, arrow_schema, is_opaque
from metastore.lake.formats.file_format import FileData, FileFormat, Names, Opening, Source
from metastore.lake.formats.mapped_rows import as_asked, rows_of_mappings

_PIECE: Final = 32 << 20
_BLANKS: Final = 256
"""Longer runs of blanks are not searched for the objects before and after them."""
_OPENING: Final = re.compile(rb"\s{1,%d}\{" % _BLANKS)
_LONG: Final = re.compile(rb"[0-9]{19}")
"""Enough digits that an integer may not fit into 64 bits."""
_DIGITS: Final = 38
_INT64: Final = range(-(2**63), 2**63)

_DEEPEST: Final = 100
"""The deepest nesting of objects and lists. The C parser uses its stack for them, and a full stack ends the process."""
_STEPS: Final = bytes.maketrans(b"{[]}", b"\x01\x01\xff\xff")
_VALUES: Final = bytes(set(range(256)) - set(b'{[]}"'))
_TEXT: Final = re.compile(rb'"[^"]*"')


def open_json(source: Source, opening: Opening) -> FileData:
    """Opens a JSON file; its columns are those that the user declared, if there are any."""
    declared = opening.declared
    schema = _infer_schema(pieces(source())) if declared is None else arrow_schema(declared)

    def batches(chosen: Names) -> Iterator[pa.RecordBatch]:
        yield from json_rows(source, pa.schema([_readable(schema.field(name)) for name in chosen]))

    return FileData(schema, batches)


def json_rows(source: Source, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a JSON file in the columns of ``schema``; without columns, batches that only count rows.

    Columns of Arrow's null type are null whatever the file has. Raises FormatError for a value that does not fit its
    column's type.
    """
    readable = pa.schema([field for field in schema if not pa.types.is_null(field.type)])
    is_simple = not any(_has_nulls(field.type) for field in readable)
    for piece in pieces(source()):
        table = _quickly_parsed(piece, readable) if is_simple else None
        if table is None:  # e.g. text mixed with numbers: a slow parse
            yield from rows_of_mappings(documents(piece), schema, _json_text)
            continue
        for batch in table.to_batches():
            columns = {name: batch.column(name) for name in readable.names}
            yield as_asked(columns, batch.num_rows, schema)


def _quickly_parsed(piece: bytes, schema: pa.Schema) -> pa.Table | None:
    """As :func:`parse_piece`; returns None for a piece that the fast parser refuses."""
    try:
        return parse_piece(piece, schema)
    except FormatError:
        return None


def _has_nulls(type_: Any) -> bool:
    return pa.types.is_null(type_) or any(_has_nulls(type_.field(index).type) for index in range(type_.num_fields))


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pieces(source: Any, size: int = _PIECE) -> Iterator[bytes]:
    """Yields the file in pieces of whole objects, of about ``size`` bytes if lines begin with objects.

    For a file that is one list, yields the objects in it. A byte order mark is part of no piece. Raises FormatError for
    objects that are nested too deep.
    """
    rest = source.read(size).removeprefix(BOM_UTF8)
    if rest.lstrip()[:1] == b"[":
        documents = json.loads(_shallow(rest + source.read()))
        yield b"\n".join(json.dumps(document).encode() for document in documents)
        return
    searched = 0
    while read := source.read(size):
        rest += read
        at = _line_between_objects(rest, searched)
        if at > 0:
            yield _shallow(rest[:at])
            rest = rest[at:]
        searched = max(0, len(rest) - _BLANKS)
    if rest.strip():
        yield _shallow(rest)


def _shallow(text: bytes) -> bytes:
    """Returns ``text``, which begins outside of all objects.

    Raises FormatError if it is nested deeper than parsers allow.
    """
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = _TEXT.sub(b"", unescaped.translate(_STEPS, _VALUES).replace(b'""', b""))
    depth = np.cumsum(np.frombuffer(brackets, np.int8), dtype=np.int64).max(initial=0)
    if depth > _DEEPEST:
        raise FormatError(f"objects and lists are nested {depth:,} deep; {_DEEPEST} can be read")
    return text


def _line_between_objects(text: bytes, start: int) -> int:
    """Returns the place of the last line break from ``start`` on that is in no object; -1 if there is none.

    Objects may span many lines. But only between two objects does a closing brace meet an opening one, and no string
    contains a line break.
    """
    at = len(text)
    while (at := text.rfind(b"\n", start, at)) > 0:
        if text[max(0, at - _BLANKS) : at].rstrip()[-1:] == b"}" and _OPENING.match(text, at):
            break
    return at


def parse_piece(piece: bytes, schema: pa.Schema) -> pa.Table:
    """Returns the rows of a piece with the columns of ``schema``; without any, rows of one column that counts them.

    Raises FormatError for a value that does not fit its column's type.
    """
    if not len(schema):
        return pa.table({"": pa.nulls(_count(piece))})
    options = pj.ParseOptions(explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior="ignore")
    reading = pj.ReadOptions(use_threads=False, block_size=max(len(piece) + 1, 1 << 10))
    try:
        table = pj.read_json(BytesIO(piece), reading, options)
    except pa.ArrowException as error:
        raise FormatError(str(error)) from error
    return table


def _count(piece: bytes) -> int:
    return sum(1 for _ in documents(piece))


def _infer_schema(pieces: Iterable[bytes]) -> pa.Schema:
    fields: dict[str, Any] = {}
    for piece in pieces:
        for field in _piece_schema(piece):
            known = fields.get(field.name)
            fields[field.name] = field if known is None else _join_fields(known, field)
    return pa.schema(list(fields.values()))


def _piece_schema(piece: bytes) -> pa.Schema:
    """Returns the columns of one piece; object by object if the fast parser finds a column of several kinds."""
    options = pj.ParseOptions(newlines_in_values=True)
    reading = pj.ReadOptions(use_threads=False, block_size=max(len(piece) + 1, 1 << 10))
    try:
        found = None if _LONG.search(piece) else pj.read_json(BytesIO(piece), reading, options).schema
    except pa.ArrowException:
        found = None
    if found is None:
        fields: dict[str, Any] = {}
        for document in documents(piece):
            for name, value in document.items():
                field = _field_of(name, value)
                fields[name] = _join_fields(fields[name], field) if name in fields else field
        return pa.schema(list(fields.values()))
    return pa.schema([pa.field(field.name, _without_dates(field.type)) for field in found])


def documents(piece: bytes) -> Iterator[dict[str, Any]]:
    """Yields the objects of a piece, one by one. Raises FormatError for anything that is not an object."""
    text = piece.decode()
    decoder = json.JSONDecoder()
    at = 0
    while at < len(text):
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return
        try:
            document, at = decoder.raw_decode(text, at)
        except ValueError as error:
            raise FormatError(f"it is no JSON: {error}") from error
        if not isinstance(document, dict):
            raise FormatError(f"it holds {json.dumps(document)[:40]} where an object is expected")
        yield document


def _without_dates(type_: Any) -> Any:
    """Returns ``type_`` with texts for timestamps: the fast parser reads texts that look like timestamps as timestamps.

    Spark reads them as texts, and so does the metastore.
    """
    if pa.types.is_timestamp(type_):
        return pa.string()
    if pa.types.is_struct(type_):
        inner = [type_.field(index) for index in range(type_.num_fields)]
        return pa.struct([pa.field(field.name, _without_dates(field.type)) for field in inner])
    if pa.types.is_list(type_):
        return pa.list_(_without_dates(type_.value_type))
    return type_


def _field_of(name: str, value: Any) -> Any:
    """The field of a value of JSON; the items of a list have one type that holds them all."""
    if value is None:
        return pa.field(name, pa.null())
    if isinstance(value, bool):
        return pa.field(name, pa.bool_())
    if isinstance(value, int):
        return pa.field(name, _integer_type(value))
    if isinstance(value, float):
        return pa.field(name, pa.float64())
    if isinstance(value, str):
        return pa.field(name, pa.string())
    if isinstance(value, dict):
        return pa.field(name, pa.struct([_field_of(inner, each) for inner, each in value.items()]))
    item = pa.field("item", pa.null())
    for each in value:
        item = _join_fields(item, _field_of("item", each))
    return pa.field(name, pa.list_(item))


def _integer_type(value: int) -> pa.DataType:
    if value in _INT64:
        return pa.int64()
    digits = len(str(abs(value))) if abs(value) < 10**_DIGITS else _DIGITS + 1
    return pa.decimal128(digits, 0) if digits <= _DIGITS else pa.float64()


def _number_type(one: Any, other: Any) -> Any:
    """Returns the type that holds both kinds of numbers; None if one of the types is not numeric."""
    if not all(
        pa.types.is_int64(each) or pa.types.is_float64(each) or pa.types.is_decimal(each) for each in (one, other)
    ):
        return None
    if pa.types.is_float64(one) or pa.types.is_float64(other):
        return pa.float64()
    return pa.decimal128(max(20, *(each.precision for each in (one, other) if pa.types.is_decimal(each))), 0)


def _join_fields(left: Any, right: Any) -> Any:
    """Returns the field that holds the values of both."""
    if is_opaque(left) or pa.types.is_null(right.type) or left.equals(right):
        return left
    if is_opaque(right) or pa.types.is_null(left.type):
        return right
    one, other = left.type, right.type
    if (number := _number_type(one, other)) is not None:
        return pa.field(left.name, number)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {one.field(index).name: one.field(index) for index in range(one.num_fields)}
        for field in (other.field(index) for index in range(other.num_fields)):
            fields[field.name] = _join_fields(fields[field.name], field) if field.name in fields else field
        return pa.field(left.name, pa.struct(list(fields.values())))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.field(left.name, pa.list_(_join_fields(one.value_field, other.value_field)))
    return pa.field(left.name, pa.string(), metadata=OPAQUE)


def _readable(field: Any) -> Any:
    """Returns ``field`` without the parts that are not read: lists and columns of several kinds become nulls."""
    if is_opaque(field) or pa.types.is_list(field.type) or pa.types.is_map(field.type):
        return pa.field(field.name, pa.null())
    if pa.types.is_struct(field.type):
        inner = [_readable(field.type.field(index)) for index in range(field.type.num_fields)]
        kept = [each for each in inner if not pa.types.is_null(each.type)]
        return pa.field(field.name, pa.struct(kept) if kept else pa.null())
    return pa.field(field.name, field.type)


JSON_FILES: Final = FileFormat("JSON", ("json", "jsonl", "ndjson"), open_json, json_rows, is_text=True)
