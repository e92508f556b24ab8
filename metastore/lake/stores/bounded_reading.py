"""Reads whole metadata files up to a size limit; larger files are refused before they are in memory.

The FileIOs of this package hold :class:`ReadLimits` and check each metadata file when they open it. Code that
uncompresses a file, or reads it through another FileIO, uses the functions here. Guarantee: a file above its limit
raises a FormatError with the file, its size, the limit, and the configuration key that raises the limit.

PyIceberg reads metadata.json and uncompresses manifest blocks without a limit. So this module replaces its functions
for both, for this package and for everything that PyIceberg itself reads in the process.
"""

from __future__ import annotations

import bz2
import hashlib
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.codecs.bzip2 import BZip2Codec
from pyiceberg.avro.codecs.deflate import DeflateCodec
from pyiceberg.avro.codecs.snappy_codec import SnappyCodec
from pyiceberg.avro.codecs.zstandard_codec import ZStandardCodec
from pyiceberg.io import InputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from metastore.config.limits import LIMITS_KEY, LimitSettings
from metastore.errors import FormatError
from metastore.ground.forks import renew_in_child

Kind = Literal["metadata_json", "manifest", "puffin", "file_list", "delta_log", "view_file", "backup"]

_SUFFIXES: Final[Mapping[str, Kind]] = {
    ".metadata.json": "metadata_json",
    ".metadata.json.gz": "metadata_json",
    ".avro": "manifest",
    ".puffin": "puffin",
    ".stats": "puffin",
    ".quarantine.parquet": "file_list",
}
_PACKED: Final = (".gz.metadata.json", ".metadata.json.gz")
_PART_BYTES: Final = 1 << 20
_LONG_BYTES: Final = 1 << 18
_KEPT_BYTES: Final = 32 << 20
_GZIP: Final = 31
_RAW_DEFLATE: Final = -15
_SNAPPY_LENGTH_BITS: Final = 35


@dataclass(frozen=True)
class Limit:
    """A limit of ``most`` bytes for a file; ``name`` is the key below ``drill.metastore.limits``."""

    name: Kind
    most: int

    def require(self, location: str, size: int) -> None:
        """Raise FormatError if ``size`` bytes exceed the limit."""
        if size > self.most:
            raise self.refusal(location, f"has {size:,} bytes")

    def refusal(self, location: str, found: str) -> FormatError:
        """Return the error for a file that is too large; ``found`` describes its size."""
        return FormatError(
            f"{location} {found}, and at most {self.most:,} are read of such a file: it is damaged, or "
            f"{LIMITS_KEY}.{self.name} must be raised"
        )


@dataclass(frozen=True)
class ReadLimits:
    """The limits for files of one FileIO."""

    settings: LimitSettings = field(default_factory=LimitSettings)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ReadLimits:
        """Read the limits from the ``properties`` of a FileIO, with defaults for missing ones."""
        return cls(LimitSettings.of(properties))

    def limit_of(self, name: Kind) -> Limit:
        """Return the limit of one kind of file."""
        return Limit(name, getattr(self.settings, name))

    def of_file(self, location: str) -> Limit | None:
        """Return the limit of a file by its name's ending; None for data files, which are read in parts."""
        for suffix, name in _SUFFIXES.items():
            if location.endswith(suffix):
                return self.limit_of(name)
        return None


def whole(file: InputFile, limit: Limit) -> bytes:
    """Return the content of ``file``. Raises FormatError above the limit, and the store's errors."""
    parts: list[bytes] = []
    left = limit.most + 1
    with file.open() as stream:
        # A single read of this size would allocate all of it, however short the file is.
        while left and (part := stream.read(min(left, _PART_BYTES))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise limit.refusal(file.location, f"has more than {limit.most:,} bytes")
    return b"".join(parts)


def gunzip(content: bytes, location: str, limit: Limit) -> bytes:
    """Uncompress a gzip file with any number of members. FormatError above the limit, EOFError, zlib.error."""
    out = BytesIO()
    rest = content
    while rest:
        unpacking = zlib.decompressobj(_GZIP)
        out.write(unpacking.decompress(rest, limit.most - out.tell() + 1))
        if out.tell() > limit.most:
            raise limit.refusal(location, f"holds more than {limit.most:,} bytes, compressed")
        if not unpacking.eof:
            raise EOFError("a compressed file ended before its end-of-stream marker was reached")
        rest = unpacking.unused_data.lstrip(b"\0")
    return out.getvalue()


def table_metadata(file: InputFile, encoding: str = "utf-8") -> TableMetadata:
    """Return the metadata of an Iceberg table from its metadata.json, compressed or not.

    Raises FormatError above the limit of the file's FileIO, and the errors of PyIceberg's function of the same name:
    see :data:`metastore.lake.iceberg.catalogs.catalog_errors.UNREADABLE`.
    """
    limits = getattr(file, "limits", None) or ReadLimits()
    limit = limits.limit_of("metadata_json")
    content = whole(file, limit)
    if file.location.endswith(_PACKED):
        content = gunzip(content, file.location, limit)
    if len(content) < _LONG_BYTES:
        return TableMetadataUtil.parse_raw(content.decode(encoding))
    return _PARSED.of(content, lambda: TableMetadataUtil.parse_raw(content.decode(encoding)))


class _MetadataCache:
    """Metadata of tables with long histories as it was parsed, by its content, up to a sum of bytes of JSON.

    A snapshot takes 0.1 ms to parse, and a statement loads its table several times. The content is the key, so the
    answer is right whatever happened to the file's name. Threads share it; nobody changes metadata in place.
    """

    def __init__(self) -> None:
        self._renew()
        renew_in_child(self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, tuple[int, TableMetadata]] = OrderedDict()

    def of(self, content: bytes, parse: Callable[[], TableMetadata]) -> TableMetadata:
        """Return the metadata of ``content``, from ``parse`` if it is not kept."""
        key = hashlib.sha256(content).digest()
        with self._lock:
            if (found := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return found[1]
        parsed = parse()
        with self._lock:
            self._kept[key] = len(content), parsed
            while sum(size for size, _ in self._kept.values()) > _KEPT_BYTES:
                self._kept.popitem(last=False)
        return parsed


_PARSED: Final = _MetadataCache()


def parquet_rows(source: pa.NativeFile | BytesIO, location: str, limit: Limit) -> pa.Table:
    """Return the rows of a list in Parquet; uncompressed columns may take four times the limit. pyarrow's errors."""
    with pq.ParquetFile(source) as file:
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        held = max(sum(group.total_byte_size for group in groups), file.metadata.num_rows)
        if held > 4 * limit.most:
            raise limit.refusal(location, f"holds {held:,} bytes, compressed")
        return file.read()


def _inflate(data: bytes, most: int) -> bytes:
    return zlib.decompressobj(_RAW_DEFLATE).decompress(data, most)


def _from_bzip2(data: bytes, most: int) -> bytes:
    return bz2.BZ2Decompressor().decompress(data, most)


def _from_zstandard(data: bytes, most: int) -> bytes:
    from zstandard import ZstdDecompressor  # noqa: PLC0415 - part of an extra

    with ZstdDecompressor().stream_reader(BytesIO(data)) as stream:
        return bytes(stream.read(most))


def _from_snappy(data: bytes, most: int) -> bytes:
    # The length comes first, with seven bits in each byte.
    length = 0
    for shift, byte in zip(range(0, _SNAPPY_LENGTH_BITS, 7), data, strict=False):
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return bytes(most) if length >= most else _SNAPPY(data)


_SNAPPY: Final[Callable[[bytes], bytes]] = SnappyCodec.decompress
_UNPACK: Final[Mapping[type, Callable[[bytes, int], bytes]]] = {
    BZip2Codec: _from_bzip2,
    DeflateCodec: _inflate,
    SnappyCodec: _from_snappy,
    ZStandardCodec: _from_zstandard,
}


def unpacked_block(codec: type, data: bytes, most: int) -> bytes:
    """Return an uncompressed Avro block. ValueError if it exceeds ``most`` bytes."""
    content = _UNPACK[codec](data, most + 1)
    if len(content) > most:
        raise ValueError(
            f"a block of it holds more than {most:,} bytes, compressed: it is damaged, or {LIMITS_KEY}.manifest must "
            "be raised"
        )
    return content


def _bound_codec(codec: type) -> Callable[[bytes], bytes]:
    return lambda data: unpacked_block(codec, data, LimitSettings.manifest)


for _codec in _UNPACK:
    _codec.decompress = staticmethod(_bound_codec(_codec))  # type: ignore[attr-defined] # PyIceberg takes no codec of others
FromInputFile.table_metadata = staticmethod(table_metadata)  # type: ignore[assignment] # its catalogs call this one
