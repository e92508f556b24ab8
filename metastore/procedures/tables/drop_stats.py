"""``drop_stats`` removes the statistics files of a table's snapshots from its metadata, and deletes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertTableUUID,
    RemovePartitionStatisticsUpdate,
    RemoveStatisticsUpdate,
    TableUpdate,
    update_table_metadata,
)

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.lake.iceberg.snapshots.sweep import statistics_files
from metastore.lake.stores.containment import Roots
from metastore.lake.stores.deletion import OUTSIDE, Deletion
from metastore.lake.stores.deletion_list import PutOff
from metastore.lake.stores.listed_files import identities
from metastore.procedures.files.deletion_roots import deletion_roots
from metastore.procedures.files.due_deletions import DROP_STATS, delete_due
from metastore.procedures.files.guards import require_gc
from metastore.procedures.files.proof import Proof
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns

_NEEDED: Final = "kept: another table needs it, or it belongs to the metastore"

_RESULT: Final = columns(
    statistics_file=pa.string(),
    file_size_in_bytes=pa.int64(),
    deleted=pa.bool_(),
    error=pa.string(),
    put_off=pa.string(),
)


@procedure(result=_RESULT)
def drop_stats(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    snapshot_id: int | None = None,
    dry_run: bool = False,
) -> list[Mapping[str, Any]]:
    """Removes the statistics files of all snapshots, or of one."""
    target = context.table(schema, table_name)
    if not dry_run:
        delete_due(context.catalogs, target, context.engine)
    proof = Proof(context.catalogs, target, context.engine, progress=context.progress)

    def attempt(table: Table) -> list[Mapping[str, Any]]:
        """Commit, then delete files that no snapshot names any more; CommitFailedException if a race was lost."""
        require_gc(table, "drop statistics")
        metadata = table.metadata
        if snapshot_id is not None and metadata.snapshot_by_id(snapshot_id) is None:
            raise InvalidRequestError(f"{target} has no snapshot {snapshot_id}")
        updates = tuple(_removals(metadata, snapshot_id))
        if not updates:
            return []
        kept = statistics_files(update_table_metadata(metadata, updates))
        gone = {location: file for location, file in statistics_files(metadata).items() if location not in kept}
        roots = deletion_roots(target, table, context.settings.procedures.allowed_locations)
        listed = identities(gone)
        if not dry_run:
            target.commit(table, [AssertTableUUID(uuid=metadata.table_uuid)], updates)
        failed = _reasons_to_keep(gone, proof, roots)
        sizes = {location: file.size for location, file in gone.items()}
        put_off = PutOff(context.catalogs.metastore.deletions, str(target), DROP_STATS, sizes, renewed=gone)
        if not dry_run:
            deletion = Deletion(table.io, context.engine, roots, put_off, listed)
            failed |= deletion.run([each for each in gone if each not in failed])
        return [
            {
                "statistics_file": location,
                "file_size_in_bytes": file.size,
                "deleted": not dry_run and location not in failed and location not in put_off.held,
                "error": failed.get(location),
                "put_off": put_off.held.get(location),
            }
            for location, file in gone.items()
        ]

    return until_won(target, context.settings.iceberg.commit.timeout, attempt)


def _reasons_to_keep(gone: Collection[str], proof: Proof, roots: Roots) -> dict[str, str]:
    """Returns the files that are not deleted although the table no longer names them, each with the reason."""
    judgement = proof.judge(gone)
    kept = {each: judgement.why_unknown or _NEEDED for each in gone if each not in judgement.free}
    return kept | {each: OUTSIDE for each in gone if not roots.hold(each)}


def _removals(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[TableUpdate]:
    for file in metadata.statistics:
        if snapshot_id in (None, file.snapshot_id):
            yield RemoveStatisticsUpdate(snapshot_id=file.snapshot_id)
    for part in metadata.partition_statistics:
        if snapshot_id in (None, part.snapshot_id):
            yield RemovePartitionStatisticsUpdate(snapshot_id=part.snapshot_id)
