"""Keeps a Hive table under a second name, over the same files, while the first becomes an Iceberg table.

Spark's ``migrate`` renames the table, and keeps it so unless ``drop_backup`` is true. Here the table is switched in
place, and :mod:`metastore.procedures.hive.migration.backup` brings it back. A second table is made only for those who
name one. It is external, so dropping it deletes no file. Maintenance of the Iceberg table does not know it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Final

from metastore.errors import ConflictError, MetastoreError
from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.tables import HivePartition, HiveTable

_MARK: Final = "metastore.backup-of"
"""Parameter of such a table with the name of the migrated table."""
_EXTERNAL: Final = {"EXTERNAL": "TRUE", "external.table.purge": "false"}


def keep_table(client: HiveClient, table: HiveTable, partitions: Sequence[HivePartition], name: str) -> None:
    """Make the table ``name`` in the same database, with ``partitions``.

    Replaces the one that a killed call left. Raises ConflictError if another table has the name, and leaves no table if
    it fails.
    """
    if name.lower() in client.tables(table.database) and not drop_kept_table(client, table, name):
        raise ConflictError(f"{table.database}.{name} exists; choose another backup_table_name")
    new = copy.deepcopy(table.raw)
    new.tableName, new.tableType = name, "EXTERNAL_TABLE"
    new.parameters = {**(new.parameters or {}), **_EXTERNAL, _MARK: str(table)}
    kept = [copy.deepcopy(each.raw) for each in partitions]
    for partition in kept:
        partition.tableName = name
    client.create_table(new)
    try:
        client.add_partitions(table.database, name, kept)
    except MetastoreError:
        client.drop_table(table.database, name)
        raise


def drop_kept_table(client: HiveClient, table: HiveTable, name: str) -> bool:
    """Drop the table ``name`` if it was made of ``table``; returns whether it was. Its files stay."""
    if client.table(table.database, name).parameters.get(_MARK) != str(table):
        return False
    client.drop_table(table.database, name)
    return True
