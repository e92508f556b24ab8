"""Facts about a component's table: its versions (snapshots), and its properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import ClassVar, Final, TypeVar

from pyiceberg.table.snapshots import ancestors_of

from metastore.errors import MetastoreError, NotFoundError, StorageError
from metastore.notebook import grid
from metastore.storage.table import ComponentTable

T = TypeVar("T")

_ATTEMPTS: Final = 20


@dataclass(frozen=True)
class Version:
    """One kept version: its id, the one before it (None for the first), when it came, and what it did."""

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
    """What is known of a component beside its rows; each property is read afresh."""

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
        """Where the component's Iceberg table lies; None before the first write."""
        state = self.table.state()
        return state.metadata.location if state else None

    def keeps(self, version: int) -> bool:
        """Whether ``version`` is still there to be read; the empty one before the first always is."""
        state = self.table.state()
        return version == 0 or (state is not None and state.metadata.snapshot_by_id(version) is not None)

    def history(self) -> Versions:
        """Kept versions that led to the current one, newest first."""
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
    metadata: ComponentMetadata, attempt: Callable[[int], T | None], lost: MetastoreError, *, attempts: int = _ATTEMPTS
) -> T:
    """What ``attempt`` makes of the newest version; tried again where it returns None, since others came first.

    And where that version expired while it was read. Raises what ``attempt`` raises, and ``lost`` when it never wins.
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
            if done is not None:
                return done
    raise lost
