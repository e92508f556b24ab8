"""Encodes the rows of a partition into its data file's content and the facts of its manifest entry. Pure: no store.

This is the first half of writing a partition (:mod:`metastore.components.storage.partition_writer` is the second) and
most of the work. An encoder is plain data, so an engine's tasks can encode rows where they create them. Tasks return
the result in rows of :data:`ENCODED`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from pyiceberg.schema import Schema

from metastore.components.storage.parquet_content import Codec, ParquetContent
from metastore.errors import InvalidRequestError
from metastore.model.bounds.embedded_place import COLUMNS_ID, EmbeddedContent
from metastore.model.bounds.embedding import embed_partitions
from metastore.model.fields import Unit
from metastore.model.mapping.arrow import arrow_schema
from metastore.model.mapping.bounds import BoundedColumns, ColumnBounds
from metastore.model.mapping.rows import PartitionKey, PartitionRows

_FEWEST_UNITS: Final = 32
"""Fewer units get no embedded columns: the operations of a conversion take 5 ms, and save a reader 0.6 ms of JSON."""

_CODEC_PROPERTY: Final = "write.parquet.compression-codec"
_DEFAULT_CODEC: Final = "snappy"
"""Readable by every Parquet reader, Drill's included, without native libraries."""

_CODECS: Final[Mapping[str, Codec]] = {
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4": "lz4",
    "brotli": "brotli",
}

ENCODED: Final = pa.struct(
    [
        ("key", pa.list_(pa.string())),
        ("rows", pa.int64()),
        ("content", pa.binary()),
        ("location", pa.string()),
        ("size_bytes", pa.int64()),
        ("value_counts", pa.map_(pa.int32(), pa.int64())),
        ("null_value_counts", pa.map_(pa.int32(), pa.int64())),
        ("lower_bounds", pa.map_(pa.int32(), pa.binary())),
        ("upper_bounds", pa.map_(pa.int32(), pa.binary())),
    ]
)
"""An :class:`EncodedPartition`, or a :class:`StoredPartition`, which has a location instead of content, in Arrow."""


@dataclass(frozen=True)
class EncodedPartition:
    """The encoded partition: a whole Parquet file with ``rows`` rows, and the bounds of its columns."""

    key: PartitionKey
    rows: int
    content: pa.Buffer
    bounds: ColumnBounds

    def to_arrow(self) -> dict[str, Any]:
        """Return a value of :data:`ENCODED`."""
        return _facts(self.key, self.rows, self.bounds) | {"content": self.content.to_pybytes()}


@dataclass(frozen=True)
class StoredPartition:
    """A partition whose encoded file is at ``location``, with ``size_bytes`` bytes."""

    key: PartitionKey
    rows: int
    bounds: ColumnBounds
    location: str
    size_bytes: int

    def to_arrow(self) -> dict[str, Any]:
        """Return a value of :data:`ENCODED`."""
        return _facts(self.key, self.rows, self.bounds) | {"location": self.location, "size_bytes": self.size_bytes}


def _facts(key: PartitionKey, rows: int, bounds: ColumnBounds) -> dict[str, Any]:
    return {"key": list(key), "rows": rows, **{name: list(counts.items()) for name, counts in asdict(bounds).items()}}


def encoded_or_stored(found: pa.StructScalar) -> EncodedPartition | StoredPartition:
    """Convert a value of :data:`ENCODED` without copying the content."""
    maps = ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
    bounds = ColumnBounds(**{name: dict(found[name].as_py()) for name in maps})
    key, rows, content = tuple(found["key"].as_py()), found["rows"].as_py(), found["content"]
    if not content.is_valid:
        return StoredPartition(key, rows, bounds, found["location"].as_py(), found["size_bytes"].as_py())
    of_content: Any = content
    return EncodedPartition(key, rows, of_content.as_buffer(), bounds)


@dataclass(frozen=True)
class PartitionEncoder:
    """Encodes partitions of units of one type. ``schema_json`` is the table's schema, in Iceberg's JSON."""

    unit_type: type[Unit]
    schema_json: str
    codec: Codec

    @classmethod
    def of(cls, unit_type: type[Unit], schema: Schema, properties: Mapping[str, str]) -> PartitionEncoder:
        """Return the encoder that the table's properties ask for. Raises InvalidRequestError for an unknown codec."""
        name = properties.get(_CODEC_PROPERTY, _DEFAULT_CODEC).lower()
        if name not in _CODECS:
            raise InvalidRequestError(f"table property {_CODEC_PROPERTY} is {name!r}; it can be {', '.join(_CODECS)}")
        return cls(unit_type, schema.model_dump_json(), _CODECS[name])

    def encode(self, partition: PartitionRows) -> EncodedPartition:
        """Return the encoded file for the rows of ``partition``."""
        [encoded] = self.encode_each([partition])
        return encoded

    def encode_each(self, partitions: Sequence[PartitionRows]) -> Iterator[EncodedPartition]:
        """Yield the encoded file of each of ``partitions``, which costs less than to encode one after the other."""
        bounded, parquet = _prepare_encoder(self)
        columns: Sequence[EmbeddedContent | None] = [None] * len(partitions)
        if self.unit_type.digested and sum(partition.rows.num_rows for partition in partitions) >= _FEWEST_UNITS:
            columns = embed_partitions([partition.rows for partition in partitions])
        for partition, own in zip(partitions, columns, strict=True):
            bounds = bounded.bounds(partition.rows)
            written = parquet.of(partition.rows, own.content if own else b"")
            if own:
                bounds.lower_bounds[COLUMNS_ID] = own.at(written.embedded_at).to_bytes()
            yield EncodedPartition(partition.key, partition.rows.num_rows, written.content, bounds)


@lru_cache(maxsize=16)
def _prepare_encoder(encoder: PartitionEncoder) -> tuple[BoundedColumns, ParquetContent]:
    """Return what is created once per process, however often a task receives the encoder."""
    schema = Schema.model_validate_json(encoder.schema_json)
    bounded = BoundedColumns.of(encoder.unit_type, schema)
    return bounded, ParquetContent(encoder.unit_type, arrow_schema(encoder.unit_type, schema), encoder.codec)
