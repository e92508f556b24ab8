"""What procedures on files refuse before they look any further."""

from __future__ import annotations

from typing import Final

from pyiceberg.table import Table

from metastore.errors import ProcedureError
from metastore.iceberg.sweep import GC_ENABLED, owns_its_files
from metastore.iceberg.target import TargetTable

_NEWEST_WRITTEN: Final = 2


def require_gc(table: Table, action: str) -> None:
    """Refuse where the table's owner says that its files may be others' too. Raises ProcedureError."""
    if not owns_its_files(table.metadata):
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
