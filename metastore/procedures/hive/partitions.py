"""``system.sync_partition_metadata`` and ``system.create_empty_partition`` on Hive tables."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from metastore.errors import InvalidRequestError
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.hive.service import hive_client, hive_properties
from metastore.sources.hive.listing import HiveStore
from metastore.sources.hive.partition_sync import SyncMode, create_empty, synchronize
from metastore.sources.hive.tables import HiveTable

_SYNCED: Final = columns(added=pa.list_(pa.string()), dropped=pa.list_(pa.string()))
_CREATED: Final = columns(location=pa.string())


@procedure(result=_SYNCED)
def sync_partition_metadata(
    context: CallContext,
    *,
    schema_name: str,
    table_name: str,
    mode: str,
    case_sensitive: bool = True,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Synchronizes the partitions of a Hive table with the folders on the store."""
    try:
        wanted = SyncMode(mode.upper())
    except ValueError:
        raise InvalidRequestError(f"Invalid partition metadata sync mode: {mode}; ADD, DROP or FULL") from None
    with hive_client(context) as client:
        table = HiveTable.of(client.table(schema_name, table_name))
        store = HiveStore(hive_properties(context))
        done = synchronize(client, store, table, wanted, case_sensitive=case_sensitive, dry_run=dry_run)
    return {"added": list(done.added), "dropped": list(done.dropped)}


@procedure(result=_CREATED)
def create_empty_partition(
    context: CallContext,
    *,
    schema_name: str,
    table_name: str,
    partition_columns: list[str],
    partition_values: list[str],
) -> dict[str, Any]:
    """Adds a partition without files to a Hive table."""
    with hive_client(context) as client:
        table = HiveTable.of(client.table(schema_name, table_name))
        store = HiveStore(hive_properties(context))
        return {"location": create_empty(client, store, table, partition_columns, partition_values)}
