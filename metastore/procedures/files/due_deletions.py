"""Deletes files that were put off and are due, if nothing in the configuration needs them still.

Place in the flow: a procedure put files on the list (:mod:`metastore.lake.stores.deletion_list`), and the metadata that
made them candidates is gone. So a later pass on the table begins here, with the list. The proof asks every table this
time, also the one that gave the files up: a rollback may have brought them back. The roots are those of the first pass.

Only procedures whose files have unique names put off for this module (:data:`_FROM_LIST`). ``remove_orphan_files`` and
``remove_old_metadata`` find their files again, by a new listing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyiceberg.io import FileIO

from metastore.components.catalogs import Catalogs
from metastore.engines.engine import EngineFor
from metastore.errors import MetastoreError, NotFoundError
from metastore.lake.iceberg.catalogs.metadata_document import file_io
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.stores.containment import Roots
from metastore.lake.stores.deletion import Deletion
from metastore.lake.stores.deletion_list import DeletionList, PutOff, PutOffFile, is_one_file
from metastore.lake.stores.listed_files import identities
from metastore.procedures.files.guards import require_gc
from metastore.procedures.files.proof import Proof

EXPIRE_SNAPSHOTS: Final = "expire_snapshots"
DROP_STATS: Final = "drop_stats"
PURGE: Final = "DROP TABLE PURGE"
_FROM_LIST: Final = (EXPIRE_SNAPSHOTS, DROP_STATS, PURGE)


@dataclass(frozen=True)
class DueDeletions:
    """What became of files that were due: those deleted, those that left the list, and those that stay on it.

    Files leave the list if they are ``needed`` again, or other files have their names. ``failed`` has reasons.
    """

    deleted: tuple[PutOffFile, ...] = ()
    needed: tuple[PutOffFile, ...] = ()
    failed: Mapping[str, str] | None = None

    def __str__(self) -> str:
        said = (
            (len(self.deleted), "files that were put off are deleted"),
            (len(self.needed), "files that were put off are needed again"),
            (len(self.failed or ()), "files that are due stay"),
        )
        first = next(iter((self.failed or {}).values()), "")
        return "; ".join(f"{count} {what}" for count, what in said if count) + (first and f": {first}")


def delete_due(catalogs: Catalogs, target: TargetTable, engine: EngineFor) -> DueDeletions:
    """Delete the files of ``target`` that are due and unneeded; files that are needed again leave the list.

    ``target`` need not exist any more. If it is unknown which files are needed, none is deleted. Raises ProcedureError
    for a table whose files may be others' now, and StorageError or FormatError for the list and the table.
    """
    deletions = catalogs.metastore.deletions
    due = {each.path: each for each in _due(deletions) if each.table == str(target)}
    if not due:
        return DueDeletions()
    io = _io(target, next(iter(due)))
    judgement = Proof(catalogs, target, engine, of_target_too=True).judge(due)
    if judgement.why_unknown is not None:
        return DueDeletions(failed=dict.fromkeys(due, judgement.why_unknown))
    found = identities(due)
    same = {path for path, entry in due.items() if is_one_file(entry.identity, found.get(path))}
    free = {path: entry for path, entry in due.items() if path in judgement.free & same}
    needed = tuple(entry for path, entry in due.items() if path not in free)
    deletions.forget([entry.path for entry in needed])
    failed: dict[str, str] = {}
    held: dict[str, str] = {}
    for roots in {entry.roots for entry in free.values()}:
        paths = [path for path, entry in free.items() if entry.roots == roots]
        listed = {path: identity for path in paths if (identity := free[path].identity) is not None}
        put_off = PutOff(deletions, str(target), free[paths[0]].reason)
        failed |= Deletion(io, engine, Roots(roots), put_off, listed).run(paths)
        held |= put_off.held
    stay = failed.keys() | held
    return DueDeletions(tuple(entry for path, entry in free.items() if path not in stay), needed, failed | held)


def delete_all_due(catalogs: Catalogs, engine: EngineFor) -> Iterator[tuple[str, DueDeletions | MetastoreError]]:
    """Delete the due files of each table, also of dropped ones; yields the table's name with the outcome."""
    for name in sorted(tables_with_due(catalogs.metastore.deletions)):
        catalog, _, rest = name.partition(".")
        schema, _, table = rest.rpartition(".")
        try:
            yield name, delete_due(catalogs, catalogs.target(catalog, schema, table), engine)
        except MetastoreError as error:
            yield name, error


def tables_with_due(deletions: DeletionList) -> set[str]:
    """Returns the names of tables with files that are due. Raises StorageError or FormatError for the list."""
    return {entry.table for entry in _due(deletions)}


def _due(deletions: DeletionList) -> Iterable[PutOffFile]:
    now_ms = deletions.now_ms()
    return [each for each in deletions.entries() if each.reason in _FROM_LIST and each.is_due(now_ms)]


def _io(target: TargetTable, location: str) -> FileIO:
    """Returns the files of the table, or of its catalog if the table was dropped."""
    try:
        table = target.load()
    except NotFoundError:
        return file_io(target.source.catalog, location)
    require_gc(table, "delete files that were put off")
    return table.io
