"""The bytes that a partition's data file carries beside its rows, and the place of these bytes in the file.

The bytes are one Arrow record batch with its schema, compressed with zstd. The manifest entry has their place.
A text that many adjacent rows share is stored in the first of these rows, and the following rows are null.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from metastore.errors import FormatError
from metastore.model.bounds.bound_arrays import Mask, mask_of
from metastore.model.bounds.unit_columns import CodedTexts

COLUMNS_ID: Final = 2_000_000_036
"""The field id under which an entry's lower bounds hold the place; like that of digests, it is no column's id."""

_STATISTICS_ONLY, _WITH_FACTS = 1, 2
"""Versions of the stored place. Releases that know only the first ignore the second, and read JSON."""
_MOST_BYTES: Final = 1 << 26
"""Most bytes before compression. A larger partition is read from JSON in batches, so it is never held at once."""

_PLACE: Final = struct.Struct("<BQIII")
_SCHEMA_LENGTH: Final = struct.Struct("<Q")
_CODEC: Final = pa.Codec("zstd")


class EmbeddedPlace(NamedTuple):
    """Position of the bytes in a data file, their stored length, their length before compression, and their CRC-32.

    ``has_facts`` says whether they have the facts of all units (:mod:`metastore.model.bounds.fact_columns`).
    """

    offset: int
    length: int
    size: int
    checksum: int
    has_facts: bool = False

    def to_bytes(self) -> bytes:
        """The place in its stored form."""
        return _PLACE.pack(_WITH_FACTS if self.has_facts else _STATISTICS_ONLY, *self[:4])

    @classmethod
    def from_bytes(cls, stored: bytes | None) -> EmbeddedPlace | None:
        """Decodes a ``stored`` place; None if there is none, or it has another version or is too large."""
        if stored is None or len(stored) != _PLACE.size or stored[0] not in (_STATISTICS_ONLY, _WITH_FACTS):
            return None
        version, offset, length, size, checksum = _PLACE.unpack(stored)
        place = cls(offset, length, size, checksum, version == _WITH_FACTS)
        return place if place.size <= _MOST_BYTES else None


class EmbeddedContent(NamedTuple):
    """The bytes, their length before compression, and whether they have the facts of all units."""

    content: bytes
    size: int
    has_facts: bool

    def at(self, offset: int) -> EmbeddedPlace:
        """The place of the bytes if they begin at ``offset`` of a file."""
        return EmbeddedPlace(offset, len(self.content), self.size, zlib.crc32(self.content), self.has_facts)


class BatchParts(NamedTuple):
    """The stored schema of a batch, and the batch after it."""

    schema: bytes
    content: pa.Buffer


class PackedSchema(NamedTuple):
    """A schema and its stored form, which the batches of many partitions share."""

    schema: pa.Schema
    content: bytes

    @classmethod
    def of(cls, schema: pa.Schema) -> PackedSchema:
        """Convert ``schema``."""
        content = schema.serialize().to_pybytes()
        return cls(schema, _SCHEMA_LENGTH.pack(len(content)) + content)


def pack_batch(batch: pa.RecordBatch, schema: PackedSchema, *, has_facts: bool) -> EmbeddedContent | None:
    """The bytes of ``batch``, which has ``schema``; None if it is too large."""
    content = schema.content + batch.serialize().to_pybytes()
    if len(content) > _MOST_BYTES:
        return None
    return EmbeddedContent(_CODEC.compress(content, asbytes=True), len(content), has_facts)


def unpack_content(place: EmbeddedPlace, content: pa.Buffer) -> BatchParts:
    """The parts of the bytes read at ``place``. Raises FormatError if they are not those that were written there."""
    if len(content) != place.length or zlib.crc32(content) != place.checksum:
        raise FormatError("its columns are not those that were written: their checksum differs")
    unpacked = _CODEC.decompress(content, place.size)
    [length] = _SCHEMA_LENGTH.unpack_from(unpacked)
    stored = unpacked.slice(_SCHEMA_LENGTH.size, length).to_pybytes()
    return BatchParts(stored, unpacked.slice(_SCHEMA_LENGTH.size + length))


def runs_of(texts: CodedTexts, starts: Any = (), without: Mask | None = None) -> pa.Array[Any]:
    """Each text that differs from the previous row's, null for a repeated one; "-" means none, "=" precedes a text.

    The text stands again in the rows ``starts``, where partitions begin. Rows ``without`` a text are null.
    """
    codes = np.asarray(texts.codes, np.int64)
    repeats = np.zeros(len(codes), np.bool_)
    repeats[1:] = codes[1:] == codes[:-1]
    repeats[starts] = False
    if without is not None:
        repeats |= without
    names = pa.array(["-", *(f"={name}" for name in texts.names)], pa.string())
    places: Any = pa.array(codes + 1, mask=repeats)
    return names.take(places)


def texts_of(runs: pa.Array[Any]) -> CodedTexts:
    """The inverse of :func:`runs_of`. Rows before the first text have none."""
    distinct = runs.drop_null().dictionary_encode()
    names: list[Any] = distinct.dictionary.to_pylist()
    codes = np.concatenate([[-1], distinct.indices.to_numpy()])[np.cumsum(mask_of(runs.is_valid()))]
    own = [name[1:] for name in names if name != "-"]
    place = {name: code for code, name in enumerate(own)}
    of_name = np.array([*(-1 if name == "-" else place[name[1:]] for name in names), -1], np.int32)
    return CodedTexts(of_name[codes], own)
