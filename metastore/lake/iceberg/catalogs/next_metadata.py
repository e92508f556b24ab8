"""The metadata of a table's next version: applies updates, keeps times in order, and serializes it.

The file system catalog commits this metadata. Readers in other threads share the base metadata, so it is not changed.
"""

from __future__ import annotations

from typing import Final, TypeVar

from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.utils.properties import property_as_int

T = TypeVar("T")

_LOG_LENGTH: Final = TableProperties.METADATA_PREVIOUS_VERSIONS_MAX


def serialize_metadata(metadata: TableMetadata) -> bytes:
    """Return the content of the version file, which Drill and Iceberg for Java can read too."""
    text = metadata.model_dump_json(exclude_none=True)
    if metadata.current_snapshot_id is None:
        # Drill's Iceberg requires the field; -1 means none, for PyIceberg too.
        text = f'{{"current-snapshot-id":-1,{text[1:]}'
    return text.encode()


def apply_updates(base: TableMetadata, updates: tuple[TableUpdate, ...], location: str) -> TableMetadata:
    """Return ``base``, whose file is ``location``, with ``updates``. ValueError if they do not fit.

    PyIceberg deep-copies all metadata for this. Here the schemas, specs and sort orders are shared instead. Copying the
    history would make a commit cost more the longer it is, so an update that only adds to the history is applied
    without the old history, which is put in front afterwards.
    """
    added = {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}
    known = any(snapshot.snapshot_id in added for snapshot in base.snapshots)
    # Other threads read this metadata, and schemas and specs cache values in themselves: a deep copy made
    # at that moment fails.
    shared = {name: _SharedList(getattr(base, name)) for name in ("schemas", "partition_specs", "sort_orders")}
    if known or not all(_only_adds(update, added) for update in updates):
        return update_table_metadata(base.model_copy(update=shared), updates, metadata_location=location)
    bare = base.model_copy(update={"snapshots": [], "snapshot_log": [], "metadata_log": [], **shared})
    new = update_table_metadata(bare, updates, metadata_location=location)
    most = property_as_int(new.properties, _LOG_LENGTH, TableProperties.METADATA_PREVIOUS_VERSIONS_MAX_DEFAULT)
    history = {
        "snapshots": [*base.snapshots, *new.snapshots],
        "snapshot_log": [*base.snapshot_log, *new.snapshot_log],
        "metadata_log": [*base.metadata_log, *new.metadata_log][-max(1, most or 1) :],
    }
    return new.model_copy(update=history)


class _SharedList(list[T]):
    """A list that a deep copy shares instead of copying."""

    def __deepcopy__(self, memo: object) -> _SharedList[T]:
        return self


def in_order(new: TableMetadata, base: TableMetadata) -> TableMetadata:
    """Return ``new`` with an update time not before ``base`` and its newest snapshot, even if this clock is behind.

    PyIceberg uses the clock if no snapshot has a time. Iceberg for Java refuses to load a table whose update time is a
    minute or more before the last entry of its logs.
    """
    earliest = max((base.last_updated_ms, *(entry.timestamp_ms for entry in new.snapshot_log[-1:])))
    if new.last_updated_ms >= earliest:
        return new
    return new.model_copy(update={"last_updated_ms": earliest})


def _only_adds(update: TableUpdate, added: set[int]) -> bool:
    if isinstance(update, SetSnapshotRefUpdate):
        return update.snapshot_id in added
    return isinstance(update, (AddSnapshotUpdate, SetPropertiesUpdate, RemovePropertiesUpdate))
