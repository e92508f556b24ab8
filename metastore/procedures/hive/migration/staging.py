"""Second step of a migration: writes Iceberg metadata over the Hive table's files, invisible to all readers.

All files of one attempt lie in a hidden folder of the table, ``_iceberg/<attempt>``. Hive's readers ignore it. (A plain
``metadata`` folder would break those that read an unpartitioned table without recursion.) A dead attempt is removed
with its folder. The files stay there when the table is switched; later commits write to Iceberg's usual folders.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.manifest import FileFormat as IcebergFormat
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2, TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import Record

from metastore.errors import ProcedureError
from metastore.ground.epoch import EPOCH_DAY, micros_since_epoch
from metastore.lake.iceberg.catalogs.lossless_metadata import write_metadata
from metastore.lake.iceberg.manifests.manifest_writer import write_manifest_file
from metastore.lake.iceberg.manifests.manifests import added_entry, with_row_ids, write_list
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE, with_lineage
from metastore.lake.stores.new_files import NewFiles
from metastore.procedures.hive.metrics import schema_of
from metastore.procedures.hive.migration.layout import NAME_MAPPING, Layout, layout_of, merged_match
from metastore.procedures.hive.migration.survey import Survey
from metastore.sources.hive.matching import NAMELESS, Match, has_names, match
from metastore.sources.hive.partitions import typed_value
from metastore.sources.hive.tables import HiveFormat

HIDDEN_FOLDER: Final = "_iceberg"

_MANIFEST_FILES: Final = 4_000
"""Data files per manifest: bounds memory, and a reader decodes few entries for one partition."""

_NO_FILES: Final = {"data-files": 0, "records": 0, "files-size": 0}
_REMOVED: Final = {
    "data-files": "deleted-data-files",
    "records": "deleted-records",
    "files-size": "removed-files-size",
}
"""Names of counts of removed files in a snapshot's summary."""


@dataclass(frozen=True)
class StagedMetadata:
    """Written metadata that no reader sees yet; all ``files`` are in ``folder``.

    ``rewritten_snapshot_id`` is the id of a second snapshot, which replaces some files with new ones.
    """

    folder: str
    files: tuple[str, ...]
    metadata_location: str
    snapshot_id: int | None
    records: int
    rewritten_snapshot_id: int | None = None


Rewrite = Callable[[Layout, Sequence[DataFile], str], Sequence[DataFile]]
"""Writes the rows of data files in the given layout to new files below a folder, and returns the new files."""


@dataclass(frozen=True)
class NewIcebergTable:
    """Location, properties and format version of the Iceberg table."""

    location: str
    properties: Mapping[str, str]
    format_version: Literal[2, 3] = 2


@dataclass(frozen=True)
class ToRewrite:
    """The ``numbers`` of files to rewrite, and the function that rewrites them."""

    numbers: frozenset[int]
    rewrite: Rewrite


def attempt_folder(table_location: str) -> str:
    """Returns the path of a new hidden folder below the table's folder."""
    return f"{table_location}/{HIDDEN_FOLDER}/{uuid.uuid4()}"


def problems_of(survey: Survey, fragments: pa.Table) -> list[str]:
    """Returns why the files cannot be files of an Iceberg table, as clauses that name files or columns."""
    errors = [str(error) for error in fragments["error"].drop_null().to_pylist()]
    return errors + list(dict.fromkeys(merged_match(matches_of(survey, fragments)).problems))


def matches_of(survey: Survey, fragments: pa.Table) -> list[Match]:
    """Returns the match of each distinct schema in the files with the table's columns."""
    rows = fragments.filter(pc.is_valid(fragments["schema"])).select(["shape", "schema"]).to_pylist()
    schemas = {row["shape"]: schema_of(row["schema"]) for row in rows}
    columns = survey.table.columns
    matches = []
    for shape, schema in sorted(schemas.items()):  # a shape's name begins with the format
        matched = match(columns, schema, timestamps=not shape.startswith(HiveFormat.AVRO))
        if shape.startswith(HiveFormat.ORC) and not has_names(schema):
            matched.problems.append(NAMELESS)
        matches.append(matched)
    return matches


def stage(
    survey: Survey,
    fragments: pa.Table,
    io: FileIO,
    folder: str,
    *,
    new_table: NewIcebergTable,
    now_ms: int,
    anew: ToRewrite | None = None,
) -> StagedMetadata:
    """Write manifests, their lists and one metadata file into ``folder``; a table without files has no snapshot.

    The table is as ``new_table``. With ``anew``, a second snapshot replaces some files;
    that is supported in version 2 only, since new files would have to keep row ids. Raises ProcedureError for files
    that do not fit, InvalidRequestError for a column with the name of a row's lineage, and the errors of the rewrite.
    """
    if problems := problems_of(survey, fragments):
        raise ProcedureError(f"{survey.table} cannot become an Iceberg table: {'; '.join(problems)}")
    layout = layout_of(survey.table, matches_of(survey, fragments))
    if new_table.format_version >= VERSION_OF_LINEAGE:
        with_lineage(layout.schema)
    writer = _Writer(io, folder, layout, secrets.randbits(62) + 1, now_ms, new_table.format_version)
    snapshots = [writer.snapshot(data_files(survey, fragments, layout))] if survey.files else []
    if anew is not None and anew.numbers:
        files = list(data_files(survey, fragments, layout))
        new = anew.rewrite(layout, [files[number] for number in sorted(anew.numbers)], folder)
        snapshots.append(writer.write_replacement(snapshots[0], files, anew.numbers, new))
    metadata_location = f"{folder}/00000-{uuid.uuid4()}.metadata.json"
    metadata = _metadata(layout, new_table, snapshots, now_ms)
    write_metadata(metadata, io, metadata_location)
    records = int(pc.sum(fragments["records"]).as_py() or 0)
    written = (*writer.files, metadata_location)
    first, second = (*(each.snapshot_id for each in snapshots), None, None)[:2]
    return StagedMetadata(folder, written, metadata_location, first, records, second)


def data_files(survey: Survey, fragments: pa.Table, layout: Layout) -> Iterator[DataFile]:
    """Yields Iceberg's entries of all files, in the order of the survey, created in batches."""
    columns = survey.table.partition_columns
    partitions = [
        Record(
            *(_to_stored_value(typed_value(text, type_)) for text, (_, type_) in zip(each.values, columns, strict=True))
        )
        for each in survey.partitions
    ]
    ids = layout.leaf_ids
    for batch in fragments.sort_by("number").to_batches(_MANIFEST_FILES):
        for row in batch.drop_columns(["error", "shape", "schema"]).to_pylist():
            file = survey.files[row["number"]]
            made = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=file.location,
                file_format=IcebergFormat(str(file.format)),
                partition=partitions[survey.places[row["number"]]] if partitions else Record(),
                record_count=row["records"],
                file_size_in_bytes=file.size,
                column_sizes=_without_none(ids, row["sizes"]),
                value_counts=_without_none(ids, row["values"]),
                null_value_counts=_without_none(ids, row["nulls"]),
                # No footer counts NaNs, and 0 would mean that there are none.
                nan_value_counts=None,
                lower_bounds=_without_none(ids, row["lower"]),
                upper_bounds=_without_none(ids, row["upper"]),
                split_offsets=row["splits"] or None,
            )
            made.spec_id = layout.spec.spec_id
            yield made


def _without_none(ids: Sequence[int], values: Sequence[Any]) -> dict[int, Any]:
    return {own: value for own, value in zip(ids, values, strict=True) if value is not None}


def _to_stored_value(value: Any) -> Any:
    """Returns a partition's value as in Iceberg's records: days and microseconds since the epoch."""
    if isinstance(value, datetime):
        return micros_since_epoch(value)
    return value.toordinal() - EPOCH_DAY if isinstance(value, date) else value


class _Writer:
    """Writes the snapshots of an attempt; ``files`` lists the written files."""

    def __init__(
        self, io: FileIO, folder: str, layout: Layout, snapshot_id: int, now_ms: int, format_version: Literal[2, 3]
    ) -> None:
        self.files: Final[list[str]] = []
        self._format_version: Final[Literal[2, 3]] = format_version
        self._new_files = NewFiles(io)
        self._folder = folder
        self._layout = layout
        self._snapshot_id = snapshot_id
        self._now_ms = now_ms
        self._name = uuid.uuid4()

    def snapshot(self, files: Iterator[DataFile]) -> Snapshot:
        """Write the first snapshot, which adds the files."""
        tally = _Tally()
        own = self._snapshot_id
        manifests = list(self._manifests((added_entry(file, own) for file in tally.count(files)), own))
        counts = {f"{kind}-{name}": count for kind in ("added", "total") for name, count in tally.counts.items()}
        return self._snapshot(own, None, manifests, Operation.APPEND, counts, tally.partitions)

    def write_replacement(
        self, first: Snapshot, files: Sequence[DataFile], replaced_files: frozenset[int], new: Sequence[DataFile]
    ) -> Snapshot:
        """Write the second snapshot: ``new`` replaces the files numbered ``replaced_files``, of the same rows."""
        own = self._snapshot_id + 1
        removed = _Tally.of(files[number] for number in sorted(replaced_files))
        arrived = _Tally.of(new)
        kept = (file for number, file in enumerate(files) if number not in replaced_files)
        total = _Tally.of((*kept, *new))
        number = first.sequence_number or 0
        entries = (
            ManifestEntry.from_args(
                status=ManifestEntryStatus.DELETED if at in replaced_files else ManifestEntryStatus.EXISTING,
                snapshot_id=own if at in replaced_files else first.snapshot_id,
                sequence_number=number,
                file_sequence_number=number,
                data_file=file,
            )
            for at, file in enumerate(files)
        )
        manifests = [*self._manifests(entries, own), *self._manifests((added_entry(file, own) for file in new), own)]
        counts = {
            **{f"added-{name}": count for name, count in arrived.counts.items()},
            **{_REMOVED[name]: count for name, count in removed.counts.items()},
            **{f"total-{name}": count for name, count in total.counts.items()},
        }
        partitions = removed.partitions | arrived.partitions
        return self._snapshot(own, first, manifests, Operation.REPLACE, counts, partitions)

    def _snapshot(
        self,
        own_id: int,
        parent: Snapshot | None,
        manifests: Sequence[ManifestFile],
        operation: Operation,
        counts: Mapping[str, int],
        partitions: set[str],
    ) -> Snapshot:
        """Write the manifest list of a snapshot after ``parent``; counts go into its summary."""
        number = 1 if parent is None else (parent.sequence_number or 0) + 1
        place = f"{self._folder}/snap-{own_id}-0-{self._name}.avro"
        above = None if parent is None else parent.snapshot_id
        summary = {name: str(count) for name, count in counts.items()}
        if self._layout.spec.fields:
            summary["changed-partition-count"] = str(len(partitions))
        deletes = {f"total-{name}": "0" for name in ("delete-files", "position-deletes", "equality-deletes")}
        first_row_id = taken = None
        if self._format_version >= VERSION_OF_LINEAGE:
            first_row_id = 0
            manifests, taken = with_row_ids(manifests, first_row_id)
        made = Snapshot(
            snapshot_id=own_id,
            parent_snapshot_id=above,
            sequence_number=number,
            timestamp_ms=self._now_ms,
            manifest_list=place,
            summary=Summary(operation, **summary, **deletes),
            schema_id=0,
            first_row_id=first_row_id,
            added_rows=taken,
        )
        write_list(self._new_files, made, self._format_version, manifests)
        self.files.append(place)
        return made

    def _manifests(self, entries: Iterator[ManifestEntry], snapshot_id: int) -> Iterator[ManifestFile]:
        while some := list(islice(entries, _MANIFEST_FILES)):
            place = f"{self._folder}/{self._name}-m{len(self.files)}.avro"
            layout = self._layout
            yield write_manifest_file(
                self._new_files, place, self._format_version, layout.spec, layout.schema, snapshot_id, some
            )
            self.files.append(place)


class _Tally:
    """Counts files while they are iterated."""

    def __init__(self) -> None:
        self.counts: Final[dict[str, int]] = dict(_NO_FILES)
        self.partitions: Final[set[str]] = set()

    @classmethod
    def of(cls, files: Iterable[DataFile]) -> _Tally:
        """Returns the counts of ``files``."""
        tally = cls()
        for _ in tally.count(files):
            pass
        return tally

    def count(self, files: Iterable[DataFile]) -> Iterator[DataFile]:
        """Yields the files unchanged, and counts them."""
        for file in files:
            self.counts["data-files"] += 1
            self.counts["records"] += file.record_count
            self.counts["files-size"] += file.file_size_in_bytes
            self.partitions.add(repr(file.partition))
            yield file


def _metadata(layout: Layout, new_table: NewIcebergTable, snapshots: Sequence[Snapshot], now_ms: int) -> TableMetadata:
    """The first metadata of the table; the newest snapshot is on ``main``, and version 3 has row ids."""
    partition_ids = [each.field_id for each in layout.spec.fields]
    current = snapshots[-1].snapshot_id if snapshots else None
    refs = {"main": {"snapshot-id": current, "type": "branch"}} if snapshots else {}
    log = [{"snapshot-id": each.snapshot_id, "timestamp-ms": now_ms} for each in snapshots]
    of_version: dict[str, Any] = {}
    if new_table.format_version >= VERSION_OF_LINEAGE:
        of_version = {"next-row-id": sum(each.added_rows or 0 for each in snapshots)}
    kind = TableMetadataV3 if of_version else TableMetadataV2
    return kind.model_validate(
        {
            **of_version,
            "format-version": new_table.format_version,
            "table-uuid": str(uuid.uuid4()),
            "location": new_table.location,
            "last-sequence-number": len(snapshots),
            "last-updated-ms": now_ms,
            "last-column-id": layout.last_column_id,
            "schemas": [layout.schema],
            "current-schema-id": layout.schema.schema_id,
            "partition-specs": [layout.spec],
            "default-spec-id": layout.spec.spec_id,
            "last-partition-id": max(partition_ids, default=999),
            "sort-orders": [UNSORTED_SORT_ORDER],
            "default-sort-order-id": UNSORTED_SORT_ORDER.order_id,
            "properties": {**new_table.properties, NAME_MAPPING: layout.name_mapping},
            "snapshots": list(snapshots),
            "current-snapshot-id": current,
            "snapshot-log": log,
            "refs": refs,
        }
    )
