"""``remove_old_metadata`` deletes old metadata files of a table that its metadata log no longer names.

Every commit leaves the previous metadata file. Writers that delete old files delete only those that their own commit
drops from the log; all others stay for ever. A file is deleted under three conditions. Its version is lower than that
of the current file and of every file in the log. Its content says that it belongs to this table. It is old enough that
no writer or reader needs it any more.

Files are deleted in ascending order, and the first failure ends the run. If version files are the catalog, the check
against suspended writers relies on this order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import dropwhile, takewhile
from typing import Any, Final

import pyarrow as pa
from pyiceberg.table import Table, TableProperties

from metastore.engines.engine import EngineFor
from metastore.errors import StorageError
from metastore.lake.iceberg.catalogs.catalog_errors import UNREADABLE
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.stores.bounded_reading import table_metadata
from metastore.lake.stores.containment import Roots
from metastore.lake.stores.deletion import OUTSIDE, Deletion
from metastore.lake.stores.deletion_list import PutOff
from metastore.lake.stores.trees import Folder, StoredFile, files_in
from metastore.procedures.files.deletion_roots import deletion_roots
from metastore.procedures.files.guards import bound_ms, require_foreign, require_gc
from metastore.procedures.files.inventory import metadata_files, version_of
from metastore.procedures.files.proof import Proof
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns

_AT_ONCE: Final = 500

_RESULT: Final = columns(
    metadata_file=pa.string(),
    file_size_in_bytes=pa.int64(),
    deleted=pa.bool_(),
    error=pa.string(),
    put_off=pa.string(),
)


@procedure(result=_RESULT)
def remove_old_metadata(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    older_than: datetime | None = None,
    dry_run: bool = False,
    owned: list[str] | None = None,
) -> list[dict[str, Any]]:
    """Deletes metadata files that are older than those of the table's metadata log."""
    target = context.table(schema, table_name)
    require_foreign(target, "its expiration takes old version files along")
    bound = bound_ms(older_than, context.now_ms(), context.settings.procedures.min_orphan_age)
    proof = Proof(context.catalogs, target, context.engine, owned=owned or (), progress=context.progress)
    put_off = PutOff(context.catalogs.metastore.deletions, str(target), "remove_old_metadata")
    removal = _Removal(target, proof, bound, context.engine, context.settings.procedures.allowed_locations, put_off)
    found = removal.find()
    failed = found.kept if dry_run or found.kept else removal.delete(found)
    return [
        {
            "metadata_file": file.location,
            "file_size_in_bytes": file.size,
            "deleted": not dry_run and file.location not in failed and file.location not in put_off.held,
            "error": failed.get(file.location),
            "put_off": put_off.held.get(file.location),
        }
        for file in found.files
    ]


@dataclass(frozen=True)
class _FilesToDelete:
    """The metadata files to delete, oldest version first. ``table`` is the state that decides.

    ``kept`` has the reason for each file that stays: it is unknown whether other tables need it, or it lies below none
    of the ``roots``.
    """

    table: Table
    roots: Roots
    files: tuple[StoredFile, ...]
    kept: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Removal:
    target: TargetTable
    proof: Proof
    bound_ms: int
    engine: EngineFor
    allowed: tuple[str, ...]
    put_off: PutOff

    def find(self) -> _FilesToDelete:
        """Files in the order of deletion, oldest first, up to the first that must stay; or why none may go."""
        table = self.target.load()
        require_gc(table, "remove old metadata")
        listed = files_in(Folder(table.io, _folder(table)))
        # Load the table after the listing: commits during the listing move the bound only forwards.
        table = self.target.load()
        old = list(self._old(table, listed))
        roots = deletion_roots(self.target, table, self.allowed)
        if outside := {file.location: OUTSIDE for file in old if not roots.hold(file.location)}:
            return _FilesToDelete(table, roots, tuple(old), outside)
        judgement = self.proof.judge(file.location for file in old)
        if judgement.unknown and not judgement.free:
            why = judgement.why_unknown or ""
            return _FilesToDelete(table, roots, tuple(old), {file.location: why for file in old})
        # A file that another catalog entry still points to ends the run, because older ones must go first.
        return _FilesToDelete(table, roots, tuple(takewhile(lambda file: file.location in judgement.free, old)))

    def _old(self, table: Table, listed: list[StoredFile]) -> Iterator[StoredFile]:
        needed = [version_of(file.location) for file in metadata_files(table.metadata, table.metadata_location)]
        if None in needed:
            # The catalog names its files in another way, so versions cannot be compared.
            return
        oldest = min(number for number in needed if number is not None)
        numbered = [(number, file) for file in listed if (number := version_of(file.location)) is not None]
        for number, file in sorted(numbered):
            if number >= oldest or file.modified_ms >= self.bound_ms:
                return
            if _is_of(table, file):
                yield file

    def delete(self, files: _FilesToDelete) -> Mapping[str, str]:
        """Delete the files that need not wait. Returns those that could not be deleted, each with the reason."""
        listed = {file.location: file.identity for file in files.files if file.identity is not None}
        at_once = 1 if isinstance(files.table.catalog, FileSystemCatalog) else _AT_ONCE
        wanted = [file.location for file in files.files]
        self.put_off.sizes = {file.location: file.size for file in files.files}
        self.put_off.put_off(wanted, files.roots, listed)
        for location in dropwhile(lambda each: each not in self.put_off.held, wanted):
            self.put_off.held.setdefault(location, "until the older files are deleted")
        wanted = [location for location in wanted if location not in self.put_off.held]
        deletion = Deletion(files.table.io, self.engine, files.roots, self.put_off, listed)
        for start in range(0, len(wanted), at_once):
            if failed := deletion.run(wanted[start : start + at_once]):
                why = f"{next(iter(failed))} could not be deleted, and older files must be deleted first"
                return {**dict.fromkeys(wanted[start + at_once :], why), **failed}
        return {}


def _folder(table: Table) -> str:
    given = table.metadata.properties.get(TableProperties.WRITE_METADATA_PATH)
    return (given or f"{table.metadata.location.rstrip('/')}/metadata").rstrip("/")


def _is_of(table: Table, file: StoredFile) -> bool:
    """Whether the content says that the file is metadata of this table. Raises StorageError."""
    try:
        return table_metadata(table.io.new_input(file.location)).table_uuid == table.metadata.table_uuid
    except (FileNotFoundError, *UNREADABLE):
        return False
    except OSError as error:
        raise StorageError(f"cannot read {file.location}: {error}") from error
