"""Metadata tables of manifests, files and entries: of one snapshot, or of all snapshots (``$all_…``).

Columns have the names that Spark and Trino give them. Names of earlier versions of this package are kept beside them.
Counts and bounds are maps by the column's name; ``readable_metrics`` has them with the values' types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from metastore.lake.iceberg.columns.partition_type import type_of
from metastore.lake.iceberg.columns.version_3_fields import first_row_id_of_manifest
from metastore.lake.iceberg.manifests.manifest_reader import read_entries, read_list, read_live_entries
from metastore.lake.iceberg.manifests.manifests import decode_file
from metastore.lake.inspection.column_metrics import as_text
from metastore.lake.inspection.file_rows import FileRows

_INTEGER: Final[pa.DataType] = pa.int32()
_LONG: Final[pa.DataType] = pa.int64()
_TEXT: Final[pa.DataType] = pa.string()
_CHANGES: Final = ("added", "existing", "deleted")
_DELETES: Final = frozenset({DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES})
_DATA: Final = frozenset({DataFileContent.DATA})


def manifests(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns the manifests that the snapshot lists."""
    rows = [_manifest(table, manifest) for manifest in list_manifests(table, snapshot)]
    return pa.Table.from_pylist(rows, pa.schema(_manifest_fields()))


def all_manifests(table: Table) -> pa.Table:
    """Returns the manifests that each snapshot lists; ``reference_snapshot_id`` is the snapshot's id."""
    rows = [
        _manifest(table, manifest) | {"reference_snapshot_id": snapshot.snapshot_id}
        for snapshot in table.metadata.snapshots
        for manifest in list_manifests(table, snapshot)
    ]
    return pa.Table.from_pylist(rows, pa.schema([*_manifest_fields(), pa.field("reference_snapshot_id", _LONG)]))


def files(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns the live data and delete files of the snapshot."""
    return _files(table, list_manifests(table, snapshot), _DATA | _DELETES)


def data_files(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns the live data files of the snapshot."""
    return _files(table, list_manifests(table, snapshot), _DATA)


def delete_files(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns the live delete files and deletion vectors of the snapshot."""
    return _files(table, list_manifests(table, snapshot), _DELETES)


def all_files(table: Table) -> pa.Table:
    """Returns the files of all snapshots. A file has a row for each manifest that has it as live."""
    return _files(table, _listed_by_any(table), _DATA | _DELETES)


def all_data_files(table: Table) -> pa.Table:
    """Returns the data files of all snapshots, as in ``$all_files``."""
    return _files(table, _listed_by_any(table), _DATA)


def all_delete_files(table: Table) -> pa.Table:
    """Returns the delete files of all snapshots, as in ``$all_files``."""
    return _files(table, _listed_by_any(table), _DELETES)


def entries(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns the entries of the snapshot's manifests, of removed files too: status, and the file as in ``$files``."""
    return _entries(table, list_manifests(table, snapshot))


def all_entries(table: Table) -> pa.Table:
    """Returns the entries of the manifests of all snapshots."""
    return _entries(table, _listed_by_any(table))


def list_manifests(table: Table, snapshot: Snapshot | None) -> Sequence[ManifestFile]:
    """Returns the manifests of a snapshot, in order; none for no snapshot."""
    if snapshot is None:
        return ()
    path = snapshot.manifest_list
    return decode_file(path, lambda: read_list(table.io, path))


def live_entries(table: Table, manifests: Iterable[ManifestFile]) -> Iterator[ManifestEntry]:
    """Yields the entries of ``manifests`` that are not deleted."""
    for manifest in manifests:
        yield from decode_file(manifest.manifest_path, partial(read_live_entries, table.io, manifest))


def _listed_by_any(table: Table) -> Sequence[ManifestFile]:
    """Returns each manifest once, as the newest snapshot lists it: after an upgrade to version 3 it has row ids."""
    found: dict[str, ManifestFile] = {}
    for snapshot in table.metadata.snapshots:
        found.update((manifest.manifest_path, manifest) for manifest in list_manifests(table, snapshot))
    return tuple(found.values())


def _files(table: Table, manifests: Sequence[ManifestFile], contents: frozenset[DataFileContent]) -> pa.Table:
    shown = FileRows(table)
    holds_data = {ManifestContent.DATA: bool(contents & _DATA), ManifestContent.DELETES: bool(contents & _DELETES)}
    rows = [
        shown.row(entry.data_file) | shown.metrics.readable(entry.data_file)
        for entry in live_entries(table, (each for each in manifests if holds_data[each.content]))
    ]
    return pa.Table.from_pylist(rows, pa.schema([*shown.fields, *shown.metrics.readable_fields]))


def _entries(table: Table, manifests: Sequence[ManifestFile]) -> pa.Table:
    """One row for each entry, also for deleted ones, with the file as a struct."""
    shown = FileRows(table)
    fields: list[pa.Field[Any]] = [
        pa.field("status", _TEXT),
        pa.field("snapshot_id", _LONG),
        pa.field("sequence_number", _LONG),
        pa.field("file_sequence_number", _LONG),
        pa.field("data_file", pa.struct(shown.fields)),
        *shown.metrics.readable_fields,
    ]
    rows = [
        {
            "status": entry.status.name,
            "snapshot_id": entry.snapshot_id,
            "sequence_number": entry.sequence_number,
            "file_sequence_number": entry.file_sequence_number,
            "data_file": shown.row(entry.data_file),
            **shown.metrics.readable(entry.data_file),
        }
        for manifest in manifests
        for entry in decode_file(manifest.manifest_path, partial(read_entries, table.io, manifest))
    ]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def _manifest_fields() -> list[pa.Field[Any]]:
    """The columns of ``$manifests``: Spark's, then those of this package alone."""
    summary: list[pa.Field[Any]] = [
        *(pa.field(name, pa.bool_()) for name in ("contains_null", "contains_nan")),
        *(pa.field(name, _TEXT) for name in ("lower_bound", "upper_bound", "field", "lower", "upper")),
    ]
    return [
        pa.field("content", _TEXT),
        pa.field("path", _TEXT),
        pa.field("length", _LONG),
        pa.field("partition_spec_id", _INTEGER),
        pa.field("added_snapshot_id", _LONG),
        *(pa.field(f"{change}_{kind}_files_count", _INTEGER) for kind in ("data", "delete") for change in _CHANGES),
        pa.field("partition_summaries", pa.list_(pa.struct(summary))),
        pa.field("key_metadata", pa.binary()),
        pa.field("first_row_id", _LONG),
        pa.field("sequence_number", _LONG),
        pa.field("min_sequence_number", _LONG),
        *(pa.field(f"{change}_files_count", _INTEGER) for change in _CHANGES),
        *(pa.field(f"{change}_rows_count", _LONG) for change in _CHANGES),
    ]


def _manifest(table: Table, manifest: ManifestFile) -> dict[str, Any]:
    """A row of ``$manifests``. Counts are of data or of delete files, by the manifest's content; the others are 0."""
    of_deletes = manifest.content == ManifestContent.DELETES
    files = {change: getattr(manifest, f"{change}_files_count") for change in _CHANGES}
    return {
        "content": "DELETES" if of_deletes else "DATA",
        "path": manifest.manifest_path,
        "length": manifest.manifest_length,
        "partition_spec_id": manifest.partition_spec_id,
        "added_snapshot_id": manifest.added_snapshot_id,
        **{f"{change}_data_files_count": 0 if of_deletes else count for change, count in files.items()},
        **{f"{change}_delete_files_count": count if of_deletes else 0 for change, count in files.items()},
        "partition_summaries": _summaries(table, manifest),
        "key_metadata": manifest.key_metadata,
        "first_row_id": first_row_id_of_manifest(manifest),
        "sequence_number": manifest.sequence_number,
        "min_sequence_number": manifest.min_sequence_number,
        **{f"{change}_files_count": count for change, count in files.items()},
        **{f"{change}_rows_count": getattr(manifest, f"{change}_rows_count") for change in _CHANGES},
    }


def _summaries(table: Table, manifest: ManifestFile) -> list[dict[str, Any]]:
    """Bounds of each partition field as text, under Spark's names and under this package's earlier ones."""
    fields = table.metadata.specs()[manifest.partition_spec_id].fields
    found = []
    for field, summary in zip(fields, manifest.partitions or [], strict=False):
        kind = type_of(table.metadata, field)
        lower = as_text(kind, summary.lower_bound, field.transform)
        upper = as_text(kind, summary.upper_bound, field.transform)
        found.append(
            {
                "contains_null": summary.contains_null,
                "contains_nan": summary.contains_nan,
                "lower_bound": lower,
                "upper_bound": upper,
                "field": field.name,
                "lower": lower,
                "upper": upper,
            }
        )
    return found
