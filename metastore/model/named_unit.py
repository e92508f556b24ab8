"""Base of the units of views and materialized views: each has a name of its own, which is also its partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from metastore.model.fields import ColumnType, Unit, stored_as
from metastore.model.identity import TableInfo


@dataclass(frozen=True)
class NamedUnit(Unit):
    """The only unit with its name, ``plugin.workspace.name``."""

    partition_columns: ClassVar[tuple[str, ...]] = ("storagePlugin", "workspace", "name")
    location_columns: ClassVar[tuple[str, ...]] = ("storagePlugin", "workspace", "name")

    storage_plugin: str | None = stored_as("storagePlugin", ColumnType.STRING)
    workspace: str | None = stored_as("workspace", ColumnType.STRING)
    name: str | None = stored_as("name", ColumnType.STRING)

    @property
    def info(self) -> TableInfo:
        """The name. Raises InvalidRequestError if a part of it is missing."""
        return TableInfo(self.storage_plugin or "", self.workspace or "", self.name or "")
