"""DROP TABLE of a catalog's table.

::

    DROP TABLE [IF EXISTS] catalog.schema.table [PURGE]

Without PURGE every file stays, and the result names the metadata file with which the table can be registered again.

**Warning.** PURGE deletes the files that the table names. It deletes only files in the table's own location and below
the roots of deletions (:mod:`metastore.procedures.files.deletion_roots`). It must be proven that nothing else needs
them (:mod:`metastore.procedures.files.proof`). If this cannot be proven, nothing is dropped. With
``drill.metastore.procedures.deletion.delay`` the files are put off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.lake.iceberg.catalogs.metadata_document import MetadataDocument
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.snapshots.sweep import MANIFESTS, TableFile
from metastore.lake.stores.deletion import Deletion
from metastore.lake.stores.deletion_list import PutOff
from metastore.lake.stores.listed_files import identities
from metastore.lake.stores.spelling import Spelling, is_inside
from metastore.procedures.files.deletion_roots import deletion_roots, said_of_kept
from metastore.procedures.files.due_deletions import PURGE
from metastore.procedures.files.guards import require_gc
from metastore.procedures.files.inventory import Inventory
from metastore.procedures.files.known_tables import inline_manifests, manifest_lists, named_files
from metastore.procedures.files.proof import Judgement, Proof
from metastore.sql.queries.named_table import place_of, table_name
from metastore.sql.statement import Cursor, Statement
from metastore.sql.tables.schemas import answer_row
from metastore.sql.target import StatementTarget


def drop_table(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one DROP TABLE; returns one row that says what was done."""
    cursor = Cursor(statement, 2)
    if_exists = cursor.accept_words("IF", "EXISTS")
    names = table_name(target, cursor)
    purge = cursor.accept_word("PURGE")
    cursor.end()
    place = place_of(target, cursor, names)
    with statement.at(names[0].token):
        pointer = place.newest_pointer()
        if pointer is None and if_exists:
            return answer_row(False, f"{place}: does not exist")
        if pointer is None:
            target.catalogs.table(place.catalog_name, place.schema_name, place.name)
        if place.source.settings.type == "filesystem":
            raise InvalidRequestError(f"{place.source} has no entries to drop: a table there is its folder")
        if not purge:
            place.drop_entry()
            return answer_row(True, f"{place}: is dropped; its files stay, with the metadata {pointer}")
        purging = _Purge(target, place, Spelling())
        return answer_row(True, f"{place}: is dropped; {purging.run()}")


@dataclass(frozen=True)
class _Purge:
    """Drops one table with its files."""

    target: StatementTarget
    place: TargetTable
    spelling: Spelling

    def run(self) -> str:
        """Drop the table; returns what happened to its files.

        Raises InvalidRequestError, before any change, if it cannot be proven that its files are not needed.
        """
        table = self.place.load()
        require_gc(table, "purge table")
        document = self.place.newest_document()
        if document is None:
            raise NotFoundError(f"table {self.place} does not exist any more")
        roots = deletion_roots(self.place, table, self.target.metastore.settings.procedures.allowed_locations)
        home = self.spelling.place(f"{document.content['location'].rstrip('/')}/")
        named = self._files_of(document)
        inside = [location for location in named if is_inside(self.spelling.place(location), home)]
        own = [location for location in inside if roots.hold(location)]
        listed = identities(own)
        proof = Proof(self.target.catalogs, self.place, self.target.engine_for, spelling=self.spelling)
        first = proof.judge(own)
        self._require_proof(first)
        self.place.drop_entry()
        judged = proof.judge(first.free)  # other tables may need a file since then; such files stay
        put_off = PutOff(self.target.metastore.deletions, str(self.place), PURGE, named, renewed=own)
        failed = Deletion(document.io, self.target.engine_for, roots, put_off, listed).run(sorted(judged.free))
        summary = f"{len(judged.free) - len(failed) - len(put_off.held)} files are deleted"
        if put_off.held:
            summary += f", {len(put_off.held)} are put off: metastore deletions lists them"
        if kept := len(named) - len(judged.free):
            needed = ", ".join(sorted({*first.needed, *judged.needed})) or "they lie outside of its location"
            summary += f", {kept} are kept: {needed}"
        if outside := [location for location in inside if not roots.hold(location)]:
            summary += f", {said_of_kept(outside)}"
        if failed:
            location, error = next(iter(failed.items()))
            summary += f", {len(failed)} could not be deleted, such as {location}: {error}"
        return summary

    def _require_proof(self, judged: Judgement) -> None:
        if judged.why_unknown is not None:
            raise InvalidRequestError(
                f"{self.place} cannot be purged: {judged.why_unknown}. Nothing was dropped; DROP TABLE without PURGE "
                "keeps all files"
            )

    def _files_of(self, document: MetadataDocument) -> dict[str, int | None]:
        """Returns every file that a snapshot of the table names, with its bytes if these are recorded.

        Raises FormatError, and StorageError for a missing file.
        """
        inventory = Inventory(document.io, self.target.engine_for)
        found: dict[str, int | None] = dict.fromkeys(named_files(document))
        manifests: list[TableFile] = inline_manifests(document)
        for location, file in inventory.list_manifests(manifest_lists(document), must_stand=True):
            found[location] = file.size
            if file.kind in MANIFESTS:
                manifests.append(file)
        found.update((location, file.size) for location, file in inventory.live_files(manifests, must_stand=True))
        return found


HANDLERS: Final = {("DROP", "TABLE"): drop_table}
"""Handlers by the first words of their statements."""
