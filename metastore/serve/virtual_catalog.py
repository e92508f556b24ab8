"""A storage plugin as it is served without publications: its analyzed tables as Iceberg tables that store nothing.

Place in the flow: handlers ask it as they ask :class:`metastore.serve.served_catalog.ServedCatalog`. A load makes the
table's metadata from stored units, by what publications make it of. Its snapshot has no manifests: its id is the
sequence number of the table's last change, and :meth:`VirtualCatalog.plan` answers which files a scan of it reads. A
client that reads manifests itself fails, as there are none.

Promises: a plan has every file with a row that satisfies the condition. Conditions on columns of directories are
decided exactly, since clients do not test these again. What some engine would read wrong is refused, as by
``publish_table``. Changes of other tables cost nothing: what is kept is named by the table's own last change. A part of
a plan is made when it is fetched, so no more than one part is in memory.
"""

from __future__ import annotations

import json
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from cachetools import LRUCache
from pyiceberg.conversions import to_json
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2, new_table_metadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import Identifier, Record

from metastore.analyze.worklist import analyzed_tables
from metastore.components.catalogs import Catalogs
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.lake.iceberg.catalogs.open_tables import FileCache
from metastore.lake.iceberg.catalogs.pointers import Pointer
from metastore.lake.stores.locations import is_local
from metastore.model.identity import TableInfo
from metastore.procedures.publishing.agreement import UnfitFilesError, agreed_columns
from metastore.procedures.publishing.columns import PublishedColumns
from metastore.procedures.publishing.metrics import files_in_columns
from metastore.procedures.publishing.published_table import PathSpelling, properties_of
from metastore.procedures.publishing.stored_table import LastChange, StoredTable
from metastore.scan.pruning.prune import prune
from metastore.scan.pruning.stored_units import StoredUnits, in_newest, units_of
from metastore.serve.answers import etag_of, loaded_table
from metastore.serve.freshness import FolderLooks, StalePublication
from metastore.serve.requests import Page, Snapshots
from metastore.serve.scan_requests import PlannedScan, PlanPart, ScanRequest, typed_condition
from metastore.serve.served_catalog import LoadedTable, ServedCatalog

_TABLES: Final = 10_000
_DECODED: Final = 10
"""Metadata as objects takes about ten times the memory of its JSON."""

PLANNED_HERE: Final = {"scan-planning-mode": "server"}
"""What tells a client to ask for plans: Iceberg for Java reads it of the table, PyIceberg of the catalog."""


class VirtualCatalog(ServedCatalog):
    """The tables of the storage plugin ``name``, its workspaces as namespaces.

    With ``freshness``, a load first looks at the table's folder, and analyzes what changed.
    """

    def __init__(self, name: str, catalogs: Catalogs, cache: FileCache, freshness: FolderLooks | None = None) -> None:
        super().__init__(name, catalogs, cache, freshness)
        self._tables = catalogs.metastore.tables
        self._now_ms = catalogs.metastore.clock.now_ms
        self._base = catalogs.metastore.settings.iceberg.base_location
        self._changes: LRUCache[tuple[TableInfo, int], LastChange] = LRUCache(_TABLES)

    def namespaces(self, above: Identifier, page: Page | None) -> Sequence[str] | None:
        """Return the workspaces that have analyzed tables, sorted; they have no namespaces in them."""
        if above:
            return None if self.properties(above) is None else []
        return self._kept_list("namespaces", above, page, lambda: sorted({each.workspace for each in self._own()}))

    def properties(self, namespace: Identifier) -> Mapping[str, str] | None:
        """Return no properties; None for a workspace without analyzed tables."""
        return {} if namespace in {(each.workspace,) for each in self._own()} else None

    def tables(self, namespace: Identifier, page: Page | None) -> Sequence[str] | None:
        """Return the analyzed tables of a workspace, sorted; None if it has none."""

        def names() -> Sequence[str] | None:
            return sorted(each.name for each in self._own() if (each.workspace,) == namespace) or None

        return self._kept_list("tables", namespace, page, names)

    def views(self, namespace: Identifier, page: Page | None) -> Sequence[str] | None:
        """Return no views; None for a workspace without analyzed tables."""
        return None if self.properties(namespace) is None else []

    def view(self, namespace: Identifier, name: str) -> Mapping[str, Any] | None:
        """Return None: there are no views."""
        return None

    def pointer(self, namespace: Identifier, name: str) -> Pointer | None:
        """Return the last change of a table as its pointer; None if there is no table of this name."""
        return in_newest(self._tables, lambda version: self._pointer(namespace, name, version))

    def renew_table(
        self,
        namespace: Identifier,
        name: str,
        pointer: Pointer,
        snapshots: Snapshots,
    ) -> StalePublication | None:
        """Bring the metadata of a table up to date with its folder, and return why it may not be."""
        return None if self._freshness is None else self._freshness.look(str(self._info(namespace, name)), None)

    def load_table(
        self, namespace: Identifier, name: str, pointer: Pointer, snapshots: Snapshots
    ) -> LoadedTable | None:
        """Return the answer for the version of a table at ``pointer``; None if it was dropped since.

        Raises InvalidRequestError with what some engine would read wrong.
        """
        kept = self._cache.find(etag_of(pointer, snapshots))
        if isinstance(kept, LoadedTable):
            return kept

        def load(version: int) -> LoadedTable | None:
            newest, stored = self._pointer(namespace, name, version), self._stored_table(namespace, name, version)
            if newest is None or stored is None:
                return None
            document = json.loads(self._metadata(stored).model_dump_json())
            etag, body = etag_of(newest, snapshots), loaded_table(newest.location, document, snapshots, PLANNED_HERE)
            loaded = LoadedTable(etag, body, None)
            self._cache.put(etag, loaded, len(body))
            return loaded

        return in_newest(self._tables, load)

    def plan(
        self, namespace: Identifier, name: str, request: ScanRequest, most: int, part: PlanPart | None = None
    ) -> PlannedScan | None:
        """Return the tasks of a scan, one for each file that it reads; None if there is no such table.

        There are at most ``most`` tasks, and parts for the others: ``part`` is one that an earlier answer had.
        Raises Refusal for a condition that does not fit, NotFoundError for a snapshot that is not known.
        """

        def plan(newest: int) -> PlannedScan | None:
            version = self._version_of(namespace, name, request.snapshot_id, newest)
            stored = self._stored_table(namespace, name, version)
            return None if stored is None else self._plan(stored, request, most, part)

        return in_newest(self._tables, plan)

    def _plan(self, stored: StoredTable, request: ScanRequest, most: int, part: PlanPart | None) -> PlannedScan:
        metadata = self._metadata(stored)
        condition = typed_condition(request, metadata.schema())
        keys = None if part is None else part.keys_among(list(stored.segments))
        units = units_of(StoredUnits(self._tables, stored.table, stored.version, only=keys))
        found = sorted((stored.key_of(path), path) for path in prune(condition, units).paths)
        if part is not None:
            found = found[bisect_left(found, part.first) : bisect_right(found, part.last)]
        now = found[:most] if request.can_be_parted else found
        later = [PlanPart(found[at], found[at : at + most][-1]) for at in range(len(now), len(found), most)]
        wanted = dict.fromkeys(path for _, path in now)
        keys_now = frozenset(key for key, _ in now)
        tasks = list(_tasks(stored, metadata.location, metadata.schema(), metadata.spec(), wanted, keys_now, condition))
        return PlannedScan(tasks, metadata.current_snapshot_id or 0, later)

    def _version_of(self, namespace: Identifier, name: str, snapshot_id: int | None, newest: int) -> int:
        """Return the version of the metastore in which a table is as in a snapshot. Raises NotFoundError."""
        pointer = self._pointer(namespace, name, newest)
        if pointer is None or snapshot_id in (None, pointer.version):
            return newest
        state = self._tables.backing.table.state()
        for each in () if state is None else state.metadata.snapshots:
            if each.sequence_number == snapshot_id:
                return each.snapshot_id
        table = self._info(namespace, name)
        raise NotFoundError(f"snapshot {snapshot_id} of {table} is not kept (any more): load the table again")

    def _own(self) -> list[TableInfo]:
        return [each for each in analyzed_tables(self._tables) if each.storage_plugin == self.name]

    def _info(self, namespace: Identifier, name: str) -> TableInfo:
        return TableInfo(self.name, ".".join(namespace), name)

    def _stored_table(self, namespace: Identifier, name: str, version: int) -> StoredTable | None:
        return StoredTable.of(self._tables, self._info(namespace, name), version) if len(namespace) == 1 else None

    def _pointer(self, namespace: Identifier, name: str, version: int) -> Pointer | None:
        change = self._last_change(self._info(namespace, name), version) if len(namespace) == 1 else None
        if change is None:
            return None
        number, location = change.sequence_number, self._location(namespace, name)
        return Pointer(f"{location}/metadata/v{number}.metadata.json", change, number)

    def _last_change(self, table: TableInfo, version: int) -> LastChange | None:
        with self._lock:
            known = self._changes.get((table, version))
        if known is not None:
            return known
        stored = StoredTable.of(self._tables, table, version)
        if stored is None:
            return None
        with self._lock:
            self._changes[table, version] = stored.last_change
        return stored.last_change

    def _location(self, namespace: Identifier, name: str) -> str:
        """Return a folder that is nowhere near the data, and that nobody makes."""
        folder = "/".join((self._base.rstrip("/"), "virtual", self.name, *namespace, name))
        return f"file://{folder}" if is_local(folder) and folder.startswith("/") else folder

    def _metadata(self, stored: StoredTable) -> TableMetadata:
        # Two threads may make the same, as other tables are not to wait for a large one.
        key = f"virtual {stored.table} {self._last_change(stored.table, stored.version)}"
        known = self._cache.find(key)
        if not isinstance(known, TableMetadataV2):
            location = self._location((stored.table.workspace,), stored.table.name)
            known = _metadata_of(stored, location, self._now_ms())
            self._cache.put(key, known, _DECODED * len(known.model_dump_json()))
        return known


def _metadata_of(stored: StoredTable, location: str, now_ms: int) -> TableMetadata:
    """Metadata with one snapshot, named by the table's last change; InvalidRequestError for an unfit table."""
    try:
        columns = agreed_columns(stored, PublishedColumns(), frozenset(stored.segments))
    except UnfitFilesError as error:
        raise InvalidRequestError(f"other engines would read {stored.table} wrong: {error}") from error
    schema, spec = columns.schema, columns.spec()
    made = new_table_metadata(
        schema,
        spec,
        UNSORTED_SORT_ORDER,
        location,
        {**properties_of(columns)},
        uuid.uuid5(uuid.NAMESPACE_URL, location),
    )
    snapshot = Snapshot(
        snapshot_id=stored.last_change.sequence_number,
        sequence_number=1,
        timestamp_ms=now_ms,
        manifest_list=f"{location}/metadata/planned-by-the-server.avro",
        summary=Summary(Operation.APPEND),
        schema_id=schema.schema_id,
    )
    own = {
        "schemas": [schema],
        "partition_specs": [spec],
        "last_column_id": schema.highest_field_id,
        "last_sequence_number": 1,
        "last_updated_ms": now_ms,
        "snapshots": [snapshot],
        "current_snapshot_id": snapshot.snapshot_id,
        "refs": {MAIN_BRANCH: SnapshotRef(snapshot_id=snapshot.snapshot_id, snapshot_ref_type=SnapshotRefType.BRANCH)},
    }
    return made.model_copy(update=own)


def _tasks(
    stored: StoredTable,
    location: str,
    schema: Schema,
    spec: PartitionSpec,
    wanted: Container[str],
    keys: Collection[str],
    condition: BooleanExpression,
) -> Iterator[dict[str, Any]]:
    """Yield the tasks for the files ``wanted`` of the segments ``keys`` whose directories satisfy ``condition``."""
    partition_type = spec.partition_type(schema)
    projected = inclusive_projection(schema, spec)(condition)
    is_kept = expression_evaluator(Schema(*partition_type.fields), projected, case_sensitive=True)
    kinds: list[Any] = [field.field_type for field in partition_type.fields]
    spelling = PathSpelling.of(location, stored.root)

    @cache
    def partition_now(values: tuple[Any, ...]) -> list[Any] | None:
        """Return the values of a partition as JSON; None for one that the condition excludes."""
        if not is_kept(Record(*values)):
            return None
        return [None if each is None else to_json(kind, each) for kind, each in zip(kinds, values, strict=True)]

    for units in stored.units(keys):
        files = files_in_columns(units, PublishedColumns(), cache(stored.partition), spelling.location)
        facts = zip(files.paths, files.partitions, files.rows, files.sizes, files.splits, strict=True)
        for path, values, rows, size, splits in facts:
            if spelling.path(path) not in wanted or (partition := partition_now(values)) is None:
                continue
            file = {
                "content": "data",
                "file-path": path,
                "file-format": "parquet",
                "spec-id": spec.spec_id,
                "partition": partition,
                "record-count": rows,
                "file-size-in-bytes": size,
                **({"split-offsets": splits} if splits else {}),
            }
            yield {"data-file": file, "residual-filter": True}
