"""Avro files of Iceberg metadata, opened: header, schema and blocks, and never a byte read that is not theirs.

Place in the flow: below everything that decodes manifests and their lists. PyIceberg's compiled decoder takes the
lengths that it meets at their word: in a damaged file it reads what lies beside it in memory, goes backwards, or counts
to billions. So files that this package wrote carry a checksum, and are decoded by it only when that is right; those of
others are decoded by :class:`CheckedDecoder`, which looks at each length before it is used.
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
from metastore.iceberg.exact_doubles import DOUBLE
from metastore.stores.bounded_reading import unpacked_block

SCHEMA: Final = "avro.schema"
"""Key of the schema in a file's header."""

CHECKSUM: Final = "metastore.crc32"
"""Key of the checksum over the schema and the only block, in the header of each file that this package writes."""

_HEADER: Final = construct_reader(META_SCHEMA, {-1: AvroFileHeader})
_PADDING: Final = bytes(16)
"""More than a number takes: one that begins within the content ends before this does."""


new_decoder(b"")  # imports the compiled decoder, which PyIceberg does when one is first made: see metastore.forks


class CheckedDecoder:
    """Decodes as PyIceberg's compiled decoder does. EOFError where a length is not that of bytes that are there.

    A number may end up to a few zero bytes beyond the end: see where :meth:`tell` is when all is read.
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
        """The next ``n`` bytes."""
        if not 0 <= n <= self._size - self.tell():
            raise EOFError(f"{n} bytes at {self.tell()} of {self._size}")
        return self._read(n)

    def skip(self, n: int) -> None:
        """Pass over ``n`` bytes."""
        self.read(n)

    def skip_double(self) -> None:
        """Pass over a double."""
        self.read(DOUBLE.size)

    def read_bytes(self) -> bytes:
        """A number, and that number of bytes."""
        return self.read(self.read_int())

    def read_utf8(self) -> str:
        """The same, as text."""
        return self.read_bytes().decode()

    def read_ints(self, n: int) -> tuple[int, ...]:
        """``n`` numbers."""
        return tuple(self.read_int() for _ in range(n))

    def read_int_bytes_dict(self, n: int, dest: dict[int, bytes]) -> None:
        """Put ``n`` numbers with their bytes into ``dest``."""
        for _ in range(n):
            key = self.read_int()
            dest[key] = self.read_bytes()


@dataclass(frozen=True)
class Block:
    """A number of records, uncompressed, and what decodes them."""

    count: int
    content: bytes
    decoder: Any

    def records(self, reader: Reader) -> Iterator[Any]:
        """The records, as ``reader`` decodes them. ValueError, at last, when they end elsewhere than the block."""
        for _ in range(self.count):
            yield reader.read(self.decoder)
        if self.decoder.tell() != len(self.content):
            raise ValueError("the records of a block end elsewhere than the block")


def opened(content: bytes, most: int = LimitSettings.manifest) -> tuple[AvroFileHeader, Iterator[Block]]:
    """Header of an Avro file, and its blocks, which hold ``most`` bytes together at most, uncompressed.

    Raises ValueError for what is none, or is not what was written, and whatever the decoder meets.
    """
    decoder: Any = CheckedDecoder(content)
    header: AvroFileHeader = _HEADER.read(decoder)
    if header.magic != MAGIC:
        raise ValueError("it does not begin as an Avro file does")
    return header, _blocks(content, header, decoder, most)


def checksum(schema: str, count: int, content: bytes) -> str:
    """What stands under :data:`CHECKSUM` for a file of ``schema`` with one block of ``count`` records; uncompressed."""
    return f"{zlib.crc32(content, zlib.crc32(f'{count} {schema}'.encode())):08x}"


def schema_of(text: str) -> Schema:
    """What an Avro file's schema means. ValueError where a list's elements would take no bytes: it could be endless."""
    schema = AvroSchemaConversion().avro_to_iceberg(json.loads(text))
    if _is_endless(schema.as_struct()):
        raise ValueError("its schema has lists of nothing")
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
