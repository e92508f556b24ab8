"""The Iceberg table properties that a component's table supports. Each property without effect gets a warning.

Place in the flow: ``settings`` checks the properties of components against this table. All properties are stored in the
Iceberg table, where other engines find them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

DELETE_AFTER_COMMIT: Final = "write.metadata.delete-after-commit.enabled"
PREVIOUS_VERSIONS: Final = "write.metadata.previous-versions-max"
_PREVIOUS_VERSIONS_DEFAULT: Final = 100

OWN_PREFIX: Final = "metastore."
"""Properties that the metastore writes itself."""

HONOURED: Final[Mapping[str, frozenset[str]]] = {
    DELETE_AFTER_COMMIT: frozenset({"true", "false"}),
    PREVIOUS_VERSIONS: frozenset(),
    "write.parquet.compression-codec": frozenset(),
    "gc.enabled": frozenset({"true", "false"}),
    "format-version": frozenset({"2"}),
    "write.format.default": frozenset({"parquet"}),
    "write.metadata.compression-codec": frozenset({"none"}),
    "write.delete.mode": frozenset({"copy-on-write"}),
    "write.update.mode": frozenset({"copy-on-write"}),
    "write.merge.mode": frozenset({"copy-on-write"}),
    "write.object-storage.enabled": frozenset({"false"}),
}
"""Properties that take effect, with their supported values; an empty set stands for every valid value."""

NO_EFFECT: Final[Mapping[str, str]] = {
    "format-version": "component tables are created in format version 2",
    "write.format.default": "data files of components are Parquet",
    "write.metadata.compression-codec": "metadata files of components are written uncompressed",
    "write.metadata.metrics.*": "bounds are kept for the columns that the metastore itself filters by",
    "write.metadata.path": "metadata lies in the component's folder",
    "write.data.path": "data files lie in the component's folder",
    "write.folder-storage.path": "data files lie in the component's folder",
    "write.object-storage.*": "data files lie in the component's folder, named by their keys",
    "write.location-provider.impl": "data files lie in the component's folder, named by their keys",
    "write.py-location-provider.impl": "data files lie in the component's folder, named by their keys",
    "write.target-file-size-bytes": "a partition of a component is one file",
    "write.delete.*": "components are changed by whole partitions, without delete files",
    "write.update.*": "components are changed by whole partitions, without delete files",
    "write.merge.*": "components are changed by whole partitions, without delete files",
    "write.parquet.*": "of Parquet's properties only write.parquet.compression-codec is used",
    "write.avro.*": "data files of components are Parquet",
    "write.orc.*": "data files of components are Parquet",
    "write.distribution-mode": "the metastore writes without Spark's distribution",
    "write.spark.*": "the metastore writes without Spark",
    "write.wap.enabled": "a commit is published at once",
    "write.summary.partition-limit": "snapshot summaries have no entries of partitions",
    "write.*": "the metastore does not use it",
    "read.*": "it is for other engines that read the table",
    "commit.retry.*": "use drill.metastore.iceberg.commit.timeout",
    "commit.status-check.*": "use drill.metastore.iceberg.commit.timeout",
    "commit.manifest*": "manifests are clustered by the metastore's own rule",
    "commit.*": "use drill.metastore.iceberg.commit.timeout",
    "history.expire.*": "use drill.metastore.iceberg.expiration",
    "compatibility.*": "it is for format version 1",
    "schema.name-mapping.default": "files of components carry field ids",
    "engine.*": "it is for other engines",
}
"""Why a property has no effect, by name or pattern; the first match counts."""


@dataclass(frozen=True)
class PropertyDoubt:
    """A property of a component, the message about it, and whether it is an error or a warning."""

    name: str
    value: str
    reason: str
    is_refused: bool = False


def doubts(properties: Mapping[str, str]) -> Iterator[PropertyDoubt]:
    """Returns each of ``properties`` that has no effect or an invalid value."""
    for name, value in properties.items():
        if name.startswith(OWN_PREFIX):
            yield PropertyDoubt(name, value, "the metastore keeps properties of this prefix itself", is_refused=True)
        elif name in (DELETE_AFTER_COMMIT, "gc.enabled") and value.lower() not in HONOURED[name]:
            yield PropertyDoubt(name, value, "true or false is expected", is_refused=True)
        elif name == PREVIOUS_VERSIONS and not (value.isdecimal() and int(value) > 0):
            yield PropertyDoubt(name, value, "a whole number above zero is expected", is_refused=True)
        elif name not in HONOURED or (HONOURED[name] and value.lower() not in HONOURED[name]):
            reason = next((text for pattern, text in NO_EFFECT.items() if fnmatchcase(name, pattern)), None)
            if reason is not None:
                yield PropertyDoubt(name, value, f"it has no effect: {reason}")


def versions_kept(properties: Mapping[str, str]) -> int | None:
    """Returns the number of versions kept after each commit by the table's properties; None if it deletes none."""
    if properties.get(DELETE_AFTER_COMMIT, "false").lower() != "true":
        return None
    return int(properties.get(PREVIOUS_VERSIONS, _PREVIOUS_VERSIONS_DEFAULT))
