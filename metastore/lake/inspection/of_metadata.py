"""Metadata tables from the table's metadata file alone; no manifest is opened.

Any writer of a table can set properties and summaries. Values with names of secrets are masked, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from metastore.redaction import redact_value

TIMESTAMP: Final[pa.DataType] = pa.timestamp("ms", "UTC")
_TEXT: Final[pa.DataType] = pa.string()
TEXTS: Final[pa.DataType] = pa.map_(pa.string(), pa.string())


def snapshots(table: Table) -> pa.Table:
    """Returns all snapshots that have not expired, in the order of their creation."""
    schema = pa.schema(
        [
            pa.field("committed_at", TIMESTAMP),
            pa.field("snapshot_id", pa.int64()),
            pa.field("parent_id", pa.int64()),
            pa.field("operation", pa.string()),
            pa.field("manifest_list", pa.string()),
            pa.field("summary", TEXTS),
        ]
    )
    rows = [
        {
            "committed_at": snapshot.timestamp_ms,
            "snapshot_id": snapshot.snapshot_id,
            "parent_id": snapshot.parent_snapshot_id,
            "operation": snapshot.summary.operation.value if snapshot.summary else None,
            "manifest_list": snapshot.manifest_list,
            "summary": _without_secrets(snapshot.summary.additional_properties) if snapshot.summary else None,
        }
        for snapshot in table.metadata.snapshots
    ]
    return pa.Table.from_pylist(rows, schema)


def history(table: Table) -> pa.Table:
    """Returns when each snapshot became current. A snapshot that was rolled back is no ancestor of the current one."""
    schema = pa.schema(
        [
            pa.field("made_current_at", TIMESTAMP),
            pa.field("snapshot_id", pa.int64()),
            pa.field("parent_id", pa.int64()),
            pa.field("is_current_ancestor", pa.bool_()),
        ]
    )
    metadata = table.metadata
    line = {snapshot.snapshot_id for snapshot in ancestors_of(metadata.current_snapshot(), metadata)}
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    rows = [
        {
            "made_current_at": entry.timestamp_ms,
            "snapshot_id": entry.snapshot_id,
            "parent_id": known[entry.snapshot_id].parent_snapshot_id if entry.snapshot_id in known else None,
            "is_current_ancestor": entry.snapshot_id in line,
        }
        for entry in metadata.snapshot_log
    ]
    return pa.Table.from_pylist(rows, schema)


def refs(table: Table) -> pa.Table:
    """Returns branches and tags by name, with the retention of each and of its snapshots."""
    schema = pa.schema(
        [
            pa.field("name", _TEXT),
            pa.field("type", _TEXT),
            pa.field("snapshot_id", pa.int64()),
            pa.field("max_reference_age_in_ms", pa.int64()),
            pa.field("min_snapshots_to_keep", pa.int32()),
            pa.field("max_snapshot_age_in_ms", pa.int64()),
        ]
    )
    rows = [
        {
            "name": name,
            "type": ref.snapshot_ref_type.value.upper(),
            "snapshot_id": ref.snapshot_id,
            "max_reference_age_in_ms": ref.max_ref_age_ms,
            "min_snapshots_to_keep": ref.min_snapshots_to_keep,
            "max_snapshot_age_in_ms": ref.max_snapshot_age_ms,
        }
        for name, ref in sorted(table.metadata.refs.items())
    ]
    return pa.Table.from_pylist(rows, schema)


def properties(table: Table) -> pa.Table:
    """Returns the properties by key; secrets are masked."""
    entries = _without_secrets(table.metadata.properties)
    keys, values = [key for key, _ in entries], [value for _, value in entries]
    return pa.table({"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.string())})


def metadata_log_entries(table: Table) -> pa.Table:
    """Returns the metadata files in the table's log, oldest first, the current one last, each with its state."""
    schema = pa.schema(
        [
            pa.field("timestamp", TIMESTAMP),
            pa.field("file", pa.string()),
            pa.field("latest_snapshot_id", pa.int64()),
            pa.field("latest_schema_id", pa.int32()),
            pa.field("latest_sequence_number", pa.int64()),
        ]
    )
    metadata = table.metadata
    files = [(entry.timestamp_ms, entry.metadata_file) for entry in metadata.metadata_log]
    rows = []
    for time, file in [*files, (metadata.last_updated_ms, table.metadata_location)]:
        current = [entry.snapshot_id for entry in metadata.snapshot_log if entry.timestamp_ms <= time]
        snapshot = metadata.snapshot_by_id(current[-1]) if current else None
        rows.append(
            {
                "timestamp": time,
                "file": file,
                "latest_snapshot_id": current[-1] if current else None,
                "latest_schema_id": snapshot.schema_id if snapshot else None,
                "latest_sequence_number": snapshot.sequence_number if snapshot else None,
            }
        )
    return pa.Table.from_pylist(rows, schema)


def _without_secrets(properties: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns the properties in order of their keys, with secrets masked."""
    return [(key, redact_value(key, value)) for key, value in sorted(properties.items())]
