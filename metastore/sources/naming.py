"""Resolves a table name or path to the location of its data, by the configured storage plugins. Opens nothing.

A named table ``plugin.workspace.name`` is at the workspace's location plus its name. A table that is given by path gets
the name that resolves to the path: the workspace with the longest matching location determines plugin, workspace and
the spelling of the scheme. ``s3``, ``s3a`` and ``s3n`` count as one scheme; so do the schemes of GCS, and those of
Azure. A path in no workspace belongs to workspace ``default`` of plugin ``dfs``. On a remote store, the plugin has the
name of the store's scheme instead. As in Drill, that workspace is at the root, so the name is the path without its
leading slash.

A shorter name, ``workspace.name`` or ``name``, means the only workspace that fits, else the only one that has a file or
folder of this name; a name alone means only workspaces that were configured. Where none fits, it is a path.

Names are checked as text, so that ``..`` cannot leave the workspace. Symbolic links are followed: anyone who may create
a link in a workspace already controls its data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from metastore.config.own_workspaces import own_workspaces
from metastore.config.plugins import StoragePluginSettings, WorkspaceSettings
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.lake.formats.bounds_from_data import BoundsFrom
from metastore.lake.formats.names import ANY_SUFFIX, format_named
from metastore.lake.formats.text.text_options import TextOptions
from metastore.lake.stores.local import local_path
from metastore.lake.stores.locations import one_spelling
from metastore.model.identity import TableInfo
from metastore.sources.source_table import SourceTable

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_EXPLICIT: Final = re.compile(rf"[/.~]|{_SCHEME.pattern}")
_MOST_SUGGESTED: Final = 3
_NO_WORD: Final = re.compile(r"\W")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def resolve(storage: Mapping[str, StoragePluginSettings], table: TableInfo | str | PurePath) -> SourceTable:
    """Returns the source table of a name or of an explicit path.

    A text is a path if it has a scheme (``s3://``, ``file:///``), begins with a slash, a dot or ``~``, or has a slash
    before its first dot (``lake/t``); a relative one starts at the working directory. Raises NotFoundError for an
    unknown plugin or workspace, InvalidRequestError for a disabled plugin, a name that leads out of its workspace, or
    an unknown format. It does not check whether data exists there.
    """
    if not isinstance(table, TableInfo) and not is_path(table):
        table = _full_name(storage, str(table))
    if not isinstance(table, TableInfo):
        return _by_path(storage, _normal(os.path.expanduser(table)))
    named = table
    plugin = storage.get(named.storage_plugin)
    if plugin is None:
        raise NotFoundError(f"{named}: unknown storage plugin {named.storage_plugin!r}; {_list_known(storage)}")
    if not plugin.kind.in_folders:
        return _elsewhere(plugin, named)
    workspace = plugin.workspaces.get(named.workspace)
    if workspace is None:
        raise NotFoundError(
            f"{named}: plugin {plugin.name} has no workspace {named.workspace!r}; {_list_known(plugin.workspaces)}"
        )
    _require_inside(named)
    return _source(plugin, workspace, TableInfo(plugin.name, workspace.name, _without_empty_parts(named.name)))


def is_path(table: str | PurePath) -> bool:
    """Returns whether ``table`` is a path, whatever is configured and whatever exists."""
    if isinstance(table, PurePath) or _SCHEME.match(table) or table[:1] in ("/", ".", "~"):
        return True
    return "/" in table.partition(".")[0] and "`" not in table


def path_named(storage: Mapping[str, StoragePluginSettings], parts: Sequence[str]) -> str | None:
    """Returns the path that a name in SQL is, alone or as Drill's ``dfs.`/path```, below the plugin's connection.

    Only a text with a scheme, or one that begins with a slash, a dot or ``~``, is a path; any other name gives None.
    Raises InvalidRequestError for a path behind a word that is no plugin with folders.
    """
    *before, path = parts
    if len(before) > 1 or not _EXPLICIT.match(path):
        return None
    if not before:
        return path
    plugin = storage.get(before[0])
    if plugin is None or not plugin.kind.in_folders:
        raise InvalidRequestError(f"{before[0]} is no plugin with folders; write the path alone: '{path}'")
    return path if _SCHEME.match(path) else f"{plugin.connection.rstrip('/')}/{path.lstrip('/')}"


def _full_name(storage: Mapping[str, StoragePluginSettings], text: str) -> TableInfo | str:
    """Returns the full name that ``text`` means, or ``text`` itself if it is a path. Raises InvalidRequestError."""
    try:
        return TableInfo.parse(text)
    except InvalidRequestError as error:
        workspace, dot, rest = text.partition(".")
        if not text or "`" in text or (dot and not (workspace and rest)):
            raise
        fit = (
            own_workspaces(storage)
            if not dot
            else [(plugin.name, each.name) for plugin, each in _workspaces(storage) if each.name == workspace]
        )
        name = rest or text
        there = [each for each in fit if os.path.exists(f"{_location_of(storage, *each)}/{name}")]
        if len(there or fit) == 1:
            return TableInfo(*(there or fit)[0], name)
        if not there and os.path.exists(text):
            return text
        near = [f"{plugin}.{each}.{name}" for plugin, each in (there or fit)[:_MOST_SUGGESTED]]
        hint = f"; did you mean {' or '.join(near)}?" if near else ", or by its path: ./" + text
        raise InvalidRequestError(f"{error}{hint}") from error


def _location_of(storage: Mapping[str, StoragePluginSettings], plugin: str, workspace: str) -> str:
    return workspace_location(storage[plugin], storage[plugin].workspaces[workspace])


def _by_path(storage: Mapping[str, StoragePluginSettings], location: str) -> SourceTable:
    location = one_spelling(location)
    matches = [
        (len(root), plugin, workspace, location[len(root) :].lstrip("/"))
        for plugin, workspace in _workspaces(storage)
        if location.startswith((root := one_spelling(workspace_location(plugin, workspace))).rstrip("/") + "/")
    ]
    if matches:
        _, plugin, workspace, name = max(matches, key=lambda match: match[0])
        return _source(plugin, workspace, TableInfo(plugin.name, workspace.name, name))
    scheme = _SCHEME.match(location)
    if scheme is None:
        return SourceTable(TableInfo("dfs", "default", location), location)
    return SourceTable(TableInfo(scheme.group(1), "default", location[scheme.end() :]), location)


def _elsewhere(plugin: StoragePluginSettings, table: TableInfo) -> SourceTable:
    """Returns a table of a catalog or database: its workspace is a schema there, which also determines the location."""
    _require_enabled(plugin, table)
    place = f"{plugin.catalog or plugin.connection}/{table.workspace}/{table.name}"
    return SourceTable(table, place, options=plugin.properties)


def _require_enabled(plugin: StoragePluginSettings, table: TableInfo) -> None:
    if not plugin.enabled:
        raise InvalidRequestError(f"{table}: storage plugin {plugin.name} is disabled in the configuration")


def _source(plugin: StoragePluginSettings, workspace: WorkspaceSettings, table: TableInfo) -> SourceTable:
    """The table's place, and what workspace and plugin say of its formats. ConfigError if the plugin is disabled."""
    _require_enabled(plugin, table)
    formats = {name: _format(plugin, name) for name in plugin.formats}
    by_suffix: dict[str, tuple[str, TextOptions | None]] = {
        suffix: formats[name] for name, settings in plugin.formats.items() for suffix in settings.extensions
    }
    if (default := workspace.default_format) is not None:
        by_suffix[ANY_SUFFIX] = formats[default] if default in formats else (format_named(default), None)
    text = _text(f"workspace {plugin.name}.{workspace.name}", workspace.options) if workspace.options else None
    location = f"{workspace_location(plugin, workspace).rstrip('/')}/{table.name}"
    bounds = None if workspace.bounds is None else BoundsFrom.of(workspace.bounds)
    return SourceTable(
        table,
        location,
        options=plugin.properties,
        text=text,
        by_suffix=by_suffix,
        bounds=bounds,
        all_files=workspace.all_files,
    )


def _format(plugin: StoragePluginSettings, name: str) -> tuple[str, TextOptions]:
    """Returns the plugin's format ``name`` in its ``formats``. As in Drill, text has no header line by default."""
    settings = plugin.formats[name]
    if settings.type.lower() != _TEXT:
        return format_named(settings.type), TextOptions()
    options = _text(f"format {name} of plugin {plugin.name}", {"header": False, **settings.options})
    return "CSV", options


def _text(where: str, options: Mapping[str, Any]) -> TextOptions:
    try:
        return TextOptions.of(options)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{where}: {error}") from error


_TEXT: Final = "text"
"""Drill's type of delimited text."""


def workspace_location(plugin: StoragePluginSettings, workspace: WorkspaceSettings) -> str:
    """Returns the normalized location of the workspace below the plugin's connection; it may be a URI of its own."""
    return _normal(plugin.location_of(workspace))


def _normal(location: str) -> str:
    """Returns one spelling for each place: absolute, without trailing slash, and without a scheme on the local disk."""
    if location.startswith("file:"):
        location = os.path.join("/", local_path(location).lstrip("/"))
    scheme = _SCHEME.match(location)
    if scheme is None:
        return os.path.abspath(location)
    return scheme.group() + _without_empty_parts(location[scheme.end() :])


def _require_inside(table: TableInfo) -> None:
    if _CONTROL.search(table.name):
        raise InvalidRequestError(f"table name {table.name!r} has a control character")
    if wrong := {".", ".."}.intersection(table.name.split("/")):
        raise InvalidRequestError(
            f"table name {table.name!r} may not contain {wrong.pop()!r}; name the directory itself"
        )


def published_name(storage: Mapping[str, StoragePluginSettings], table: TableInfo) -> str | None:
    """Returns the name under which each ANALYZE publishes ``table``; None if its workspace does not say so.

    A table in a folder of a folder, ``a/b``, is called ``a_b``, and so is any name that would need quotes in SQL.
    """
    plugin = storage.get(table.storage_plugin)
    workspace = plugin.workspaces.get(table.workspace) if plugin is not None else None
    if workspace is None or workspace.publish is None:
        return None
    return f"{workspace.publish}.{_NO_WORD.sub('_', table.name)}"


def _without_empty_parts(path: str) -> str:
    return "/".join(part for part in path.split("/") if part)


def _workspaces(
    storage: Mapping[str, StoragePluginSettings],
) -> Iterator[tuple[StoragePluginSettings, WorkspaceSettings]]:
    for plugin in storage.values():
        if plugin.enabled and plugin.kind.in_folders:
            for workspace in plugin.workspaces.values():
                yield plugin, workspace


def _list_known(names: Mapping[str, object]) -> str:
    return f"known: {', '.join(sorted(names))}" if names else "the configuration declares none"
