"""Keys of object stores that a Spark session has, such as ``spark.hadoop.fs.s3a.access.key``, for the metastore.

A job that reads a bucket has the bucket's keys in its session already. The configuration wins: keys of the session are
used for a kind of store only where the configuration has no key of that kind. Without either, the environment decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from metastore.config import Settings

OF_HADOOP: Final = "spark.hadoop."
"""The beginning of Spark's keys that are for Hadoop."""
_KINDS: Final[tuple[tuple[str, ...], ...]] = (
    ("fs.s3a.", "s3.", "client."),
    ("fs.gs.", "google.cloud.", "gcs."),
    ("fs.azure.", "adls."),
)
"""Beginnings of the keys of each kind of store, in Hadoop's and in PyIceberg's spelling."""


def store_keys(spark_conf: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of object stores in Spark's configuration, without ``spark.hadoop.``."""
    hadoop = {key[len(OF_HADOOP) :]: value for key, value in spark_conf.items() if key.startswith(OF_HADOOP)}
    return {key: value for key, value in hadoop.items() if any(map(key.startswith, _KINDS))}


def with_keys_of_session(settings: Settings, spark_conf: Mapping[str, str]) -> Settings:
    """Return ``settings`` in which components, storage plugins and catalogs also have the keys of ``spark_conf``."""
    keys = store_keys(spark_conf)
    if not keys:
        return settings
    return replace(
        settings,
        iceberg=replace(settings.iceberg, config_properties=_merged(settings.iceberg.config_properties, keys)),
        storage={
            name: replace(plugin, properties=_merged(plugin.properties, keys))
            for name, plugin in settings.storage.items()
        },
        catalogs={
            name: replace(catalog, properties=_merged(catalog.properties, keys))
            for name, catalog in settings.catalogs.items()
        },
    )


def _merged(own: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, str]:
    """Return ``own`` with the ``keys`` of kinds of which it has none."""
    missing = [kind for kind in _KINDS if not any(key.startswith(kind) for key in own)]
    return {**{key: value for key, value in keys.items() if any(map(key.startswith, missing))}, **own}
