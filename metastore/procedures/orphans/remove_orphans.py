"""``remove_orphan_files`` deletes files below a table's location that nothing in the configuration needs.

Safety depends on the order of the steps. First the store is listed. Then the newest metadata is read, so that it
reaches everything that was committed during the listing. Files newer than the bound are skipped, because a writer may
be about to commit them. The remaining files are listed on the store (:mod:`quarantine`). Right before the deletion, the
newest metadata of this table is read again, and the files are compared with everything else in the configuration
(:mod:`proof`). What is in use is kept.

Only the table's own location is listed. Its properties can name other folders, and whoever may write the table sets
them. These are followed only into folders that the operator allows (:mod:`listed_folders`). Of a table that publishes
the files of others, the folder of metadata alone is listed: dead publishers leave manifests there.

A run that is interrupted leaves its list. The next run also deletes the files of that list, if they are unchanged and
still unreached.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyiceberg.table import Table

from metastore.engines.engine import EngineFor
from metastore.errors import FormatError, InvalidRequestError, ProcedureError
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.catalogs.version_files import HINT
from metastore.lake.iceberg.snapshots.sweep import MANIFESTS, FileKind, TableFile, statistics_files
from metastore.lake.stores.containment import Roots
from metastore.lake.stores.deletion import Deletion, require_concurrency
from metastore.lake.stores.deletion_list import DeletionList, PutOff
from metastore.lake.stores.spelling import Spelling
from metastore.lake.stores.trees import Folder, StoredFile, files_in, stored_files
from metastore.procedures.files.deletion_roots import deletion_roots, is_own_location
from metastore.procedures.files.guards import PUBLISHED, bound_ms, require_gc
from metastore.procedures.files.inventory import Inventory, metadata_files
from metastore.procedures.files.listed_folders import ListedFolders, claimed_by
from metastore.procedures.files.proof import Judgement, Proof, Where
from metastore.procedures.files.quarantine import (
    SUFFIX,
    FileToDelete,
    Quarantine,
    lift,
    quarantine,
    standing,
    unswept,
)
from metastore.procedures.framework.declaration import Integer, procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.orphans.file_list import ListedLocations, metadata_beside
from metastore.procedures.orphans.orphans import (
    PrefixMismatch,
    ReachedFiles,
    folders_of_tables,
    is_staged,
    orphans,
    outside_other_tables,
)

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)

_LOOKS: Final = 10
_ORPHAN_LIST: Final = re.compile(rf"/orphans-[^/]*{re.escape(SUFFIX)}$")
_VERSION_FILE: Final = re.compile(r"v\d+(\.gz)?\.metadata\.json(\.gz)?")

_RESULT: Final = columns(
    orphan_file_location=pa.string(),
    file_size_in_bytes=pa.int64(),
    deleted=pa.bool_(),
    error=pa.string(),
    put_off=pa.string(),
)


@procedure(result=_RESULT)
def remove_orphan_files(  # noqa: PLR0913 - the arguments of the call
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    older_than: datetime | None = None,
    location: str | None = None,
    dry_run: bool = False,
    max_concurrent_deletes: Integer | None = None,
    equal_schemes: dict[str, str] | None = None,
    equal_authorities: dict[str, str] | None = None,
    prefix_mismatch_mode: str = PrefixMismatch.ERROR.value,
    allowed_locations: list[str] | None = None,
    owned: list[str] | None = None,
    prefix_listing: bool | None = None,
    file_list_view: str | None = None,
) -> list[dict[str, Any]]:
    """Deletes files below a table's location that nothing in the configuration needs."""
    require_concurrency(max_concurrent_deletes)
    if prefix_listing is False:
        _log.info("prefix_listing => false changes nothing: each store is listed in its own way, with the same result")
    target = context.table(schema, table_name)
    spelling = Spelling(equal_schemes or {}, equal_authorities or {})
    allowed = (*context.settings.procedures.allowed_locations, *(allowed_locations or ()))
    removal = OrphanRemoval(
        target,
        Proof(
            context.catalogs,
            target,
            context.engine,
            spelling=spelling,
            owned=owned or (),
            progress=context.progress,
        ),
        bound_ms(older_than, context.now_ms(), context.settings.procedures.min_orphan_age),
        context.engine,
        ListedFolders(str(target), spelling, location, allowed),
        context.catalogs.metastore.deletions,
        mode=_mode(prefix_mismatch_mode),
        file_list=None
        if file_list_view is None
        else ListedLocations.of(file_list_view, context.rows_of(file_list_view)),
    )
    return removal.dry() if dry_run else removal.run(max_concurrent_deletes, context.progress)


def _mode(text: str) -> PrefixMismatch:
    try:
        return PrefixMismatch(text.upper())
    except ValueError as error:
        known = ", ".join(mode.value for mode in PrefixMismatch)
        raise InvalidRequestError(f"prefix_mismatch_mode is one of {known}, not {text!r}") from error


@dataclass(frozen=True)
class _Orphans:
    """The orphans of ``table``, and the ``roots`` below which they may be deleted.

    When they are deleted, the ``left_over`` lists of earlier runs are done.
    """

    table: Table
    reached: ReachedFiles
    known_snapshots: frozenset[int]
    roots: Roots
    files: tuple[StoredFile, ...]
    left_over: tuple[Quarantine, ...]


@dataclass(frozen=True)
class OrphanRemoval:
    """One run of ``remove_orphan_files`` on ``target``, for files last modified before ``bound_ms``.

    ``proof`` is used only if there are files to delete, because it reads every table of every catalog. With a
    ``file_list`` only its files can be orphans, and folders without such files are not listed.
    """

    target: TargetTable
    proof: Proof
    bound_ms: int
    engine: EngineFor
    folders: ListedFolders
    deletions: DeletionList
    mode: PrefixMismatch = PrefixMismatch.ERROR
    file_list: ListedLocations | None = None

    @property
    def spelling(self) -> Spelling:
        """The rules by which locations are compared."""
        return self.folders.spelling

    def dry(self) -> list[dict[str, Any]]:
        """Returns the orphans that :meth:`run` would delete now, or would keep with a reason."""
        found = self._look_repeatedly(self._find)
        judgement = self._judge(found.table, found.files)
        if judgement.unknown and not judgement.free:
            return [_row(file, deleted=False, error=judgement.why_unknown) for file in found.files]
        return [_row(file, deleted=False) for file in found.files if file.location in judgement.free]

    def run(
        self, max_concurrent_deletes: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> list[dict[str, Any]]:
        """Find orphans, list them on the store, check them again, and delete them.

        If it is unknown which files other tables need, nothing is deleted, and each row has the reason. Raises
        ProcedureError if orphans cannot be determined, and FormatError if metadata of the table is missing or broken.
        Nothing is deleted in both cases.
        """
        found = self._look_repeatedly(self._find)
        if not (found.files or found.left_over):
            return []
        named = (FileToDelete(TableFile(f.location, FileKind.ORPHAN, f.size), f.modified_ms) for f in found.files)
        made = (quarantine(found.table, "orphans", named),) if found.files else ()
        files = self._look_repeatedly(lambda fresh: self._still_orphans(found, fresh))
        judgement = self._judge(found.table, files)
        if judgement.unknown and not judgement.free:
            lift(found.table.io, made)
            return [_row(file, deleted=False, error=judgement.why_unknown) for file in files]
        files = [file for file in files if file.location in judgement.free]
        listed = {file.location: file.identity for file in files if file.identity is not None}
        put_off = PutOff(self.deletions, str(self.target), "remove_orphan_files", {f.location: f.size for f in files})
        deletion = Deletion(found.table.io, self.engine, found.roots, put_off, listed, max_concurrent_deletes, progress)
        failed = deletion.run(file.location for file in files)
        if not failed:
            lift(found.table.io, (*found.left_over, *made))
        held = put_off.held
        return [
            _row(f, deleted=f.location not in failed.keys() | held, error=failed.get(f.location), put_off=held)
            for f in files
        ]

    def _look_repeatedly(self, look: Callable[[Table], T]) -> T:
        """Returns the result of ``look`` on the newest version; repeats it if an expiration removed files meanwhile."""
        for _ in range(_LOOKS - 1):
            table = self.target.load()
            try:
                return look(table)
            except FormatError:
                if self.target.load().metadata_location == table.metadata_location:
                    raise
        return look(self.target.load())

    def _find(self, table: Table) -> _Orphans:
        """The orphans of this moment. The table is loaded again after the listing, so new commits are reached."""
        self._require_gc(table)
        stored = self._list_stored_files(table)
        # Load the table after the listing, so that it reaches what was committed during the listing.
        table = self.target.load()
        reached = ReachedFiles(self.spelling)
        known = self._reach(table, reached, frozenset())
        stored = outside_other_tables(stored, self._metadata_of_others(table, stored), self.spelling)
        self._require_plausible(table, stored, reached)
        left_over, remembered = self._left_over(table, stored)
        lists = {made.location for made in left_over}
        old = [
            file
            for file in stored
            if file.location not in lists and (file.modified_ms < self.bound_ms or file[:3] in remembered)
        ]
        files = sorted(orphans(_without_versions(table, old), reached, self.mode))
        roots = deletion_roots(self.target, table, (*self.folders.allowed, *self._location_of_call))
        return _Orphans(table, reached, known, roots, tuple(files), left_over)

    def _require_gc(self, table: Table) -> None:
        if not _is_published(table) or self.folders.location is not None or self.file_list is not None:
            require_gc(table, "remove orphan files")

    def _judge(self, table: Table, files: Sequence[StoredFile]) -> Judgement:
        where = Where(table.metadata.location, self._folders(table))
        return self.proof.judge((file.location for file in files), where)

    def _folders(self, table: Table) -> list[str]:
        """Returns the folders in which orphans are looked for. Raises as :meth:`ListedFolders.of`."""
        folders = self.folders.of(table, is_own=is_own_location(self.target, table))
        if not _is_published(table):
            return folders
        home = table.metadata.location.rstrip("/")
        return [f"{folder}/metadata" for folder in folders if folder == home]

    @property
    def _location_of_call(self) -> tuple[str, ...]:
        """The folder that the call names, if it does: the caller allows it."""
        return () if self.folders.location is None else (self.folders.location,)

    def _list_stored_files(self, table: Table) -> list[StoredFile]:
        if self.file_list is not None:
            reached = ReachedFiles(self.spelling)
            self._reach(table, reached, frozenset())
            unreached = self.file_list.find_unreached(self._folders(table), reached)
            if unreached and len(unreached) == len(self.file_list.files):
                raise _nothing_reached(self.target, len(reached), len(unreached), "in the view")
            return self.file_list.on_store(table.io, unreached, self.spelling)
        columns = {field.name for spec in table.metadata.partition_specs for field in spec.fields}
        shown = tuple(f"{name}=" for name in sorted(columns) if name.startswith(("_", ".")))
        folders = [Folder(table.io, location, shown) for location in self._folders(table)]
        expected = _expected_files(table)
        return list(stored_files(folders, lambda folders: self.engine(max(folders, expected))))

    def _metadata_of_others(self, table: Table, stored: Sequence[StoredFile]) -> set[str]:
        """Returns the canonical paths of folders of other tables, found by metadata files in or around them."""
        own = {self.spelling.path(f"{root}/") for root in claimed_by(table.metadata)}
        known = (*stored, *self._around(table, own))
        if self.file_list is not None:
            known += tuple(metadata_beside(table.io, stored, own, self.spelling))
        folders = folders_of_tables(known, own, self.spelling)
        return {folder for folder, metadata in folders.items() if not is_staged(table, metadata, folder, self.spelling)}

    def _around(self, table: Table, own: Collection[str]) -> list[StoredFile]:
        """Returns the metadata files between the table's own folders and the folder that the call names."""
        if self.folders.location is None:
            return []
        files: list[StoredFile] = []
        folder = self.folders.location.rstrip("/")
        while (path := self.spelling.path(f"{folder}/")) not in own and any(_is_in(path, root) for root in own):
            files += files_in(Folder(table.io, f"{folder}/metadata"))
            folder = posixpath.dirname(folder)
        return files

    def _reach(self, table: Table, reached: ReachedFiles, known_snapshots: frozenset[int]) -> frozenset[int]:
        """Add the files that ``table`` reaches, except by ``known_snapshots``. Returns all snapshots known then."""
        metadata = table.metadata
        reached.add(file.location for file in metadata_files(metadata, table.metadata_location))
        reached.add(statistics_files(metadata))
        reached.add(unswept(table))
        for root in claimed_by(metadata):
            reached.add([f"{root}/metadata/{HINT}", f"{root}/{HINT}"])
        inventory = Inventory(table.io, self.engine)
        fresh = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in known_snapshots]
        listed = inventory.lists(fresh, must_stand=True)
        reached.add(listed)
        manifests = [file for file in listed.values() if file.kind in MANIFESTS]
        reached.add(location for location, _ in inventory.live_files(manifests, must_stand=True))
        return known_snapshots | {snapshot.snapshot_id for snapshot in metadata.snapshots}

    def _require_plausible(self, table: Table, stored: Sequence[StoredFile], reached: ReachedFiles) -> None:
        """Refuse if the listing has no file that the table reaches: then the names of the two do not match."""
        if self.folders.location is not None or self.file_list is not None or not stored:
            return
        if not any(reached.among(self.spelling.place(file.location)) for file in stored):
            raise _nothing_reached(self.target, len(reached), len(stored), f"below {table.metadata.location}")

    def _left_over(
        self, table: Table, stored: Sequence[StoredFile]
    ) -> tuple[tuple[Quarantine, ...], set[tuple[str, int, int]]]:
        """Returns the lists of interrupted runs, and their files with the size and time that were listed."""
        lists = [file.location for file in stored if _ORPHAN_LIST.search(file.location)]
        left_over = tuple(standing(table, lists))
        remembered = {
            (each.file.location, each.file.size or 0, each.modified_ms)
            for made in left_over
            for each in made.files
            if each.modified_ms is not None
        }
        return left_over, remembered

    def _still_orphans(self, found: _Orphans, fresh: Table) -> list[StoredFile]:
        if fresh.metadata_location != found.table.metadata_location:
            self._require_gc(fresh)
            self._reach(fresh, found.reached, found.known_snapshots)
        return sorted(orphans(found.files, found.reached, self.mode))


def _is_published(table: Table) -> bool:
    return PUBLISHED in table.metadata.properties


def _nothing_reached(target: TargetTable, reached: int, listed: int, where: str) -> ProcedureError:
    return ProcedureError(
        f"none of the {reached} files that {target} reaches was found among the {listed} {where}: they are listed "
        "under other names, so nothing is proven. Nothing was deleted"
    )


def _expected_files(table: Table) -> int:
    """Returns the approximate number of files in a listing, which decides where it runs."""
    snapshot = table.metadata.current_snapshot()
    return int(snapshot.summary["total-data-files"] or 0) if snapshot and snapshot.summary else 0


def _without_versions(table: Table, files: Iterable[StoredFile]) -> Iterator[StoredFile]:
    """Leaves out version files if they are the catalog: only an expiration may delete them, in order."""
    keeps = isinstance(table.catalog, FileSystemCatalog)
    return (f for f in files if not (keeps and _VERSION_FILE.fullmatch(f.location.rpartition("/")[2])))


def _is_in(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root.rstrip('/')}/")


def _row(
    file: StoredFile, *, deleted: bool, error: str | None = None, put_off: Mapping[str, str] | None = None
) -> dict[str, Any]:
    return {
        "orphan_file_location": file.location,
        "file_size_in_bytes": file.size,
        "deleted": deleted,
        "error": error,
        "put_off": (put_off or {}).get(file.location),
    }
