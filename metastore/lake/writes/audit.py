"""Where the snapshot of a statement goes: to ``main``, to another branch, or to no branch until somebody publishes it.

Place in the flow: a statement names a branch, or the session has chosen one for tables with ``write.wap.enabled``
(write, audit, publish). The statement reads the head that it changes. Iceberg's procedures publish it:
``fast_forward``, ``cherrypick_snapshot``, ``publish_changes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.ground.suggestions import did_you_mean

WAP_ENABLED: Final = "write.wap.enabled"
WAP_ID: Final = "wap.id"
"""Iceberg's property of tables, and its key in the summary of a staged snapshot."""

Version = int | str | datetime | None
"""A version: a snapshot's id, the name of a branch or tag, a point in time; None for the newest."""


@dataclass(frozen=True)
class Head:
    """What a statement changes: ``branch``, or with None a staged snapshot; ``notes`` are for the summary."""

    branch: str | None = MAIN_BRANCH
    notes: Mapping[str, str] = field(default_factory=dict)

    def snapshot(self, metadata: TableMetadata) -> Snapshot | None:
        """Returns the parent of the next snapshot. A new branch begins at the current snapshot."""
        found = metadata.snapshot_by_name(self.branch) if self.branch else None
        return found or metadata.current_snapshot()

    def read(self, table: Table) -> Table:
        """Returns ``table`` as if this head were current, for reading."""
        head = self.snapshot(table.metadata)
        if head is None or head.snapshot_id == table.metadata.current_snapshot_id:
            return table
        then = table.metadata.model_copy(update={"current_snapshot_id": head.snapshot_id})
        return Table(table.name(), then, table.metadata_location, table.io, table.catalog)


MAIN: Final = Head()


@dataclass(frozen=True)
class Audit:
    """What a session has chosen for tables with ``write.wap.enabled``: a branch, or an id for staged snapshots."""

    branch: str | None = None
    id: str | None = None

    def version(self, metadata: TableMetadata, version: Version) -> Version:
        """Returns the version that a name means with ``version``; None for the table's own."""
        if version is None:
            return self.branch if _is_audited(metadata) and self.branch in metadata.refs else None
        return None if version == MAIN_BRANCH and metadata.current_snapshot_id is None else version

    def head(self, name: str, metadata: TableMetadata, branch: str | None, *, may_be_new: bool = False) -> Head:
        """Returns what a statement changes that names the table ``name`` with ``branch``, or with None without one.

        Raises NotFoundError for a branch that does not exist, unless it ``may_be_new``; InvalidRequestError for a tag,
        and for two branches.
        """
        own = self if _is_audited(metadata) else Audit()
        if own.branch and own.id:
            raise InvalidRequestError(
                f"spark.wap.branch is {own.branch} and spark.wap.id is {own.id}: RESET one of them, because {name} "
                f"has {WAP_ENABLED}"
            )
        if branch is None:
            return Head(None, {WAP_ID: own.id}) if own.id else Head(own.branch or MAIN_BRANCH)
        if own.branch:
            raise InvalidRequestError(
                f"the statement names branch {branch} of {name}, and spark.wap.branch is {own.branch}: leave one out"
            )
        ref = metadata.refs.get(branch)
        if ref is None and branch != MAIN_BRANCH and not may_be_new:
            hint = did_you_mean(branch, metadata.refs, cutoff=0.5)
            raise NotFoundError(
                f"{name} has no branch {branch}{hint}; ALTER TABLE {name} CREATE BRANCH {branch} makes it"
            )
        if ref is not None and ref.snapshot_ref_type != SnapshotRefType.BRANCH:
            raise InvalidRequestError(f"{branch} is a tag of {name}, which stays at its snapshot: change a branch")
        return Head(branch)


def _is_audited(metadata: TableMetadata) -> bool:
    return metadata.properties.get(WAP_ENABLED, "").lower() == "true"
