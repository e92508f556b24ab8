"""Manifests and manifest lists as Avro files, written in one block from records that are encoded once.

PyIceberg's own manifest writer compresses a block for each entry, and both of its writers encode every record again in
every file that carries it over. Most records of a commit are carried over, so one that does not change any more keeps
its bytes beside it: a commit encodes what it changes. Schemas, encoder and container are PyIceberg's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from io import BytesIO
from typing import Final, Literal, NamedTuple

from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.avro.resolver import resolve_writer
from pyiceberg.avro.writer import Writer
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_LIST_FILE_SCHEMAS,
    UNASSIGNED_SEQ,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    construct_partition_summaries,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import StructType

from metastore.storage.encoded_file import EncodedFile

_COMPRESSION: Final = "deflate"
_NOTE: Final = "encoded"
FormatVersion = Literal[1, 2]


class ExistingEntry(ManifestEntry):
    """An entry that was carried over from an older snapshot, and its bytes once they are known."""

    encoded: _Encoded | None = None


class ListedManifest(ManifestFile):
    """A manifest as a list that has landed names it, and its bytes there once they are known."""

    encoded: _Encoded | None = None


class _Encoded(NamedTuple):
    """The bytes of a record in files of one format version."""

    version: FormatVersion
    content: bytes


class _EntryWriter(Writer):
    """Encodes entries: a data file once, whatever becomes of it, and an entry that exists once."""

    def __init__(self, head: Writer, data_file: Writer, version: FormatVersion) -> None:
        self._head = head
        self._data_file = data_file
        self._version = version

    def write(self, encoder: BinaryEncoder, val: ManifestEntry) -> None:
        """Write one entry."""
        if isinstance(val, ExistingEntry):
            if val.encoded is None or val.encoded.version != self._version:
                val.encoded = _Encoded(self._version, self._whole(val))
            encoder.write(val.encoded.content)
        else:
            encoder.write(self._whole(val))

    def _whole(self, entry: ManifestEntry) -> bytes:
        # A data file is a record of PyIceberg's; that it was encoded is noted on the object itself.
        known: _Encoded | None = vars(entry.data_file).get(_NOTE)
        if known is None or known.version != self._version:
            known = _Encoded(self._version, _bytes(self._data_file, entry.data_file))
            vars(entry.data_file)[_NOTE] = known
        return _bytes(self._head, entry) + known.content


class _ManifestWriter(Writer):
    """Encodes manifests as lists name them, once each."""

    def __init__(self, writer: Writer, version: FormatVersion) -> None:
        self._writer = writer
        self._version = version

    def write(self, encoder: BinaryEncoder, val: ListedManifest) -> None:
        """Write one manifest."""
        if val.encoded is None or val.encoded.version != self._version:
            val.encoded = _Encoded(self._version, _bytes(self._writer, val))
        encoder.write(val.encoded.content)


def _bytes(writer: Writer, record: Record) -> bytes:
    buffer = BytesIO()
    writer.write(BinaryEncoder(buffer), record)
    return buffer.getvalue()


def write_manifest_file(
    io: FileIO,
    location: str,
    version: FormatVersion,
    spec: PartitionSpec,
    schema: Schema,
    snapshot_id: int,
    entries: Sequence[ManifestEntry],
) -> ManifestFile:
    """Write ``entries``, at least one, as they are marked; the manifest as a list names it before its commit."""
    output = EncodedFile(location)
    file_schema, writer = _schema_and_writer(version, spec.partition_type(schema))
    metadata = {
        "schema": schema.model_dump_json(),
        "partition-spec": "[" + ",".join(field.model_dump_json() for field in spec.fields) + "]",
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(version),
    }
    if version == 2:
        metadata["content"] = "data"
    _write(output, file_schema, "manifest_entry", writer, metadata, entries)
    output.write_to(io)
    return _listed(output, spec, schema, snapshot_id, entries)


def write_manifest_list_file(
    io: FileIO, version: FormatVersion, snapshot: Snapshot, manifests: Sequence[ListedManifest]
) -> None:
    """Write the list of ``snapshot`` at the place that it names."""
    output = EncodedFile(snapshot.manifest_list)
    parent = snapshot.parent_snapshot_id
    metadata = {
        "snapshot-id": str(snapshot.snapshot_id),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "format-version": str(version),
    }
    if version == 2:
        metadata["sequence-number"] = str(snapshot.sequence_number)
    _write(output, MANIFEST_LIST_FILE_SCHEMAS[version], "manifest_file", _list_writer(version), metadata, manifests)
    output.write_to(io)


def _write(
    output: OutputFile,
    schema: Schema,
    name: str,
    writer: Writer,
    metadata: dict[str, str],
    records: Sequence[ManifestEntry | ManifestFile],
) -> None:
    header = {**metadata, "avro.codec": _COMPRESSION}
    with AvroOutputFile[ManifestEntry | ManifestFile](output, schema, name, metadata=header) as container:
        container.writer = writer
        container.write_block(list(records))


@cache
def _list_writer(version: FormatVersion) -> Writer:
    of_record, of_file = MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION], MANIFEST_LIST_FILE_SCHEMAS[version]
    return _ManifestWriter(resolve_writer(record_schema=of_record, file_schema=of_file), version)


@lru_cache(maxsize=16)
def _schema_and_writer(version: FormatVersion, partition_type: StructType) -> tuple[Schema, Writer]:
    """Schema of the entries in a file of ``version``, and what encodes PyIceberg's entries in it."""
    of_file, of_record = (
        manifest_entry_schema_with_data_file(v, data_file_with_partition(partition_type, v))
        for v in (version, DEFAULT_READ_VERSION)
    )
    # The data file comes last in both, so an entry's bytes are those of the rest and then its own.
    head = resolve_writer(record_schema=Schema(*of_record.fields[:-1]), file_schema=Schema(*of_file.fields[:-1]))
    data_file = resolve_writer(record_schema=of_record.fields[-1].field_type, file_schema=of_file.fields[-1].field_type)
    return of_file, _EntryWriter(head, data_file, version)


def _listed(
    output: OutputFile, spec: PartitionSpec, schema: Schema, snapshot_id: int, entries: Sequence[ManifestEntry]
) -> ManifestFile:
    files = dict.fromkeys(ManifestEntryStatus, 0)
    rows = dict.fromkeys(ManifestEntryStatus, 0)
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += entry.data_file.record_count
    live = [entry for entry in entries if entry.status != ManifestEntryStatus.DELETED]
    numbers = [entry.sequence_number for entry in live if entry.sequence_number is not None]
    return ManifestFile.from_args(
        manifest_path=output.location,
        manifest_length=len(output),
        partition_spec_id=spec.spec_id,
        content=ManifestContent.DATA,
        # Left open: the commit's number, which the writer of the list fills in.
        sequence_number=UNASSIGNED_SEQ,
        min_sequence_number=min(numbers, default=UNASSIGNED_SEQ),
        added_snapshot_id=snapshot_id,
        added_files_count=files[ManifestEntryStatus.ADDED],
        existing_files_count=files[ManifestEntryStatus.EXISTING],
        deleted_files_count=files[ManifestEntryStatus.DELETED],
        added_rows_count=rows[ManifestEntryStatus.ADDED],
        existing_rows_count=rows[ManifestEntryStatus.EXISTING],
        deleted_rows_count=rows[ManifestEntryStatus.DELETED],
        partitions=construct_partition_summaries(spec, schema, [entry.data_file.partition for entry in entries]),
        key_metadata=None,
    )
