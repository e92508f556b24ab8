"""Returns a component with a damaged pointer or newest version to its newest intact version.

A version is intact if its metadata can be read and every file of its current snapshot exists. Promises: nothing is
deleted. Damaged newer version files are moved to ``damaged/<time>/<component>`` below the base location, outside of the
components' folders, where no clean-up removes them. A dry run decides the same and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pyiceberg.io import FileIO

from metastore.components.component import Component
from metastore.components.integrity.reached_files import StoredFiles, first_lost
from metastore.components.metastore import Metastore
from metastore.config.components import DAMAGED_FOLDER
from metastore.errors import MetastoreError, StorageError
from metastore.lake.iceberg.catalogs.catalog_errors import UNREADABLE, error_text
from metastore.lake.iceberg.catalogs.version_files import HINT, Standing, VersionFiles
from metastore.lake.stores.bounded_reading import table_metadata
from metastore.lake.stores.opening import open_store


@dataclass(frozen=True)
class RepairedComponent:
    """The repair of one component, done or, in a dry run, planned.

    ``version`` is the number of the newest version file afterwards. ``aside`` maps the moved version files to their
    damage. ``hint`` is the hint's new value, None if it does not change. ``lost`` is the number of newer versions that
    the hint counts but that no longer exist. ``obstacle`` is the reason why no repair is possible.
    """

    name: str
    version: int | None
    aside: Mapping[str, str]
    hint: int | None = None
    lost: int = 0
    obstacle: str | None = None

    @property
    def is_changed(self) -> bool:
        """Whether the repair changes anything."""
        return bool(self.aside) or self.hint is not None


@dataclass(frozen=True)
class RepairReport:
    """All components that needed a repair; ``moved_to`` is the folder of moved version files, if there are any."""

    dry_run: bool
    components: tuple[RepairedComponent, ...]
    moved_to: str | None = None

    @property
    def obstacles(self) -> int:
        """The number of components that cannot be repaired."""
        return sum(component.obstacle is not None for component in self.components)


def repair_components(metastore: Metastore, *, dry_run: bool) -> RepairReport:
    """Return each component to its newest intact version. Stop its writers first.

    Raises StorageError if the store fails; files that were already moved stay at their new place.
    """
    base = metastore.settings.iceberg.base_location.rstrip("/")
    moment = datetime.fromtimestamp(metastore.clock.now_ms() / 1000, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    place = f"{base}/{DAMAGED_FOLDER}/{moment}"
    done = []
    for component in metastore.components.values():
        turn = component.table.turn(metastore.clock.monotonic, metastore.clock.pause, math.inf)
        with turn:
            plan = plan_repair(component)
            if not dry_run:
                _carry_out(component, plan, f"{place}/{plan.name}")
        if plan.is_changed or plan.obstacle:
            done.append(plan)
    moved = any(each.aside for each in done)
    return RepairReport(dry_run, tuple(done), place if moved else None)


def plan_repair(component: Component[Any]) -> RepairedComponent:
    """Returns the needed repair of ``component``; only reads. Raises StorageError if its folder cannot be listed."""
    entry, name = component.table.entry, component.definition.name
    if entry.source.settings.type != "filesystem":
        return _in_a_catalog(component)
    store, io = open_store(entry.location, entry.source.store_properties)
    versions = VersionFiles(entry.location, store)
    try:
        standing = versions.standing()
    except OSError as error:
        raise StorageError(f"cannot list {versions.folder}: {error}") from error
    if not standing.versions:
        lost = standing.hint is not None
        obstacle = f"there is no version file in {versions.folder}: restore the folder from a backup" if lost else None
        return RepairedComponent(name, None, {}, obstacle=obstacle)
    stored = StoredFiles(io, entry.location)
    aside: dict[str, str] = {}
    for version in sorted(standing.versions, reverse=True):
        file = standing.versions[version]
        wrong = wrong_with(io, stored, f"{versions.folder}/{file}", may_be_empty=not aside)
        if wrong is None:
            missing = max(0, (standing.hint or 0) - max(standing.versions))
            return RepairedComponent(name, version, aside, _new_hint(standing, version), missing)
        aside[file] = wrong
    reason = next(iter(aside.values()))
    return RepairedComponent(
        name, None, {}, obstacle=f"no version in {versions.folder} is intact ({reason}): restore files from a backup"
    )


def wrong_with(io: FileIO, stored: StoredFiles, location: str, *, may_be_empty: bool = True) -> str | None:
    """Returns the damage of the version file at ``location`` as a clause, or None if the version is intact.

    A version without a snapshot is that of an empty table. Returning to it would lose everything, so it counts as
    damaged unless ``may_be_empty``.
    """
    try:
        metadata = table_metadata(io.new_input(location))
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        raise StorageError(f"cannot read {location}: {error}") from error
    except UNREADABLE as error:
        return f"it is not the metadata of an Iceberg table: {error_text(error)}"
    except MetastoreError as error:
        return str(error)
    if metadata.current_snapshot() is None and not may_be_empty:
        return "it is the empty version that the table began with"
    return first_lost(io, stored, metadata)


def _new_hint(standing: Standing, version: int) -> int | None:
    return None if standing.hint == version else version


def _in_a_catalog(component: Component[Any]) -> RepairedComponent:
    """Returns no repair, because the catalog keeps the pointer itself; an obstacle if the table does not load."""
    name, source = component.definition.name, component.table.entry.source
    try:
        component.table.load()
    except MetastoreError as error:
        text = f"{error}. {source} keeps the pointer: restore it there, or register a whole metadata file"
        return RepairedComponent(name, None, {}, obstacle=text)
    return RepairedComponent(name, None, {})


def _carry_out(component: Component[Any], plan: RepairedComponent, place: str) -> None:
    """Move the damaged version files to ``place``, then set the hint. A component without damage stays untouched."""
    entry = component.table.entry
    if not plan.is_changed:
        return
    store, _ = open_store(entry.location, entry.source.store_properties)
    versions = VersionFiles(entry.location, store)
    try:
        # The newest moves first: an interruption leaves versions without a gap, and a second run continues.
        for name in plan.aside:
            versions.set_aside(name, f"{place}/{name}")
        if plan.hint is not None:
            versions.set_hint(plan.hint)
    except OSError as error:
        raise StorageError(
            f"cannot repair {versions.folder} ({HINT} and version files): {error}. Run `metastore repair` again"
        ) from error
