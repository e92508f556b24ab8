"""Storage plugins: where tables are, in Drill's words; the kinds of sources, each with what its settings have.

Place in the flow: ``settings`` opens the sections; this module turns each into :class:`StoragePluginSettings`. The
promises: every location on the local disk is absolute, the kind is known, and ``repr`` has no map of secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from metastore.config.catalogs import check_hive
from metastore.config.section import Section, is_local


@dataclass(frozen=True)
class PluginKind:
    """A kind of source: what its plugins have in their settings, and how its tables are found.

    ``title`` names its tables in messages. ``finder`` is the function, ``module:name``, that adds what the keeper of
    the table (its catalog, log or database) records: see :data:`metastore.sources.finding.Finder`. A directory of files
    has no keeper. ``in_folders``: tables are in the folders of the plugin's workspaces, and their location is a path;
    for other kinds, a workspace is a schema of a catalog or database. ``connection`` is the key of the address, None if
    there is none, and ``check`` refuses a wrong one. ``has_catalog``: the settings name a catalog. ``has_config``:
    Drill's key for properties is read, too.
    """

    name: str
    title: str
    finder: str | None = None
    in_folders: bool = False
    connection: str | None = "connection"
    has_catalog: bool = False
    has_config: bool = False
    check: Callable[[Section, str], None] | None = None


def _check_hive(section: Section, uri: str) -> None:
    check_hive(section, uri, with_port=False)


_FINDERS: Final = "metastore.sources.finders"

KNOWN: Final = (
    PluginKind("file", "tables of files", in_folders=True, has_config=True),
    PluginKind("delta", "Delta tables", f"{_FINDERS}:delta_table", in_folders=True, has_config=True),
    PluginKind(
        "hive",
        "tables of Hive",
        "metastore.sources.hive.source:hive_table",
        connection="uri",
        has_config=True,
        check=_check_hive,
    ),
    PluginKind("iceberg", "Iceberg tables", f"{_FINDERS}:iceberg_table", connection=None, has_catalog=True),
    PluginKind("jdbc", "a database's tables", f"{_FINDERS}:database_table"),
)
"""Each kind of source once. A new kind is a module with its finder, and one line here."""

_BY_NAME: Final = {kind.name: kind for kind in KNOWN}

Bounds = Literal["auto", "footers", "data"]
_BOUNDS: Final[Mapping[str, Bounds]] = {"auto": "auto", "footers": "footers", "data": "data"}


@dataclass(frozen=True)
class WorkspaceSettings:
    """``default_format``: of files whose suffix says nothing. ``options``: for delimited text. ``bounds`` None: auto.

    ``all_files``: folders are plain directories, even where the log of a table format stands. ``publish``: the
    ``catalog.schema`` in which each ANALYZE publishes its table.
    """

    name: str
    location: str
    writable: bool = False
    default_format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    bounds: Bounds | None = None
    all_files: bool = False
    publish: str | None = None


@dataclass(frozen=True)
class FormatSettings:
    """A format of a plugin, as in Drill's ``formats``: its ``type``, the suffixes of its files, and its options."""

    type: str
    extensions: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StoragePluginSettings:
    """``connection`` is the file system of the workspaces, ``file:///`` for the local disk.

    Workspaces of type ``delta`` hold Delta tables. The workspaces of other types are the schemas that they contain. For
    ``hive``, ``connection`` is the URI of a Hive Metastore; for ``jdbc``, that of a database; ``iceberg`` has the name
    of a ``catalog``. ``properties`` are merged from the keys ``config``, Drill's name, and ``properties``, which
    override them.
    """

    name: str
    connection: str = field(repr=False)  # the URI of a database may hold a password
    enabled: bool = True
    workspaces: Mapping[str, WorkspaceSettings] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    type: str = "file"
    catalog: str | None = None
    formats: Mapping[str, FormatSettings] = field(default_factory=dict)

    @property
    def kind(self) -> PluginKind:
        """The kind of source."""
        return _BY_NAME[self.type]

    def location_of(self, workspace: WorkspaceSettings) -> str:
        """Returns the location of a workspace: below the connection, unless the location is a URI itself."""
        if "://" in workspace.location:
            return workspace.location
        return f"{self.connection.rstrip('/')}/{workspace.location.lstrip('/')}"


def plugin_settings(name: str, section: Section, cwd: Path | None) -> StoragePluginSettings:
    """Read the plugin below ``drill.metastore.storage``; relative paths start at ``cwd``. Raises ConfigError."""
    kind = section.choice("type", _BY_NAME) if section.optional_text("type") else _BY_NAME["file"]
    catalog = section.text("catalog") if kind.has_catalog else None
    connection = section.text(kind.connection) if kind.connection else ""
    if kind.check is not None:
        kind.check(section, connection)
    elif kind.connection is not None and is_local(connection):
        section.require_no_host(kind.connection, connection)
    workspaces = section.section("workspaces").sections() if kind.in_folders else {}
    keys_of_drill = set_properties(section.properties("config")) if kind.has_config else {}
    return StoragePluginSettings(
        name=name,
        connection=connection,
        enabled=section.flag("enabled", default=True),
        workspaces={each: _workspace(each, workspace, connection, cwd) for each, workspace in workspaces.items()},
        properties={**keys_of_drill, **set_properties(section.properties("properties"))},
        type=kind.name,
        catalog=catalog,
        formats={each: _format(each, own) for each, own in section.section("formats").sections().items()},
    )


def _format(name: str, section: Section) -> FormatSettings:
    extensions = tuple(each.lower().lstrip(".") for each in section.texts("extensions"))
    own = {"type", "extensions"}
    options = {each: section.optional_text(each) for each in section.values if each not in own}
    return FormatSettings(section.optional_text("type") or name, extensions or (name.lower(),), set_properties(options))


def _workspace(name: str, section: Section, connection: str, cwd: Path | None) -> WorkspaceSettings:
    location = section.text("location")
    if is_local(location) or ("://" not in location and is_local(connection)):
        location = section.local_path("location", location, cwd)
    return WorkspaceSettings(
        name=name,
        location=location,
        writable=section.flag("writable", default=False),
        default_format=section.optional_text("default_format"),
        options=set_properties(section.properties("options")),
        bounds=section.choice("bounds", _BOUNDS) if section.optional_text("bounds") else None,
        all_files=section.flag("all_files", default=False),
        publish=_schema(section, "publish"),
    )


def _schema(section: Section, name: str) -> str | None:
    found = section.optional_text(name)
    if found is not None and len([part for part in found.split(".") if part]) < 2:
        raise section.refusal(name, "a catalog and a schema are expected, such as published.shop")
    return found


def set_properties(properties: Mapping[str, str | None]) -> dict[str, str]:
    """Returns the properties that are not null."""
    return {key: value for key, value in properties.items() if value is not None}
