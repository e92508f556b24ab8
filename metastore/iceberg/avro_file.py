"""Avro files of Iceberg metadata, read and written whole; what was read can be written again as it stood.

Place in the flow: below manifests and their lists. PyIceberg's own reader resolves the schema anew for each file, and
its writer encodes every record again in every file that carries it over. Here a schema is resolved once, a file goes
to the store in one write, with a checksum, and a record that was read keeps its bytes beside it, for files of the very
same schema.
Schemas, codecs and the encoding of records are PyIceberg's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from sys import intern
from typing import Final, NamedTuple, TypeVar

from pyiceberg.avro.codecs.deflate import DeflateCodec
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
from metastore.iceberg.avro_blocks import CHECKSUM, SCHEMA, checksum, opened

R = TypeVar("R", bound=Record)

_CODEC: Final = "avro.codec"
_NOTE: Final = "encoded"
_PLACE: Final = "place"
_HEADER_WRITER: Final = construct_writer(META_SCHEMA)


class Encoded(NamedTuple):
    """The bytes of a record in files of the Avro schema ``schema``."""

    schema: str
    content: bytes


def encoded(record: Record) -> Encoded | None:
    """The bytes that are kept beside ``record``, as it was read or last written; None where there are none.

    Only for records that nobody changes: the bytes are those of the record as it was.
    """
    known: Encoded | None = vars(record).get(_NOTE)
    return known


def keep(record: Record, content: Encoded) -> Encoded:
    """Keep ``content`` beside ``record``, a struct of PyIceberg's; returns it."""
    vars(record)[_NOTE] = content
    return content


def schema_text(schema: Schema, name: str) -> str:
    """``schema`` as files name it; one object for equal texts, so that comparing them costs nothing."""
    return intern(json.dumps(AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name)))


def encode(writer: Writer, record: Record) -> bytes:
    """The bytes of ``record``, as ``writer`` encodes it."""
    buffer = BytesIO()
    writer.write(BinaryEncoder(buffer), record)
    return buffer.getvalue()


def avro_file(schema: str, metadata: Mapping[str, str], records: Sequence[bytes], sync: bytes | None = None) -> bytes:
    """A file of one block, compressed by deflate; ``sync`` is its marker of 16 bytes, by default a random one."""
    plain = b"".join(records)
    block, length = DeflateCodec.compress(plain)
    meta = {**metadata, SCHEMA: schema, _CODEC: "deflate", CHECKSUM: checksum(schema, len(records), plain)}
    sync = sync or os.urandom(SYNC_SIZE)
    file = BytesIO()
    encoder = BinaryEncoder(file)
    _HEADER_WRITER.write(encoder, AvroFileHeader(MAGIC, meta, sync))
    encoder.write_int(len(records))
    encoder.write_int(length)
    encoder.write(block)
    encoder.write(sync)
    return file.getvalue()


def read_avro_file(
    content: bytes,
    reader_of: Callable[[str], Reader],
    kept: Callable[[R], Iterable[Record]],
    most: int = LimitSettings.manifest,
) -> list[R]:
    """The records of a file, decoded by what ``reader_of`` makes of its schema.

    ``kept`` gives those parts of each record that keep their bytes; a :class:`Noting` must have read them. The blocks
    may hold ``most`` bytes together, uncompressed.
    """
    header, blocks = opened(content, most)
    schema = intern(header.meta[SCHEMA])
    reader = reader_of(schema)
    records: list[R] = []
    for block in blocks:
        for record in block.records(reader):
            for part in kept(record):
                start, end = vars(part).pop(_PLACE)
                keep(part, Encoded(schema, block.content[start:end]))
            records.append(record)
    return records


class Noting(Reader):
    """Reads as ``reader`` does, and notes on what it read where that stood in its block."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, decoder: BinaryDecoder) -> Record:
        """The record."""
        start = decoder.tell()
        record: Record = self._reader.read(decoder)
        vars(record)[_PLACE] = start, decoder.tell()
        return record

    def skip(self, decoder: BinaryDecoder) -> None:
        """Pass over the record."""
        self._reader.skip(decoder)
