"""``hive tables``: the tables of the configured Hive Metastores."""

from __future__ import annotations

from metastore.config import Settings
from metastore.config.plugins import StoragePluginSettings
from metastore.errors import NotFoundError
from metastore.overview.results import HiveTables
from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.discovery import discover


def tables(settings: Settings, plugin: str | None, database: str | None) -> HiveTables:
    """Returns the tables of the Hive plugin ``plugin``, which is optional if only one is configured."""
    chosen = _plugin(settings, plugin)
    with HiveClient(chosen.connection) as client:
        return HiveTables(chosen.name, tuple(discover(client, database)))


def _plugin(settings: Settings, name: str | None) -> StoragePluginSettings:
    plugins = {key: each for key, each in settings.storage.items() if each.type == "hive" and each.enabled}
    if name is None and len(plugins) == 1:
        return next(iter(plugins.values()))
    if name in plugins:
        return plugins[name]
    if not plugins:
        raise NotFoundError(
            'no Hive Metastore is configured: drill.metastore.storage.hive { type = hive, uri = "thrift://host:9083" }'
        )
    raise NotFoundError(f"{f'there is no Hive plugin {name}' if name else 'name a Hive plugin'}: {', '.join(plugins)}")
