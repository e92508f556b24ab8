"""Finds the tiers of the configuration, merges them, and knows the origin of each value.

Place in the flow: ``hocon`` parses each tier, ``resolution`` merges them, ``settings`` reads typed values. Search
order: the given path, else ``$METASTORE_CONF_DIR``, else ``conf/`` in the working directory if it has files, else the
nearest ``.metastore`` at or above a folder (:mod:`metastore.config.place`). The first two must exist. Drill's own files
are tiers too, so that the configuration folder of a Drill deployment works unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, reduce
from importlib.resources import files
from pathlib import Path
from typing import Any

from metastore.config.collisions import Assignment, collisions, said_of_lost
from metastore.config.drill_plugins import FILE_NAME, storage_plugins
from metastore.config.hocon import Document, parse_document, read_document
from metastore.config.included_files import is_file, is_present
from metastore.config.java_properties import JavaEnvironment
from metastore.config.place import FILE as OVERRIDE_FILE
from metastore.config.place import FOLDER, nearest
from metastore.config.resolution import ABSENT, KeyPath, Node, Resolution, overlay
from metastore.errors import ConfigError

_DIRECTORY_VARIABLE = "METASTORE_CONF_DIR"
_DIRECTORY = "conf"
_OVERRIDE = "override"
_PLUGINS = "drill plugins"
_MAIN_FILES = (
    ("drill module", "drill-module.conf"),
    ("drill distrib", "drill-distrib.conf"),
    ("drill override", "drill-override.conf"),
    (_PLUGINS, FILE_NAME),
)
_METASTORE_FILES = (
    ("module", "drill-metastore-module.conf"),
    ("distrib", "drill-metastore-distrib.conf"),
    (_OVERRIDE, OVERRIDE_FILE),
)


@dataclass(frozen=True)
class Origin:
    """Where a value was set: the tier, its file (None for shipped defaults and values given in code), and the line."""

    tier: str
    path: Path | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.path is None:
            return self.tier
        return f"{self.tier}: {self.path}" + ("" if self.line is None else f":{self.line}")


@dataclass(frozen=True)
class Tier:
    """One source of values; a later tier overrides an earlier one."""

    name: str
    document: Document
    path: Path | None = None
    notes: tuple[str, ...] = ()
    """Notes on parts of a Drill file that have no effect."""


class Configuration:
    """The merged tiers: values by key path, and their origins."""

    def __init__(self, tiers: Sequence[Tier], environ: Mapping[str, str], cwd: Path | None = None) -> None:
        """``cwd`` is the value of ``${user.dir}``; None for the working directory of the process."""
        self._tiers = tiers
        merged: Node = reduce(overlay, (tier.document.root for tier in tiers), {})
        outside = JavaEnvironment(environ, lambda: absolute("", cwd).rstrip("/") or "/")
        self._resolution = Resolution(merged, outside, lambda key: str(self._nearest_origin(key)))

    @property
    def sources(self) -> str:
        """Names of the tiers that were read, for an error about a missing key."""
        return ", ".join(str(Origin(tier.name, tier.path)) for tier in self._tiers)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on parts of the tiers that have no effect."""
        return tuple(f"{note} ({tier.path})" for tier in self._tiers for note in tier.notes)

    def get(self, key: KeyPath) -> Any:
        """Returns the value of ``key`` with all substitutions resolved; None if it is null or absent."""
        value = self._resolution.get(key)
        return None if value is ABSENT else value

    def readable(self) -> dict[str, Any]:
        """Returns all values that can be resolved. Others, such as keys of other programs, are left out."""
        return self._resolution.readable()

    def require_no_value_lost(self, is_free: Callable[[KeyPath], bool]) -> None:
        """Raise ConfigError if a key with a free name loses its value to another key; it names both.

        ``is_free`` returns whether a key belongs to a map of free names.
        """
        written = ((each, tier) for tier in self._tiers for each in tier.document.assignments if is_free(each.key))
        for found in collisions(written):
            lost, other = (
                f"{'.'.join(each.key)} ({_place_of(tier, each)})"
                for each, tier in ((found.lost, found.owner_of_lost), (found.other, found.owner_of_other))
            )
            raise ConfigError(said_of_lost(lost, other))

    def names(self, key: KeyPath) -> list[str]:
        """Returns the names in the object at ``key``. Raises ConfigError if it cannot be resolved."""
        found = self._resolution.get(key)
        return list(found) if isinstance(found, dict) else []

    def origin(self, key: KeyPath) -> Origin:
        """Returns the tier whose value of ``key`` is in effect, else the highest that mentions the key's object."""
        for tier in reversed(self._tiers):
            node = tier.document.node(key)
            if node is not ABSENT and not self._resolution.says_nothing(node):
                return _origin(tier, key)
        return self._nearest_origin(key)

    def _nearest_origin(self, key: KeyPath) -> Origin:
        for tier in reversed(self._tiers):
            if tier.document.node(key) is not ABSENT:
                return _origin(tier, key)
        return self._nearest_origin(key[:-1])


def absolute(path: str, cwd: Path | None) -> str:
    """Returns an absolute ``path``; a relative one starts at ``cwd``, or at the working directory if that is None.

    Raises ConfigError for a relative path if the working directory is gone or not accessible.
    """
    if os.path.isabs(path):
        return path
    try:
        return os.path.join(
            cwd or os.getcwd(), path
        )  # Read only if needed: the working directory of a daemon may be gone.
    except OSError as error:
        raise ConfigError(f"{path!r} is relative, and the working directory cannot be found: {error}") from error


def find_tiers(
    conf: str | Path | None, environ: Mapping[str, str], cwd: Path | None, near: Path | None = None
) -> tuple[list[Tier], Path | None]:
    """Read the shipped defaults and the files of ``conf`` or of the search order, lowest tier first.

    Returns also the folder at which relative paths of the tiers start. ``cwd`` None is the working directory. The
    nearest place is looked for from ``near`` and then from ``cwd``. Raises ConfigError with the places that were tried
    if a named one is missing.
    """
    files = list(_files(conf, environ, cwd))
    if conf is None and not files and (found := nearest(_starts(near, cwd))) is not None:
        files = list(_files(found / FOLDER, environ, found))
    base = next((path.parent.parent for _, path in files if path.parent.name == FOLDER), cwd)
    return [defaults(), *(_tier(name, path) for name, path in files)], base


def _starts(near: Path | None, cwd: Path | None) -> Iterator[Path]:
    if near is not None:
        yield near
    with suppress(OSError):  # The working directory of a daemon may be gone.
        yield cwd or Path.cwd()


def _tier(name: str, path: Path) -> Tier:
    document = read_document(path)
    if name != _PLUGINS:
        return Tier(name, document, path)
    plugins, notes = storage_plugins(document)
    return Tier(name, plugins, path, notes)


@cache
def defaults() -> Tier:
    """Returns the shipped reference.conf; it is parsed once a process."""
    text = files("metastore.config").joinpath("reference.conf").read_text(encoding="utf-8")
    return Tier("default", parse_document(text))


def _files(conf: str | Path | None, environ: Mapping[str, str], cwd: Path | None) -> Iterator[tuple[str, Path]]:
    """Each file of the configuration with its tier, in the order of tiers. ConfigError if a given place has none."""
    asked, place = conf, "the configuration"
    if asked is None and environ.get(_DIRECTORY_VARIABLE):
        asked, place = environ[_DIRECTORY_VARIABLE], f"${_DIRECTORY_VARIABLE}"
    try:
        path = Path(absolute(str(Path(asked if asked is not None else _DIRECTORY).expanduser()), cwd))
    except RuntimeError as error:
        raise ConfigError(
            f"{place} {str(asked)!r} begins with a home directory that cannot be found: {error}"
        ) from error
    if is_file(path):
        yield from _present(_MAIN_FILES, path.parent)
        yield _OVERRIDE, path
        return
    found = list(_present((*_MAIN_FILES, *_METASTORE_FILES), path))
    if asked is not None and not path.is_dir():
        raise ConfigError(f"{place} {str(asked)!r} does not exist: neither a file nor a directory {path}")
    if asked is not None and not found:
        names = ", ".join(str(path / name) for _, name in (*_MAIN_FILES, *_METASTORE_FILES))
        raise ConfigError(f"{place} {str(asked)!r} holds no configuration; tried {names}")
    yield from found


def _present(names: Sequence[tuple[str, str]], directory: Path) -> Iterator[tuple[str, Path]]:
    for tier, name in names:
        if is_present(directory / name):
            yield tier, directory / name


def _place_of(tier: Tier, assignment: Assignment) -> Origin:
    place = assignment.place
    if place is None or not tier.document.is_of_files:
        return Origin(tier.name, tier.path)
    return Origin(tier.name, place.path, place.line)


def _origin(tier: Tier, key: KeyPath) -> Origin:
    # The shipped defaults have the most lines by far, and no message names a line of them.
    place = tier.document.place(key) if tier.document.is_of_files else None
    if place is None or place.path is None:
        return Origin(tier.name, tier.path)
    return Origin(tier.name, place.path, place.line)
