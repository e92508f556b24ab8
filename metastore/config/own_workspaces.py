"""The workspaces that a configuration adds to the shipped ones. Short names of tables mean these."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from metastore.config.plugins import StoragePluginSettings, WorkspaceSettings
from metastore.config.settings import Settings


def own_workspaces(storage: Mapping[str, StoragePluginSettings]) -> list[tuple[str, str]]:
    """Returns plugin and workspace of each, in the order of the configuration. Disabled plugins have none."""
    return [
        (plugin.name, name)
        for plugin in storage.values()
        if plugin.enabled
        for name, workspace in plugin.workspaces.items()
        if not is_shipped(plugin.name, workspace)
    ]


def is_shipped(plugin: str, workspace: WorkspaceSettings) -> bool:
    """Returns whether ``workspace`` is one that exists without configuration, for ``/`` or ``/tmp``."""
    return _default_workspaces().get((plugin, workspace.name)) == workspace


@cache
def _default_workspaces() -> Mapping[tuple[str, str], WorkspaceSettings]:
    plugins = Settings.from_mapping({}).storage.values()
    return {(plugin.name, name): workspace for plugin in plugins for name, workspace in plugin.workspaces.items()}
