"""The pages of one Iceberg table: its snapshots and refs, schemas and specs, and its metadata tables in parts.

The first page opens the metadata file and nothing else. Metadata tables, such as files and manifests, are read on
request. Every id is a text, since browsers round large numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyiceberg.table.metadata import TableMetadata

from metastore.console.query import PagePosition, Query, part_of
from metastore.console.upkeep import Upkeep, upkeep_of
from metastore.daemon.policy import TableName
from metastore.errors import InvalidRequestError
from metastore.ground.epoch import moment_of_millis
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.inspection import metadata_table, resolve_version
from metastore.overview.results import Rows
from metastore.procedures.files.guards import PUBLISHED
from metastore.redaction import redact_value
from metastore.session import Session

_SNAPSHOTS: Final = 40
_ROWS: Final = 100
LISTS: Final = (
    *("manifests", "files", "delete_files", "partitions", "entries", "history", "all_manifests"),
    *("metadata_log_entries", "properties"),
)
"""Metadata tables that have a page."""


@dataclass(frozen=True)
class SnapshotRow:
    """One snapshot: ``refs`` point at it; counts are None where its writer did not record them."""

    id: str
    parent: str | None
    time: datetime | None
    operation: str
    schema: int | None
    refs: Sequence[str]
    is_current: bool
    files: int | None
    rows: int | None
    deletes: int | None


@dataclass(frozen=True)
class SchemaVersion:
    """One schema or partition spec of the history: its fields as texts, and what changed since the one before."""

    id: int
    is_current: bool
    fields: Sequence[str]
    added: Sequence[str]
    removed: Sequence[str]


@dataclass(frozen=True)
class IcebergPage:
    """One table of a catalog; ``snapshots`` is one part, newest first. ``upkeep`` says what is due, and why not yet."""

    table: str
    location: str
    format_version: int
    published_from: str | None
    part: PagePosition
    snapshots: Sequence[SnapshotRow]
    schemas: Sequence[SchemaVersion]
    specs: Sequence[SchemaVersion]
    upkeep: Upkeep
    lists: Sequence[str] = LISTS


@dataclass(frozen=True)
class InspectionPage:
    """One part of a metadata table, such as ``files``; ``at`` is a snapshot, branch or tag, empty for the newest."""

    table: str
    list: str
    at: str
    part: PagePosition
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    lists: Sequence[str] = LISTS


def iceberg_page(session: Session, query: Query) -> IcebergPage:
    """Returns one table. Raises NotFoundError, StorageError, FormatError."""
    name, target = _target(session, query)
    metadata = target.load().metadata
    snapshots, part = part_of(list(_snapshots(metadata)), query.number("page"), _SNAPSHOTS)
    current = metadata.current_snapshot()
    specs = [(each.spec_id, [str(field) for field in each.fields]) for each in metadata.partition_specs]
    schemas = [(each.schema_id, [str(field) for field in each.fields]) for each in metadata.schemas]
    return IcebergPage(
        table=str(name),
        location=str(redact_value("location", metadata.location)),
        format_version=metadata.format_version,
        published_from=metadata.properties.get(PUBLISHED),
        part=part,
        snapshots=snapshots,
        schemas=list(_history(schemas, metadata.current_schema_id)),
        specs=list(_history(specs, metadata.default_spec_id)),
        upkeep=upkeep_of(session, name, current.timestamp_ms if current else None),
    )


def inspection_page(session: Session, query: Query) -> InspectionPage:
    """Returns one part of the metadata table ``list``. Raises InvalidRequestError for a list that has no page."""
    name, target = _target(session, query)
    kind, at = query.text("list") or LISTS[0], query.text("at")
    if kind not in LISTS:
        raise InvalidRequestError(f"list={kind} has no page; there are {', '.join(LISTS)}")
    version = resolve_version(target.load(), int(at) if at.isdecimal() else at) if at else None
    found = metadata_table(target, kind, version)
    [places, part] = part_of(range(found.num_rows), query.number("page"), _ROWS)
    rows = Rows.of(found.slice(places[0] if places else 0, len(places)), maps_as_pydicts="strict")
    cells = [[_cell(column, value) for column, value in zip(rows.columns, row, strict=True)] for row in rows.rows]
    return InspectionPage(str(name), kind, at, part, rows.columns, cells)


def _target(session: Session, query: Query) -> tuple[TableName, TargetTable]:
    name = TableName.parse(query.require("name"))
    return name, session.catalogs.table(name.catalog, name.schema, name.name)


def _snapshots(metadata: TableMetadata) -> Iterator[SnapshotRow]:
    """The snapshots, newest first, each with the refs that point to it. Ids are texts."""
    refs: dict[int, list[str]] = {}
    for name, ref in sorted(metadata.refs.items()):
        refs.setdefault(ref.snapshot_id, []).append(f"{name} ({ref.snapshot_ref_type.value})")
    for each in sorted(metadata.snapshots, key=lambda snapshot: -snapshot.timestamp_ms):
        summary = each.summary.additional_properties if each.summary else {}
        yield SnapshotRow(
            id=str(each.snapshot_id),
            parent=None if each.parent_snapshot_id is None else str(each.parent_snapshot_id),
            time=moment_of_millis(each.timestamp_ms),
            operation=each.summary.operation.value if each.summary else "unknown",
            schema=each.schema_id,
            refs=refs.get(each.snapshot_id, ()),
            is_current=each.snapshot_id == metadata.current_snapshot_id,
            files=_count(summary, "total-data-files"),
            rows=_count(summary, "total-records"),
            deletes=_count(summary, "total-delete-files"),
        )


def _count(summary: Mapping[str, str], name: str) -> int | None:
    text = summary.get(name, "")
    return int(text) if text.isdecimal() else None


def _history(versions: Sequence[tuple[int, Sequence[str]]], current: int) -> Iterator[SchemaVersion]:
    """Yields the versions, newest first, each with the fields that differ from the version before it."""
    before: Sequence[str] = ()
    found = []
    for version, fields in sorted(versions):
        added = [each for each in fields if each not in before]
        removed = [each for each in before if each not in fields]
        found.append(SchemaVersion(version, version == current, fields, added, removed))
        before = fields
    yield from reversed(found)


def _cell(column: str, value: Any) -> Any:
    """Returns a value of a metadata table; ids become texts."""
    return str(value) if isinstance(value, int) and column.endswith("_id") else value
