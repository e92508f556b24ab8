"""Expires one component's table in three steps: mark, commit, sweep.

It marks the files that only outdated versions reach. It commits the removal of these versions, with the requirement
that the history has not changed since marking. Only then it sweeps: data, manifests, lists, statistics, and last the
old version files. A crash after the commit loses nothing: the commit records the version file it started from, and
while that file exists the next run marks from it again. Files that cannot be deleted are counted and logged, and the
next run deletes them in the same way.

A run that only sweeps after an earlier run commits as well. Version files are deleted only before a version of the
run's own, never before that of another writer: that writer may still be checking whether the previous one exists.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetPropertiesUpdate, TableUpdate

from metastore.components.expiration.policy import LAST_RUN, ExpirationPolicy, is_due, versions_to_expire
from metastore.components.expiration.reachability import ComponentLister
from metastore.components.storage.table import ComponentTable
from metastore.errors import (
    ConflictError,
    DamageError,
    FormatError,
    InvalidRequestError,
    OutcomeUnknownError,
    StorageError,
)
from metastore.ground.clock import Clock
from metastore.lake.iceberg.catalogs.catalog_errors import error_text
from metastore.lake.iceberg.catalogs.metadata_json import read_metadata
from metastore.lake.iceberg.snapshots.sweep import (
    UNSWEPT,
    FileKind,
    Mark,
    TableFile,
    mark,
    owns_its_files,
    snapshot_ids,
    statistics_files,
    sweep,
    unchanged_history,
    without,
)
from metastore.lake.stores.containment import ContainingFolder, Roots
from metastore.lake.stores.deletion import DeletionChunk, delete_chunk
from metastore.lake.stores.listed_files import identities

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 10


@dataclass(frozen=True)
class ExpirationResult:
    """The result of a run, or of a dry run: expired versions, deleted files by kind, and failures to delete."""

    versions: tuple[int, ...] = ()
    data_files: int = 0
    manifests: int = 0
    manifest_lists: int = 0
    statistics: int = 0
    version_files: int = 0
    failed: tuple[tuple[str, str], ...] = field(default=())

    def __add__(self, other: ExpirationResult) -> ExpirationResult:
        """Returns the sum of both runs."""
        return ExpirationResult(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True)
class _WorkToDo:
    """The marked work: ``versions`` of ``table`` to expire, version files of earlier runs, and the files to delete.

    ``listed`` are identities of these files, see :mod:`metastore.lake.stores.listed_files`.
    """

    table: Table
    versions: list[int]
    unswept: Mapping[str, TableMetadata]
    kept: TableMetadata
    doomed: Sequence[TableFile]
    listed: Mapping[str, str]


class ExpirationHandler:
    """Expires the table of one component by ``policy``."""

    def __init__(self, table: ComponentTable, policy: ExpirationPolicy, clock: Clock) -> None:
        self.table = table
        self._policy = policy
        self._clock = clock

    def is_due(self) -> bool:
        """Returns whether the configured period has passed. Cheap: without a period, nothing is read."""
        if not self._policy.is_on:
            return False
        table = self.table.load()
        return table is not None and is_due(self._policy, table.metadata, self._clock.now_ms())

    def expire(self, dry_run: bool = False) -> ExpirationResult:
        """Expire versions that are outdated now, whether or not the period has passed.

        Raises ConflictError if the table kept changing, StorageError if the store fails; nothing was changed then.
        Raises OutcomeUnknownError if the outcome of the commit is unknown; no file was removed then. If the table has
        ``gc.enabled=false``, its files belong to others too, and nothing is done.
        """
        lost: CommitFailedException | None = None
        for attempt in range(_ATTEMPTS):
            # Marking takes much longer than a commit. After a lost race most of the marking is cached, so the rest is
            # done under the table's turn. Then writers of this machine cannot win again and again.
            with self._turn() if attempt else nullcontext():
                marked = self._find_work()
                if marked is None:
                    continue
                if isinstance(marked, ExpirationResult):
                    return marked
                if dry_run:
                    return _result(marked.versions, marked.doomed)
                try:
                    current = self._commit(marked)
                except CommitFailedException as error:
                    lost = error
                    continue
            return self._sweep(current, marked.versions, self._still_doomed(marked, current), marked.listed)
        raise ConflictError(
            f"{self.table.name} was written to {_ATTEMPTS} times while its versions were being expired; try again later"
        ) from lost

    def _turn(self) -> AbstractContextManager[None]:
        return self.table.turn(self._clock.monotonic, self._clock.pause, math.inf)

    def _find_work(self) -> _WorkToDo | ExpirationResult | None:
        """Returns the work to do, or the result if there is no work, or None if another writer was faster."""
        table = self.table.load()
        if table is None or not owns_its_files(table.metadata):
            return ExpirationResult()
        versions = versions_to_expire(self._policy, table.metadata, self._clock.now_ms())
        unswept = self._unswept(table)
        if not versions and not unswept:
            return ExpirationResult()
        kept = without(table.metadata, versions)
        try:
            doomed = self._mark(table, kept, versions, unswept)
            listed = identities(file.location for file in doomed)
            return _WorkToDo(table, versions, unswept, kept, doomed, listed)
        except FormatError:
            if self._is_current(table):
                raise
            # Another process expired the versions that were being marked: mark again.
            return None
        except OSError as error:
            raise StorageError(f"{self._cannot_mark(error)}; nothing was changed") from error

    def _still_doomed(self, marked: _WorkToDo, current: Table) -> Sequence[TableFile]:
        """Returns the files of versions that ``current`` lacks; fewer than marked if it keeps other versions, too."""
        if snapshot_ids(current.metadata) == snapshot_ids(marked.kept):
            return marked.doomed
        try:
            return self._mark(marked.table, current.metadata, marked.versions, marked.unswept)
        except OSError as error:
            text = f"{self._cannot_mark(error)}; they are expired, and the next run deletes their files"
            raise StorageError(text) from error

    def _cannot_mark(self, error: OSError) -> str:
        return f"cannot determine which files only old versions of {self.table.name} reference: {error}"

    def _is_current(self, table: Table) -> bool:
        fresh = self.table.load()
        return fresh is not None and fresh.metadata_location == table.metadata_location

    def _unswept(self, table: Table) -> dict[str, TableMetadata]:
        """Returns the version files in the records of earlier runs that still exist, because a sweep did not finish."""
        found = {}
        for location in table.metadata.properties.get(UNSWEPT, "").split("\n"):
            if location:
                try:
                    found[location] = read_metadata(table.io, location)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise StorageError(f"{self._cannot_mark(error)}; nothing was changed") from error
        return found

    def _mark(
        self, table: Table, remaining: TableMetadata, versions: list[int], unswept: Mapping[str, TableMetadata]
    ) -> list[TableFile]:
        expired: dict[int, Snapshot] = {}
        statistics: dict[str, TableFile] = {}
        kept_ids = snapshot_ids(remaining)
        for metadata in (table.metadata, *unswept.values()):
            expired.update((s.snapshot_id, s) for s in metadata.snapshots if s.snapshot_id not in kept_ids)
            statistics.update(statistics_files(metadata))
        lister = ComponentLister(self.table.manifests(table.io))
        doomed = mark(Mark(list(expired.values()), statistics, remaining), lister)
        place = ContainingFolder(table.metadata.location)
        return [file for file in doomed if _is_inside(place, file)]

    def _commit(self, marked: _WorkToDo) -> Table:
        """Returns the table without the marked versions. Raises CommitFailedException, OutcomeUnknownError."""
        table = marked.table
        requirements = unchanged_history(table.metadata, validates_here=self.table.entry.source.validates_here)
        to_sweep = "\n".join((*marked.unswept, table.metadata_location))
        updates: list[TableUpdate] = [
            SetPropertiesUpdate(updates={LAST_RUN: str(self._clock.now_ms()), UNSWEPT: to_sweep})
        ]
        if marked.versions:
            updates.append(RemoveSnapshotsUpdate(snapshot_ids=marked.versions))
        try:
            done = self.table.entry.commit(table, requirements, updates)
        except (CommitFailedException, StorageError, DamageError, InvalidRequestError):
            raise
        except Exception as error:
            raise OutcomeUnknownError(
                f"it is unknown whether versions of {self.table.name} expired: {error_text(error)}. No file "
                f"was removed; "
                "the next run finds out from the metadata"
            ) from error
        return Table(table.name(), done.metadata, done.metadata_location, table.io, table.catalog)

    def _sweep(
        self, table: Table, versions: list[int], doomed: Sequence[TableFile], listed: Mapping[str, str]
    ) -> ExpirationResult:
        """Delete marked files that are as ``listed``, and version files before ``table``.

        Another run may need a later version file for its sweep.
        """

        def delete(locations: Sequence[str]) -> dict[str, str]:
            return delete_chunk(DeletionChunk(table.io, locations, Roots((table.metadata.location,)), listed))

        swept = sweep(doomed, delete)
        failed = dict(swept.failed)
        version_files = 0
        if not failed:
            removed = self.table.remove_old_metadata(table)
            version_files = removed.removed
            failed.update((location, str(error)) for location, error in removed.failed)
        for path, error in failed.items():
            logger.warning(
                "expiration of %s could not delete %s (%s); the next run tries again", self.table.name, path, error
            )
        return replace(_result(versions, swept.gone), version_files=version_files, failed=tuple(failed.items()))


def _is_inside(place: ContainingFolder, file: TableFile) -> bool:
    """Returns whether the file is below the table: metadata may contain files that the table does not own."""
    if place.holds(file.location):
        return True
    logger.warning("%s is not below the table that names it; it is kept", file.location)
    return False


def _result(versions: Sequence[int], files: Iterable[TableFile]) -> ExpirationResult:
    kinds = Counter(file.kind for file in files)
    return ExpirationResult(
        tuple(versions),
        kinds[FileKind.DATA],
        kinds[FileKind.MANIFEST],
        kinds[FileKind.MANIFEST_LIST],
        kinds[FileKind.STATISTICS],
    )
