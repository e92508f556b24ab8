"""Moves a table to another catalog: registers its newest version there, and closes the table in the old catalog.

Only one catalog may own a table's commits. So the last commit to the old catalog sets a table property with the new
owner. From then on, readers and writers of the old catalog are refused. The new catalog starts from this version and
removes the property. After an interruption at any point, nobody can write until the same call is repeated, which
completes the move.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, RemovePropertiesUpdate, SetPropertiesUpdate, TableUpdate

from metastore.components.storage.table import HANDED_OVER
from metastore.errors import ConflictError, InvalidRequestError, OutcomeUnknownError
from metastore.lake.iceberg.catalogs.catalog_entry import CatalogEntry
from metastore.lake.iceberg.catalogs.catalog_errors import error_text, of_a_catalog


@dataclass(frozen=True)
class TableRegistration:
    """A table that was registered in another catalog, and its version there (0 if it is empty)."""

    table: str
    version: int
    metadata_location: str
    source: str
    target: str


def hand_over(source: CatalogEntry, target: CatalogEntry) -> TableRegistration | None:
    """Register the table of ``source`` at ``target``; returns None when there is no table.

    Raises InvalidRequestError if the target already has a table or cannot register one, or if the source was handed
    over to a third catalog. Raises ConfigError and FormatError if the target cannot continue from the table. In all
    these cases nothing was changed. Raises ConflictError, StorageError and OutcomeUnknownError if the call has to be
    repeated.
    """
    if target.source.settings.type == "filesystem":
        raise InvalidRequestError(
            "a table cannot be registered in the file system, where its folder names it: configure the catalog that it "
            "is to go to as drill.metastore.iceberg.catalog"
        )
    table, there, owner = source.load(), target.load(), str(target.source)
    if table is None:
        return None
    begun = table.metadata.properties.get(HANDED_OVER)
    if begun not in (None, owner):
        raise InvalidRequestError(
            f"table {source.name} of {source.source} was handed over to {begun}; register it from there"
        )
    if there is not None and there.metadata.properties.get(HANDED_OVER) != owner:
        raise InvalidRequestError(f"{target.source} has a table {target.name} already")
    if there is None:
        target.require_fit(table.metadata_location)
        if begun is None:
            table = _commit(source, table, SetPropertiesUpdate(updates={HANDED_OVER: owner}))
        there = target.register(table.metadata_location)
    there = _commit(target, there, RemovePropertiesUpdate(removals=[HANDED_OVER]))
    version = there.metadata.current_snapshot_id or 0
    return TableRegistration(target.name, version, there.metadata_location, str(source.source), owner)


def _commit(entry: CatalogEntry, table: Table, update: TableUpdate) -> Table:
    try:
        done = entry.commit(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), (update,))
    except CommitFailedException as error:
        raise ConflictError(
            f"table {entry.name} of {entry.source} is being written to: stop its writers first"
        ) from error
    except Exception as error:
        if not of_a_catalog(error):
            raise
        raise OutcomeUnknownError(
            f"{entry.source} did not answer: {error_text(error)}. Register again to complete it"
        ) from error
    return Table(table.name(), done.metadata, done.metadata_location, table.io, table.catalog)
