"""Configuration: HOCON in tiers, read into frozen settings."""

from metastore.config.catalogs import CatalogSettings
from metastore.config.loader import Origin
from metastore.config.plugins import StoragePluginSettings, WorkspaceSettings
from metastore.config.section import Setting
from metastore.config.settings import (
    CommitSettings,
    ComponentSettings,
    EngineSettings,
    ExpirationSettings,
    IcebergSettings,
    Settings,
    load,
    load_text,
)

__all__ = [
    "CatalogSettings",
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
    "load",
    "load_text",
]
