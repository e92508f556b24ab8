"""A table goes from one catalog to another: its newest version is registered there, and the old one is closed.

Only one catalog may own a table's commits. So the last commit to the old catalog says in the table's properties who
owns it from then on; whoever still uses the old one is refused by that, readers and writers. The new catalog starts
from this version and takes the mark away. After an interruption at any point nobody can write until the same call is
made again, and completes what was begun.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, RemovePropertiesUpdate, SetPropertiesUpdate, TableUpdate

from metastore.errors import ConflictError, InvalidRequestError, OutcomeUnknownError
from metastore.iceberg.catalog_entry import CatalogEntry
from metastore.iceberg.catalog_errors import of_a_catalog, said
from metastore.storage.table import HANDED_OVER


@dataclass(frozen=True)
class Registered:
    """A table that is now in another catalog, and the version it has there (0: it is empty)."""

    table: str
    version: int
    metadata_location: str
    source: str
    target: str


def hand_over(source: CatalogEntry, target: CatalogEntry) -> Registered | None:
    """Register the table of ``source`` at ``target``; None when there is no table.

    Raises InvalidRequestError when the target has a table already, when it cannot register one, and when the source
    was handed over to yet another catalog; ConfigError and FormatError when the target cannot go on from the table;
    then nothing was changed. Raises ConflictError, StorageError and OutcomeUnknownError when the call has to be made
    again.
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
    return Registered(target.name, version, there.metadata_location, str(source.source), owner)


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
            f"{entry.source} did not answer: {said(error)}. Register again to complete it"
        ) from error
    return Table(table.name(), done.metadata, done.metadata_location, table.io, table.catalog)
