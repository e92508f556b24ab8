"""``publish_table`` makes or renews an Iceberg table over the files of an analyzed folder, from its stored units alone.

Place in the flow: the units say which segments changed (:mod:`metastore.procedures.publishing.stored_table`). Their
files' schemas decide columns and refusals (:mod:`metastore.procedures.publishing.columns`), before anything is made.
Then the manifests that hold these segments are written anew, and one snapshot is committed. No data file is opened.

Promises: what some engine would read wrong is refused by name. A snapshot has exactly the files of one version of the
metastore, and names it. It is repeated upon the newest table and metadata after a lost race, and if the version that it
reads expires.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Summary
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from metastore.errors import InvalidRequestError, NotFoundError, ProcedureError
from metastore.lake.iceberg.catalogs.next_metadata import apply_updates
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.manifests.compact_entries import CompactEntry
from metastore.lake.iceberg.manifests.entries_of_columns import Numbers, entries_of_columns
from metastore.lake.iceberg.manifests.manifests import decoded_manifest
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.lake.iceberg.snapshots.snapshot import NewSnapshot
from metastore.procedures.framework.declaration import Integer, procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.publishing.agreement import UnfitFilesError, agreed_columns
from metastore.procedures.publishing.columns import PublishedColumns
from metastore.procedures.publishing.creation import commit_first, staged_table
from metastore.procedures.publishing.difference import Stale, Tally, changed_segments, divide_manifests, entries_now
from metastore.procedures.publishing.expiration import find_outdated, remove_files
from metastore.procedures.publishing.metrics import files_in_columns
from metastore.procedures.publishing.published_table import (
    SEGMENTS,
    VERSION,
    PathSpelling,
    columns_of,
    live,
    new_properties,
    note_of,
    properties_of,
    require_apart,
    require_own,
    segments_of,
)
from metastore.procedures.publishing.stored_table import StoredTable
from metastore.scan.pruning.stored_units import in_newest
from metastore.sources.naming import resolve

ENTRIES_A_MANIFEST: Final = 2_000
_VERSIONS: Final = (2, 3)

RESULT: Final = columns(
    table=pa.string(),
    published_as=pa.string(),
    outcome=pa.string(),
    snapshot_id=pa.int64(),
    files=pa.int64(),
    added_files=pa.int64(),
    removed_files=pa.int64(),
    written_manifests=pa.int64(),
    message=pa.string(),
)
"""``outcome`` is ``created``, ``changed``, ``unchanged``, or, of a dry run, ``can be published`` or ``refused``."""


@procedure(result=RESULT)
def publish_table(
    context: CallContext,
    *,
    table: str,
    to: str,
    format_version: Integer = 2,
    dry_run: bool = False,
    replace: bool = False,
    milliseconds: bool = False,
) -> Mapping[str, Any]:
    """Makes or renews an Iceberg table over the files of an analyzed table, which other engines open by its name."""
    if format_version not in _VERSIONS:
        raise InvalidRequestError(f"format_version is 2 or 3, not {format_version}")
    target = target_named(context, to)
    asked = _PublicationCall(context, target, table, format_version, dry_run, replace, milliseconds)
    try:
        # Expirations do not wait for a publication that reads units.
        return in_newest(context.catalogs.metastore.tables, lambda _: asked.publish())
    except UnfitFilesError as error:
        if not dry_run:
            raise ProcedureError(f"{table} is not published, and nothing was made: {error}") from None
        return {**asked.row("refused"), "message": str(error)}


def target_named(context: CallContext, name: str) -> TargetTable:
    """Returns the table named ``catalog.schema.table``. Raises InvalidRequestError, NotFoundError."""
    catalog, *schema, table = name.split(".") if name.count(".") > 1 else ("", "", "")
    if not (catalog and all(schema) and table):
        raise InvalidRequestError(f"a published table is named catalog.schema.table, not {name!r}")
    target = context.catalogs.target(catalog, ".".join(schema), table)
    if target.is_component:
        raise InvalidRequestError(f"{target} is the metastore's own: publish into one of drill.metastore.catalogs")
    target.require_new_name()
    return target


@dataclass(frozen=True)
class _PublicationCall:
    """One call."""

    context: CallContext
    target: TargetTable
    source: str
    format_version: int
    dry_run: bool
    anew: bool
    milliseconds: bool

    def row(self, outcome: str) -> dict[str, Any]:
        """Returns the row of the result, with nothing counted."""
        counts = dict.fromkeys(RESULT.names)
        return {**counts, "table": self.source, "published_as": str(self.target), "outcome": outcome, "message": ""}

    def publish(self) -> Mapping[str, Any]:
        """Publish what is stored now."""
        self.context.catalogs.open(self.target.catalog_name)
        if self.target.newest_pointer() is None:
            try:
                return self._first()
            except CommitFailedException:
                pass  # Another publisher was faster: this one publishes the difference to it.
        timeout = self.context.settings.iceberg.commit.timeout
        return until_won(self.target, timeout, self._next)

    def _load_stored(self) -> StoredTable:
        """Returns the newest metadata of the table. Raises NotFoundError if there is none."""
        metastore = self.context.catalogs.metastore
        info = resolve(metastore.settings.storage, self.source).table
        found = StoredTable.of(metastore.tables, info, metastore.tables.metadata.version)
        if found is None:
            raise NotFoundError(f"{info} has not been analyzed; run: metastore analyze {info}")
        return found

    def _first(self) -> Mapping[str, Any]:
        """Publish all files as a new table, in one commit; its folder is deleted again if that fails."""
        stored = self._load_stored()
        if not stored.segments:
            raise ProcedureError(f"{stored.table} has no files, so its columns are not known")
        columns = self._columns(stored, PublishedColumns(), frozenset(stored.segments))
        properties = new_properties(str(stored.table), columns, self.format_version)
        if self.dry_run:
            return {**self.row("can be published"), "message": _note(columns)}
        staged = staged_table(self.context, self.target, columns.schema, columns.spec(), properties)
        require_apart(staged.table.location(), stored.root, self.target)
        change = _Change(self.context.now_ms(), stored, columns, staged.table)
        with change.new.taken_back_unless_published():
            manifests = list(change.manifests_of(frozenset(stored.segments)))
            summary = change.tally.summary(None, {VERSION: str(stored.version)})
            commit_first(self.target, staged, change.new, manifests, summary)
        return {**self._result_row("created", change, len(manifests), summary), "message": _note(columns)}

    def _next(self, table: Table) -> Mapping[str, Any]:
        """Publish the difference to ``table`` in one commit; CommitFailedException if somebody else changed it."""
        stored = self._load_stored()
        require_own(table, self.target, str(stored.table), replace=self.anew)
        require_apart(table.location(), stored.root, self.target)
        snapshot, before = table.metadata.current_snapshot(), columns_of(table)
        previous = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
        unchanged = {
            **self.row("unchanged"),
            **dict.fromkeys(("added_files", "removed_files", "written_manifests"), 0),
            "snapshot_id": snapshot.snapshot_id if snapshot else None,
            "files": int(previous.get("total-data-files", 0)),
        }
        if not self.anew and previous.get(VERSION) == str(stored.version):
            return unchanged
        parents = live(NewSnapshot(table, self.context.now_ms()).parent_manifests())
        states = segments_of(table.io, parents)
        changed = frozenset(stored.segments) if self.anew else changed_segments(states, stored.segments)
        known = (
            PublishedColumns(last_number=before.last_number, milliseconds=before.milliseconds) if self.anew else before
        )
        # A table whose files are all gone has no columns; the published ones stay.
        columns = self._columns(stored, known, changed & stored.segments.keys()) if stored.segments else before
        widened = frozenset() if self.anew else _widened_ids(before, columns)
        if self.dry_run:
            return {**self.row("can be published"), "message": _note(columns)}
        updates = _updates(table, columns, anew=self.anew)
        evolved = _apply_updates(table, updates)
        change = _Change(self.context.now_ms(), stored, columns, evolved, widened)
        with change.new.taken_back_unless_published():
            kept: list[ManifestFile] = []
            if self.anew:
                manifests = list(change.manifests_of(changed))
            else:
                stale = changed.union(*states) if widened else changed
                kept, groups = divide_manifests(parents, states, stale)
                manifests = [each for group in groups for each in change.renew_manifests(group, stale, table.io)]
                manifests += change.manifests_of(changed.difference(*states))
            written = [each for each in manifests if each not in parents]
            if not (written or updates):
                return unchanged
            notes = {VERSION: str(stored.version)}
            summary = change.tally.summary(previous, notes, anew=self.anew)
            expired = find_outdated(table.metadata, self.context.now_ms())
            if expired:
                updates = (*updates, RemoveSnapshotsUpdate(snapshot_ids=[each.snapshot_id for each in expired]))
            added = change.new.updates([*manifests, *kept], summary)
            after = self.target.commit(table, _as_read(table), (*updates, *added))
        if expired:
            remove_files(self.context, self.target, after, expired)
        return {**self._result_row("changed", change, len(written), summary), "message": _note(columns)}

    def _columns(self, stored: StoredTable, published: PublishedColumns, keys: frozenset[str]) -> PublishedColumns:
        return agreed_columns(stored, published, keys, milliseconds=self.milliseconds)

    def _result_row(self, outcome: str, change: _Change, written: int, summary: Summary) -> dict[str, Any]:
        counts = {
            "snapshot_id": change.new.id,
            "files": int(summary["total-data-files"] or 0),
            "added_files": change.tally.added[0],
            "removed_files": change.tally.removed[0],
            "written_manifests": written,
        }
        return {**self.row(outcome), **counts}


class _Change:
    """The snapshot to come, upon ``table`` with its columns changed: writes manifests, and counts what they change."""

    def __init__(
        self,
        now_ms: int,
        stored: StoredTable,
        columns: PublishedColumns,
        table: Table,
        widened: frozenset[int] = frozenset(),
    ) -> None:
        self.new: Final = NewSnapshot(table, now_ms)
        self.tally: Final = Tally()
        self._stored = stored
        self._columns = columns
        self._widened = widened
        self._metadata = table.metadata
        self._spec = table.metadata.spec()
        self._partition_type = self._spec.partition_type(table.metadata.schema())
        self._spelled = PathSpelling.of(table.location(), stored.root)
        self._partitions: dict[str, tuple[Any, ...]] = {}

    def manifests_of(self, keys: frozenset[str]) -> Iterator[ManifestFile]:
        """Write manifests that add all files of the segments ``keys``; segments that follow each other are together."""
        entries = self._entries(keys)
        while some := list(islice(entries, ENTRIES_A_MANIFEST)):
            for entry in some:
                self.tally.add(entry)
            yield self._write_manifest(some)

    def renew_manifests(self, group: Stale, changed: frozenset[str], io: Any) -> Iterator[ManifestFile]:
        """Write the manifests of ``group`` anew; yields them as they are if they hold what they should."""
        found = {entry.path: entry for entry in self._entries(changed & group.keys & self._stored.segments.keys())}
        before = [entry for manifest in group.manifests for entry in decoded_manifest(io, manifest).entries]
        tally = (list(self.tally.added), list(self.tally.removed))
        entries = entries_now(
            before, found, lambda place: self._key(place) in changed, self.new.id, self.tally, self._widened
        )
        if tally == (self.tally.added, self.tally.removed) and not self._widened:
            yield from group.manifests
            return
        entries.sort(key=lambda entry: self._key(entry.data_file.file_path))
        for start in range(0, len(entries), ENTRIES_A_MANIFEST):
            yield self._write_manifest(entries[start : start + ENTRIES_A_MANIFEST])

    def _entries(self, keys: frozenset[str]) -> Iterator[CompactEntry]:
        numbers: Numbers = (ManifestEntryStatus.ADDED, self.new.id, None, None)
        version, spec_id = self._metadata.format_version, self._spec.spec_id
        for units in self._stored.units(keys) if keys else ():
            files = files_in_columns(units, self._columns, self._partition, self._spelled.location)
            yield from entries_of_columns(files, version, spec_id, self._partition_type, numbers)

    def _write_manifest(self, entries: Sequence[ManifestEntry]) -> ManifestFile:
        states = self._stored.segments
        held = {
            self._key(entry.data_file.file_path) for entry in entries if entry.status != ManifestEntryStatus.DELETED
        }
        notes = {SEGMENTS: note_of({key: states[key] for key in sorted(held)})}
        return self.new.write_manifest(entries, self._spec.spec_id, notes=notes)

    def _partition(self, folder: str) -> tuple[Any, ...]:
        known = self._partitions.get(folder)
        if known is None:
            known = self._partitions[folder] = self._stored.partition(folder)
        return known

    def _key(self, location: str) -> str:
        return self._stored.key_of(self._spelled.path(location))


def _as_read(table: Table) -> tuple[TableRequirement, ...]:
    """Returns what must still hold at the commit: nobody else has changed the table since it was read."""
    metadata = table.metadata
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=metadata.current_snapshot_id),
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
    )


def _widened_ids(before: PublishedColumns, after: PublishedColumns) -> frozenset[int]:
    """Returns the ids of leaves that got a wider type: all of their bounds are written anew."""
    known = {column.number: column.kind for _, column in before.leaves()}
    return frozenset(
        column.number
        for _, column in after.leaves()
        if column.number is not None and known.get(column.number, column.kind) != column.kind
    )


def _updates(table: Table, columns: PublishedColumns, *, anew: bool) -> tuple[TableUpdate, ...]:
    """Returns the updates of schema, partitions and properties that the columns need; none if nothing changed."""
    metadata, schema = table.metadata, columns.schema
    found: list[TableUpdate] = []
    if schema.as_struct() != metadata.schema().as_struct():
        number = max(each.schema_id for each in metadata.schemas) + 1
        found += [
            AddSchemaUpdate(schema_=schema.model_copy(update={"schema_id": number})),
            SetCurrentSchemaUpdate(schema_id=number),
        ]
    if anew:
        number = max(each.spec_id for each in metadata.partition_specs) + 1
        spec = columns.spec(number, (metadata.last_partition_id or 999) + 1)
        found += [AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate(spec_id=number)]
    now = properties_of(columns)
    if any(metadata.properties.get(name) != value for name, value in now.items()):
        found.append(SetPropertiesUpdate(updates=now))
    return tuple(found)


def _apply_updates(table: Table, updates: tuple[TableUpdate, ...]) -> Table:
    """Returns the table as it is after ``updates``, upon which the snapshot is made."""
    if not updates:
        return table
    metadata = apply_updates(table.metadata, updates, table.metadata_location)
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def _note(columns: PublishedColumns) -> str:
    """Returns what cannot be known or mended here, for the caller to judge."""
    if columns.has_ids:
        return ""
    nested = ", ".join(each.name for each in columns.of_files if isinstance(each.kind, str))
    spelled = ", ".join(each.name for each in columns.of_files if len(each.spellings) > 1)
    notes = (
        [f"iceberg-rust (DataFusion, RisingWave) reads nulls inside {nested}: files have no field ids"]
        if nested
        else []
    )
    notes += [f"ClickHouse reads nulls of {spelled} from files that spell the name otherwise"] if spelled else []
    return "; ".join(notes)
