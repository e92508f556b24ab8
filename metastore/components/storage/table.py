"""A component's Iceberg table: opened or created, kept in line with unit and configuration, and read as states.

A :class:`TableState` is one immutable version. Opening for reading never writes. The first use for writing creates the
table, evolves the schema and aligns the properties, once for each process and table.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)
from pyiceberg.transforms import IdentityTransform

from metastore.components.storage.turns import turn
from metastore.errors import ConfigError, ConflictError, FormatError, MetastoreError, StorageError
from metastore.ground.forks import renew_in_child
from metastore.ground.threads import Threads
from metastore.lake.iceberg.catalogs.catalog_entry import CatalogEntry
from metastore.lake.iceberg.catalogs.open_tables import FileCache
from metastore.lake.iceberg.catalogs.own_properties import OWN_PROPERTIES
from metastore.lake.iceberg.manifests.manifests import Manifests
from metastore.lake.stores.files import DeletionResult
from metastore.lake.stores.local import local_path
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.threads import for_each
from metastore.model.fields import Unit
from metastore.model.mapping.schema import added_fields, evolve_schema, iceberg_schema, partition_spec

HANDED_OVER: Final = f"{OWN_PROPERTIES}handed-over-to"
"""Table property: the catalog that owns the table's commits from now on. A table with it must not be used here."""

FORMAT_VERSION: Final = "2"
_FORMAT_VERSION_KEY: Final = "format-version"
"""Iceberg stores it besides the properties, not in them."""
_ALIGN_ATTEMPTS: Final = 20

_FOUND: Final[ContextVar[dict[ComponentTable, Table | None] | None]] = ContextVar("found", default=None)
"""The tables that this thread's current :func:`shared_look` has found, by component."""


@dataclass(frozen=True)
class TableState:
    """One version of the table: its metadata and current snapshot (None while the table is empty)."""

    metadata: TableMetadata
    metadata_location: str
    snapshot: Snapshot | None

    @property
    def version(self) -> int:
        """Id of the current snapshot; 0 while there is none."""
        return self.snapshot.snapshot_id if self.snapshot else 0

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.metadata.schema()

    @property
    def spec(self) -> PartitionSpec:
        """The current partition spec."""
        return self.metadata.spec()


@contextmanager
def shared_look() -> Iterator[None]:
    """Within, this thread loads each component once, so all its reads use the versions found first.

    For reads only: a look-up costs requests on an object store, but writers must see the newest version.
    """
    if _FOUND.get() is not None:
        yield
        return
    token = _FOUND.set({})
    try:
        yield
    finally:
        _FOUND.reset(token)


def look_again() -> None:
    """Forget what this thread's current :func:`shared_look` has found, because this thread has committed."""
    found = _FOUND.get()
    if found is not None:
        found.clear()


def look_together(tables: Iterable[ComponentTable]) -> None:
    """Load ``tables`` concurrently for the current :func:`shared_look`, where their store has latency.

    A table that cannot be loaded is loaded again when it is needed, and raises its error then.
    """
    found = _FOUND.get()
    if found is None:
        return
    wanted = [each for each in tables if each not in found and each.entry.looks_ahead]

    def load(table: ComponentTable) -> tuple[Table | None] | None:
        with suppress(MetastoreError):
            return (table.load(),)
        return None

    if len(wanted) > 1:
        loaded = zip(wanted, for_each(wanted, load), strict=True)
        found |= {table: each[0] for table, each in loaded if each is not None}


class ComponentTable:
    """The Iceberg table of one component, at ``entry`` of the catalog; threads may share it."""

    def __init__(
        self,
        entry: CatalogEntry,
        unit_type: type[Unit],
        properties: Mapping[str, str],
        cache: FileCache,
    ) -> None:
        self.entry = entry
        self.unit_type = unit_type
        self._properties = {key: value for key, value in properties.items() if key != _FORMAT_VERSION_KEY}
        self._cache = cache
        self._aligned: UUID | None = None
        self._is_unused = False
        self._seen: Table | None = None
        self._begin()
        renew_in_child(self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._look = threading.Lock()

    @property
    def name(self) -> str:
        """Dotted name, for messages and thread names."""
        return self.entry.name

    @property
    def catalog(self) -> Catalog:
        """PyIceberg's catalog that holds the table."""
        return self.entry.catalog

    def load(self, *, anew: bool = False, to_commit: bool = False) -> Table | None:
        """Load PyIceberg's table at the newest version; returns None if nobody has written to the component yet.

        Within :func:`shared_look`, returns the version that was found first, unless ``anew`` requires the newest.
        With ``to_commit``, the look also serves the commit that follows.

        Raises StorageError if the catalog or the store fails, FormatError if the file found is not a table's metadata,
        and ConfigError if the table belongs to another metastore, is in another catalog, or was handed over to one.
        """
        found = _FOUND.get()
        if found is not None and not anew and self in found:
            return found[self]
        table = self.entry.load(to_commit=to_commit)
        if table is None and not self._is_unused:
            table = self._made_meanwhile()
        self._is_unused, self._seen = table is None, table
        if table is not None and (owner := table.metadata.properties.get(HANDED_OVER)):
            raise ConfigError(
                f"table {self.name} was handed over from {self.entry.source} to {owner}: "
                "configure that one as drill.metastore.iceberg.catalog"
            )
        if found is not None:
            found[self] = table
        return table

    def seen_with(self, version: int) -> Table | None:
        """Return the table as last loaded, if it had ``version`` then; otherwise as :meth:`load`."""
        seen = self._seen
        return seen if seen and seen.metadata.snapshot_by_id(version) else self.load()

    def _made_meanwhile(self) -> Table | None:
        """Return the table that another process has created since the last look; None if its folder is unused.

        Readers look at a folder once; the creator of a table also looks. Raises ConfigError if the folder has the
        metadata of a table that the catalog does not have.
        """
        trace = self.entry.traces()
        table = None if trace is None else self.entry.load(to_commit=True)
        if trace is not None and table is None:
            raise ConfigError(
                f"{self.entry.source} has no table {self.name}, but metadata of one is in its folder: {trace}. A "
                "second table there would treat the files of the first as orphans. Configure the catalog that "
                "has it, or bring it over by `metastore register`; if this catalog has lost its entry, register the "
                "newest metadata file as the table again"
            )
        return table

    def state(self, *, anew: bool = False) -> TableState | None:
        """Return the newest version, or None if nobody has written the component yet; ``anew`` as in :meth:`load`."""
        table = self.load(anew=anew)
        return None if table is None else self.state_of(table)

    def state_of(self, table: Table) -> TableState:
        """Return the version that ``table`` was loaded at. FormatError if the table is not this component's."""
        self._check(table.metadata)
        return TableState(table.metadata, table.metadata_location, table.metadata.current_snapshot())

    def manifests(self, io: FileIO) -> Manifests:
        """Return manifests that are read through ``io`` and the shared cache."""
        return Manifests(io, self._cache)

    def remove_old_metadata(self, table: Table) -> DeletionResult:
        """Delete metadata files of versions before that of ``table``, which the caller committed.

        Call it only after the files that these versions alone name are deleted.
        """
        return self.entry.remove_old_metadata(table)

    def turn(
        self, monotonic: Callable[[], float], pause: Callable[[float], object], until: float
    ) -> AbstractContextManager[None]:
        """Hold the turn while preparing and publishing a commit; writers of this machine take turns (see ``turns``)."""
        if not is_local(self.entry.location):
            return nullcontext()
        return turn(f"{local_path(self.entry.location)}/metadata", monotonic, pause, until)

    def writable(self) -> Table:
        """Return the table, created if needed; the first use updates its schema and properties.

        The update is repeated if another process replaced the table, or if the table lost a column. Raises the errors
        of :meth:`load`, and ConflictError if the table kept changing.
        """
        with self._lock:
            was_unused = self._is_unused
            table = self.load(anew=True, to_commit=True)
            try:
                if table is None and was_unused:
                    table = self._made_meanwhile()
                table = table or self._create()
                if table.metadata.table_uuid != self._aligned or added_fields(table.schema(), self.unit_type):
                    table = self._align(table)
                    self._aligned = table.metadata.table_uuid
            except OSError as error:
                raise StorageError(f"cannot open table {self.name} for writing: {error}") from error
        return table

    def writable_as_seen(self) -> Table:
        """As :meth:`writable`, but on a store with latency it returns the table as last seen, if it was writable.

        Use it for data files, which are written before their commit looks for the newest version. The commit refuses
        files of a table that was replaced since.
        """
        seen = self._seen
        if seen is None or is_local(self.entry.location) or seen.metadata.table_uuid != self._aligned:
            return self.writable()
        return seen

    def looked_up_beside(self) -> Callable[[], Table | None]:
        """Begin :meth:`writable` in another thread, beside what the caller does before its commit.

        Returns a function that waits for the table. It returns None if the commit must look itself: on the local disk,
        for a catalog that must be asked last, after an error, beside another such look, or without threads.
        """
        if not self.entry.looks_ahead or not self._look.acquire(blocking=False):
            return lambda: None
        threads = Threads(1, "metastore-look")
        try:
            looking = threads.submit(self.writable)
        except RuntimeError:  # the interpreter ends
            self._look.release()
            return lambda: None
        finally:
            threads.shutdown(wait=False)
        looking.add_done_callback(lambda _: self._look.release())
        return lambda: None if looking.exception() else looking.result()

    def _create(self) -> Table:
        properties = {**self._properties, _FORMAT_VERSION_KEY: FORMAT_VERSION}
        schema, spec = iceberg_schema(self.unit_type), partition_spec(self.unit_type)
        return self.entry.create(schema, spec, properties)

    def _align(self, table: Table) -> Table:
        """Give the table the schema and properties of this process. ConflictError if others are faster each time."""
        lost: CommitFailedException | None = None
        for _ in range(_ALIGN_ATTEMPTS):
            self._check(table.metadata)
            updates = [*_schema_updates(table.metadata, self.unit_type), *_property_updates(table, self._properties)]
            if not updates:
                return table
            requirements = (
                AssertTableUUID(uuid=table.metadata.table_uuid),
                AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id),
            )
            try:
                self.entry.commit(table, requirements, updates)
            except CommitFailedException as error:  # Another process was faster, usually with the same updates.
                lost = error
            table = self.load(anew=True) or self._create()
        raise ConflictError(
            f"table {self.name} changed {_ALIGN_ATTEMPTS} times while its properties were being aligned; try again"
        ) from lost

    def _check(self, metadata: TableMetadata) -> None:
        found = _partition_columns(metadata)
        if found != self.unit_type.partition_columns:
            raise FormatError(
                f"the Iceberg table at {metadata.location} is partitioned by {', '.join(found) or 'nothing'}, "
                f"but component {self.name} needs {', '.join(self.unit_type.partition_columns)}"
            )
        if metadata.format_version > 2:
            raise FormatError(
                f"the Iceberg table at {metadata.location} has format version {metadata.format_version}; "
                "versions 1 and 2 can be used"
            )


def _partition_columns(metadata: TableMetadata) -> tuple[str, ...]:
    """Return the columns or transforms that the table is partitioned by."""
    schema = metadata.schema()
    return tuple(
        str(column) if isinstance(field.transform, IdentityTransform) else f"{field.transform}({column})"
        for field in metadata.spec().fields
        for column in (schema.find_column_name(field.source_id),)
    )


def _schema_updates(metadata: TableMetadata, unit_type: type[Unit]) -> list[TableUpdate]:
    schema = metadata.schema()
    if not added_fields(schema, unit_type):
        return []
    return [
        AddSchemaUpdate(schema_=evolve_schema(schema, metadata.last_column_id, unit_type)),
        SetCurrentSchemaUpdate(schema_id=-1),
    ]


def _property_updates(table: Table, properties: Mapping[str, str]) -> list[TableUpdate]:
    present = {key: value for key, value in table.metadata.properties.items() if not key.startswith(OWN_PROPERTIES)}
    changed = {key: value for key, value in properties.items() if present.get(key) != value}
    removed = sorted(present.keys() - properties.keys())
    updates: list[TableUpdate] = []
    if changed:
        updates.append(SetPropertiesUpdate(updates=changed))
    if removed:
        updates.append(RemovePropertiesUpdate(removals=removed))
    return updates
