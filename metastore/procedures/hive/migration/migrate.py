"""The driver's part of a migration: survey, backup and staging, switch, and cleanup. Other modules read the footers.

If it is killed at any step, the table is either the unchanged Hive table or the Iceberg table. Calling it again does
the missing steps. A table that was not switched is migrated from the start, and the files of the dead attempt are
removed after the new attempt succeeds. A table that was switched is finished. A failed attempt removes its files,
unless the outcome of the switch is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import pyarrow as pa
from pyiceberg.io.pyarrow import PyArrowFileIO

from metastore.errors import MetastoreError, OutcomeUnknownError, ProcedureError, StorageError
from metastore.lake.iceberg.catalogs.metadata_json import read_metadata
from metastore.procedures.hive.migration.backup import BACKUP_FILE, BACKUP_PROPERTY, Backup
from metastore.procedures.hive.migration.backup_table import drop_kept_table, keep_table
from metastore.procedures.hive.migration.reader_warnings import files_with_int96, warnings_of
from metastore.procedures.hive.migration.revert import find_unfinished
from metastore.procedures.hive.migration.staging import (
    NewIcebergTable,
    Rewrite,
    StagedMetadata,
    ToRewrite,
    attempt_folder,
    problems_of,
    stage,
)
from metastore.procedures.hive.migration.survey import Survey, survey
from metastore.procedures.hive.migration.switch import (
    block_partitions,
    remove_attempts,
    remove_folder,
    require_new,
    switch,
)
from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.listing import HiveStore, NestedDirectories
from metastore.sources.hive.tables import METADATA_LOCATION, HiveTable

MIGRATED: Final = "migrated"
FINISHED: Final = "already migrated"
PREFLIGHT: Final = "can be migrated"
REFUSED: Final = "cannot be migrated"


@dataclass(frozen=True, kw_only=True)
class Migration:
    """One table to migrate, and its options. ``properties`` open the store, with PyIceberg's names.

    ``rewrite`` rewrites files with INT96 times; without it they stay unchanged.
    """

    client: HiveClient
    database: str
    name: str
    nested: NestedDirectories = NestedDirectories.REFUSE
    block_others: bool = True
    dry_run: bool = False
    rewrite: Rewrite | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    format_version: Literal[2, 3] = 2
    table_properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the Iceberg table, in addition to those that a migration sets."""
    ignore_missing: bool = True
    """Folders of partitions that do not exist count as empty; otherwise they are an obstacle."""
    backup_table: str | None = None
    """The name under which the Hive table is kept, over the same files."""

    @property
    def store(self) -> HiveStore:
        """The store of the table's files."""
        return HiveStore(self.properties)

    def table(self) -> HiveTable:
        """Returns the current table. Raises NotFoundError."""
        return HiveTable.of(self.client.table(self.database, self.name))

    def survey(self, table: HiveTable) -> Survey:
        """Returns the survey of ``table``. Raises ProcedureError if there are obstacles, except in a dry run."""
        if find_unfinished(self.store, table) is not None:
            raise ProcedureError(f"the migration of {table} is being reverted; call revert_migration again first")
        found = survey(self.client, self.store, table, self.nested)
        missing = [folder.location for folder in found.folders if not folder.exists]
        if missing and not self.ignore_missing:
            why = f"{len(missing)} locations do not exist, such as {missing[0]}; ignore_missing_files passes over them"
            found = replace(found, obstacles=(*found.obstacles, why), warnings=())
        if found.obstacles and not self.dry_run:
            raise ProcedureError(f"{found.table} cannot be migrated: {'; '.join(found.obstacles)}")
        return found


@dataclass(frozen=True)
class MigrationOutcome:
    """The result of a migration or of a dry run."""

    status: str
    survey: Survey | None = None
    metadata_location: str | None = None
    records: int | None = None
    obstacles: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def complete(migration: Migration, survey: Survey, fragments: pa.Table, *, now_ms: int) -> MigrationOutcome:
    """Do all steps after the footers are read; a dry run stops before it writes anything."""
    if migration.dry_run:
        problems = (*survey.obstacles, *(problems_of(survey, fragments) if not survey.obstacles else ()))
        records = sum(count or 0 for count in fragments["records"].to_pylist())
        status = REFUSED if problems else PREFLIGHT
        warnings = (*survey.warnings, *warnings_of(survey, fragments, without=_rewritten(migration, fragments)))
        return MigrationOutcome(status, survey, None, records, problems, warnings)
    folder = attempt_folder(survey.table.location)
    require_new(migration.store, folder)
    staged = _stage_or_discard(migration, survey, fragments, folder, now_ms)
    try:
        if migration.backup_table is not None:
            keep_table(migration.client, survey.table, survey.partitions, migration.backup_table)
        switch(
            migration.client,
            migration.store,
            survey,
            migration.nested,
            staged.metadata_location,
            block_others=migration.block_others,
            now_ms=now_ms,
        )
    except OutcomeUnknownError:
        raise
    except MetastoreError:
        # Only after these errors the table is certainly still Hive's. After others the metadata may be in use; a later
        # attempt removes it if it is not.
        _discard(migration, folder, survey.table)
        raise
    left = _tidy(migration, survey.table, folder)
    differences = warnings_of(survey, fragments, without=_rewritten(migration, fragments))
    warnings = (*survey.warnings, *differences, *left)
    return MigrationOutcome(MIGRATED, survey, staged.metadata_location, staged.records, warnings=warnings)


def finish_again(migration: Migration, table: HiveTable) -> MigrationOutcome:
    """Finish a migration that was killed after its switch. Raises ProcedureError if the table was not migrated here."""
    metadata_location = table.parameters.get(METADATA_LOCATION, "")
    backup = backup_of(migration.properties, metadata_location)
    if backup is None:
        raise ProcedureError(f"{table} is an Iceberg table already, but not by a migration of this package")
    if migration.dry_run:
        return MigrationOutcome(FINISHED, None, metadata_location)
    migration.client.take_from_the_dead(table.database, table.name)
    left = _tidy(migration, table, backup.rpartition("/")[0])
    return MigrationOutcome(FINISHED, None, metadata_location, warnings=left)


def backup_of(properties: Mapping[str, str], metadata_location: str) -> str | None:
    """Returns the location of the backup of an Iceberg table that was a Hive table, or None if it was not.

    Raises FormatError, StorageError.
    """
    try:
        return read_metadata(PyArrowFileIO(dict(properties)), metadata_location).properties.get(BACKUP_PROPERTY)
    except OSError as error:
        raise StorageError(f"cannot read {metadata_location}: {error}") from error


def _rewritten(migration: Migration, fragments: pa.Table) -> frozenset[int]:
    """Returns the numbers of the files to rewrite."""
    return frozenset() if migration.rewrite is None else files_with_int96(fragments)


def _stage_or_discard(
    migration: Migration, survey: Survey, fragments: pa.Table, folder: str, now_ms: int
) -> StagedMetadata:
    try:
        return _write_staged(migration, survey, fragments, folder, now_ms)
    except BaseException:
        _discard(migration, folder)
        raise


def _discard(migration: Migration, folder: str, kept_of: HiveTable | None = None) -> None:
    """Remove what an attempt made: its folder, and the table that was kept of ``kept_of``."""
    with suppress(OSError, MetastoreError):  # the original error must be raised
        remove_folder(migration.store, folder)
    with suppress(MetastoreError):
        if kept_of is not None and migration.backup_table is not None:
            drop_kept_table(migration.client, kept_of, migration.backup_table)


def _write_staged(
    migration: Migration, survey: Survey, fragments: pa.Table, folder: str, now_ms: int
) -> StagedMetadata:
    """Write metadata and a backup of the Hive table, durable before the switch. The backup is enough to revert."""
    io = PyArrowFileIO(dict(migration.properties))
    backup = f"{folder}/{BACKUP_FILE}"
    properties = {**migration.table_properties, BACKUP_PROPERTY: backup}
    anew = None
    if migration.rewrite is not None:
        anew = ToRewrite(_rewritten(migration, fragments), migration.rewrite)
    staged = stage(
        survey,
        fragments,
        io,
        folder,
        new_table=NewIcebergTable(survey.table.location, properties, migration.format_version),
        now_ms=now_ms,
        anew=anew,
    )
    facts = {
        "snapshot-id": staged.snapshot_id,
        "rewritten-snapshot-id": staged.rewritten_snapshot_id,
        "metadata-location": staged.metadata_location,
        "time-ms": now_ms,
        "files": [file.location for file in survey.files],
    }
    Backup(survey.table.raw, [each.raw for each in survey.partitions], facts).write(io, backup)
    migration.store.make_durable(folder)
    return staged


def _tidy(migration: Migration, table: HiveTable, folder: str) -> tuple[str, ...]:
    """Do the steps after the switch. Failures are returned as warnings, because the table is already migrated."""
    left = []
    if migration.block_others and table.is_partitioned:
        try:
            block_partitions(migration.client, table.database, table.name)
        except MetastoreError as error:
            left.append(f"engines that do not know Iceberg can still read its partitions as they were: {error}")
    try:
        remove_attempts(migration.store, table.location, keep=folder)
    except OSError as error:
        left.append(f"what earlier attempts left in its folder could not be removed: {error}")
    return tuple(left)
