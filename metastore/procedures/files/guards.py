"""What procedures on files refuse before they look any further, and what a commit of theirs requires.

The requirement on every branch and tag is the one that PyIceberg leaves out: without it, an expiration that was planned
before somebody tagged a snapshot would take the snapshot, and with it the tag.
"""

from __future__ import annotations

from typing import Final, cast

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, TableRequirement

from metastore.catalogs import TargetTable
from metastore.errors import ProcedureError
from metastore.expiration.handler import AssertHistory

GC_ENABLED: Final = "gc.enabled"
_NEWEST_WRITTEN: Final = 2


def require_gc(table: Table, action: str) -> None:
    """Refuse where the table's owner says that its files may be others' too. Raises ProcedureError."""
    if table.metadata.properties.get(GC_ENABLED, "true").strip().lower() == "false":
        raise ProcedureError(
            f"Cannot {action}: GC is disabled (deleting files may corrupt other tables); "
            f"the table has {GC_ENABLED}=false"
        )


def require_foreign(target: TargetTable, reason: str) -> None:
    """Refuse a component's own table. Raises ProcedureError with ``reason``."""
    if target.is_component:
        raise ProcedureError(f"{target} is the metastore's own table: {reason}")


def require_written_version(table: Table, target: TargetTable) -> None:
    """Refuse a table whose manifests would lose fields if this package wrote them. Raises ProcedureError."""
    version = table.metadata.format_version
    if version > _NEWEST_WRITTEN:
        raise ProcedureError(
            f"{target} has format version {version}: its manifests carry row lineage, which this package cannot write. "
            "Use an engine that does, such as Spark"
        )


def unchanged_history(target: TargetTable, metadata: TableMetadata) -> list[TableRequirement]:
    """That the table is the same one, with the branches, tags and, where it can be checked, snapshots of ``metadata``.

    A server that checks requirements itself knows only the standard's. Snapshots that others add there meanwhile, on no
    branch or tag, are seen in its answer to the commit.
    """
    same_table: TableRequirement = AssertTableUUID(uuid=metadata.table_uuid)
    if target.validates_here:
        return [same_table, cast("TableRequirement", AssertHistory.of(metadata))]
    heads = {MAIN_BRANCH: None, **{name: ref.snapshot_id for name, ref in metadata.refs.items()}}
    return [same_table, *(AssertRefSnapshotId(ref=name, snapshot_id=head) for name, head in heads.items())]
