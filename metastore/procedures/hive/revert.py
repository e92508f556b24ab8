"""``system.revert_migration`` restores the Hive table that an Iceberg table was before ``system.migrate``."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.hive.migration.revert import Reversion, revert
from metastore.procedures.hive.service import hive_client, hive_properties

_RESULT: Final = columns(
    status=pa.string(),
    recreated=pa.bool_(),
    partitions=pa.int64(),
    removed_files=pa.int64(),
    discarded_snapshots=pa.int64(),
)


@procedure(result=_RESULT)
def revert_migration(
    context: CallContext,
    *,
    schema_name: str,
    table_name: str,
    discard_changes: bool = False,
    backup: str | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Turns a migrated table back into the Hive table that it was."""
    with hive_client(context) as client:
        done = revert(
            Reversion(
                client=client,
                database=schema_name,
                name=table_name,
                discard_changes=discard_changes,
                backup=backup,
                dry_run=dry_run,
                properties=hive_properties(context),
            ),
            now_ms=context.now_ms(),
        )
    return {
        "status": done.status,
        "recreated": done.recreated,
        "partitions": done.partitions,
        "removed_files": done.removed,
        "discarded_snapshots": done.discarded_snapshots,
    }
