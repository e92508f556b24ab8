"""The metadata of a table's next version: the one before with updates, in order of time, and as a file has it.

Place in the flow: the file system's catalog commits what is made here. The metadata that it starts from is shared with
readers of other threads, and is left as it is.
"""

from __future__ import annotations

from typing import TypeVar

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)

T = TypeVar("T")


def serialized(metadata: TableMetadata) -> bytes:
    """The content of the version file, which Drill and Iceberg for Java read too."""
    text = metadata.model_dump_json(exclude_none=True)
    if metadata.current_snapshot_id is None:
        # Drill's Iceberg insists on the field; -1 is its word for none, and PyIceberg reads it as such.
        text = f'{{"current-snapshot-id":-1,{text[1:]}'
    return text.encode()


def updated(base: TableMetadata, updates: tuple[TableUpdate, ...], location: str) -> TableMetadata:
    """``base``, which stands at ``location``, with ``updates``. ValueError when they do not fit it.

    PyIceberg copies all of it deeply for that: the history, which would make a commit cost what the history holds, and
    the schemas. One that only adds to the history is therefore applied without it, and leaves the schemas as they are.
    """
    added = {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}
    known = any(snapshot.snapshot_id in added for snapshot in base.snapshots)
    # Other threads read this metadata, and what they ask of a schema or spec is kept beside it: a deep copy that is
    # made at that moment fails.
    shared = {name: _Shared(getattr(base, name)) for name in ("schemas", "partition_specs", "sort_orders")}
    if known or not all(_only_adds(update, added) for update in updates):
        return update_table_metadata(base.model_copy(update=shared), updates, metadata_location=location)
    bare = base.model_copy(update={"snapshots": [], "snapshot_log": [], **shared})
    new = update_table_metadata(bare, updates, metadata_location=location)
    history = {
        "snapshots": [*base.snapshots, *new.snapshots],
        "snapshot_log": [*base.snapshot_log, *new.snapshot_log],
    }
    return new.model_copy(update=history)


class _Shared(list[T]):
    """A list that a deep copy takes over as it is."""

    def __deepcopy__(self, memo: object) -> _Shared[T]:
        return self


def in_order(new: TableMetadata, base: TableMetadata) -> TableMetadata:
    """``new`` updated no earlier than ``base`` and its own newest snapshot, however far back this machine's clock is.

    PyIceberg takes the clock where no snapshot brings its time, and Iceberg for Java refuses to load a table that was
    updated a minute or more before the last entry of its logs.
    """
    earliest = max((base.last_updated_ms, *(entry.timestamp_ms for entry in new.snapshot_log[-1:])))
    if new.last_updated_ms >= earliest:
        return new
    return new.model_copy(update={"last_updated_ms": earliest})


def _only_adds(update: TableUpdate, added: set[int]) -> bool:
    if isinstance(update, SetSnapshotRefUpdate):
        return update.snapshot_id in added
    return isinstance(update, (AddSnapshotUpdate, SetPropertiesUpdate, RemovePropertiesUpdate))
