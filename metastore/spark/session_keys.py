"""Keys of object stores that a Spark session has, such as ``spark.hadoop.fs.s3a.access.key``, for the metastore.

A job that reads a bucket has the bucket's keys in its session already: in Spark's configuration, or in Hadoop's, whose
files (``core-site.xml``) administrators keep. The metastore's own configuration wins: keys of the session are used for
a kind of store only where it has no key of that kind. Without either, the environment decides.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from pyspark.sql import SparkSession

from metastore.config import Settings
from metastore.spark.session import all_settings, is_classic

_log: Final = logging.getLogger(__name__)

OF_HADOOP: Final = "spark.hadoop."
"""The beginning of Spark's keys that are for Hadoop."""
_KINDS: Final[tuple[tuple[str, ...], ...]] = (
    ("fs.s3a.", "s3.", "client."),
    ("fs.gs.", "google.cloud.", "gcs."),
    ("fs.azure.", "adls."),
)
"""Beginnings of the keys of each kind of store, in Hadoop's and in PyIceberg's spelling."""

_PROVIDERS: Final = (
    "hadoop.security.credential.provider.path",
    "fs.s3a.security.credential.provider.path",
    "fs.azure.security.credential.provider.path",
)
"""Hadoop's keys of stores of secrets."""


def session_conf(spark: SparkSession) -> dict[str, str]:
    """Return the configuration of a session, with keys of object stores that only Hadoop's configuration files have.

    Those have Spark's spelling, ``spark.hadoop.…``. Hadoop's own defaults are left out. Warns of secrets in a
    credential provider, which are not read. A Connect session shows Spark's configuration only.
    """
    conf = all_settings(spark)
    if not is_classic(spark):
        return conf
    of_files = _keys_of_files(spark.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001 - no other door to it
    return {f"{OF_HADOOP}{key}": value for key, value in of_files.items()} | conf


def _keys_of_files(hadoop: Any) -> dict[str, str]:
    """Return the keys of object stores in Hadoop's configuration whose values are not Hadoop's defaults."""
    found = {}
    for kind in chain.from_iterable(_KINDS):
        for rest, value in dict(hadoop.getPropsWithPrefix(kind)).items():
            sources = hadoop.getPropertySources(f"{kind}{rest}")
            if sources and not str(sources[-1]).endswith("core-default.xml"):
                found[f"{kind}{rest}"] = str(value)
    for key in _PROVIDERS:
        if provider := hadoop.get(key):
            _log.warning(
                "secrets in Hadoop's credential provider %s (%s) are not read; set the keys in the storage plugin, or "
                "as spark.hadoop.fs.…",
                provider,
                key,
            )
    return found


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
        iceberg=replace(settings.iceberg, config_properties=_merge_keys(settings.iceberg.config_properties, keys)),
        storage={
            name: replace(plugin, properties=_merge_keys(plugin.properties, keys))
            for name, plugin in settings.storage.items()
        },
        catalogs={
            name: replace(catalog, properties=_merge_keys(catalog.properties, keys))
            for name, catalog in settings.catalogs.items()
        },
    )


def _merge_keys(own: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, str]:
    """Return ``own`` with the ``keys`` of kinds of which it has none."""
    missing = [kind for kind in _KINDS if not any(key.startswith(kind) for key in own)]
    return {**{key: value for key, value in keys.items() if any(map(key.startswith, missing))}, **own}
