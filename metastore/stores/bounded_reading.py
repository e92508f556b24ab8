"""Metadata files read whole, up to a limit: what is larger is refused before it is in memory.

Place in the flow: the FileIOs of this package hold a :class:`ReadLimits` and check each metadata file as they open it.
Who uncompresses one, or reads it through a FileIO of others, does it by the functions here. Promise: a file beyond its
limit is a FormatError that names the file, its size, the limit and the key of the configuration that raises it.

PyIceberg reads metadata.json and uncompresses the blocks of manifests without a bound. So its functions for both are
replaced here, for this package and for all that PyIceberg itself reads in the process.
"""

from __future__ import annotations

import bz2
import zlib
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
_GZIP: Final = 31
_RAW_DEFLATE: Final = -15
_SNAPPY_LENGTH_BITS: Final = 35


@dataclass(frozen=True)
class Limit:
    """At most ``most`` bytes of a file; ``name`` is the key below ``drill.metastore.limits``."""

    name: Kind
    most: int

    def require(self, location: str, size: int) -> None:
        """Refuse a file of ``size`` bytes. Raises FormatError."""
        if size > self.most:
            raise self.refusal(location, f"has {size:,} bytes")

    def refusal(self, location: str, found: str) -> FormatError:
        """The error for a file that ``found`` says is too large."""
        return FormatError(
            f"{location} {found}, and at most {self.most:,} are read of such a file: it is damaged, or "
            f"{LIMITS_KEY}.{self.name} must be raised"
        )


@dataclass(frozen=True)
class ReadLimits:
    """The limits that hold for the files of one FileIO."""

    settings: LimitSettings = field(default_factory=LimitSettings)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ReadLimits:
        """Those among the ``properties`` of a FileIO; the defaults where it has none."""
        return cls(LimitSettings.of(properties))

    def named(self, name: Kind) -> Limit:
        """The limit of one kind of file."""
        return Limit(name, getattr(self.settings, name))

    def of_file(self, location: str) -> Limit | None:
        """The limit of a file, by the end of its name; None for data files, which are read in parts."""
        for suffix, name in _SUFFIXES.items():
            if location.endswith(suffix):
                return self.named(name)
        return None


def whole(file: InputFile, limit: Limit) -> bytes:
    """The content of ``file``. Raises FormatError beyond the limit, and what the store raises."""
    parts: list[bytes] = []
    left = limit.most + 1
    with file.open() as stream:
        # A single read of so many bytes would take the memory for them, however short the file is.
        while left and (part := stream.read(min(left, _PART_BYTES))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise limit.refusal(file.location, f"has more than {limit.most:,} bytes")
    return b"".join(parts)


def gunzipped(content: bytes, location: str, limit: Limit) -> bytes:
    """What a gzip file of any number of members holds. Raises FormatError beyond the limit, EOFError, zlib.error."""
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
    """The metadata of an Iceberg table, from its metadata.json, compressed or not.

    Raises FormatError beyond the limit, which is that of the file's own FileIO, and as PyIceberg's function of this
    name: see :data:`metastore.iceberg.catalog_errors.UNREADABLE`.
    """
    limits = getattr(file, "limits", None) or ReadLimits()
    limit = limits.named("metadata_json")
    content = whole(file, limit)
    if file.location.endswith(_PACKED):
        content = gunzipped(content, file.location, limit)
    return TableMetadataUtil.parse_raw(content.decode(encoding))


def parquet_rows(source: pa.NativeFile | BytesIO, location: str, limit: Limit) -> pa.Table:
    """The rows of a list in Parquet, whose columns may take four times the limit, uncompressed. As pyarrow raises."""
    with pq.ParquetFile(source) as file:
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        held = max(sum(group.total_byte_size for group in groups), file.metadata.num_rows)
        if held > 4 * limit.most:
            raise limit.refusal(location, f"holds {held:,} bytes, compressed")
        return file.read()


def _inflated(data: bytes, most: int) -> bytes:
    return zlib.decompressobj(_RAW_DEFLATE).decompress(data, most)


def _from_bzip2(data: bytes, most: int) -> bytes:
    return bz2.BZ2Decompressor().decompress(data, most)


def _from_zstandard(data: bytes, most: int) -> bytes:
    from zstandard import ZstdDecompressor  # noqa: PLC0415 - part of an extra

    with ZstdDecompressor().stream_reader(BytesIO(data)) as stream:
        return bytes(stream.read(most))


def _from_snappy(data: bytes, most: int) -> bytes:
    # The length comes first, seven bits a byte.
    length = 0
    for shift, byte in zip(range(0, _SNAPPY_LENGTH_BITS, 7), data, strict=False):
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return bytes(most) if length >= most else _SNAPPY(data)


_SNAPPY: Final[Callable[[bytes], bytes]] = SnappyCodec.decompress
_UNPACK: Final[Mapping[type, Callable[[bytes, int], bytes]]] = {
    BZip2Codec: _from_bzip2,
    DeflateCodec: _inflated,
    SnappyCodec: _from_snappy,
    ZStandardCodec: _from_zstandard,
}


def unpacked_block(codec: type, data: bytes, most: int) -> bytes:
    """A block of an Avro file, uncompressed. ValueError when that takes more than ``most`` bytes."""
    content = _UNPACK[codec](data, most + 1)
    if len(content) > most:
        raise ValueError(
            f"a block of it holds more than {most:,} bytes, compressed: it is damaged, or {LIMITS_KEY}.manifest must "
            "be raised"
        )
    return content


def _bounded(codec: type) -> Callable[[bytes], bytes]:
    return lambda data: unpacked_block(codec, data, LimitSettings.manifest)


for _codec in _UNPACK:
    _codec.decompress = staticmethod(_bounded(_codec))  # type: ignore[attr-defined] # PyIceberg takes no codec of others
FromInputFile.table_metadata = staticmethod(table_metadata)  # type: ignore[assignment] # its catalogs know no other
