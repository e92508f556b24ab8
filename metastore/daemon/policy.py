"""The policy of one table: the layers of policy merged, with the origin of each value. Pure functions.

Each value comes from the most specific layer that sets it: table, namespace (inner before outer), catalog, default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, Final

from metastore.config.policies import FIELDS, Layer, LayerValue, PolicySettings
from metastore.errors import InvalidRequestError


class Action(str, Enum):
    """What the daemon can do to a table, in the best order. The value is the name in the configuration."""

    REWRITE_DATA_FILES = "rewrite_data_files"
    REWRITE_MANIFESTS = "rewrite_manifests"
    EXPIRE_SNAPSHOTS = "expire_snapshots"
    REMOVE_ORPHAN_FILES = "remove_orphan_files"
    OLD_METADATA = "old_metadata"
    PUBLISH = "publish"
    ANALYZE = "analyze"
    REFRESH = "refresh"

    def __str__(self) -> str:
        return self.value


WORKSPACE_ACTIONS: Final = frozenset({Action.ANALYZE, Action.REFRESH})
"""The actions on tables of storage plugins."""


@dataclass(frozen=True)
class Budget:
    """Limits of one run; None means no limit."""

    files: int | None = None
    bytes: int | None = None
    seconds: int | None = None


@dataclass(frozen=True)
class ActionPolicy:
    """The policy of one action on one table; ``options`` are the fields that only this action has."""

    action: Action
    enabled: bool
    schedule: str
    quiet: timedelta
    budget: Budget
    options: Mapping[str, Any]


@dataclass(frozen=True)
class TableName:
    """The name of a table in SQL; the schema may contain dots. ``pointer`` is its metadata file, if a listing said."""

    catalog: str
    schema: str
    name: str
    pointer: str | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Parse ``catalog.schema.name``. Raises InvalidRequestError."""
        parts = text.split(".")
        if len(parts) < 3 or not all(parts):
            raise InvalidRequestError(f"{text!r} does not name a table: catalog.schema.name is expected")
        return cls(parts[0], ".".join(parts[1:-1]), parts[-1])

    def __str__(self) -> str:
        return f"{self.catalog}.{self.schema}.{self.name}"


def effective(settings: PolicySettings, table: TableName) -> Mapping[str, LayerValue]:
    """Returns every value that applies to ``table``, by ``action.field``, with the key and file that set it."""
    merged = _values_by_key(settings, table)
    return {f"{action}.{name}": merged[f"{action}.{name}"] for action, fields in FIELDS.items() for name in fields}


def policies(settings: PolicySettings, table: TableName) -> list[ActionPolicy]:
    """Returns the policy of every action for ``table``, enabled or not."""
    merged = _values_by_key(settings, table)
    return [
        _policy(action, {name: merged[f"{action.value}.{name}"].value for name in FIELDS[action.value]})
        for action in Action
    ]


def _values_by_key(settings: PolicySettings, table: TableName) -> dict[str, LayerValue]:
    merged: dict[str, LayerValue] = {}
    for layer in _layers(settings, table):
        merged.update(layer)
    return merged


def _layers(settings: PolicySettings, table: TableName) -> Iterator[Layer]:
    yield settings.default
    yield settings.catalogs.get(table.catalog, {})
    namespace = table.catalog
    for level in table.schema.split("."):
        namespace = f"{namespace}.{level}"
        yield settings.namespaces.get(namespace, {})
    yield settings.tables.get(str(table), {})


def _policy(action: Action, own: dict[str, Any]) -> ActionPolicy:
    budget = Budget(own.pop("budget.files"), own.pop("budget.bytes"), own.pop("budget.seconds"))
    enabled, schedule, quiet = own.pop("enabled"), own.pop("schedule"), own.pop("quiet")
    return ActionPolicy(action, bool(enabled), schedule, quiet or timedelta(), budget, own)
