"""Reads and writes whole Avro files of Iceberg metadata; records that were read can be written again unchanged.

Manifests and manifest lists are built on this. PyIceberg's reader resolves the schema again for each file, and its
writer encodes every carried-over record again. Here a schema is resolved once. A file is written to the store in one
request, with a checksum. A record that was read keeps its encoded bytes for files of exactly the same schema. Schemas,
codecs and the encoding of records are PyIceberg's.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from sys import intern
from typing import Final, NamedTuple, TypeVar

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.avro.writer import Writer
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from metastore.config.limits import LimitSettings
from metastore.lake.iceberg.manifests.avro_blocks import CHECKSUM, SCHEMA, checksum, open_blocks

R = TypeVar("R", bound=Record)

_CODEC: Final = "avro.codec"
_NOTE: Final = "encoded"
_PLACE: Final = "place"
_HEADER_WRITER: Final = construct_writer(META_SCHEMA)
_RAW: Final = -15
"""Deflate without the header and checksum of zlib, as Avro has it."""
_LEVEL: Final = 1
"""A commit compresses whole manifests for one change: level 6 takes three times as long for a tenth fewer bytes."""


class EncodedRecord(NamedTuple):
    """The encoded bytes of a record in files of the Avro schema ``schema``."""

    schema: str
    content: bytes


def encoded_bytes(record: Record) -> EncodedRecord | None:
    """Return the bytes kept with ``record``, as it was last read or written; None if there are none.

    Only for records that are never changed: the bytes are those of the original record. A record of a class of this
    package may have them as its attribute ``reusable_bytes``.
    """
    known: EncodedRecord | None = getattr(record, "reusable_bytes", None) or vars(record).get(_NOTE)
    return known


def keep(record: Record, content: EncodedRecord) -> EncodedRecord:
    """Keep ``content`` with ``record``, a PyIceberg struct; returns it."""
    vars(record)[_NOTE] = content
    return content


def forget(record: Record) -> None:
    """Drop the bytes kept with ``record``, because it was changed."""
    vars(record).pop(_NOTE, None)


def schema_text(schema: Schema, name: str) -> str:
    """Return the JSON of ``schema`` for file headers; equal texts are one object, so comparing them is free."""
    return intern(json.dumps(AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name)))


def encode(writer: Writer, record: Record) -> bytes:
    """Return the bytes of ``record``, encoded by ``writer``."""
    buffer = BytesIO()
    writer.write(BinaryEncoder(buffer), record)
    return buffer.getvalue()


def avro_file(schema: str, metadata: Mapping[str, str], records: Sequence[bytes], sync: bytes | None = None) -> bytes:
    """Return a file of one block, compressed with deflate; ``sync`` is its 16-byte marker, by default random."""
    plain = b"".join(records)
    compressor = zlib.compressobj(_LEVEL, wbits=_RAW)
    block = compressor.compress(plain) + compressor.flush()
    meta = {**metadata, SCHEMA: schema, _CODEC: "deflate", CHECKSUM: checksum(schema, len(records), plain)}
    sync = sync or os.urandom(SYNC_SIZE)
    file = BytesIO()
    encoder = BinaryEncoder(file)
    _HEADER_WRITER.write(encoder, AvroFileHeader(MAGIC, meta, sync))
    encoder.write_int(len(records))
    encoder.write_int(len(block))
    encoder.write(block)
    encoder.write(sync)
    return file.getvalue()


def read_avro_file(
    content: bytes,
    reader_of: Callable[[str], Reader],
    kept: Callable[[R], Iterable[Record]],
    most: int = LimitSettings.manifest,
) -> list[R]:
    """Return the records of a file, decoded by the reader that ``reader_of`` creates for its schema.

    ``kept`` returns the parts of each record that keep their bytes; a :class:`Noting` must have read them. The blocks
    may have at most ``most`` bytes in total, uncompressed.
    """
    header, blocks = open_blocks(content, most)
    schema = intern(header.meta[SCHEMA])
    reader = reader_of(schema)
    records: list[R] = []
    for block in blocks:
        for record in block.records(reader):
            for part in kept(record):
                start, end = vars(part).pop(_PLACE)
                keep(part, EncodedRecord(schema, block.content[start:end]))
            records.append(record)
    return records


class Noting(Reader):
    """Reads like ``reader``, and keeps with each record its bytes in the block."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, decoder: BinaryDecoder) -> Record:
        """Return the record."""
        start = decoder.tell()
        record: Record = self._reader.read(decoder)
        vars(record)[_PLACE] = start, decoder.tell()
        return record

    def skip(self, decoder: BinaryDecoder) -> None:
        """Skip the record."""
        self._reader.skip(decoder)
