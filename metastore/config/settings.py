"""The settings of a metastore: frozen values, checked once when the configuration is loaded.

Place in the flow: ``loader`` merges the tiers, this module turns the merged keys into typed values, and nobody above
ever sees a key string. Promises: every value is validated, every location of the local disk is absolute, component
properties already hold the common ones, and maps that may carry secrets are kept out of ``repr``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Origin:
    """Where an effective value was set: the tier, and its file and line where there is one."""

    tier: str
    path: Path | None = None
    line: int | None = None


@dataclass(frozen=True)
class Setting:
    """One effective key for people to read; the value of a secret key is already redacted."""

    key: str
    value: object
    origin: Origin


@dataclass(frozen=True)
class ExpirationSettings:
    """``period`` None = no expiration. A snapshot goes when it is older than every bound that is set."""

    period: timedelta | None = None
    retain_last: int | None = None
    min_age: timedelta | None = None


@dataclass(frozen=True)
class CommitSettings:
    """``timeout``: how long a conflicting commit is tried again before it is given up."""

    timeout: timedelta = timedelta(seconds=60)


@dataclass(frozen=True)
class ComponentSettings:
    """``location`` is a folder below the base location; ``properties`` are Iceberg table properties, common ones merged in."""

    name: str
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class IcebergSettings:
    """Where the component tables live and how they are kept.

    ``base_path`` is absolute: a plain path of the local disk, or a path or URI of ``fs.defaultFS``.
    """

    base_path: str
    relative_path: str
    config_properties: Mapping[str, str] = field(repr=False)
    expiration: ExpirationSettings
    commit: CommitSettings
    cache_bytes: int
    components: Mapping[str, ComponentSettings]

    @property
    def base_location(self) -> str:
        """The folder that holds all component tables: a plain absolute path on the local disk, else a URI."""
        return "/".join((self.base_path.rstrip("/"), self.relative_path.strip("/"))).rstrip("/")


@dataclass(frozen=True)
class WorkspaceSettings:
    """``default_format`` None = a file's own suffix decides."""

    name: str
    location: str
    writable: bool = False
    default_format: str | None = None


@dataclass(frozen=True)
class StoragePluginSettings:
    """``connection`` is the file system the workspaces stand on, ``file:///`` for the local disk."""

    name: str
    connection: str
    enabled: bool = True
    workspaces: Mapping[str, WorkspaceSettings] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


EngineKind = Literal["auto", "local", "spark"]


@dataclass(frozen=True)
class EngineSettings:
    """``auto`` takes Spark from ``spark_threshold_files`` files on; ``processes`` 0 = one per core."""

    kind: EngineKind = "auto"
    spark_threshold_files: int = 50_000
    processes: int = 0
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Settings:
    """All settings of one metastore."""

    iceberg: IcebergSettings
    storage: Mapping[str, StoragePluginSettings]
    engine: EngineSettings
    effective: tuple[Setting, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def origins(self) -> Mapping[str, Origin]:
        """The origin of every effective key."""
        return {setting.key: setting.origin for setting in self.effective}

    def explain(self) -> list[Setting]:
        """Every effective key in alphabetical order with its value, secrets redacted, and its origin."""
        return list(self.effective)
