"""Metadata tables by name, such as ``t$snapshots``; each is an Arrow table that is made on request.

Some describe the whole table (snapshots, refs, properties, ``$all_files``), others one of its snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from metastore.errors import InvalidRequestError, NotFoundError, StorageError
from metastore.ground.suggestions import nearest
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.inspection import of_manifests, of_metadata
from metastore.lake.inspection.of_changes import CHANGES, changes
from metastore.lake.inspection.of_partitions import partitions
from metastore.lake.inspection.of_position_deletes import position_deletes
from metastore.lake.inspection.versions import resolve_version

PARTITIONS: Final = "partitions"

_OF_TABLES: Final[Mapping[str, Callable[[Table], pa.Table]]] = {
    "snapshots": of_metadata.snapshots,
    "history": of_metadata.history,
    "refs": of_metadata.refs,
    "properties": of_metadata.properties,
    "metadata_log_entries": of_metadata.metadata_log_entries,
    "all_manifests": of_manifests.all_manifests,
    "all_files": of_manifests.all_files,
    "all_data_files": of_manifests.all_data_files,
    "all_delete_files": of_manifests.all_delete_files,
    "all_entries": of_manifests.all_entries,
}
_OF_SNAPSHOTS: Final[Mapping[str, Callable[[Table, Snapshot | None], pa.Table]]] = {
    "manifests": of_manifests.manifests,
    "files": of_manifests.files,
    "data_files": of_manifests.data_files,
    "delete_files": of_manifests.delete_files,
    "entries": of_manifests.entries,
    PARTITIONS: partitions,
    "position_deletes": position_deletes,
    CHANGES: changes,
}

METADATA_TABLES: Final = tuple(sorted({*_OF_TABLES, *_OF_SNAPSHOTS}))
"""The allowed names after ``$``."""


def metadata_table(target: TargetTable, name: str, at: int | None = None, loaded: Table | None = None) -> pa.Table:
    """Returns the metadata table ``name`` of ``target``, at snapshot ``at`` (None: the current one).

    ``loaded`` is the table, if it was read already.

    A table without snapshots has metadata tables without rows. Raises NotFoundError for a name, table or snapshot that
    does not exist, InvalidRequestError for a snapshot with a metadata table of the whole table, StorageError if files
    cannot be read, FormatError if they are damaged.
    """
    table = target.load() if loaded is None else loaded
    key = name.lower()
    try:
        if key in _OF_SNAPSHOTS:
            snapshot = table.metadata.current_snapshot()
            if at is not None:
                snapshot = table.metadata.snapshot_by_id(resolve_version(table, at))
            return _OF_SNAPSHOTS[key](table, snapshot)
        if key in _OF_TABLES and at is None:
            return _OF_TABLES[key](table)
    except OSError as error:
        raise StorageError(f"cannot read the manifests of {target}: {error}") from error
    if key not in _OF_TABLES:
        near = nearest(key, METADATA_TABLES, most=1)
        hint = f"did you mean {target}${near[0]}?" if near else f"there are {', '.join(METADATA_TABLES)}"
        raise NotFoundError(f"{target} has no metadata table {name!r}; {hint}")
    raise InvalidRequestError(f"{target}${key} describes the whole table, not of one version of it")
