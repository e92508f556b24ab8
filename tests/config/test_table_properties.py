"""Iceberg's table properties of components: each is honoured, warned about by name, or refused; none is passed over."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.table import TableProperties

from metastore.config.settings import Settings
from metastore.config.table_properties import HONOURED, doubts, versions_kept
from metastore.errors import ConfigError

DOCUMENTED = [
    "read.split.target-size",
    "read.split.metadata-target-size",
    "read.split.planning-lookback",
    "read.split.open-file-cost",
    "read.parquet.vectorization.enabled",
    "read.parquet.vectorization.batch-size",
    "read.orc.vectorization.enabled",
    "read.orc.vectorization.batch-size",
    "write.format.default",
    "write.delete.format.default",
    "write.parquet.row-group-size-bytes",
    "write.parquet.page-size-bytes",
    "write.parquet.page-row-limit",
    "write.parquet.dict-size-bytes",
    "write.parquet.compression-codec",
    "write.parquet.compression-level",
    "write.parquet.bloom-filter-enabled.column.col1",
    "write.parquet.bloom-filter-max-bytes",
    "write.parquet.bloom-filter-fpp.column.col1",
    "write.parquet.stats-enabled.column.col1",
    "write.avro.compression-codec",
    "write.avro.compression-level",
    "write.orc.stripe-size-bytes",
    "write.orc.block-size-bytes",
    "write.orc.compression-codec",
    "write.orc.compression-strategy",
    "write.orc.bloom.filter.columns",
    "write.orc.bloom.filter.fpp",
    "write.location-provider.impl",
    "write.metadata.compression-codec",
    "write.metadata.metrics.max-inferred-column-defaults",
    "write.metadata.metrics.default",
    "write.metadata.metrics.column.col1",
    "write.target-file-size-bytes",
    "write.delete.target-file-size-bytes",
    "write.distribution-mode",
    "write.delete.distribution-mode",
    "write.update.distribution-mode",
    "write.merge.distribution-mode",
    "write.wap.enabled",
    "write.summary.partition-limit",
    "write.metadata.delete-after-commit.enabled",
    "write.metadata.previous-versions-max",
    "write.spark.fanout.enabled",
    "write.object-storage.enabled",
    "write.object-storage.partitioned-paths",
    "write.data.path",
    "write.metadata.path",
    "write.delete.mode",
    "write.delete.isolation-level",
    "write.update.mode",
    "write.update.isolation-level",
    "write.merge.mode",
    "write.merge.isolation-level",
    "write.delete.granularity",
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms",
    "commit.status-check.num-retries",
    "commit.status-check.min-wait-ms",
    "commit.status-check.max-wait-ms",
    "commit.status-check.total-timeout-ms",
    "commit.manifest.target-size-bytes",
    "commit.manifest.min-count-to-merge",
    "commit.manifest-merge.enabled",
    "history.expire.max-snapshot-age-ms",
    "history.expire.min-snapshots-to-keep",
    "history.expire.max-ref-age-ms",
    "format-version",
    "compatibility.snapshot-id-inheritance.enabled",
    "gc.enabled",
    "schema.name-mapping.default",
    "write.folder-storage.path",
    "write.py-location-provider.impl",
    "engine.hive.enabled",
    "engine.hive.lock-enabled",
    "write.manifest-lists.enabled",
    "write.metadata.partition-statistics.enabled",
]
"""The properties of a table in Iceberg's documentation, and those of its code that are in no document."""

_BEGINNINGS = ("write.", "read.", "commit.", "history.", "schema.", "gc.", "format-version")
PYICEBERG = {
    value for value in vars(TableProperties).values() if isinstance(value, str) and value.startswith(_BEGINNINGS)
}

HONOURED_ANYHOW = frozenset(
    {
        "gc.enabled",
        "write.metadata.delete-after-commit.enabled",
        "write.metadata.previous-versions-max",
        "write.parquet.compression-codec",
    }
)


def settings(**properties: Any) -> Settings:
    """Components with these common properties."""
    keys = {"drill.metastore.iceberg.components.common.properties": {f'"{k}"': v for k, v in properties.items()}}
    return Settings.from_mapping(keys, environ={})


@pytest.mark.parametrize("name", sorted({*DOCUMENTED, *PYICEBERG}))
def test_each_property_is_honoured_or_told(name: str) -> None:
    """With a value that nobody honours; those that are honoured whatever they say have a test of what they do."""
    value = {"gc.enabled": "true", "write.metadata.delete-after-commit.enabled": "true"}.get(name, "7")
    told = [warning for warning in settings(**{name: value}).warnings if f".properties.{name} = {value}: " in warning]
    if name in HONOURED_ANYHOW:
        assert told == []
    else:
        [warning] = told
        assert "it has no effect: " in warning
        assert warning.startswith("drill.metastore.iceberg.components.common.properties.")


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in HONOURED.items() for v in sorted(values)])
def test_what_is_done_anyway_is_no_warning(name: str, value: str) -> None:
    """A property that asks for what the metastore does."""
    assert settings(**{name: value}).warnings == ()


def test_a_property_of_one_component_is_told_of_that_one() -> None:
    """Its own value, where it differs from the common one."""
    keys = {
        "drill.metastore.iceberg.components": {
            "common.properties": {'"write.format.default"': "parquet"},
            "views.properties": {'"write.format.default"': "orc"},
        }
    }
    [warning] = Settings.from_mapping(keys, environ={}).warnings
    assert warning.startswith("drill.metastore.iceberg.components.views.properties.write.format.default = orc: ")


def test_properties_of_a_site_are_kept_in_peace() -> None:
    """Names that are neither Iceberg's nor the metastore's own are kept in the table."""
    made = settings(owner="data team", **{"acme.cost-center": "7"})
    assert made.warnings == ()
    assert made.iceberg.components["tables"].properties == {"owner": "data team", "acme.cost-center": "7"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("write.metadata.delete-after-commit.enabled", "yes, please"),
        ("write.metadata.previous-versions-max", "0"),
        ("write.metadata.previous-versions-max", "-2"),
        ("write.metadata.previous-versions-max", "two"),
        ("gc.enabled", "maybe"),
        ("metastore.handed-over-to", "elsewhere"),
    ],
)
def test_what_cannot_be_honoured_is_refused(name: str, value: str) -> None:
    """By its key and value, when the configuration is loaded."""
    with pytest.raises(ConfigError, match=rf"components\.common\.properties\.{name} = .*{value}"):
        settings(**{name: value})


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        ({}, None),
        ({"write.metadata.previous-versions-max": "2"}, None),
        ({"write.metadata.delete-after-commit.enabled": "FALSE"}, None),
        ({"write.metadata.delete-after-commit.enabled": "True"}, 100),
        ({"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}, 2),
    ],
)
def test_versions_kept(properties: dict[str, str], kept: int | None) -> None:
    """Both properties together; the number alone only cuts the metadata's log, as Iceberg has it."""
    assert versions_kept(properties) == kept
    assert list(doubts(properties)) == []
