"""Replaces some values in an Avro metadata file of Iceberg, and keeps everything else.

Records are read and written with the file's own schema. So fields of any format version survive, even if this package
does not know them. Header, schema and the order of records stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.avro.file import AvroFileHeader
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import construct_reader, construct_writer
from pyiceberg.typedef import Record
from pyiceberg.types import StructType

from metastore.errors import FormatError
from metastore.lake.iceberg.manifests.avro_blocks import SCHEMA, open_blocks, schema_of
from metastore.lake.iceberg.manifests.avro_file import avro_file, encode
from metastore.procedures.files.avro_columns import DATA_FILE


class Fields:
    """The values of one record by field ID. Fields of the struct ``data_file`` count as fields of the record."""

    def __init__(self, record: Record, places: dict[int, tuple[int, ...]]) -> None:
        self._record = record
        self._places = places

    def __contains__(self, field: int) -> bool:
        return field in self._places

    def __getitem__(self, field: int) -> Any:
        value: Any = self._record
        for position in self._places[field]:
            value = value[position]
        return value

    def __setitem__(self, field: int, value: Any) -> None:
        *outer, last = self._places[field]
        record: Any = self._record
        for position in outer:
            record = record[position]
        record[last] = value


def rewritten(location: str, content: bytes, change: Callable[[Fields], None]) -> bytes:
    """Returns the file with ``change`` applied to each record. Raises FormatError, with the location, if invalid."""
    try:
        header, records, struct = _records_of(content)
    except Exception as error:
        # The decoder has no error class of its own: a broken file can raise any exception.
        raise FormatError(f"{location} cannot be decoded as Iceberg metadata: {error!r}") from error
    places = _places(struct)
    for record in records:
        change(Fields(record, places))
    writer = construct_writer(struct)
    metadata = {name: value for name, value in header.meta.items() if not name.startswith("avro.")}
    # With the original sync marker, a repeated call makes the same file.
    return avro_file(header.meta[SCHEMA], metadata, [encode(writer, record) for record in records], header.sync)


def _records_of(content: bytes) -> tuple[AvroFileHeader, list[Record], StructType]:
    header, blocks = open_blocks(content)
    struct = schema_of(header.meta[SCHEMA]).as_struct()
    reader: Reader = construct_reader(struct)
    return header, [record for block in blocks for record in block.records(reader)], struct


def _places(struct: StructType, above: tuple[int, ...] = ()) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for position, field in enumerate(struct.fields):
        if field.field_id == DATA_FILE and isinstance(field.field_type, StructType):
            found |= _places(field.field_type, (*above, position))
        else:
            found[field.field_id] = (*above, position)
    return found
