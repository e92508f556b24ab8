"""Entries of a component's manifests, kept as their bytes together with the few fields that planning and commits use.

A decoded entry of PyIceberg is a dozen objects, and a table may have a hundred thousand entries: their decoding, their
memory and garbage collection take longer than planning itself. Here an entry is one object. It has the fields of
:class:`pyiceberg.manifest.ManifestEntry`, and decodes all others from its bytes on each access.

Only manifests that this package wrote are read like this. Their schema is known by its text, and their content is
verified by a checksum. :mod:`metastore.lake.iceberg.manifests.manifest_reader` reads all others, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Any, Final

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, IcebergType, IntegerType, LongType, StringType, StructType

from metastore.lake.iceberg.columns.version_3_fields import first_row_id_of_manifest
from metastore.lake.iceberg.manifests.avro_blocks import CHECKSUM, SCHEMA, Block, open_blocks, schema_of
from metastore.lake.iceberg.manifests.avro_file import EncodedRecord
from metastore.lake.iceberg.manifests.manifest_reader import decoded_entry
from metastore.lake.iceberg.manifests.manifest_writer import entry_schema
from metastore.model.mapping.rows import PartitionKey

_STATUS: Final = {status.value: status for status in ManifestEntryStatus}
_FORMAT_VERSION: Final = 2
"""The version of the only layout that is read here, which is that of all component tables and most published ones."""

Metrics = tuple[Mapping[int, Any], Mapping[int, Any], Mapping[int, Any], Mapping[int, Any], Mapping[int, Any]]
"""Counts of values, nulls and NaNs, lower and upper bounds, each by field id; empty if there are none."""


def metrics_of(file: DataFile) -> Metrics:
    """Return the metrics of columns; an entry of a component decodes all at once."""
    if isinstance(file, CompactFile):
        return file.metrics()
    counts = (file.value_counts or {}, file.null_value_counts or {}, file.nan_value_counts or {})
    return (*counts, file.lower_bounds or {}, file.upper_bounds or {})


class CompactFile(DataFile):
    """The data file of a :class:`CompactEntry`; it cannot be changed."""

    __slots__ = ("entry",)
    __setattr__ = object.__setattr__  # type: ignore[assignment] # the base class looks for a name that is not set here

    def __init__(self, entry: CompactEntry) -> None:
        self.entry = entry

    @property
    def _data(self) -> list[Any]:  # type: ignore[override] # the fields of the base class, decoded
        decoded = decoded_entry(self.entry.stored_bytes).data_file
        return [decoded[position] for position in range(len(decoded))]

    def __setitem__(self, pos: int, value: Any) -> None:
        raise TypeError("the data file of a stored entry cannot be changed")

    @property
    def reusable_bytes(self) -> EncodedRecord:
        """The encoded bytes."""
        return EncodedRecord(self.entry.schema, self.entry.content[self.entry.file_at :])

    @property
    def file_path(self) -> str:
        """See :class:`pyiceberg.manifest.DataFile`."""
        return self.entry.path

    @property
    def partition(self) -> Record:
        """See :class:`pyiceberg.manifest.DataFile`."""
        return Record(*self.entry.key)

    @property
    def record_count(self) -> int:
        """See :class:`pyiceberg.manifest.DataFile`."""
        return self.entry.rows

    @property
    def file_size_in_bytes(self) -> int:
        """See :class:`pyiceberg.manifest.DataFile`."""
        return self.entry.size

    @property
    def lower_bounds(self) -> dict[int, bytes]:
        """See :class:`pyiceberg.manifest.DataFile`."""
        decoder: Any = new_decoder(self.entry.content[self.entry.maps_at :])
        for _map in range(4):
            _skip_longs_by_id(decoder)
        return _bytes_by_id(decoder)

    @property  # type: ignore[misc] # it cannot be set
    def spec_id(self) -> int:
        """See :class:`pyiceberg.manifest.DataFile`."""
        return self.entry.spec_id

    def metrics(self) -> Metrics:
        """The metrics of columns."""
        decoder: Any = new_decoder(self.entry.content[self.entry.maps_at :])
        _skip_longs_by_id(decoder)  # sizes of columns
        counts = _longs_by_id(decoder), _longs_by_id(decoder), _longs_by_id(decoder)
        return (*counts, _bytes_by_id(decoder), _bytes_by_id(decoder))


class CompactEntry(ManifestEntry):
    """A live entry as it is stored, with values that it inherits from its manifest; it cannot be changed."""

    __slots__ = (
        "content",
        "file_at",
        "is_settled",
        "key",
        "maps_at",
        "numbers",
        "path",
        "rows",
        "schema",
        "size",
        "spec_id",
    )
    schema: str
    content: bytes
    is_settled: bool
    """Whether another manifest can have the bytes as they are: they state the entry's numbers, and inherit none."""
    file_at: int
    """The position of the data file in the bytes."""
    maps_at: int
    """The position of the first map, which follows the file's size."""
    path: str
    key: PartitionKey
    rows: int
    size: int
    spec_id: int
    numbers: tuple[ManifestEntryStatus, int | None, int | None, int | None]
    """Status, snapshot, sequence number and file sequence number."""

    def __init__(self) -> None:
        """Create an entry without content; :func:`compact_entries` fills it."""

    @property
    def stored_bytes(self) -> EncodedRecord:
        """The bytes."""
        return EncodedRecord(self.schema, self.content)

    @property
    def reusable_bytes(self) -> EncodedRecord | None:
        """The bytes, if another manifest can have them as they are."""
        return self.stored_bytes if self.is_settled else None

    @property
    def _data(self) -> list[Any]:  # type: ignore[override] # the fields of the base class, made on access
        return [*self.numbers, self.data_file]

    def __setitem__(self, pos: int, value: Any) -> None:
        raise TypeError("a stored entry cannot be changed")

    @property  # type: ignore[misc] # it cannot be set
    def status(self) -> ManifestEntryStatus:
        """See :class:`pyiceberg.manifest.ManifestEntry`."""
        return self.numbers[0]

    @property  # type: ignore[misc] # it cannot be set
    def snapshot_id(self) -> int | None:
        """See :class:`pyiceberg.manifest.ManifestEntry`."""
        return self.numbers[1]

    @property  # type: ignore[misc] # it cannot be set
    def sequence_number(self) -> int | None:
        """See :class:`pyiceberg.manifest.ManifestEntry`."""
        return self.numbers[2]

    @property  # type: ignore[misc] # it cannot be set
    def file_sequence_number(self) -> int | None:
        """See :class:`pyiceberg.manifest.ManifestEntry`."""
        return self.numbers[3]

    @property  # type: ignore[misc] # it cannot be set
    def data_file(self) -> DataFile:
        """See :class:`pyiceberg.manifest.ManifestEntry`."""
        return CompactFile(self)


def compact_entries(content: bytes, manifest: ManifestFile, most: int) -> tuple[CompactEntry, ...] | None:
    """Return the live entries in ``content``, the file of a ``manifest``; None if it has another layout.

    Raises ValueError and the errors of decoding for a damaged file. It may have at most ``most`` bytes, uncompressed.
    """
    header, blocks = open_blocks(content, most)
    schema = intern(header.meta[SCHEMA])
    fields = _fields_of_partition(schema)
    if fields is None or CHECKSUM not in header.meta or first_row_id_of_manifest(manifest) is not None:
        return None
    texts: dict[str, str] = {}
    return tuple(entry for block in blocks for entry in _live(block, schema, fields, manifest, texts))


def _live(
    block: Block, schema: str, fields: Sequence[str], manifest: ManifestFile, texts: dict[str, str]
) -> Iterator[CompactEntry]:
    """Yield the live entries of a block; ``texts`` makes equal values of partitions one object."""
    decoder, content = block.decoder, block.content
    reads = [getattr(decoder, name) for name in fields]
    spec_id, inherited_id, inherited = manifest.partition_spec_id, manifest.added_snapshot_id, manifest.sequence_number
    for _ in range(block.count):
        entry = CompactEntry()
        start = decoder.tell()
        status = _STATUS[decoder.read_int()]
        numbers = [_optional_long(decoder) for _ in range(3)]
        file_at = decoder.tell()
        decoder.skip_int()  # the kind of content
        entry.path = decoder.read_utf8()
        decoder.skip_utf8()  # the format
        key = [read() if decoder.read_int() else None for read in reads]
        entry.rows, entry.size = decoder.read_int(), decoder.read_int()
        maps_at = decoder.tell()
        for _map in range(4):
            _skip_longs_by_id(decoder)
        for _map in range(2):
            _skip_bytes_by_id(decoder)
        if decoder.read_int():
            decoder.skip_bytes()  # metadata of a key
        for _list in range(2):  # offsets of splits, ids of equality deletes
            _skip_longs(decoder)
        if decoder.read_int():
            decoder.skip_int()  # the sort order
        if status == ManifestEntryStatus.DELETED:
            continue
        entry.schema, entry.content = schema, content[start : decoder.tell()]
        entry.is_settled = status == ManifestEntryStatus.EXISTING and None not in numbers
        entry.file_at, entry.maps_at = file_at - start, maps_at - start
        entry.key = tuple(text if text is None else texts.setdefault(text, text) for text in key)  # type: ignore[misc] # as other readers do
        entry.spec_id = spec_id
        snapshot_id, number, file_number = numbers
        if inherited == 0 or status == ManifestEntryStatus.ADDED:
            number = inherited if number is None else number
            file_number = inherited if file_number is None else file_number
        entry.numbers = status, inherited_id if snapshot_id is None else snapshot_id, number, file_number
        yield entry
    if decoder.tell() != len(content):
        raise ValueError("the records of a block end elsewhere than the block")


@lru_cache(maxsize=16)
def _fields_of_partition(schema: str) -> Sequence[str] | None:
    """Return for each partition field the decoder's method that reads it; None for a layout that is not read here."""
    found = schema_of(schema).find_type("data_file.partition")
    if not isinstance(found, StructType) or any(type(field.field_type) not in _READS for field in found.fields):
        return None
    if schema != entry_schema(_FORMAT_VERSION, found):
        return None
    return tuple(_READS[type(field.field_type)] for field in found.fields)


_READS: Final[Mapping[type[IcebergType], str]] = {
    StringType: "read_utf8",
    IntegerType: "read_int",
    LongType: "read_int",
    DateType: "read_int",
}


def _optional_long(decoder: Any) -> int | None:
    is_there = decoder.read_int()
    return decoder.read_int() if is_there else None


def _pairs(decoder: Any) -> Iterator[int]:
    """Yield the number of pairs of each block of an optional map."""
    if decoder.read_int():
        while count := decoder.read_int():
            if count < 0:
                decoder.skip_int()  # the bytes of the block
            yield abs(count)


def _skip_longs_by_id(decoder: Any) -> None:
    for count in _pairs(decoder):
        decoder.read_ints(2 * count)


def _skip_bytes_by_id(decoder: Any) -> None:
    for count in _pairs(decoder):
        for _ in range(count):
            decoder.skip_int()
            decoder.skip_bytes()


def _skip_longs(decoder: Any) -> None:
    for count in _pairs(decoder):
        decoder.read_ints(count)


def _longs_by_id(decoder: Any) -> dict[int, int]:
    found: dict[int, int] = {}
    for count in _pairs(decoder):
        numbers = decoder.read_ints(2 * count)
        found.update(zip(numbers[::2], numbers[1::2], strict=True))
    return found


def _bytes_by_id(decoder: Any) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for count in _pairs(decoder):
        decoder.read_int_bytes_dict(count, found)
    return found
