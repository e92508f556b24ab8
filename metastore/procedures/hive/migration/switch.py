"""Last step of a migration: one alteration in the metastore makes the table an Iceberg table.

Under the service's lock (which blocks only programs that ask for one), the table, its partitions and its files are
compared with the survey again. Then one alteration follows, which the service carries out only if the table was not
altered in between. Before it the table is the unchanged Hive table; after it an Iceberg table. The later steps can be
repeated at any time: they make Hive's readers fail instead of reading stale files, and remove files of dead attempts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from hive_metastore.ttypes import StorageDescriptor, Table
from pyarrow import fs

from metastore.errors import ConflictError, MetastoreError, OutcomeUnknownError, StorageError
from metastore.procedures.hive.migration.staging import HIDDEN_FOLDER
from metastore.procedures.hive.migration.survey import Survey, survey
from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.listing import HiveStore, NestedDirectories
from metastore.sources.hive.tables import LAST_DDL_TIME, METADATA_LOCATION, SPARK_PROVIDER, TABLE_TYPE, HiveTable

_NO_INPUT: Final = "org.apache.hadoop.mapred.FileInputFormat"
_NO_OUTPUT: Final = "org.apache.hadoop.mapred.FileOutputFormat"
_NO_SERDE: Final = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
"""The values that Iceberg's catalogs set for a table in the metastore: formats that no engine can read or write."""


def switch(
    client: HiveClient,
    store: HiveStore,
    planned: Survey,
    nested: NestedDirectories,
    metadata_location: str,
    *,
    block_others: bool,
    now_ms: int,
) -> None:
    """Make the table of ``planned`` an Iceberg table at ``metadata_location``.

    With ``block_others``, engines without Iceberg support fail on the table, instead of using it as a Hive table.
    Raises ConflictError, with nothing changed, if table, partitions or files changed since the survey, or if another
    process holds the lock. Raises OutcomeUnknownError if the service's answer is lost and reading the table does not
    show the outcome.
    """
    table = planned.table
    with client.lock_table(table.database, table.name):
        fresh = HiveTable.of(client.table(table.database, table.name))
        if fresh.parameters != table.parameters or fresh.raw.sd != table.raw.sd:
            raise ConflictError(f"{table} was altered since it was looked at; nothing was changed, migrate it again")
        if survey(client, store, fresh, nested).state != planned.state:
            raise ConflictError(
                f"files or partitions of {table} changed since they were looked at; nothing was changed, migrate again"
            )
        new = _as_iceberg(table, metadata_location, block_others=block_others, now_ms=now_ms)
        alter_if(client, new, table.parameters, LAST_DDL_TIME)


def alter_if(client: HiveClient, new: Table, old: Mapping[str, str], key: str) -> None:
    """Alter the table to ``new`` if it still has the parameter ``key`` of ``old``, and check the outcome.

    Raises ConflictError if the parameter differs, InvalidRequestError if the service refuses the description,
    StorageError if it reports a failure; nothing was changed then. Raises OutcomeUnknownError in all other cases.
    """
    expected = (key, old[key]) if key in old else None
    try:
        client.alter_table(new, expected=expected)
    except (OutcomeUnknownError, StorageError) as error:
        try:
            landed = _has(client.table(new.dbName, new.tableName), new)
        except MetastoreError:
            raise OutcomeUnknownError(
                f"{error}; its outcome could not be checked either, so no file was removed"
            ) from error
        if landed:
            return
        raise
    try:
        found = client.table(new.dbName, new.tableName)
    except MetastoreError:
        return  # the service reported success
    # A service of an old release does not compare: the last alteration wins.
    if not _has(found, new):
        raise OutcomeUnknownError(
            f"others altered {new.dbName}.{new.tableName} at the same time; no file was removed. Inspect the "
            f"table before trying again"
        )


def block_partitions(client: HiveClient, database: str, name: str) -> int:
    """Give all partitions the formats that no engine can read; returns how many were altered.

    Without it, engines without Iceberg support could still read a partitioned table by its partitions' formats.
    """
    changed = []
    for partition in client.partitions(database, name):
        if partition.sd.inputFormat != _NO_INPUT:
            _block(partition.sd)
            changed.append(partition)
    client.alter_partitions(database, name, changed)
    return len(changed)


def remove_attempts(store: HiveStore, table_location: str, *, keep: str | None) -> None:
    """Remove the hidden folders of other attempts at the table, which can no longer win; ``keep`` is the winner's."""
    files, root = store.place(f"{table_location}/{HIDDEN_FOLDER}")
    for entry in files.get_file_info(fs.FileSelector(root, allow_not_found=True)):
        if entry.type == fs.FileType.Directory and entry.base_name != (keep or "").rpartition("/")[2]:
            files.delete_dir(entry.path)


def require_new(store: HiveStore, folder: str) -> None:
    """Raises ConflictError if the folder exists, because it belongs to another attempt, or StorageError."""
    files, path = store.place(folder)
    try:
        found = files.get_file_info(path)
    except OSError as error:
        raise StorageError(f"cannot look at {folder}: {error}") from error
    if found.type != fs.FileType.NotFound:
        raise ConflictError(f"{folder} exists already, so another attempt owns it; nothing was changed. Try again")


def remove_folder(store: HiveStore, folder: str) -> None:
    """Remove a folder and its contents, if it exists. Raises OSError."""
    files, path = store.place(folder)
    if files.get_file_info(path).type == fs.FileType.Directory:
        files.delete_dir(path)


def remove_files(store: HiveStore, files: Iterable[str]) -> None:
    """Remove the existing ones among ``files``. Raises OSError."""
    for file in files:
        system, path = store.place(file)
        with suppress(FileNotFoundError):
            system.delete_file(path)


def next_ddl_time(old: Mapping[str, str], now_ms: int) -> str:
    """Returns a time of alteration that differs from the last one."""
    last = old.get(LAST_DDL_TIME, "0")
    return str(max(now_ms // 1000, int(last) + 1 if last.isdecimal() else 0))


def _as_iceberg(table: HiveTable, metadata_location: str, *, block_others: bool, now_ms: int) -> Table:
    new = copy.deepcopy(table.raw)
    new.parameters = {
        **table.parameters,
        "EXTERNAL": "TRUE",
        TABLE_TYPE: "ICEBERG",
        METADATA_LOCATION: metadata_location,
        LAST_DDL_TIME: next_ddl_time(table.parameters, now_ms),
    }
    if block_others:
        _block(new.sd)
        if SPARK_PROVIDER in new.parameters:
            # Spark checks this before the formats.
            new.parameters[SPARK_PROVIDER] = "iceberg"
    return new


def _block(descriptor: StorageDescriptor) -> None:
    descriptor.inputFormat, descriptor.outputFormat = _NO_INPUT, _NO_OUTPUT
    descriptor.serdeInfo.serializationLib = _NO_SERDE


def _has(found: Table, wanted: Table) -> bool:
    return bool(
        found.parameters.get(METADATA_LOCATION) == wanted.parameters.get(METADATA_LOCATION)
        and found.parameters.get(TABLE_TYPE) == wanted.parameters.get(TABLE_TYPE)
        and found.sd.inputFormat == wanted.sd.inputFormat
    )
