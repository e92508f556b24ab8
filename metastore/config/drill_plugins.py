"""Translates Apache Drill's ``storage-plugins-override.conf`` into storage plugins of the metastore. Pure functions.

Place in the flow: ``loader`` reads the file as a tier between Drill's own files and the metastore's. Drill's names are
replaced where they differ. Promise: an option that the metastore does not support is left out and named in a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from metastore.config.hocon import Document
from metastore.config.resolution import KeyPath

FILE_NAME: Final = "storage-plugins-override.conf"

_BELOW: Final[KeyPath] = ("drill", "metastore")
_FORMATS: Final = frozenset({"text", "csv", "tsv", "psv", "json", "avro", "parquet", "orc"})
_AS_IN_DRILL: Final = ("type", "enabled", "connection", "config", "catalog", "properties")
_SHIPPED_WORKSPACES: Final[Mapping[str, tuple[str, ...]]] = {"dfs": ("root", "tmp")}
"""Workspaces of the shipped configuration, which Drill's file replaces with the plugin."""


@dataclass
class _Translation:
    """Collects notes on one file while its plugins are translated."""

    notes: list[str] = field(default_factory=list)

    def plugin(self, name: str, declared: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the plugin with the metastore's names; None if the metastore lacks its type."""
        kind = declared.get("type", "file")
        if kind == "file":
            return self._of_files(name, declared)
        if kind == "hive" and (uri := _at(declared, "configProps", "hive.metastore.uris")):
            keys = {key: value for key, value in declared["configProps"].items() if key.startswith("fs")}
            return {"type": "hive", "uri": uri, "enabled": declared.get("enabled", True), "config": keys}
        if kind == "jdbc" and (url := declared.get("url")):
            login = {"user": declared.get("username"), "password": declared.get("password")}
            properties = {key: value for key, value in login.items() if value is not None}
            return {
                "type": "jdbc",
                "connection": url,
                "enabled": declared.get("enabled", True),
                "properties": properties,
            }
        if isinstance(kind, str):
            self._leave_out(f"plugin {name} of type {kind}")
            return None
        return dict(declared)  # a substitution: the settings check its value later

    def _of_files(self, name: str, declared: Mapping[str, Any]) -> dict[str, Any]:
        known = {key: declared[key] for key in _AS_IN_DRILL if declared.get(key) is not None}
        formats = dict(self._formats(name, declared.get("formats")))
        workspaces = {key: self._workspace(name, key, each) for key, each in _objects(declared.get("workspaces"))}
        replaced = dict.fromkeys(_SHIPPED_WORKSPACES.get(name, ())) if workspaces else {}
        for key in declared.keys() - {*_AS_IN_DRILL, "formats", "workspaces"}:
            if declared[key] is not None:
                self._leave_out(f"{key} of plugin {name}")
        return {**known, "formats": formats, "workspaces": {**replaced, **workspaces}}

    def _workspace(self, plugin: str, name: str, declared: Mapping[str, Any]) -> dict[str, Any]:
        found = {key: value for key, value in declared.items() if key in ("location", "writable")}
        if (default := declared.get("defaultInputFormat")) is not None:
            found["default_format"] = default
        if declared.get("allowAccessOutsideWorkspace") in (True, "true"):
            self._leave_out(f"allowAccessOutsideWorkspace of workspace {plugin}.{name}")
        return found

    def _formats(self, plugin: str, declared: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for name, each in _objects(declared):
            kind = each.get("type", name)
            if isinstance(kind, str) and kind.lower() not in _FORMATS:
                self._leave_out(f"format {name} of type {kind} of plugin {plugin}")
            else:
                yield name, each

    def _leave_out(self, setting: str) -> None:
        self.notes.append(f"{setting} in Drill's {FILE_NAME} has no effect: the metastore does not support it")


def storage_plugins(document: Document) -> tuple[Document, tuple[str, ...]]:
    """Returns ``document`` with Drill's ``storage`` moved to ``drill.metastore.storage``, and notes on the rest."""
    translation = _Translation()
    given = dict(_objects(document.root.get("storage")))
    plugins = {name: translation.plugin(name, each) for name, each in given.items()}
    served = {name: plugin for name, plugin in plugins.items() if plugin is not None}
    root = {"drill": {"metastore": {"storage": served}}}
    return replace(document, root=root, below=_BELOW), tuple(translation.notes)


def _objects(node: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Returns the objects in an object by name; nothing for other values, such as null."""
    if isinstance(node, dict):
        yield from ((name, each) for name, each in node.items() if isinstance(each, dict))


def _at(node: Any, *key: str) -> Any:
    """Returns the value at ``key``, with or without quotes around its last name; None if there is none."""
    for name in key:
        if not isinstance(node, dict):
            return None
        if name in node:
            node = node[name]
            continue
        for part in name.split("."):
            node = node.get(part) if isinstance(node, dict) else None
    return node
