"""Settings that differ in how much is read at once, and in how much is kept of it."""

from __future__ import annotations

from dataclasses import replace

from metastore.config.settings import Settings


def settings_reading(settings: Settings, cache_bytes: int | None = None, **limits: int) -> Settings:
    """``settings`` with other ``limits`` below ``iceberg.read``, and with a cache of ``cache_bytes`` if given."""
    iceberg = settings.iceberg
    size = iceberg.cache_bytes if cache_bytes is None else cache_bytes
    return replace(settings, iceberg=replace(iceberg, cache_bytes=size, read=replace(iceberg.read, **limits)))
