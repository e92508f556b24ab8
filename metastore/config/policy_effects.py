"""Finds values of policies that have no effect: on which tables, and why. Pure functions.

Place in the flow: ``settings`` warns about the layers when the configuration is loaded, and ``policy explain`` about
the values of one table. The daemon gets from here the possible actions on the metastore's own tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from metastore.config.catalogs import OWN_CATALOG
from metastore.config.loader import defaults
from metastore.config.policies import LayerValue, PolicySettings

OWN_ACTIONS: Final = ("expire_snapshots", "remove_orphan_files")
"""The daemon's actions on the metastore's own tables."""

PLUGIN_ACTIONS: Final = ("analyze", "refresh")
"""The daemon's actions on tables of storage plugins only."""

_ONE_COMMIT: Final = "a run of rewrite_manifests is one commit and cannot be done in part; budget.seconds bounds it"
_EXPIRATION: Final = (
    "the metastore's own tables are expired as a whole; budget.seconds bounds the time before the commit"
)

_ONE_RUN: Final = (
    "a table is analyzed, published or refreshed as a whole; budget.seconds of analyze and publish bounds the time to "
    "read files"
)

_NOWHERE: Final[Mapping[str, str]] = {
    "rewrite_manifests.budget.files": _ONE_COMMIT,
    "rewrite_manifests.budget.bytes": _ONE_COMMIT,
    **{f"{action}.budget.{unit}": _ONE_RUN for action in ("analyze", "publish") for unit in ("files", "bytes")},
    **{f"refresh.budget.{unit}": _ONE_RUN for unit in ("files", "bytes", "seconds")},
}
_NOT_ON_OWN: Final[Mapping[str, str]] = {
    "expire_snapshots.budget.files": _EXPIRATION,
    "expire_snapshots.budget.bytes": _EXPIRATION,
    "expire_snapshots.owned": "the configuration sets the folders of the metastore's own tables",
}


def applies(action: str, catalog: str, plugins: Collection[str]) -> bool:
    """Returns whether ``action`` is possible on tables of ``catalog``, which may be one of ``plugins``."""
    if catalog == OWN_CATALOG:
        return action in OWN_ACTIONS
    return (action in PLUGIN_ACTIONS) is (catalog in plugins)


def why_without_effect(name: str, catalog: str, plugins: Collection[str] = ()) -> str | None:
    """Returns why the value ``name`` (``action.field``) has no effect on tables of ``catalog``; None if it has one."""
    action = name.partition(".")[0]
    if name in _NOWHERE or not catalog:
        return _NOWHERE.get(name)
    if catalog != OWN_CATALOG and not applies(action, catalog, plugins):
        done = ", ".join(PLUGIN_ACTIONS)
        return f"{done} are for tables of storage plugins, the other actions for tables of catalogs"
    if catalog != OWN_CATALOG:
        return None
    if action not in OWN_ACTIONS:
        return f"the metastore's own tables need no {action}; they have {' and '.join(OWN_ACTIONS)}"
    return _NOT_ON_OWN.get(name)


def values_without_effect(
    values: Mapping[str, LayerValue], catalog: str, plugins: Collection[str] = ()
) -> Iterator[str]:
    """Returns one sentence for each of ``values`` that was set but has no effect on tables of ``catalog``."""
    for name, given in values.items():
        # Disabling an action that never runs is not an error.
        if not given.value or given.origin == defaults().name:
            continue
        if (reason := why_without_effect(name, catalog, plugins)) is not None:
            kind = "storage plugin" if catalog in plugins else "catalog"
            tables = f"on tables of the {kind} {catalog}" if name not in _NOWHERE else "on any table"
            yield f"{given.key} ({given.origin}) has no effect {tables}: {reason}"


def policy_notes(settings: PolicySettings) -> Iterator[str]:
    """Returns such sentences for all layers. The default layer is named only if a value has no effect anywhere."""
    yield from values_without_effect(settings.default, "")
    for name, layer in _named_layers(settings):
        yield from values_without_effect(layer, name.partition(".")[0], settings.plugins)


def _named_layers(settings: PolicySettings) -> Iterable[tuple[str, Mapping[str, LayerValue]]]:
    for layers in (settings.catalogs, settings.namespaces, settings.tables):
        yield from layers.items()
