"""Reads a few columns of an Iceberg metadata file, without making objects of the rest.

Reachability needs only paths, sizes and a few other fields of thousands of manifests and manifest lists. The other
fields (statistics, partition summaries) are skipped without decoding. Each schema is resolved once, not once a file.
Decoder, codecs and schema conversion are PyIceberg's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.reader import Reader, StructReader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.typedef import Record
from pyiceberg.types import StructType

from metastore.errors import FormatError
from metastore.lake.iceberg.manifests.avro_blocks import SCHEMA, open_blocks, schema_of

DATA_FILE: Final = 2
"""Field ID of the struct ``data_file`` in a manifest entry."""


def read_columns(location: str, content: bytes, fields: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Yields for each record of the Avro file the values of ``fields`` (IDs), in that order; None for a missing field.

    Fields of the struct ``data_file`` count as fields of the record. Raises FormatError, which names ``location``, if
    the content is not a valid Avro file.
    """
    try:
        yield from _rows(content, fields)
    except Exception as error:
        # The decoder has no error class of its own: a broken file can raise any exception.
        raise FormatError(f"{location} cannot be decoded as Iceberg metadata: {error!r}") from error


def _rows(content: bytes, fields: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    header, blocks = open_blocks(content)
    reader = _reader(header.meta[SCHEMA], fields)
    inner = len(fields)
    for block in blocks:
        for record in block.records(reader):
            nested = record[inner]
            yield tuple(
                record[position] if nested is None or nested[position] is None else nested[position]
                for position in range(inner)
            )


@lru_cache(maxsize=64)
def _reader(schema: str, fields: tuple[int, ...]) -> StructReader:
    struct = schema_of(schema).as_struct()
    return _pick_fields(struct, construct_reader(struct), fields)


def _pick_fields(struct: StructType, whole: Reader, fields: tuple[int, ...]) -> StructReader:
    """Returns a reader of the same bytes that keeps ``fields`` at their positions, and ``data_file`` after them."""
    assert isinstance(whole, StructReader)
    picked: list[tuple[int | None, Reader]] = []
    for field, (_, reader) in zip(struct.fields, whole.field_readers, strict=True):
        if field.field_id in fields:
            picked.append((fields.index(field.field_id), reader))
        elif field.field_id == DATA_FILE and isinstance(field.field_type, StructType):
            picked.append((len(fields), _pick_fields(field.field_type, reader, fields)))
        elif isinstance(field.field_type, StructType):
            picked.append((None, _SkippedStruct(reader)))
        else:
            picked.append((None, reader))
    width = len(fields) + 1
    return StructReader(tuple(picked), lambda *_: Record(*[None] * width), struct)


class _SkippedStruct(Reader):
    """Skips a struct, such as a partition, by reading it: PyIceberg skips decimals differently than it reads them."""

    def __init__(self, whole: Reader) -> None:
        self._whole = whole

    def read(self, decoder: BinaryDecoder) -> Any:
        return self._whole.read(decoder)

    def skip(self, decoder: BinaryDecoder) -> None:
        self._whole.read(decoder)
