"""Old snapshots of a published table, which its own publications expire: with each, some that nobody reads any more.

Promises: only manifests and manifest lists in the table's own metadata folder are deleted, after the commit without
these snapshots, and only if no kept snapshot reaches them. A data file is never deleted, whatever metadata names.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from metastore.errors import MetastoreError
from metastore.lake.iceberg.manifests.manifest_reader import read_list
from metastore.lake.stores.files import discard

KEPT: Final = 20
"""Snapshots that are kept in any case, the newest ones."""

LEAST_AGE_MS: Final = 3_600_000
"""Milliseconds that a snapshot is kept, so that a query that reads it can end."""


def outdated(metadata: TableMetadata, now_ms: int) -> list[Snapshot]:
    """Returns the snapshots that the next publication, at ``now_ms``, takes away; those with a branch or tag stay."""
    named = {ref.snapshot_id for ref in metadata.refs.values()}
    by_age = sorted(metadata.snapshots, key=lambda each: each.timestamp_ms)
    return [
        each
        for each in by_age[: max(0, len(by_age) + 1 - KEPT)]
        if each.timestamp_ms < now_ms - LEAST_AGE_MS and each.snapshot_id not in named
    ]


def remove_files(table: Table, expired: Sequence[Snapshot]) -> None:
    """Delete the manifests and lists of ``expired`` that no snapshot of ``table`` reaches; what fails stays."""
    own = f"{table.location().rstrip('/')}/metadata/"
    with suppress(OSError, MetastoreError):
        gone = {each.manifest_list for each in expired}
        for each in expired:
            gone.update(manifest.manifest_path for manifest in read_list(table.io, each.manifest_list))
        for each in table.metadata.snapshots:
            gone.discard(each.manifest_list)
            gone.difference_update(manifest.manifest_path for manifest in read_list(table.io, each.manifest_list))
        discard(table.io, sorted(path for path in gone if path.startswith(own) and path.endswith(".avro")))
