"""Configuration: HOCON in tiers, read into frozen settings."""

from metastore.config.settings import (
    CommitSettings,
    ComponentSettings,
    EngineSettings,
    ExpirationSettings,
    IcebergSettings,
    Origin,
    Setting,
    Settings,
    StoragePluginSettings,
    WorkspaceSettings,
)

__all__ = [
    "CommitSettings",
    "ComponentSettings",
    "EngineSettings",
    "ExpirationSettings",
    "IcebergSettings",
    "Origin",
    "Setting",
    "Settings",
    "StoragePluginSettings",
    "WorkspaceSettings",
]
