"""Reads manifests and manifest lists; their records can be written again without being encoded again.

Records of any format version are read with the fields of version 3. Entries inherit unset values from their manifest,
as the specification says, and so do data files the ids of their rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.reader import Reader, StructReader
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.typedef import Record

from metastore.lake.iceberg.columns.version_3_fields import (
    RECORD_VERSION,
    first_row_id,
    first_row_id_of_manifest,
    set_first_row_id,
)
from metastore.lake.iceberg.manifests.avro_blocks import header_of, open_blocks, schema_of
from metastore.lake.iceberg.manifests.avro_file import EncodedRecord, Noting, forget, read_avro_file
from metastore.lake.iceberg.manifests.manifest_writer import ListedManifest, is_settled
from metastore.lake.stores.bounded_reading import ReadLimits, whole

_BEGINNING: Final = 1 << 16
"""Bytes in which the header of nearly every manifest ends."""


def read_list(io: FileIO, location: str) -> tuple[ListedManifest, ...]:
    """Return the manifests of the list at ``location``, in order."""
    return tuple(read_avro_file(content_of(io, location), _list_reader, lambda manifest: (manifest,), most_of(io)))


def header_note(io: FileIO, location: str, name: str) -> str | None:
    """Return the note ``name`` in the header of the manifest at ``location``, mostly by a read of its beginning."""
    with io.new_input(location).open() as stream:
        header = header_of(stream.read(_BEGINNING))
    if header is None:
        header, _ = open_blocks(content_of(io, location), most_of(io))
    return header.meta.get(name)


def read_live_entries(io: FileIO, manifest: ManifestFile) -> tuple[ManifestEntry, ...]:
    """Return the entries of ``manifest`` that are not deleted, in order, with inherited values."""
    return tuple(entry for entry in read_entries(io, manifest) if entry.status != ManifestEntryStatus.DELETED)


def read_entries(io: FileIO, manifest: ManifestFile) -> tuple[ManifestEntry, ...]:
    """Return all entries of ``manifest``, in order, with inherited values."""
    entries = tuple(_inherit_numbers(entry, manifest) for entry in _read_entries(io, manifest))
    if manifest.content == ManifestContent.DATA:
        _give_row_ids(entries, first_row_id_of_manifest(manifest))
    return entries


def _give_row_ids(entries: Iterable[ManifestEntry], next_row_id: int | None) -> None:
    """Give each live file without row ids the next ones; without ``next_row_id`` no file has any."""
    for entry in entries:
        file = entry.data_file
        given = next_row_id
        if entry.status == ManifestEntryStatus.DELETED:
            continue
        if next_row_id is not None:
            given = first_row_id(file)
            if given is None:
                given = next_row_id
                next_row_id += file.record_count
        if first_row_id(file) != given:
            set_first_row_id(file, given)
            forget(file)
            forget(entry)


def _read_entries(io: FileIO, manifest: ManifestFile) -> Iterable[ManifestEntry]:
    return read_avro_file(content_of(io, manifest.manifest_path), _entry_reader, _records_to_carry, most_of(io))


def decoded_entry(stored: EncodedRecord) -> ManifestEntry:
    """Return the entry that is ``stored`` in these bytes, with nothing inherited."""
    entry: ManifestEntry = _entry_reader(stored.schema).read(new_decoder(stored.content))
    return entry


def content_of(io: FileIO, location: str) -> bytes:
    """Return the bytes of a manifest or a manifest list."""
    return whole(io.new_input(location), ReadLimits.of(io.properties).limit_of("manifest"))


def most_of(io: FileIO) -> int:
    """Return the most bytes that a manifest may hold, uncompressed."""
    return ReadLimits.of(io.properties).limit_of("manifest").most


def _records_to_carry(entry: ManifestEntry) -> Iterable[Record]:
    """Return what later manifests reuse unchanged: the data file, and an existing entry that inherits nothing."""
    return (entry.data_file, entry) if is_settled(entry) else (entry.data_file,)


def _inherit_numbers(entry: ManifestEntry, manifest: ManifestFile) -> ManifestEntry:
    if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
        entry.snapshot_id = manifest.added_snapshot_id
    # Version 1 has no sequence numbers: its manifests have 0, and so have all their entries.
    if manifest.sequence_number == 0 or entry.status == ManifestEntryStatus.ADDED:
        if entry.sequence_number is None:
            entry.sequence_number = manifest.sequence_number
        if entry.file_sequence_number is None:
            entry.file_sequence_number = manifest.sequence_number
    entry.data_file.spec_id = manifest.partition_spec_id
    return entry


@lru_cache(maxsize=16)
def _list_reader(schema: str) -> Reader:
    return Noting(
        resolve_reader(
            schema_of(schema),
            MANIFEST_LIST_FILE_SCHEMAS[RECORD_VERSION],
            {-1: ListedManifest, 508: PartitionFieldSummary},
            {517: ManifestContent},
        )
    )


@lru_cache(maxsize=64)
def _entry_reader(schema: str) -> Reader:
    of_entry = resolve_reader(
        schema_of(schema),
        MANIFEST_ENTRY_SCHEMAS[RECORD_VERSION],
        {-1: ManifestEntry, 2: DataFile},
        {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    )
    if not isinstance(of_entry, StructReader):
        raise ValueError(f"a manifest entry is a struct, not {of_entry}")
    fields = [
        (position, Noting(reader) if isinstance(reader, StructReader) and reader.create_struct is DataFile else reader)
        for position, reader in of_entry.field_readers
    ]
    return Noting(StructReader(tuple(fields), of_entry.create_struct, of_entry.struct))
