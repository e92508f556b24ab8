"""Avro files as Arrow, by fastavro (extra ``avro``): types come from the schema that the writer left in the file.

ANALYZE does not read lists and maps, since they have no statistics. Unions of several types become structs, as in Spark
(:mod:`metastore.lake.formats.avro.avro_unions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from metastore.errors import FormatError
from metastore.lake.formats.arrow_schema import OPAQUE, is_opaque, rows_without_columns
from metastore.lake.formats.avro.avro_header import PlainHeader, fastavro, require_whole
from metastore.lake.formats.avro.avro_schema import PRIMITIVES
from metastore.lake.formats.avro.avro_unions import converter, member_name, members
from metastore.lake.formats.file_format import FileData, FileFormat, Names, Opening, Source
from metastore.lake.formats.mapped_rows import rows_of_mappings
from metastore.model.tuple_schema import LOGICAL_TYPE

_ROWS: Final = 16_384

_LOGICAL: Final[Mapping[str, pa.DataType]] = {
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def open_avro(source: Source, _opening: Opening) -> FileData:
    """Opens an Avro file. Raises EngineError without fastavro."""
    written = _reader(source).writer_schema
    if not isinstance(written, Mapping) or written.get("type") != "record":
        raise FormatError("its values are no records, so they have no columns")
    names: dict[str, Any] = {}
    _collect_names(written, names)
    schema = pa.schema([_field(field["name"], field["type"], names) for field in written["fields"]])

    def batches(chosen: Names) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([_readable(schema.field(name)) for name in chosen])
        found = records(source)
        while rows := list(islice(found, _ROWS)):
            columns = [pa.array([_arrow_value(row[field.name], field) for row in rows], field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted) if columns else rows_without_columns(len(rows))

    return FileData(schema, batches)


def records(source: Source) -> Iterator[Mapping[str, Any]]:
    """Yields the complete records of an Avro file, with structs for unions. Raises EngineError without fastavro."""
    reader = _reader(source)
    names: dict[str, Any] = {}
    _collect_names(reader.writer_schema, names)
    convert = converter(reader.writer_schema, names)
    return _decode_records(reader) if convert is None else map(convert, _decode_records(reader))


def avro_rows(source: Source, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of an Avro file in the columns of ``schema``. Raises EngineError without fastavro."""
    return rows_of_mappings(records(source), schema, _text_of)


def _text_of(value: Any) -> str:
    if isinstance(value, UUID):
        return str(value)
    raise FormatError(f"{value!r} is in a column whose type contains itself, which is not supported")


def _decode_records(reader: Any) -> Iterator[Mapping[str, Any]]:
    """Yields the records of fastavro, which decodes dates and times as Python's."""
    try:
        for block in reader:
            yield from block
            require_whole(block)
    except (EOFError, IndexError) as error:
        raise FormatError(f"a block says that it has more rows than it has: {error!r}") from error
    except (OverflowError, ValueError) as error:
        raise FormatError(
            f"a value cannot be decoded ({error}); dates and times must be of the years 1 to 9999: write the file as "
            "Parquet first"
        ) from error


def _reader(source: Source) -> Any:
    # Records in a union of several records carry their names; otherwise they could not be distinguished.
    return fastavro().block_reader(PlainHeader(source()), return_record_name=True, return_record_name_override=True)


def _collect_names(schema: Any, names: dict[str, Any]) -> None:
    """Collect named types by full name: a schema defines each type once, and refers to it afterwards."""
    if isinstance(schema, list):
        for each in schema:
            _collect_names(each, names)
    elif isinstance(schema, Mapping):
        if "name" in schema:
            names[schema["name"]] = schema
        for field in schema.get("fields", ()):
            _collect_names(field["type"], names)
        for part in ("items", "values", "type"):
            _collect_names(schema.get(part), names)


def _field(name: str, avro: Any, names: Mapping[str, Any], around: tuple[str, ...] = ()) -> Any:
    """The Arrow field of an Avro schema: nullable in a union with null, opaque if the type contains itself."""
    if isinstance(avro, list):
        held = members(avro)
        if not held:
            return pa.field(name, pa.null())
        if len(held) > 1:
            parts = [_field(member_name(place), each, names, around) for place, each in enumerate(held)]
            return pa.field(name, pa.struct([part.with_nullable(True) for part in parts]))
        return _field(name, held[0], names, around).with_nullable(True)
    if isinstance(avro, str):
        if avro in PRIMITIVES:
            return pa.field(name, PRIMITIVES[avro], nullable=avro == "null")
        if avro in around:  # a type inside itself has no columns
            return pa.field(name, pa.string(), nullable=False, metadata=OPAQUE)
        return _field(name, names[avro], names, (*around, avro))
    logical = avro.get("logicalType")
    if logical == "decimal":
        precision = avro["precision"]
        type_ = (
            pa.decimal128(precision, avro.get("scale", 0))
            if precision <= 38
            else pa.decimal256(precision, avro.get("scale", 0))
        )
        return pa.field(name, type_, nullable=False)
    if logical in _LOGICAL:
        return pa.field(name, _LOGICAL[logical], nullable=False)
    if logical == "uuid":
        stored = pa.binary() if avro["type"] == "fixed" else pa.string()
        return pa.field(name, stored, nullable=False, metadata={LOGICAL_TYPE.encode(): b"uuid"})
    return _complex(name, avro, names, around)


def _complex(name: str, avro: Mapping[str, Any], names: Mapping[str, Any], around: tuple[str, ...]) -> Any:
    """The field of a schema that is no union and has no logical type; ``around`` names the records it lies in."""
    kind = avro["type"]
    if kind in ("record", "error"):
        inner = (*around, avro["name"])
        fields = [_field(field["name"], field["type"], names, inner) for field in avro["fields"]]
        return pa.field(name, pa.struct(fields), nullable=False)
    if kind == "array":
        return pa.field(name, pa.list_(_field("item", avro["items"], names, around)), nullable=False)
    if kind == "map":
        value = _field("value", avro["values"], names, around).type
        return pa.field(name, pa.map_(pa.string(), value), nullable=False)
    if kind == "enum":
        return pa.field(name, pa.string(), nullable=False, metadata={LOGICAL_TYPE.encode(): b"enum"})
    if kind == "fixed":
        return pa.field(name, pa.binary(), nullable=False)
    return _field(name, kind, names, around)


def _readable(field: Any) -> Any:
    """Returns ``field`` without the parts that are not read: lists, maps and recursive types become nulls."""
    type_ = field.type
    if is_opaque(field):
        return pa.field(field.name, pa.null())
    if pa.types.is_struct(type_):
        inner = [_readable(type_.field(index)) for index in range(type_.num_fields)]
        return pa.field(field.name, pa.struct(inner))
    return pa.field(field.name, pa.null() if pa.types.is_nested(type_) else type_)


def _arrow_value(value: Any, field: Any) -> Any:
    if value is None or pa.types.is_null(field.type):
        return None
    if pa.types.is_struct(field.type):
        fields = (field.type.field(index) for index in range(field.type.num_fields))
        return {inner.name: _arrow_value(value.get(inner.name), inner) for inner in fields}
    return str(value) if isinstance(value, UUID) else value


AVRO_FILES: Final = FileFormat("AVRO", ("avro",), open_avro, avro_rows, rows_fit_any_type=True, title="Avro")
