"""The settings of a metastore: frozen values, checked once when the configuration is loaded.

Place in the flow: ``loader`` merges the tiers; this module turns the merged keys into typed values, so that no other
module reads keys. Promises: every value is validated, every location on the local disk is absolute, the properties of
components include the common ones, and maps that may carry secrets are not part of ``repr``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from metastore.config.catalogs import KINDS, CatalogSettings, catalogs_settings, check_hive
from metastore.config.components import LEASE_FOLDER as LEASE_FOLDER
from metastore.config.components import ComponentSettings as ComponentSettings
from metastore.config.components import components_settings, property_notes
from metastore.config.daemon import DaemonSettings, daemon_settings
from metastore.config.engine import EngineKind as EngineKind
from metastore.config.engine import EngineSettings as EngineSettings
from metastore.config.engine import engine_settings
from metastore.config.hocon import document_of, parse_document
from metastore.config.limits import LimitSettings, limit_settings
from metastore.config.loader import Configuration, Origin, Tier, defaults, find_tiers
from metastore.config.plugins import StoragePluginSettings, plugin_settings, set_properties
from metastore.config.policies import PolicySettings, policy_settings
from metastore.config.policy_effects import policy_notes
from metastore.config.procedures import ProcedureSettings, procedure_settings
from metastore.config.reading import ReadSettings, read_settings
from metastore.config.resolution import KeyPath
from metastore.config.section import ConfigReading, Section, Setting, is_local
from metastore.config.serve import ServeSettings, serve_settings
from metastore.config.sql import SqlSettings, sql_settings
from metastore.redaction import remember, remember_environment

CONFIGURATION_LOG: Final = "metastore.configuration"
"""The logger of warnings about configuration files."""

_log = logging.getLogger(CONFIGURATION_LOG)

_SERVED_IMPLEMENTATION = "IcebergMetastore"
_OTHER_IMPLEMENTATIONS = ("rdbms", "mongo")  # Drill's other metastores have their settings under these names
_FREE_MAPS = tuple(
    ("drill", "metastore", *path.split("."))
    for path in (
        "iceberg.config.properties",
        "iceberg.catalog",
        "iceberg.components.*.properties",
        "catalogs.*",
        "storage.*.properties",
        "storage.*.config",
        "engine.spark",
    )
)
"""Objects whose keys belong to other programs; a star stands for any name."""

_DEFAULT_FILE_SYSTEM = "fs.defaultFS"
_LOCAL = "file:///"


@dataclass(frozen=True)
class ExpirationSettings:
    """``period`` None means no expiration. A snapshot expires when it is older than every limit that is set."""

    period: timedelta | None = None
    retain_last: int | None = None
    min_age: timedelta | None = None


@dataclass(frozen=True)
class CommitSettings:
    """``timeout``: how long a conflicting commit is retried."""

    timeout: timedelta = timedelta(seconds=60)


@dataclass(frozen=True)
class IcebergSettings:
    """Where the component tables are stored, and how.

    ``base_path`` is absolute: a plain path of the local disk, or a path or URI of ``fs.defaultFS``.
    """

    base_path: str
    relative_path: str
    config_properties: Mapping[str, str] = field(repr=False)
    catalog: CatalogSettings
    expiration: ExpirationSettings
    commit: CommitSettings
    cache_bytes: int
    components: Mapping[str, ComponentSettings]
    limits: LimitSettings = field(default_factory=LimitSettings)
    read: ReadSettings = field(default_factory=ReadSettings)

    @property
    def base_location(self) -> str:
        """The folder that holds all component tables: a plain absolute path on the local disk, else a URI."""
        return f"{self.base_path.rstrip('/')}/{self.relative_path.strip('/')}".rstrip("/") or "/"


@dataclass(frozen=True)
class Settings:
    """All settings of one metastore."""

    iceberg: IcebergSettings
    storage: Mapping[str, StoragePluginSettings]
    engine: EngineSettings
    catalogs: Mapping[str, CatalogSettings] = field(default_factory=dict)
    procedures: ProcedureSettings = field(default_factory=ProcedureSettings)
    daemon: DaemonSettings = field(default_factory=DaemonSettings)
    policies: PolicySettings = field(default_factory=PolicySettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    sql: SqlSettings = field(default_factory=SqlSettings)
    effective: tuple[Setting, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()
    case_sensitive: bool = False
    """Whether column names that differ only in case are different columns. An ANALYZE can override it."""

    @property
    def limits(self) -> LimitSettings:
        """The maximum size of a metadata file that is read."""
        return self.iceberg.limits

    @property
    def origins(self) -> Mapping[str, Origin]:
        """The origin of every effective key."""
        return {setting.key: setting.origin for setting in self.effective}

    def remember_secrets(self) -> None:
        """From now on, redact the secrets among these settings in all output, also those not from a file."""
        remember(
            {
                "iceberg": {"config": self.iceberg.config_properties, "catalog": self.iceberg.catalog.properties},
                "catalogs": {name: each.properties for name, each in self.catalogs.items()},
                "storage": {
                    name: {"connection": each.connection, "properties": each.properties}
                    for name, each in self.storage.items()
                },
                "spark": self.engine.spark,
                "http": {"token": self.daemon.endpoint.token},
                "serve": {"token": self.serve.token},
            }
        )

    def explain(self) -> list[Setting]:
        """Returns every effective key in alphabetical order, with its value (secrets redacted) and its origin."""
        return list(self.effective)

    @classmethod
    def from_mapping(
        cls, mapping: Mapping[str, Any], *, environ: Mapping[str, str] = os.environ, cwd: Path | None = None
    ) -> Settings:
        """Returns settings given in code over the shipped defaults: nested mappings, whose keys may be dotted paths."""
        return _settings([defaults(), Tier("given", document_of(mapping))], environ, cwd)


def load(
    conf: str | Path | None = None, *, environ: Mapping[str, str] = os.environ, cwd: Path | None = None, **found: Path
) -> Settings:
    """Read the settings from ``conf``, a directory of tiers or one file; else as :func:`loader.find_tiers` finds them.

    Raises ConfigError with key, value and file if a value is missing or wrong. Unknown keys are no error: they are
    logged as warnings, and kept in ``Settings.warnings``.
    """
    tiers, base = find_tiers(conf, environ, cwd, **found)
    return _settings(tiers, environ, base)


def load_text(text: str, *, environ: Mapping[str, str] = os.environ, cwd: Path | None = None) -> Settings:
    """Returns settings from HOCON text over the shipped defaults. It reads no file except those the text includes."""
    return _settings([defaults(), Tier("given", parse_document(text))], environ, cwd)


def _settings(tiers: list[Tier], environ: Mapping[str, str], cwd: Path | None) -> Settings:
    """Settings of all sections. Keys that no section read are warnings, and secrets are known before any message."""
    configuration = Configuration(tiers, environ, cwd)
    remember(configuration.readable())
    remember_environment(environ)
    configuration.require_no_value_lost(_is_free)
    reading = ConfigReading(configuration)
    root = reading.section("drill", "metastore")
    reading.section("drill", "exec", "zk").optional_text("root")
    iceberg = replace(_iceberg(root.section("iceberg"), cwd), limits=limit_settings(root.section("limits")))
    storage = {name: plugin_settings(name, plugin, cwd) for name, plugin in root.section("storage").sections().items()}
    catalogs = catalogs_settings(root.section("catalogs"), cwd)
    policies = policy_settings(root.section("policies"), catalogs, storage)
    in_folders = [name for name, plugin in storage.items() if plugin.kind.in_folders]
    settings = Settings(
        iceberg,
        storage,
        engine_settings(root.section("engine")),
        catalogs,
        procedure_settings(root.section("procedures")),
        daemon_settings(root.section("daemon")),
        policies,
        serve_settings(root.section("serve"), catalogs, in_folders, cwd),
        sql_settings(root.section("sql")),
        case_sensitive=root.flag("case_sensitive", default=False),
    )
    warnings = (
        *_implementation_notes(root),
        *configuration.notes,
        *property_notes(iceberg.components),
        *policy_notes(policies),
        *reading.find_misplaced(*root.key),
        *reading.unknown(root, ignored=_OTHER_IMPLEMENTATIONS),
    )
    for warning in warnings:
        _log.warning("%s", warning)
    return replace(settings, effective=reading.effective(), warnings=warnings)


def _iceberg(section: Section, cwd: Path | None) -> IcebergSettings:
    """The section of the component tables; ConfigError if a local file system is named with a host."""
    properties = set_properties(section.section("config").properties("properties"))
    if is_local(properties.get(_DEFAULT_FILE_SYSTEM, "")):
        section.section("config").section("properties").require_no_host(
            _DEFAULT_FILE_SYSTEM, properties[_DEFAULT_FILE_SYSTEM]
        )
    location = section.section("location")
    expiration, cache = section.section("expiration"), section.section("cache")
    return IcebergSettings(
        base_path=_base_path(location, properties.get(_DEFAULT_FILE_SYSTEM, _LOCAL), cwd),
        relative_path=location.text("relative_path"),
        config_properties=properties,
        catalog=_catalog(section),
        expiration=ExpirationSettings(
            period=_positive(expiration.period("period")),
            retain_last=expiration.whole("retain_last", least=1),
            min_age=_positive(expiration.duration("min_age")),
        ),
        commit=_commit(section.section("commit")),
        cache_bytes=cache.require("size", cache.size("size")),
        components=components_settings(section.section("components")),
        read=read_settings(section.section("read")),
    )


def _base_path(location: Section, file_system: str, cwd: Path | None) -> str:
    path = location.text("base_path")
    if is_local(path) or ("://" not in path and is_local(file_system)):
        return location.local_path("base_path", path, cwd)
    if "://" not in path and not path.startswith("/"):
        raise location.refusal("base_path", f"a path on {_DEFAULT_FILE_SYSTEM} {file_system} starts with a slash")
    uri = path if "://" in path else file_system.rstrip("/") + path
    authority = uri.partition("://")[2].partition("/")[0]
    if not authority:
        raise location.refusal("base_path", "it names no bucket or host: scheme://name/path is expected")
    return uri


def _catalog(iceberg: Section) -> CatalogSettings:
    section = iceberg.section("catalog")
    namespace = tuple(section.text("namespace").split("."))
    if not all(namespace):
        raise section.refusal("namespace", "names with dots between them are expected")
    own = {"type", "name", "namespace"}
    properties = {key: value for key, value in set_properties(iceberg.properties("catalog")).items() if key not in own}
    kind = section.choice("type", KINDS)
    if kind == "hive" and "uri" in properties:
        check_hive(section, properties["uri"], with_port=True)
    if is_local(properties.get("warehouse", "")):
        section.require_no_host("warehouse", properties["warehouse"])
    return CatalogSettings(kind, section.text("name"), namespace, properties)


def _commit(section: Section) -> CommitSettings:
    timeout = section.require("timeout", section.duration("timeout"))
    if timeout < timedelta():
        raise section.refusal("timeout", "a time not below zero is expected")
    return CommitSettings(timeout)


def _implementation_notes(section: Section) -> Iterator[str]:
    implementation = section.section("implementation").text("class")
    if implementation.rpartition(".")[2] != _SERVED_IMPLEMENTATION:
        others = " and ".join(_OTHER_IMPLEMENTATIONS)
        yield (
            f"drill.metastore.implementation.class names {implementation}; this is the Iceberg metastore,"
            f" and settings under {others} have no effect"
        )


def _is_free(key: KeyPath) -> bool:
    """Returns whether ``key`` is in an object of free names."""
    return any(
        len(key) > len(pattern) and all(mine in (name, "*") for mine, name in zip(pattern, key, strict=False))
        for pattern in _FREE_MAPS
    )


def _positive(duration: timedelta | None) -> timedelta | None:
    return duration if duration is not None and duration > timedelta() else None
