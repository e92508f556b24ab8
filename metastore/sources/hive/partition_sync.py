"""Compares partitions in the metastore with folders on the store: adds, drops, or creates partitions.

Files are never touched. A folder belongs to a partition if each level is named after a partition column, in order;
other folders are ignored. A partition is dropped only if the folder that the metastore names does not exist.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from hive_metastore.ttypes import Partition

from metastore.errors import FormatError, InvalidRequestError, ProcedureError, StorageError
from metastore.sources.directory_values import NULL_DIRECTORY
from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.listing import HiveStore, NestedDirectories
from metastore.sources.hive.partitions import folder_value, partition_name, typed_value
from metastore.sources.hive.tables import HivePartition, HiveTable

Values = tuple[str, ...]


class SyncMode(str, Enum):
    """The changes to make: add, drop, or both."""

    ADD = "ADD"
    DROP = "DROP"
    FULL = "FULL"


@dataclass(frozen=True)
class SyncResult:
    """Names of the added and dropped partitions."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]


def synchronize(
    client: HiveClient, store: HiveStore, table: HiveTable, mode: SyncMode, *, case_sensitive: bool, dry_run: bool
) -> SyncResult:
    """Add partitions that exist only as folders, and drop those whose folder does not exist, depending on ``mode``.

    Raises ProcedureError if the table has no partitions, or if Hive does not manage them.
    """
    names = _partition_columns(table)
    known = list(map(HivePartition.of, client.partitions(table.database, table.name)))
    coming: dict[Values, str] = {}
    going: list[HivePartition] = []
    if mode is not SyncMode.DROP:
        there = _folders(store, table, names, case_sensitive=case_sensitive)
        have = {each.values for each in known}
        coming = {values: place for values, place in there.items() if values not in have}
    if mode is not SyncMode.ADD:
        folders = store.contents([each.location for each in known], NestedDirectories.IGNORE)
        going = [each for each, folder in zip(known, folders, strict=True) if not folder.exists]
    if not dry_run:
        new = [_new_partition(table, values, place) for values, place in sorted(coming.items())]
        client.add_partitions(table.database, table.name, new)
        for each in going:
            client.drop_partition(table.database, table.name, each.values)
    return SyncResult(
        tuple(_name(names, values) for values in sorted(coming)), tuple(_name(names, each.values) for each in going)
    )


def create_empty(
    client: HiveClient, store: HiveStore, table: HiveTable, columns: Sequence[str], values: Sequence[str | None]
) -> str:
    """Add one partition without files, create its folder, and return its location. A value ``None`` means null.

    Raises InvalidRequestError if columns or values do not fit the table, ProcedureError if the partition exists.
    """
    names = _partition_columns(table)
    if [name.lower() for name in columns] != [name.lower() for name in names] or len(values) != len(names):
        raise InvalidRequestError(
            f"input partition column names doesn't match actual partition column names: {', '.join(names)}, "
            "each with one value"
        )
    texts = tuple(NULL_DIRECTORY if value is None else value for value in values)
    try:
        for (_, type_), text in zip(table.partition_columns, texts, strict=True):
            typed_value(text, type_)
    except FormatError as error:
        raise InvalidRequestError(f"no such partition of {table}: {error}") from error
    if any(tuple(each.values) == texts for each in client.partitions(table.database, table.name)):
        raise ProcedureError(f"Partition already exists: {_name(names, texts)} of {table}")
    place = f"{table.location}/{_name(names, texts)}"
    files, path = store.place(place)
    try:
        files.create_dir(path, recursive=True)
    except OSError as error:
        raise StorageError(f"cannot make {place}: {error}; nothing was changed") from error
    client.add_partitions(table.database, table.name, [_new_partition(table, texts, place)])
    return place


def _partition_columns(table: HiveTable) -> list[str]:
    if not table.is_partitioned:
        raise ProcedureError(f"Table is not partitioned: {table}")
    if table.is_iceberg:
        raise ProcedureError(f"{table} is an Iceberg table, which keeps its partitions itself")
    if obstacles := list(table.obstacles()):
        raise ProcedureError(f"{table}: {'; '.join(obstacles)}")
    return [each.name for each in table.raw.partitionKeys]


def _folders(store: HiveStore, table: HiveTable, names: Sequence[str], *, case_sensitive: bool) -> dict[Values, str]:
    """Returns the location of each folder that is named like a partition, by the partition's values."""
    found = {}
    for folders in store.folders(table.location, depth=len(names)):
        try:
            pairs = [folder_value(folder) for folder in folders]
        except UnicodeDecodeError:
            continue
        names_of_folders = [pair[0] for pair in pairs if pair is not None]
        same = (
            names_of_folders == list(names)
            if case_sensitive
            else [name.lower() for name in names_of_folders] == list(names)
        )
        if same and len(names_of_folders) == len(folders):
            found[tuple(pair[1] for pair in pairs if pair is not None)] = "/".join((table.location, *folders))
    return found


def _new_partition(table: HiveTable, values: Values, place: str) -> Partition:
    sd = copy.deepcopy(table.raw.sd)
    sd.location = place
    return Partition(list(values), table.database, table.name, 0, 0, sd, {})


def _name(columns: Sequence[str], values: Values) -> str:
    return partition_name(list(zip(columns, values, strict=True)))
