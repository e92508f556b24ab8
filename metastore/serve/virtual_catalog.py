"""A storage plugin as it is served without publications: its analyzed tables as Iceberg tables that store nothing.

Place in the flow: handlers ask it as they ask :class:`metastore.serve.served_catalog.ServedCatalog`. A load makes the
table's metadata from stored units, by what publications make it of. Its snapshot has no manifests: its id is the
version of the metastore, and :meth:`VirtualCatalog.plan` answers which files a scan of it reads. A client that reads
manifests itself fails, as there are none.

Promises: a plan has every file with a row that satisfies the condition. Conditions on columns of directories are
decided exactly, since clients do not test these again. What some engine would read wrong is refused, as by
``publish_table``.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cachetools import LRUCache
from pyiceberg.conversions import to_json
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import Identifier, Record

from metastore.analyze.worklist import analyzed_tables
from metastore.components.catalogs import Catalogs
from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.catalogs.open_tables import FileCache
from metastore.lake.iceberg.catalogs.pointers import Pointer
from metastore.lake.iceberg.manifests.entries_of_columns import FilesInColumns
from metastore.lake.stores.locations import is_local
from metastore.model.identity import TableInfo
from metastore.procedures.publishing.agreement import UnfitFilesError, agreed_columns
from metastore.procedures.publishing.columns import PublishedColumns
from metastore.procedures.publishing.metrics import files_in_columns
from metastore.procedures.publishing.published_table import PathSpelling, properties_of
from metastore.procedures.publishing.stored_table import StoredTable
from metastore.scan.pruning.prune import prune
from metastore.scan.pruning.stored_units import StoredUnits, units_of
from metastore.serve.answers import etag_of, loaded_table
from metastore.serve.freshness import FolderLooks, StalePublication
from metastore.serve.requests import Page, Snapshots
from metastore.serve.scan_requests import ScanRequest, typed_condition
from metastore.serve.served_catalog import LoadedTable, ServedCatalog

_TABLES: Final = 1_000

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
        self._made: LRUCache[tuple[TableInfo, int], TableMetadata] = LRUCache(_TABLES)
        self._making = threading.Lock()

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
        """Return which version of a table is the newest; None if there is no table of this name."""
        version = self._tables.metadata.version
        if self._stored_table(namespace, name, version) is None:
            return None
        return Pointer(f"{self._location(namespace, name)}/metadata/v{version}.metadata.json", version, version)

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
        stored = self._stored_table(namespace, name, pointer.version or 0)
        if stored is None:
            return None
        document = json.loads(self._metadata(stored).model_dump_json())
        body = loaded_table(pointer.location, document, snapshots, PLANNED_HERE)
        return LoadedTable(etag_of(pointer, snapshots), body, None)

    def plan(self, namespace: Identifier, name: str, request: ScanRequest) -> list[dict[str, Any]] | None:
        """Return the tasks of a scan, one for each file that it reads; None if there is no such table.

        Raises Refusal for a condition that does not fit, NotFoundError for a snapshot that is not known.
        """
        version = self._tables.metadata.version if request.snapshot_id is None else request.snapshot_id
        stored = self._stored_table(namespace, name, version)
        if stored is None:
            return None
        metadata = self._metadata(stored)
        condition = typed_condition(request, metadata.schema())
        units = units_of(StoredUnits(self._tables, stored.table, version))
        wanted = frozenset(prune(condition, units).paths)
        return list(_tasks(stored, metadata.location, metadata.schema(), metadata.spec(), wanted, condition))

    def _own(self) -> list[TableInfo]:
        return [each for each in analyzed_tables(self._tables) if each.storage_plugin == self.name]

    def _info(self, namespace: Identifier, name: str) -> TableInfo:
        return TableInfo(self.name, ".".join(namespace), name)

    def _stored_table(self, namespace: Identifier, name: str, version: int) -> StoredTable | None:
        return StoredTable.of(self._tables, self._info(namespace, name), version) if len(namespace) == 1 else None

    def _location(self, namespace: Identifier, name: str) -> str:
        """Return a folder that is nowhere near the data, and that nobody makes."""
        folder = "/".join((self._base.rstrip("/"), "virtual", self.name, *namespace, name))
        return f"file://{folder}" if is_local(folder) and folder.startswith("/") else folder

    def _metadata(self, stored: StoredTable) -> TableMetadata:
        key = (stored.table, stored.version)
        with self._making:
            known = self._made.get(key)
        if known is None:
            # Without the lock, as other tables are not to wait for a large one. Two threads may make the same.
            location = self._location((stored.table.workspace,), stored.table.name)
            known = _metadata_of(stored, location, self._now_ms())
            with self._making:
                self._made[key] = known
        return known


def _metadata_of(stored: StoredTable, location: str, now_ms: int) -> TableMetadata:
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
        snapshot_id=stored.version,
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
    wanted: frozenset[str],
    condition: BooleanExpression,
) -> Iterator[dict[str, Any]]:
    """Yield the tasks for the files ``wanted`` whose directories satisfy ``condition``."""
    partition_type = spec.partition_type(schema)
    projected = inclusive_projection(schema, spec)(condition)
    is_kept = expression_evaluator(Schema(*partition_type.fields), projected, case_sensitive=True)
    kinds: list[Any] = [field.field_type for field in partition_type.fields]
    spelling = PathSpelling.of(location, stored.root)
    for units in stored.units({stored.key_of(path) for path in wanted}):
        files: FilesInColumns = files_in_columns(units, PublishedColumns(), stored.partition, spelling.location)
        facts = zip(files.paths, files.partitions, files.rows, files.sizes, files.splits, strict=True)
        for path, key, rows, size, splits in facts:
            if spelling.path(path) in wanted and is_kept(Record(*key)):
                values = zip(kinds, key, strict=True)
                file = {
                    "content": "data",
                    "file-path": path,
                    "file-format": "parquet",
                    "spec-id": spec.spec_id,
                    "partition": [None if value is None else to_json(kind, value) for kind, value in values],
                    "record-count": rows,
                    "file-size-in-bytes": size,
                    **({"split-offsets": splits} if splits else {}),
                }
                yield {"data-file": file, "residual-filter": True}
