"""``system.sync_partition_metadata`` and ``system.create_empty_partition``, on Hive tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from metastore.errors import InvalidRequestError
from metastore.hive.listing import Store
from metastore.hive.partition_sync import SyncMode, create_empty, synchronize
from metastore.hive.tables import HiveTable
from metastore.procedures.framework.arguments import Argument
from metastore.procedures.framework.model import CallContext, Procedure
from metastore.procedures.hive.service import hive_client, hive_properties

_SYNCED: Final[dict[str, Any]] = {"added": pa.list_(pa.string()), "dropped": pa.list_(pa.string())}
_CREATED: Final[dict[str, Any]] = {"location": pa.string()}


def sync_partition_metadata() -> Procedure:
    """The procedure ``system.sync_partition_metadata``."""
    return Procedure(
        "system",
        "sync_partition_metadata",
        (
            Argument("schema_name"),
            Argument("table_name"),
            Argument("mode"),
            Argument("case_sensitive", "BOOLEAN", required=False, default=True),
            Argument("dry_run", "BOOLEAN", required=False, default=False),
        ),
        result=pa.schema(_SYNCED),
        function=_sync_partition_metadata,
        description="Brings a Hive table's partitions and the folders on the store together.",
    )


def create_empty_partition() -> Procedure:
    """The procedure ``system.create_empty_partition``."""
    return Procedure(
        "system",
        "create_empty_partition",
        (
            Argument("schema_name"),
            Argument("table_name"),
            Argument("partition_columns", "ARRAY(VARCHAR)"),
            Argument("partition_values", "ARRAY(VARCHAR)"),
        ),
        result=pa.schema(_CREATED),
        function=_create_empty_partition,
        description="Adds a partition without files to a Hive table.",
    )


def _sync_partition_metadata(
    context: CallContext, schema_name: str, table_name: str, mode: str, case_sensitive: bool, dry_run: bool
) -> dict[str, Any]:
    try:
        wanted = SyncMode(mode.upper())
    except ValueError:
        raise InvalidRequestError(f"Invalid partition metadata sync mode: {mode}; ADD, DROP or FULL") from None
    with hive_client(context) as client:
        table = HiveTable.of(client.table(schema_name, table_name))
        store = Store(hive_properties(context))
        done = synchronize(client, store, table, wanted, case_sensitive=case_sensitive, dry_run=dry_run)
    return {"added": list(done.added), "dropped": list(done.dropped)}


def _create_empty_partition(
    context: CallContext,
    schema_name: str,
    table_name: str,
    partition_columns: Sequence[str],
    partition_values: Sequence[str | None],
) -> dict[str, Any]:
    with hive_client(context) as client:
        table = HiveTable.of(client.table(schema_name, table_name))
        store = Store(hive_properties(context))
        return {"location": create_empty(client, store, table, partition_columns, partition_values)}
