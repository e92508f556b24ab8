"""Metadata tables from the manifests of one snapshot: manifests, files, entries, partitions.

Bounds are readable text, by column. Partitions are a struct with the partition fields of all of the table's specs. A
table that was never partitioned does not have this column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionField
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform, Transform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, PrimitiveType, UnknownType, UUIDType

from metastore.iceberg.manifest_reader import read_entries, read_list, read_live_entries
from metastore.iceberg.manifests import decode_file
from metastore.inspection.of_metadata import TIMESTAMP

_INTEGER: Final[pa.DataType] = pa.int32()
_LONG: Final[pa.DataType] = pa.int64()
_TEXT: Final[pa.DataType] = pa.string()
_COUNTS: Final[pa.DataType] = pa.map_(_TEXT, _LONG)
_TEXTS: Final[pa.DataType] = pa.map_(_TEXT, _TEXT)
_CONTENT: Final = {
    DataFileContent.DATA: "DATA",
    DataFileContent.POSITION_DELETES: "POSITION_DELETES",
    DataFileContent.EQUALITY_DELETES: "EQUALITY_DELETES",
}


def manifests(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns the manifests in the snapshot's list."""
    summary: list[pa.Field[Any]] = [
        *(pa.field(name, pa.bool_()) for name in ("contains_null", "contains_nan")),
        *(pa.field(name, _TEXT) for name in ("field", "lower", "upper")),
    ]
    numbers = ("added_files_count", "existing_files_count", "deleted_files_count")
    rows_of = ("added_rows_count", "existing_rows_count", "deleted_rows_count")
    schema = pa.schema(
        {
            "content": _TEXT,
            "path": _TEXT,
            "length": _LONG,
            "partition_spec_id": _INTEGER,
            "added_snapshot_id": _LONG,
            "sequence_number": _LONG,
            "min_sequence_number": _LONG,
            **dict.fromkeys(numbers, _INTEGER),
            **dict.fromkeys(rows_of, _LONG),
            "partition_summaries": pa.list_(pa.struct(summary)),
        }
    )
    rows = []
    for manifest in _listed(table, snapshot):
        row: dict[str, Any] = {
            "content": "DELETES" if manifest.content == ManifestContent.DELETES else "DATA",
            "path": manifest.manifest_path,
            "length": manifest.manifest_length,
            "partition_spec_id": manifest.partition_spec_id,
            "added_snapshot_id": manifest.added_snapshot_id,
            "sequence_number": manifest.sequence_number,
            "min_sequence_number": manifest.min_sequence_number,
            "partition_summaries": _summaries(table, manifest),
        }
        rows.append(row | {name: getattr(manifest, name) for name in (*numbers, *rows_of)})
    return pa.Table.from_pylist(rows, schema)


def files(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns the live data and delete files of the snapshot."""
    shown = _Shown(table)
    rows = [shown.file(entry.data_file) for entry in _entries(table, snapshot, deleted=False)]
    return pa.Table.from_pylist(rows, pa.schema(shown.file_fields))


def entries(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns the entries of the snapshot's manifests, with removed files: status, and the file as in ``$files``."""
    shown = _Shown(table)
    schema = pa.schema(
        {
            "status": _TEXT,
            "snapshot_id": _LONG,
            "sequence_number": _LONG,
            "file_sequence_number": _LONG,
            "data_file": pa.struct(shown.file_fields),
        }
    )
    rows = [
        {
            "status": entry.status.name,
            "snapshot_id": entry.snapshot_id,
            "sequence_number": entry.sequence_number,
            "file_sequence_number": entry.file_sequence_number,
            "data_file": shown.file(entry.data_file),
        }
        for entry in _entries(table, snapshot, deleted=True)
    ]
    return pa.Table.from_pylist(rows, schema)


def partitions(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns rows, files and bytes by partition and spec, and the last snapshot that changed a live file of each."""
    shown = _Shown(table)
    counts = (
        "record_count",
        "file_count",
        "total_size",
        "position_delete_record_count",
        "position_delete_file_count",
        "equality_delete_record_count",
        "equality_delete_file_count",
    )
    fields: list[Any] = [
        *shown.partition_fields,
        pa.field("spec_id", _INTEGER),
        *(pa.field(name, _LONG) for name in counts),
        pa.field("last_updated_at", TIMESTAMP),
        pa.field("last_updated_snapshot_id", _LONG),
    ]
    times = {each.snapshot_id: each.timestamp_ms for each in table.metadata.snapshots}
    found: dict[tuple[int, Record], dict[str, Any]] = {}
    for entry in _entries(table, snapshot, deleted=False):
        file = entry.data_file
        row = found.setdefault(
            (file.spec_id, file.partition),
            {
                **shown.partition(file),
                "spec_id": file.spec_id,
                **dict.fromkeys(counts, 0),
                "last_updated_at": None,
                "last_updated_snapshot_id": None,
            },
        )
        if file.content == DataFileContent.DATA:
            row["record_count"] += file.record_count
            row["file_count"] += 1
            row["total_size"] += file.file_size_in_bytes
        else:
            kind = "position" if file.content == DataFileContent.POSITION_DELETES else "equality"
            row[f"{kind}_delete_record_count"] += file.record_count
            row[f"{kind}_delete_file_count"] += 1
        time = times.get(entry.snapshot_id or 0)
        if time is not None and time >= (row["last_updated_at"] or 0):
            row |= {"last_updated_at": time, "last_updated_snapshot_id": entry.snapshot_id}
    return pa.Table.from_pylist(list(found.values()), pa.schema(fields))


class _Shown:
    """Converts files of one table to rows."""

    def __init__(self, table: Table) -> None:
        self._schema = table.schema()
        self._specs = table.metadata.specs()
        self._fields = _partition_fields(table)
        kinds = [pa.field(name, _arrow(kind)) for name, kind in self._fields.values()]
        self.partition_fields: list[Any] = [pa.field("partition", pa.struct(kinds))] if kinds else []
        """The column ``partition``, or an empty list."""
        self.file_fields: list[Any] = [
            pa.field("content", _TEXT),
            pa.field("file_path", _TEXT),
            pa.field("file_format", _TEXT),
            pa.field("spec_id", _INTEGER),
            *self.partition_fields,
            pa.field("record_count", _LONG),
            pa.field("file_size_in_bytes", _LONG),
            *(pa.field(name, _COUNTS) for name in ("column_sizes", "value_counts")),
            *(pa.field(name, _COUNTS) for name in ("null_value_counts", "nan_value_counts")),
            *(pa.field(name, _TEXTS) for name in ("lower_bounds", "upper_bounds")),
            pa.field("split_offsets", pa.list_(_LONG)),
            pa.field("equality_ids", pa.list_(_INTEGER)),
            pa.field("sort_order_id", _INTEGER),
        ]

    def file(self, file: DataFile) -> dict[str, Any]:
        """Returns the row of ``$files``."""
        return {
            "content": _CONTENT[file.content],
            "file_path": file.file_path,
            "file_format": str(file.file_format.value),
            "spec_id": file.spec_id,
            **self.partition(file),
            "record_count": file.record_count,
            "file_size_in_bytes": file.file_size_in_bytes,
            "column_sizes": self._counts_by_column(file.column_sizes),
            "value_counts": self._counts_by_column(file.value_counts),
            "null_value_counts": self._counts_by_column(file.null_value_counts),
            "nan_value_counts": self._counts_by_column(file.nan_value_counts),
            "lower_bounds": self._bounds(file.lower_bounds),
            "upper_bounds": self._bounds(file.upper_bounds),
            "split_offsets": file.split_offsets,
            "equality_ids": file.equality_ids,
            "sort_order_id": file.sort_order_id,
        }

    def partition(self, file: DataFile) -> dict[str, Any]:
        """Returns the column ``partition``, or nothing for an unpartitioned table."""
        if not self._fields:
            return {}
        spec = self._specs[file.spec_id]
        values = dict.fromkeys(name for name, _ in self._fields.values())
        for position, field in enumerate(spec.fields):
            name, kind = self._fields[field.field_id]
            value = file.partition[position]
            values[name] = str(value) if value is not None and _arrow(kind) is _TEXT else value
        return {"partition": values}

    def _counts_by_column(self, counts: Any) -> list[tuple[str, int]] | None:
        return None if counts is None else [(self._name(key), count) for key, count in sorted(counts.items())]

    def _bounds(self, bounds: Any) -> list[tuple[str, str | None]] | None:
        if bounds is None:
            return None
        return [(self._name(key), self._readable(key, bound)) for key, bound in sorted(bounds.items())]

    def _name(self, field_id: int) -> str:
        """Returns the current name of a column, or its id if it was dropped."""
        return self._schema.find_column_name(field_id) or str(field_id)

    def _readable(self, field_id: int, bound: bytes) -> str:
        try:
            kind = self._schema.find_type(field_id)
        except ValueError:
            kind = None
        return _readable(kind, bound)


def _listed(table: Table, snapshot: Snapshot | None) -> Sequence[ManifestFile]:
    if snapshot is None:
        return ()
    path = snapshot.manifest_list
    return decode_file(path, lambda: read_list(table.io, path))


def _entries(table: Table, snapshot: Snapshot | None, *, deleted: bool) -> Iterator[ManifestEntry]:
    read = read_entries if deleted else read_live_entries
    for manifest in _listed(table, snapshot):
        yield from decode_file(manifest.manifest_path, partial(read, table.io, manifest))


def _summaries(table: Table, manifest: ManifestFile) -> list[dict[str, Any]]:
    fields = table.metadata.specs()[manifest.partition_spec_id].fields
    found = []
    for field, summary in zip(fields, manifest.partitions or [], strict=False):
        kind = _type_of(table, field)
        lower, upper = summary.lower_bound, summary.upper_bound
        found.append(
            {
                "field": field.name,
                "contains_null": summary.contains_null,
                "contains_nan": summary.contains_nan,
                "lower": None if lower is None else field.transform.to_human_string(kind, _value(kind, lower)),
                "upper": None if upper is None else field.transform.to_human_string(kind, _value(kind, upper)),
            }
        )
    return found


def _partition_fields(table: Table) -> dict[int, tuple[str, IcebergType]]:
    """Returns the name and type of every partition field of all specs, by id.

    Names come from the newest spec. A struct cannot have two fields of one name, so the older ones get their id as a
    suffix, as Iceberg itself names them in tables of format 1. There a dropped field stays with a void transform; its
    type is that of its former values.
    """
    current = table.metadata.default_spec_id
    specs = sorted(table.metadata.partition_specs, key=lambda spec: (spec.spec_id == current, spec.spec_id))
    names: dict[int, str] = {}
    types: dict[int, IcebergType] = {}
    for field in (field for spec in specs for field in spec.fields):
        names[field.field_id] = field.name
        if field.field_id not in types or not isinstance(field.transform, VoidTransform):
            types[field.field_id] = _type_of(table, field)
    newest = {field.name.lower(): field.field_id for spec in specs for field in spec.fields}
    return {
        field_id: (name if newest[name.lower()] == field_id else f"{name}_{field_id}", types[field_id])
        for field_id, name in names.items()
    }


def _type_of(table: Table, field: PartitionField) -> IcebergType:
    """Returns the type of a partition field's values, from the newest schema that contains its source column."""
    for schema in (table.schema(), *sorted(table.metadata.schemas, key=lambda each: -each.schema_id)):
        if field.source_id in schema.field_ids:
            return field.transform.result_type(schema.find_type(field.source_id))
    return UnknownType()


def _arrow(kind: IcebergType) -> Any:
    """Returns Arrow's type for partition values; text for types of which Arrow cannot build arrays."""
    return _TEXT if isinstance(kind, UUIDType | UnknownType) else schema_to_pyarrow(kind)


def _value(kind: IcebergType, bound: bytes) -> Any:
    return from_bytes(kind, bound) if isinstance(kind, PrimitiveType) else bound


def _readable(kind: IcebergType | None, bound: bytes) -> str:
    if not isinstance(kind, PrimitiveType):
        return bound.hex()
    shown: Transform[Any, Any] = IdentityTransform()
    return shown.to_human_string(kind, from_bytes(kind, bound))
