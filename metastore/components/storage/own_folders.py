"""The metastore's own folders: their files are never table data, and no workspace may be inside them.

Opening a metastore calls :func:`require_apart`. Listing a table's files skips the folders that :func:`folders_within`
returns. A workspace may contain such folders, as the default workspaces ``/`` and ``/tmp`` contain everything.
Locations are compared as in :mod:`metastore.lake.stores.containment`: links are followed, and all schemes of one store
are equal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import combinations

from metastore.config.components import DAMAGED_FOLDER, DELETIONS_FOLDER, LEASE_FOLDER
from metastore.config.settings import IcebergSettings, Settings
from metastore.errors import ConfigError
from metastore.lake.stores.containment import ContainingFolder
from metastore.lake.stores.local import local_path
from metastore.lake.stores.locations import StoreLocation, is_local

_COMPONENTS = "drill.metastore.iceberg.components"


def own_folders(iceberg: IcebergSettings) -> Mapping[str, str]:
    """Return each component's folder by its configuration key, and those of lease, repair and list of deletions."""
    base = iceberg.base_location.rstrip("/")
    folders = {f"{_COMPONENTS}.{name}.location": each.location for name, each in iceberg.components.items()}
    folders["drill.metastore.daemon.lease"] = LEASE_FOLDER
    folders["metastore repair"] = DAMAGED_FOLDER
    folders["metastore deletions"] = DELETIONS_FOLDER
    return {key: f"{base}/{folder}" for key, folder in folders.items()}


def require_apart(settings: Settings) -> None:
    """Refuse components whose folders are the same by a link, and workspaces inside a component's folder.

    Resolves links on the local disk, and accesses no other store. Raises ConfigError that names both keys.
    """
    own = {key: ContainingFolder(folder) for key, folder in own_folders(settings.iceberg).items()}
    for (key, folder), (other_key, other) in combinations(own.items(), 2):
        if _holds(folder, other.root) or _holds(other, folder.root):
            raise ConfigError(
                f"{key} ({folder.root}) and {other_key} ({other.root}) are one folder, or one is in the other: "
                "choose others"
            )
    for name, location in _workspaces(settings):
        for key, folder in own.items():
            if _holds(folder, location):
                raise ConfigError(
                    f"{name} = {location} lies in {folder.root}, the metastore's own folder by {key}: "
                    "it holds no data files. Choose another folder for one of them"
                )


def folders_within(iceberg: IcebergSettings, location: str) -> tuple[str, ...]:
    """Return the own folders inside ``location``, as relative paths; an empty string means ``location`` itself.

    An empty string also means that ``location`` is inside an own folder.
    """
    found = []
    whole = ContainingFolder(location)
    for folder in own_folders(iceberg).values():
        if _holds(ContainingFolder(folder), location):
            return ("",)
        if _holds(whole, folder):
            found.append(_relative(folder, location))
    return tuple(found)


def _holds(place: ContainingFolder, other: str) -> bool:
    """Whether ``other`` is the folder of ``place`` or inside it."""
    return place.holds(f"{other.rstrip('/')}/_")


def _relative(folder: str, location: str) -> str:
    if is_local(folder):
        return os.path.relpath(*(os.path.realpath(local_path(each)) for each in (folder, location)))
    keys = (StoreLocation.parse(each).key.strip("/") for each in (folder, location))
    inner, outer = keys
    return inner[len(outer) :].lstrip("/")


def _workspaces(settings: Settings) -> Iterator[tuple[str, str]]:
    for plugin in settings.storage.values():
        for workspace in plugin.workspaces.values():
            key = f"drill.metastore.storage.{plugin.name}.workspaces.{workspace.name}.location"
            yield key, plugin.location_of(workspace)
