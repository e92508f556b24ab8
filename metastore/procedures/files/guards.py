"""What procedures on files refuse before they look any further, and which files are too new for them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from pyiceberg.table import Table

from metastore.epoch import millis_since_epoch
from metastore.errors import InvalidRequestError, ProcedureError
from metastore.iceberg.sweep import GC_ENABLED, owns_its_files
from metastore.iceberg.target import TargetTable

_NEWEST_WRITTEN: Final = 3
_ENCRYPTION_KEY: Final = "encryption.key-id"
_ORPHAN_AGE: Final = timedelta(days=3)
"""Of orphans, where a call does not say how old they must be."""


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
    """Refuse a table for which this package cannot write a snapshot: newer, or encrypted. Raises ProcedureError."""
    version = table.metadata.format_version
    if version > _NEWEST_WRITTEN:
        raise ProcedureError(
            f"{target} has format version {version}, and this package writes versions up to {_NEWEST_WRITTEN}. Use an "
            "engine that writes it, such as Spark"
        )
    if _ENCRYPTION_KEY in table.metadata.properties:
        raise ProcedureError(
            f"{target} is encrypted ({_ENCRYPTION_KEY} is set), and this package writes no encrypted files. Use an "
            "engine that does, such as Spark"
        )


def bound_ms(older_than: datetime | None, now_ms: int, least_age: timedelta) -> int:
    """The time, in epoch milliseconds, before which a file must have been changed last to be taken for an orphan.

    Raises InvalidRequestError when ``older_than`` is nearer to now than ``least_age``.
    """
    newest = now_ms - least_age // timedelta(milliseconds=1)
    if older_than is None:
        return min(newest, now_ms - _ORPHAN_AGE // timedelta(milliseconds=1))
    bound = millis_since_epoch(older_than)
    if bound > newest:
        raise InvalidRequestError(
            f"Cannot remove files with an interval less than {least_age}: what a writer is about to "
            "commit would be lost. Choose an earlier older_than; only the configuration lowers the interval "
            "(drill.metastore.procedures.min_orphan_age), for times when nobody writes"
        )
    return bound
