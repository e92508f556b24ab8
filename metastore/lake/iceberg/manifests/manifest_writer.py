"""Writes manifests and manifest lists as Avro files of one block, from records that are encoded once.

Most records of a commit are carried over. A record that no longer changes keeps its encoded bytes, whether it was read
or written, so a commit encodes only its changes. Schemas and the encoding of records are PyIceberg's; PyIceberg's own
writers encode every carried-over record again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from pyiceberg.avro.resolver import resolve_writer
from pyiceberg.avro.writer import Writer
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    DEFAULT_READ_VERSION,
    MANIFEST_LIST_FILE_SCHEMAS,
    UNASSIGNED_SEQ,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, ListType, PrimitiveType, StructType

from metastore.lake.iceberg.columns.version_3_fields import RECORD_VERSION
from metastore.lake.iceberg.manifests.avro_file import (
    EncodedRecord,
    avro_file,
    encode,
    encoded_bytes,
    keep,
    schema_text,
)
from metastore.lake.stores.new_files import NewFiles

_FormatVersion = Literal[1, 2, 3]
_FIELDS_BEFORE_VERSION_3: Final = len(DATA_FILE_TYPE[DEFAULT_READ_VERSION].fields)


class ListedManifest(ManifestFile):
    """A manifest as a published list names it, so it keeps its encoded bytes."""


def is_settled(entry: ManifestEntry) -> bool:
    """Whether ``entry`` was carried over from an older snapshot and records that itself, so it never changes again."""
    return (
        entry.status == ManifestEntryStatus.EXISTING
        and entry.snapshot_id is not None
        and entry.sequence_number is not None
        and entry.file_sequence_number is not None
    )


class _EntryWriter(NamedTuple):
    """Encodes entries of one Avro schema; data files and existing entries are encoded once."""

    schema: str
    head: Writer
    data_file: Writer
    older_data_file: Writer
    """For data files that were made without the fields of version 3."""

    def encode(self, entry: ManifestEntry) -> bytes:
        """Return the entry's bytes."""
        if is_settled(entry) or getattr(entry, "reusable_bytes", None) is not None:
            return _once(entry, self.schema, self._whole)
        return self._whole(entry)

    def _whole(self, entry: Record) -> bytes:
        assert isinstance(entry, ManifestEntry)
        data_file = _once(entry.data_file, self.schema, self._data_file)
        return encode(self.head, entry) + data_file

    def _data_file(self, file: Record) -> bytes:
        return encode(self.older_data_file if len(file) <= _FIELDS_BEFORE_VERSION_3 else self.data_file, file)


def _once(record: Record, schema: str, encode_it: Callable[[Record], bytes]) -> bytes:
    known = encoded_bytes(record)
    if known is None or known.schema is not schema:
        known = keep(record, EncodedRecord(schema, encode_it(record)))
    return known.content


def write_manifest_file(  # noqa: PLR0913 - each is another part of the file
    files: NewFiles,
    location: str,
    format_version: int,
    spec: PartitionSpec,
    schema: Schema,
    snapshot_id: int,
    entries: Sequence[ManifestEntry],
    content: ManifestContent = ManifestContent.DATA,
    *,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> ManifestFile:
    """Write ``entries``, at least one, as marked; returns the manifest for the list of a commit to come.

    ``content`` says whether they are of data files or, from format version 2 on, of delete files. ``notes`` are kept in
    the file's header, where other readers pass over them.
    """
    version = _writable(format_version)
    writer = _entry_writer(version, spec.partition_type(schema))
    metadata = {
        **notes,
        "schema": schema.model_dump_json(),
        "partition-spec": "[" + ",".join(field.model_dump_json() for field in spec.fields) + "]",
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(version),
    }
    if version > 1:
        metadata["content"] = content.name.lower()
    made = avro_file(writer.schema, metadata, [writer.encode(entry) for entry in entries])
    files.write(location, made)
    return _describe_manifest(location, len(made), spec, schema, snapshot_id, entries, content)


def write_manifest_list_file(
    files: NewFiles, format_version: int, snapshot: Snapshot, manifests: Sequence[ListedManifest]
) -> None:
    """Write the list of ``snapshot`` to the location that it names."""
    version = _writable(format_version)
    parent = snapshot.parent_snapshot_id
    metadata = {
        "snapshot-id": str(snapshot.snapshot_id),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "format-version": str(version),
    }
    if version > 1:
        metadata["sequence-number"] = str(snapshot.sequence_number)
    if version > 2:
        metadata["first-row-id"] = str(snapshot.first_row_id)
    schema, writer = _list_writer(version)
    records = [_once(manifest, schema, lambda one: encode(writer, one)) for manifest in manifests]
    files.write(snapshot.manifest_list, avro_file(schema, metadata, records))


def _writable(format_version: int) -> _FormatVersion:
    return 3 if format_version == 3 else 2 if format_version == 2 else 1


@cache
def _list_writer(version: _FormatVersion) -> tuple[str, Writer]:
    of_record, of_file = MANIFEST_LIST_FILE_SCHEMAS[RECORD_VERSION], MANIFEST_LIST_FILE_SCHEMAS[version]
    return schema_text(of_file, "manifest_file"), resolve_writer(record_schema=of_record, file_schema=of_file)


def entry_schema(format_version: int, partition_type: StructType) -> str:
    """Return the Avro schema of the manifests that :func:`write_manifest_file` writes."""
    return _entry_writer(_writable(format_version), partition_type).schema


@lru_cache(maxsize=16)
def _entry_writer(version: _FormatVersion, partition_type: StructType) -> _EntryWriter:
    of_file, of_record, of_older_record = (
        manifest_entry_schema_with_data_file(v, data_file_with_partition(partition_type, v))
        for v in (version, RECORD_VERSION, DEFAULT_READ_VERSION)
    )
    # The data file is last in the schema, so an entry's bytes are the other fields' and then the data file's.
    head = resolve_writer(record_schema=Schema(*of_record.fields[:-1]), file_schema=Schema(*of_file.fields[:-1]))
    data_file, older = (
        resolve_writer(record_schema=each.fields[-1].field_type, file_schema=of_file.fields[-1].field_type)
        for each in (of_record, of_older_record)
    )
    return _EntryWriter(schema_text(_entry_schema(version, partition_type), "manifest_entry"), head, data_file, older)


def _entry_schema(version: _FormatVersion, partition_type: StructType) -> Schema:
    """Return the schema for a file of entries: ids of equality deletes are ints, where PyIceberg has longs.

    The bytes are the same. Iceberg's Java library reads ids by the schema's type, and fails for longs.
    """
    fields = data_file_with_partition(partition_type, version).fields
    ids = ListType(element_id=136, element_type=IntegerType(), element_required=True)
    named = (
        field.model_copy(update={"field_type": ids}) if field.name == "equality_ids" else field for field in fields
    )
    return manifest_entry_schema_with_data_file(version, StructType(*named))


def _describe_manifest(
    location: str,
    length: int,
    spec: PartitionSpec,
    schema: Schema,
    snapshot_id: int,
    entries: Sequence[ManifestEntry],
    content: ManifestContent,
) -> ManifestFile:
    """The entry of a written manifest of ``length`` bytes for the list: counts by status, and partition ranges."""
    files = dict.fromkeys(ManifestEntryStatus, 0)
    rows = dict.fromkeys(ManifestEntryStatus, 0)
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += entry.data_file.record_count
    live = [entry for entry in entries if entry.status != ManifestEntryStatus.DELETED]
    numbers = [entry.sequence_number for entry in live if entry.sequence_number is not None]
    return ManifestFile.from_args(
        RECORD_VERSION,
        manifest_path=location,
        manifest_length=length,
        partition_spec_id=spec.spec_id,
        content=content,
        # Unset: the writer of the list fills in the commit's number.
        sequence_number=UNASSIGNED_SEQ,
        min_sequence_number=min(numbers, default=UNASSIGNED_SEQ),
        added_snapshot_id=snapshot_id,
        added_files_count=files[ManifestEntryStatus.ADDED],
        existing_files_count=files[ManifestEntryStatus.EXISTING],
        deleted_files_count=files[ManifestEntryStatus.DELETED],
        added_rows_count=rows[ManifestEntryStatus.ADDED],
        existing_rows_count=rows[ManifestEntryStatus.EXISTING],
        deleted_rows_count=rows[ManifestEntryStatus.DELETED],
        partitions=_summaries(spec.partition_type(schema), [entry.data_file.partition for entry in entries]),
        key_metadata=None,
    )


def _summaries(partition_type: StructType, partitions: Sequence[Record]) -> list[PartitionFieldSummary]:
    """Return the summary of each partition field over ``partitions``: nulls, NaNs and the bounds of the others."""
    found = []
    for position, field in enumerate(partition_type.fields):
        values = [partition[position] for partition in partitions]
        present = [value for value in values if value is not None]
        ordered = [value for value in present if value == value]  # not NaN
        type_ = field.field_type
        assert isinstance(type_, PrimitiveType)
        low, high = (to_bytes(type_, choose(ordered)) if ordered else None for choose in (min, max))
        found.append(PartitionFieldSummary(len(present) < len(values), len(ordered) < len(present), low, high))
    return found
