"""Reverts a migration: the Iceberg table becomes the original Hive table again, over the same files.

First the table is altered back to the saved description in one step, which fails if an Iceberg commit comes in between.
The service refuses that step if a commit has changed column types incompatibly. Then the table is dropped, without its
files, and created again. This is not atomic, but the call can be repeated with the backup. Until its partitions exist
again, the new table has a parameter that marks it as incomplete, and the backup stays.

Files that Iceberg commits wrote are removed afterwards, because Hive's readers would read them as data or fail. Data
files outside of the folders of Iceberg's writers were added, not written, so they stay.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hive_metastore.ttypes import Table
from pyarrow import fs
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent
from pyiceberg.table.metadata import TableMetadata

from metastore.errors import (
    ConflictError,
    FormatError,
    InvalidRequestError,
    NotFoundError,
    ProcedureError,
    StorageError,
)
from metastore.lake.iceberg.catalogs.metadata_json import read_metadata
from metastore.lake.stores.bounded_reading import ReadLimits
from metastore.procedures.hive.migration.backup import BACKUP_FILE, BACKUP_PROPERTY, Backup
from metastore.procedures.hive.migration.staging import HIDDEN_FOLDER
from metastore.procedures.hive.migration.switch import alter_if, next_ddl_time, remove_files, remove_folder
from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.listing import HiveStore, NestedDirectories
from metastore.sources.hive.tables import LAST_DDL_TIME, METADATA_LOCATION, HivePartition, HiveTable

REVERTED: Final = "reverted"
FINISHED: Final = "already reverted"
PREFLIGHT: Final = "can be reverted"

_MARKER: Final = "reverted.json"
"""In the attempt's folder: lists the files to remove once the table is Hive's again."""

_NOWHERE: Final = "reverted"
_FOLDERS_OF_ICEBERG: Final = ("metadata", "data")
_DATA_PATHS: Final = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
"""Table properties with other folders than ``data`` for data files of Iceberg's writers."""


@dataclass(frozen=True, kw_only=True)
class Reversion:
    """One table to revert.

    ``backup`` is the location of its backup, needed if the metastore does not have the table.
    """

    client: HiveClient
    database: str
    name: str
    discard_changes: bool = False
    backup: str | None = None
    dry_run: bool = False
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def store(self) -> HiveStore:
        """The store of the table's files."""
        return HiveStore(self.properties)

    @property
    def io(self) -> PyArrowFileIO:
        """Access to the Iceberg metadata."""
        return PyArrowFileIO(dict(self.properties))


@dataclass(frozen=True)
class ReversionResult:
    """The result.

    ``recreated``: the table was dropped and created again. ``removed`` is the number of removed files.
    """

    status: str
    recreated: bool = False
    partitions: int = 0
    removed: int = 0
    discarded_snapshots: int = 0


def revert(reversion: Reversion, *, now_ms: int) -> ReversionResult:
    """Make the table the original Hive table again.

    Raises NotFoundError if the table or backup does not exist. Raises ProcedureError if no migration made the table, if
    it has later commits (unless they are to be discarded), or if files are missing. Raises FormatError if the backup or
    the metadata is damaged. Raises ConflictError, with nothing changed, if another writer commits meanwhile.
    """
    client = reversion.client
    try:
        table = HiveTable.of(client.table(reversion.database, reversion.name))
    except NotFoundError:
        if reversion.backup is None:
            raise
        return _continue_creation(reversion, Backup.read(reversion.io, reversion.backup))
    if not table.is_iceberg:
        return _continue_removal(reversion, table)
    metadata = _metadata(reversion, table)
    place = metadata.properties.get(BACKUP_PROPERTY)
    if place is None:
        raise ProcedureError(f"{table} was not made an Iceberg table by this package, so it cannot be reverted")
    backup = Backup.read(reversion.io, place)
    known = backup.snapshots
    later = [each.snapshot_id for each in metadata.snapshots if each.snapshot_id not in known]
    changed = bool(later) or metadata.current_snapshot_id != (known[-1] if known else None)
    if changed and not reversion.discard_changes:
        raise ProcedureError(
            f"{table} has {len(later)} snapshots since its migration, and what they changed would be lost; "
            "pass discard_changes => true to discard them"
        )
    written = {table.parameters[METADATA_LOCATION], *_files_written(reversion, metadata)}
    own = _require_files(reversion, table, backup)
    folder = place.rpartition("/")[0]
    # Files outside of the table's folder may be another table's. The attempt's folder is removed as a whole.
    unwanted = sorted(
        file for file in written - own if _is_inside(table.location, file) and not _is_inside(folder, file)
    )
    if reversion.dry_run:
        return ReversionResult(PREFLIGHT, False, len(backup.partitions), len(unwanted), len(later))
    with reversion.io.new_output(f"{folder}/{_MARKER}").create(overwrite=True) as stream:
        stream.write(json.dumps(unwanted).encode())
    reversion.store.make_durable(folder)
    recreated = _go_back(client, table, backup, now_ms)
    _clean(reversion, backup.table.sd.location.rstrip("/"), unwanted)
    return ReversionResult(REVERTED, recreated, len(backup.partitions), len(unwanted), len(later))


def _go_back(client: HiveClient, table: HiveTable, backup: Backup, now_ms: int) -> bool:
    """Alter table and partitions to their saved state; returns whether the table was dropped and created again."""
    saved = copy.deepcopy(backup.table)
    # The service compares a parameter only if the alteration sets it, too. This value is removed right afterwards.
    saved.parameters |= {LAST_DDL_TIME: next_ddl_time(table.parameters, now_ms), METADATA_LOCATION: _NOWHERE}
    with client.lock_table(table.database, table.name):
        if client.table(table.database, table.name).parameters != table.parameters:
            raise ConflictError(f"{table} was committed to since it was looked at; nothing was changed, try again")
        # Partitions come first: Iceberg's readers do not use them, and altering the table must be the last step.
        known = {tuple(each.values) for each in client.partitions(table.database, table.name)}
        client.alter_partitions(
            table.database, table.name, [each for each in backup.partitions if tuple(each.values) in known]
        )
        try:
            alter_if(client, saved, table.parameters, METADATA_LOCATION)
        except InvalidRequestError:
            client.drop_table(table.database, table.name)
            _create(client, backup)
            return True
        _forget_metadata(client, saved)
    return False


def _forget_metadata(client: HiveClient, table: Table) -> None:
    """Remove the obsolete parameter; it stays if another client alters the table at that moment."""
    plain = copy.deepcopy(table)
    plain.parameters.pop(METADATA_LOCATION, None)
    plain.parameters[LAST_DDL_TIME] = next_ddl_time(table.parameters, 0)
    with suppress(ConflictError):
        alter_if(client, plain, table.parameters, LAST_DDL_TIME)


def _create(client: HiveClient, backup: Backup) -> None:
    new = copy.deepcopy(backup.table)
    new.parameters[METADATA_LOCATION] = _NOWHERE  # marks the table as incomplete until it has its partitions
    client.create_table(new)
    _complete(client, backup)


def _complete(client: HiveClient, backup: Backup) -> int:
    """Add the missing partitions of a table that is Hive's again, and mark it as complete; returns their number."""
    database, name = backup.table.dbName, backup.table.tableName
    known = {tuple(each.values) for each in client.partitions(database, name)} if backup.partitions else set()
    missing = [each for each in backup.partitions if tuple(each.values) not in known]
    client.add_partitions(database, name, missing)
    _forget_metadata(client, client.table(database, name))
    return len(missing)


def _continue_creation(reversion: Reversion, backup: Backup) -> ReversionResult:
    """Continue after a kill between dropping and creating the table."""
    if (backup.table.dbName, backup.table.tableName) != (reversion.database, reversion.name):
        raise ProcedureError(f"{reversion.backup} is of {backup.table.dbName}.{backup.table.tableName}")
    if reversion.dry_run:
        return ReversionResult(PREFLIGHT, True, len(backup.partitions))
    reversion.client.take_from_the_dead(reversion.database, reversion.name)
    _create(reversion.client, backup)
    table = HiveTable.of(backup.table)
    left = find_unfinished(reversion.store, table)
    removed = left.files if left is not None else []
    _clean(reversion, table.location, removed)
    return ReversionResult(REVERTED, True, len(backup.partitions), len(removed))


def _continue_removal(reversion: Reversion, table: HiveTable) -> ReversionResult:
    """Continue after a kill between altering the table and removing Iceberg's files."""
    left = find_unfinished(reversion.store, table)
    if left is None:
        raise ProcedureError(f"{table} is a Hive table; there is nothing to revert")
    added = 0
    if not reversion.dry_run:
        reversion.client.take_from_the_dead(reversion.database, reversion.name)
        if table.parameters.get(METADATA_LOCATION) == _NOWHERE:
            added = _complete(reversion.client, Backup.read(reversion.io, f"{left.folder}/{BACKUP_FILE}"))
        _clean(reversion, table.location, left.files)
    return ReversionResult(FINISHED, partitions=added, removed=len(left.files))


class UnfinishedReversion(NamedTuple):
    """The remaining work of an interrupted reversion: the attempt's folder, and the files to remove."""

    folder: str
    files: list[str]


def find_unfinished(store: HiveStore, table: HiveTable) -> UnfinishedReversion | None:
    """Returns the remaining work for a Hive table whose reversion was interrupted, else None. Raises FormatError."""
    hidden = f"{table.location}/{HIDDEN_FOLDER}"
    files, root = store.place(hidden)
    limit = ReadLimits.of(store.properties).limit_of("file_list")
    for entry in files.get_file_info(fs.FileSelector(root, allow_not_found=True)):
        with suppress(FileNotFoundError), files.open_input_file(f"{entry.path}/{_MARKER}") as stream:
            folder = f"{hidden}/{entry.base_name}"
            limit.require(f"{folder}/{_MARKER}", stream.size())
            try:
                return UnfinishedReversion(folder, json.loads(stream.read()))
            except ValueError as error:
                raise FormatError(
                    f"the migration of {table} is being reverted, and {folder}/{_MARKER}, which lists the files left "
                    f"to remove, is damaged: {error}. Remove Iceberg's files from the folder, and this file last"
                ) from error
    return None


def _clean(reversion: Reversion, location: str, unwanted: list[str]) -> None:
    """Remove Iceberg's files, its folders if they are then empty, and last the hidden folder with the marker.

    Only files inside the table's folder are removed, even if another program wrote the marker.
    """
    store = reversion.store
    remove_files(store, [file for file in unwanted if _is_inside(location, file)])
    files, root = store.place(location)
    for name in _FOLDERS_OF_ICEBERG:
        inside = files.get_file_info(fs.FileSelector(f"{root}/{name}", recursive=True, allow_not_found=True))
        if all(entry.type == fs.FileType.Directory for entry in inside):
            remove_folder(store, f"{location}/{name}")
    remove_folder(store, f"{location}/{HIDDEN_FOLDER}")


def _is_inside(folder: str, file: str) -> bool:
    return file.startswith(f"{folder}/") and ".." not in file.split("/")


def _metadata(reversion: Reversion, table: HiveTable) -> TableMetadata:
    place = table.parameters.get(METADATA_LOCATION, "")
    try:
        return read_metadata(reversion.io, place)
    except OSError as error:
        raise StorageError(f"cannot read {place}, the metadata of {table}: {error}") from error


def _files_written(reversion: Reversion, metadata: TableMetadata) -> Iterator[str]:
    """Yields every file that Iceberg's writers made, metadata files included."""
    data = tuple(f"{metadata.properties[key].rstrip('/')}/" for key in _DATA_PATHS if key in metadata.properties)
    places = (f"{metadata.location.rstrip('/')}/data/", *data)
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (each.statistics_path for each in metadata.statistics)
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(reversion.io):
            yield manifest.manifest_path
            for entry in manifest.fetch_manifest_entry(reversion.io, discard_deleted=False):
                file = entry.data_file
                if file.content is not DataFileContent.DATA or file.file_path.startswith(places):
                    yield file.file_path


def _require_files(reversion: Reversion, table: HiveTable, backup: Backup) -> set[str]:
    """Returns the files of the Hive table. Raises ProcedureError if migrated files are missing."""
    partitions = [HivePartition.of(each).location for each in backup.partitions]
    hive = HiveTable.of(backup.table)
    locations = partitions if hive.is_partitioned else [hive.location]
    present = {
        file.location for folder in reversion.store.contents(locations, NestedDirectories.READ) for file in folder.files
    }
    migrated = set(backup.facts["files"])
    if gone := sorted(migrated - present):
        raise ProcedureError(
            f"{table} cannot go back: {len(gone)} of its files were removed since by Iceberg's maintenance, "
            f"such as {gone[0]}"
        )
    return migrated
