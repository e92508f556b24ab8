"""Opens Avro files of Iceberg metadata (header, schema, blocks) without reading memory outside their content.

All decoding of manifests and manifest lists is built on this. PyIceberg's compiled decoder does not check the lengths
in a file. In a damaged file it reads adjacent memory, moves backwards, or counts to billions. So files that this
package wrote carry a checksum, and the compiled decoder reads them only if the checksum matches. Files of other writers
are decoded by :class:`CheckedDecoder`, which checks each length before it uses it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from metastore.config.limits import LimitSettings
from metastore.lake.iceberg.columns.exact_doubles import DOUBLE
from metastore.lake.stores.bounded_reading import unpacked_block

SCHEMA: Final = "avro.schema"
"""Key of the schema in a file's header."""

CHECKSUM: Final = "metastore.crc32"
"""Header key of the checksum over the schema and the only block, in each file that this package writes."""

_HEADER: Final = construct_reader(META_SCHEMA, {-1: AvroFileHeader})
_PADDING: Final = bytes(16)
"""Longer than an encoded number, so a number that begins within the content ends within the padding."""


new_decoder(b"")  # imports the compiled decoder, as PyIceberg does on first use: see metastore.ground.forks


class CheckedDecoder:
    """Decodes like PyIceberg's compiled decoder. Raises EOFError if a length exceeds the available bytes.

    A number may end up to a few zero bytes beyond the end: compare :meth:`tell` with the length when all is read.
    """

    def __init__(self, content: bytes) -> None:
        decoder = new_decoder(content + _PADDING)
        self._size = len(content)
        self._read = decoder.read
        self.tell = decoder.tell
        self.read_int = self.skip_int = decoder.read_int
        self.read_boolean = self.skip_boolean = decoder.read_boolean
        self.read_float = self.skip_float = decoder.read_float
        self.skip_bytes = self.skip_utf8 = self.read_bytes

    def read(self, n: int) -> bytes:
        """Return the next ``n`` bytes."""
        if not 0 <= n <= self._size - self.tell():
            raise EOFError(f"{n} bytes at {self.tell()} of {self._size}")
        return self._read(n)

    def skip(self, n: int) -> None:
        """Skip ``n`` bytes."""
        self.read(n)

    def skip_double(self) -> None:
        """Skip a double."""
        self.read(DOUBLE.size)

    def read_bytes(self) -> bytes:
        """Read a length, and return that number of bytes."""
        return self.read(self.read_int())

    def read_utf8(self) -> str:
        """As :meth:`read_bytes`, decoded as text."""
        return self.read_bytes().decode()

    def read_ints(self, n: int) -> tuple[int, ...]:
        """Return ``n`` numbers."""
        return tuple(self.read_int() for _ in range(n))

    def read_int_bytes_dict(self, n: int, dest: dict[int, bytes]) -> None:
        """Read ``n`` numbers, each with bytes, into ``dest``."""
        for _ in range(n):
            key = self.read_int()
            dest[key] = self.read_bytes()


@dataclass(frozen=True)
class Block:
    """A block of uncompressed records, and its decoder."""

    count: int
    content: bytes
    decoder: Any

    def records(self, reader: Reader) -> Iterator[Any]:
        """Yield the records, decoded by ``reader``. ValueError after the last if they do not end with the block."""
        for _ in range(self.count):
            yield reader.read(self.decoder)
        if self.decoder.tell() != len(self.content):
            raise ValueError("the records of a block end elsewhere than the block")


def header_of(beginning: bytes) -> AvroFileHeader | None:
    """Return the header of an Avro file from its first bytes; None if they do not have all of it."""
    decoder: Any = CheckedDecoder(beginning)
    try:
        header: AvroFileHeader = _HEADER.read(decoder)
    except EOFError:
        return None
    return header


def open_blocks(content: bytes, most: int = LimitSettings.manifest) -> tuple[AvroFileHeader, Iterator[Block]]:
    """Return the header of an Avro file, and its blocks; their uncompressed total may be at most ``most`` bytes.

    Raises ValueError for a file that is not Avro or does not match its checksum, and the errors of the decoder.
    """
    decoder: Any = CheckedDecoder(content)
    header: AvroFileHeader = _HEADER.read(decoder)
    if header.magic != MAGIC:
        raise ValueError("it does not begin as an Avro file does")
    return header, _blocks(content, header, decoder, most)


def checksum(schema: str, count: int, content: bytes) -> str:
    """Return the :data:`CHECKSUM` of a file of ``schema`` with one uncompressed block of ``count`` records."""
    return f"{zlib.crc32(content, zlib.crc32(f'{count} {schema}'.encode())):08x}"


def schema_of(text: str) -> Schema:
    """Parse an Avro file's schema. ValueError if a list's elements take no bytes, because it could be endless."""
    schema = AvroSchemaConversion().avro_to_iceberg(json.loads(text))
    if _is_endless(schema.as_struct()):
        raise ValueError("its schema has a list without elements' type")
    return schema


def _blocks(content: bytes, header: AvroFileHeader, decoder: CheckedDecoder, most: int) -> Iterator[Block]:
    codec, expected = header.compression_codec(), header.meta.get(CHECKSUM)
    if expected is not None and decoder.tell() == len(content):
        raise ValueError("it ends where its records should begin")
    while decoder.tell() < len(content):
        count, block = decoder.read_int(), decoder.read_bytes()
        if decoder.read(SYNC_SIZE) != header.sync:
            raise ValueError("a block does not end as the file's header says")
        plain = unpacked_block(codec, block, most) if codec else block
        most -= len(plain)
        if expected is not None and expected != checksum(header.meta[SCHEMA], count, plain):
            raise ValueError("its content is not what was written: the checksum differs")
        if not 0 <= count <= len(plain):
            raise ValueError(f"{count} records do not fit into {len(plain)} bytes")
        yield Block(count, plain, CheckedDecoder(plain) if expected is None else new_decoder(plain))


def _is_endless(type_: IcebergType) -> bool:
    match type_:
        case StructType(fields=fields):
            return any(_is_endless(field.field_type) for field in fields)
        case ListType(element_type=element, element_required=required):
            return (required and _is_empty(element)) or _is_endless(element)
        case MapType(key_type=key, value_type=value):
            return _is_empty(key) or _is_endless(key) or _is_endless(value)
    return False


def _is_empty(type_: IcebergType) -> bool:
    """Whether values of the type take no bytes."""
    return isinstance(type_, StructType) and all(
        field.required and _is_empty(field.field_type) for field in type_.fields
    )
