"""Versions (snapshots) and properties of a component's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import ClassVar, Final, TypeVar

from pyiceberg.table.snapshots import ancestors_of

from metastore.components.storage.table import ComponentTable
from metastore.errors import ConflictError, MetastoreError, NotFoundError, StorageError
from metastore.ground.notebook import grid

T = TypeVar("T")

_ATTEMPTS: Final = 20


@dataclass(frozen=True)
class Version:
    """One kept version: its id, the id of its parent (None for the first), its time, and its operation."""

    version: int
    parent: int | None
    timestamp: datetime
    operation: str
    summary: Mapping[str, str]


class Versions(list[Version]):
    """Kept versions, newest first; a notebook shows them as a table."""

    def _repr_html_(self) -> str:
        rows = [(str(each.version), f"{each.timestamp:%Y-%m-%d %H:%M:%S %Z}", each.operation) for each in self]
        return grid("versions", ("version", "time", "operation"), rows)


@dataclass(frozen=True)
class ComponentMetadata:
    """Version, properties, location and history of a component; each property is read anew."""

    supports_versioning: ClassVar[bool] = True
    table: ComponentTable

    @property
    def version(self) -> int:
        """Id of the current version; 0 while the component is empty and was never written."""
        state = self.table.state()
        return state.version if state else 0

    @property
    def properties(self) -> dict[str, str]:
        """Properties of the component's Iceberg table; empty before the first write."""
        state = self.table.state()
        return dict(state.metadata.properties) if state else {}

    @property
    def location(self) -> str | None:
        """Location of the component's Iceberg table; None before the first write."""
        state = self.table.state()
        return state.metadata.location if state else None

    def keeps(self, version: int) -> bool:
        """Whether ``version`` can still be read; the empty version before the first always can."""
        state = self.table.state()
        return version == 0 or (state is not None and state.metadata.snapshot_by_id(version) is not None)

    def history(self) -> Versions:
        """The kept ancestors of the current version, and itself, newest first."""
        state = self.table.state()
        if state is None:
            return Versions()
        versions = Versions()
        for snapshot in ancestors_of(state.snapshot, state.metadata):
            summary = snapshot.summary
            versions.append(
                Version(
                    snapshot.snapshot_id,
                    snapshot.parent_snapshot_id,
                    datetime.fromtimestamp(snapshot.timestamp_ms / 1000, timezone.utc),
                    summary.operation.value if summary else "unknown",
                    dict(summary.additional_properties) if summary else {},
                )
            )
        return versions


def on_newest(
    metadata: ComponentMetadata,
    attempt: Callable[[int], T | ConflictError],
    lost: MetastoreError,
    *,
    attempts: int = _ATTEMPTS,
) -> T:
    """Return the result of ``attempt`` on the newest version, repeated while it returns the cause of a lost race.

    It is also tried again if the version expired while it was read. Raises the errors of ``attempt``, and ``lost`` if
    no attempt succeeds; the last cause is its ``__cause__``.
    """
    for _ in range(attempts):
        version = metadata.version
        try:
            done = attempt(version)
        except (NotFoundError, StorageError) as error:
            if metadata.keeps(version):
                raise
            lost.__cause__ = error
        else:
            if not isinstance(done, ConflictError):
                return done
            lost.__cause__ = done
    raise lost
