"""Checks that procedures on files make first, and the age from which a file may be an orphan."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from pyiceberg.table import Table

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.ground.epoch import millis_since_epoch
from metastore.lake.iceberg.catalogs.own_properties import OWN_PROPERTIES
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.snapshots.sweep import GC_ENABLED, owns_its_files
from metastore.lake.iceberg.snapshots.valid_updates import require_known_transforms

PUBLISHED: Final = f"{OWN_PROPERTIES}published.table"
"""Property of a table that publishes files of others: the name of the analyzed table whose files they are."""

_NEWEST_WRITTEN: Final = 3
_ENCRYPTION_KEY: Final = "encryption.key-id"
_ORPHAN_AGE: Final = timedelta(days=3)
"""Minimum age of orphans, if a call does not set it."""


def require_gc(table: Table, action: str) -> None:
    """Raise ProcedureError if the table's owner declares (gc.enabled=false) that its files may be shared."""
    if not owns_its_files(table.metadata):
        raise ProcedureError(
            f"Cannot {action}: GC is disabled (deleting files may corrupt other tables); "
            f"the table has {GC_ENABLED}=false"
        )


def require_foreign(target: TargetTable, reason: str) -> None:
    """Raise ProcedureError with ``reason`` if the table is one of the metastore's components."""
    if target.is_component:
        raise ProcedureError(f"{target} is the metastore's own table: {reason}")


def require_unpublished(table: Table, target: TargetTable | str) -> None:
    """Raise ProcedureError if the table publishes the files of an analyzed table: only publications change it."""
    source = table.metadata.properties.get(PUBLISHED)
    if source is not None:
        raise ProcedureError(
            f"{target} publishes the files of {source}, which are not its own: it changes by publications "
            "alone. Change the files, run ANALYZE and publish_table; unpublish_table ends it, and keeps every file"
        )


def require_written_version(table: Table, target: TargetTable) -> None:
    """Raise ProcedureError if this package cannot write snapshots of the table: published, newer format, or encrypted.

    Raises InvalidRequestError if new files would have a partition transform that is not known.
    """
    require_unpublished(table, target)
    require_known_transforms(str(target), table.metadata, [table.metadata.default_spec_id])
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
    """Returns the time in epoch milliseconds before which a file must have been modified last to be an orphan.

    Raises InvalidRequestError if ``older_than`` is less than ``least_age`` before ``now_ms``.
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
