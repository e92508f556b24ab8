"""The settings for a table near which nobody may have configured anything."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Final

from metastore.config import Settings, load
from metastore.config.loader import find_tiers
from metastore.config.place import FOLDER, WORKSPACE, make
from metastore.errors import InvalidRequestError
from metastore.lake.stores.local import local_path
from metastore.sources.naming import is_path

_BASE_PATH: Final = "drill.metastore.iceberg.location.base_path"
_WORDS: Final = re.compile(r"[\w.-]+")


def settings_near(
    subject: str | PurePath | None, conf: Path | None = None, *, made: Callable[[str], None] | None = None
) -> Settings:
    """Returns the settings of ``conf``, else those that :func:`metastore.config.load` finds near ``subject``.

    ``subject`` is a table by path or name, or a statement; None is the working directory. If there are no settings and
    ``made`` is given, this makes a place: beside the file or folder that ``subject`` is, or in the working directory
    for one on a store and for a folder there that ``subject`` names. ``made`` receives one line about it. Raises
    ConfigError, and StorageError if the place cannot be made.
    """
    folder = None if conf else _folder_of(subject)
    if folder is None:
        return load(conf)
    settings = load(near=folder)
    if made is None or not _is_there(subject) or any(each.origin.path for each in settings.effective):
        return settings
    if len(find_tiers(None, os.environ, None, folder)[0]) > 1:  # A file that sets nothing is a configuration too.
        return settings
    make(folder)
    made(f"made {folder / FOLDER}; the folders beside it are the tables dfs.{WORKSPACE}.*")
    return load(near=folder)


def settings_in(folder: Path, conf: Path | None = None) -> Settings:
    """Make ``folder`` a place, and return its settings. Raises InvalidRequestError where a configuration holds."""
    held = [tier.path for tier in find_tiers(conf, os.environ, None)[0] if tier.path]
    if held and held[-1].parent.name != FOLDER:
        raise InvalidRequestError(
            f"the configuration {held[-1]} holds here, and a place in {folder} would have no effect: "
            "give no FOLDER to create the configured metastore"
        )
    make(folder)
    return load(folder / FOLDER)


def is_of_place(settings: Settings) -> bool:
    """Returns whether a place's own file says where the metadata is."""
    origin = settings.origins.get(_BASE_PATH)
    return origin is not None and origin.path is not None and origin.path.parent.name == FOLDER


def _is_there(subject: str | PurePath | None) -> bool:
    """Returns whether ``subject`` is no path of the local disk, or exists there."""
    location = str(subject or ".")
    return " " in location or "://" in location or os.path.exists(os.path.expanduser(location))


def _folder_of(subject: str | PurePath | None) -> Path | None:
    """Returns the folder that is, or may become, the place for ``subject``; None if it names no folder."""
    if subject is None:
        return Path.cwd()
    location = os.fspath(subject)
    if not os.path.exists(os.path.expanduser(location)) and (not is_path(subject) or " " in location.strip()):
        there = any(os.path.isdir(word) for word in _WORDS.findall(str(subject)) if word.strip("."))
        return Path.cwd() if there else None
    if location.startswith("file:"):
        location = local_path(location)
    if "://" in location:
        return Path.cwd()
    return Path(os.path.abspath(os.path.expanduser(location))).parent
