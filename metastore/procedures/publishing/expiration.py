"""Old snapshots of a published table, which its own publications expire: with each, some that nobody reads any more.

Promises: only manifests and manifest lists are deleted, after the commit without these snapshots. They go as in every
expiration: below the operator's roots, if no kept snapshot and no other table needs them, and as the files that were
listed. A data file is never deleted, whatever metadata names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from metastore.errors import MetastoreError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.manifests.manifest_reader import read_list
from metastore.lake.stores.deletion import Deletion
from metastore.lake.stores.deletion_list import PutOff
from metastore.lake.stores.listed_files import identities
from metastore.procedures.files.deletion_roots import deletion_roots
from metastore.procedures.files.due_deletions import EXPIRE_SNAPSHOTS
from metastore.procedures.files.proof import Proof
from metastore.procedures.framework.model import CallContext

_log: Final = logging.getLogger(__name__)

KEPT: Final = 20
"""Snapshots that are kept in any case, the newest ones."""

LEAST_AGE_MS: Final = 3_600_000
"""Milliseconds that a snapshot is kept, so that a query that reads it can end."""


def find_outdated(metadata: TableMetadata, now_ms: int) -> list[Snapshot]:
    """Returns the snapshots that the next publication, at ``now_ms``, takes away; those with a branch or tag stay."""
    named = {ref.snapshot_id for ref in metadata.refs.values()}
    by_age = sorted(metadata.snapshots, key=lambda each: each.timestamp_ms)
    return [
        each
        for each in by_age[: max(0, len(by_age) + 1 - KEPT)]
        if each.timestamp_ms < now_ms - LEAST_AGE_MS and each.snapshot_id not in named
    ]


def remove_files(context: CallContext, target: TargetTable, table: Table, expired: Sequence[Snapshot]) -> None:
    """Delete the manifests and lists of ``expired`` that nothing reaches; what cannot be deleted stays, and is logged.

    ``table`` is ``target`` after the commit without these snapshots.
    """
    own = f"{table.location().rstrip('/')}/metadata/"
    try:
        gone = {path for path in _metadata_files(table.io, expired) if path.startswith(own) and path.endswith(".avro")}
        gone.difference_update(_metadata_files(table.io, table.metadata.snapshots))
        listed = identities(gone)
        judgement = Proof(context.catalogs, target, context.engine).judge(gone)
        put_off = PutOff(context.catalogs.metastore.deletions, str(target), EXPIRE_SNAPSHOTS, renewed=gone)
        roots = deletion_roots(target, table, context.settings.procedures.allowed_locations)
        failed = Deletion(table.io, context.engine, roots, put_off, listed).run(sorted(gone & judgement.free))
    except (OSError, MetastoreError) as error:
        _log.warning("metadata files of %d old snapshots of %s stay: %s", len(expired), target, error)
        return
    for location, reason in failed.items():
        _log.warning("%s of %s stays: %s", location, target, reason)


def _metadata_files(io: FileIO, snapshots: Sequence[Snapshot]) -> Iterator[str]:
    for each in snapshots:
        yield each.manifest_list
        yield from (manifest.manifest_path for manifest in read_list(io, each.manifest_list))
