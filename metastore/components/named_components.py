"""Components with one unit for each name: views and materialized views.

Besides read, modify and metadata, they support create, replace, get, list, rename and drop by name. Each of these is
one transaction that commits only if the names concerned have not changed since they were read. Otherwise it reads them
again: if two callers create the same name, one gets the error that the name exists.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeVar

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, Or

from metastore.components.component import Component
from metastore.components.operations.modify import Modify
from metastore.components.operations.read import Read
from metastore.components.operations.versions import Version, on_newest
from metastore.errors import ConflictError, InvalidRequestError, NotFoundError, StorageError
from metastore.ground.suggestions import did_you_mean
from metastore.model.identity import TableInfo
from metastore.model.mapping.filters import all_of
from metastore.model.named_unit import NamedUnit
from metastore.model.vocabulary import MetadataType

N = TypeVar("N", bound=NamedUnit)

_Change = Callable[[Modify[N], N | None, int], bool]
"""Stages a change, given the existing unit and the version it was read in; returns False if there is nothing to do."""


def name_filter(name: TableInfo) -> BooleanExpression:
    """Return a filter for the unit with this name."""
    return all_of(
        [
            EqualTo("storagePlugin", name.storage_plugin),
            EqualTo("workspace", name.workspace),
            EqualTo("name", name.name),
        ]
    )


class NamedComponent(Component[N]):
    """A component of named units; ``noun`` is the word for one of them in messages."""

    noun: ClassVar[str]

    def get(self, name: TableInfo | str, *, at: int | None = None, as_of: datetime | None = None) -> N:
        """Return the unit ``name``, from the newest version or another. NotFoundError suggests the nearest names."""
        info = TableInfo.of(name)
        found = self.find(info, at=at, as_of=as_of)
        if found is None:
            raise self.unknown(info)
        return found

    def find(self, name: TableInfo | str, *, at: int | None = None, as_of: datetime | None = None) -> N | None:
        """Return the unit ``name``, or None. Raises NotFoundError for a version that is not kept."""
        found = self._all(at, as_of).filter(name_filter(TableInfo.of(name))).execute()
        return found[0] if found else None

    def list(
        self,
        storage_plugin: str | None = None,
        workspace: str | None = None,
        *,
        at: int | None = None,
        as_of: datetime | None = None,
    ) -> list[N]:
        """Return all units, or those of one plugin or workspace, sorted by name."""
        parts = {"storagePlugin": storage_plugin, "workspace": workspace}
        chosen = all_of(EqualTo(column, value) for column, value in parts.items() if value is not None)
        read = self._all(at, as_of)
        found = (read if isinstance(chosen, AlwaysTrue) else read.filter(chosen)).execute()
        return sorted(found, key=lambda unit: unit.info)

    def create(self, unit: N, *, replace: bool = False, if_not_exists: bool = False) -> int:
        """Write ``unit`` and return its version. With ``if_not_exists``, an existing unit stays as it is.

        Raises InvalidRequestError if the name is taken (unless ``replace``), or cannot be a folder.
        """
        info = unit.info
        unit = _rename_unit(unit, info)

        def change(modify: Modify[N], present: N | None, _: int) -> bool:
            if present is not None and not replace:
                if if_not_exists:
                    return False
                raise InvalidRequestError(f"{self.noun} {info} exists already; replace it, or drop it first")
            modify.overwrite([unit])
            return True

        return self._transact(info, change)

    def replace(self, unit: N, *, seen: N | None = None) -> int:
        """Replace the existing unit of the same name; if ``seen`` is given, the existing unit must equal it.

        Raises NotFoundError, and ConflictError if the unit differs from ``seen`` by now.
        """
        info = unit.info
        unit = _rename_unit(unit, info)

        def change(modify: Modify[N], present: N | None, _: int) -> bool:
            if present is None:
                raise self.unknown(info)
            if seen is not None and present != seen:
                raise ConflictError(
                    f"another writer changed the {self.noun} {info} at the same time; nothing was changed, try again"
                )
            modify.overwrite([unit])
            return True

        return self._transact(info, change)

    def drop(self, name: TableInfo | str, *, if_exists: bool = False) -> bool:
        """Remove the unit ``name``; returns whether it existed. Raises NotFoundError if not, unless ``if_exists``."""
        info = TableInfo.of(name)
        was_there = False

        def change(modify: Modify[N], present: N | None, _: int) -> bool:
            nonlocal was_there
            was_there = present is not None
            if present is None and not if_exists:
                raise self.unknown(info)
            modify.delete(name_filter(info))
            return was_there

        self._transact(info, change)
        return was_there

    def rename(self, name: TableInfo | str, to: TableInfo | str, *, now_ms: int | None = None) -> int:
        """Rename the unit ``name`` to ``to`` in one version, so that readers never see both or neither.

        ``now_ms`` becomes its modification time. Raises NotFoundError, and InvalidRequestError when ``to`` is taken.
        """
        old, new = TableInfo.of(name), TableInfo.of(to)
        if old == new:
            raise InvalidRequestError(f"{self.noun} {old} has that name already")

        def change(modify: Modify[N], present: N | None, version: int) -> bool:
            if present is None:
                raise self.unknown(old)
            if self.find(new, at=version) is not None:
                raise InvalidRequestError(f"{self.noun} {new} exists already; drop it first")
            changes = {} if now_ms is None else {"last_modified_time": now_ms}
            modify.delete(name_filter(old)).overwrite([_rename_unit(present, new, **changes)])
            return True

        return self._transact(old, change, Or(name_filter(old), name_filter(new)))

    def versions(self, name: TableInfo | str) -> Sequence[tuple[Version, N | None]]:
        """Return the kept versions that changed the unit ``name``, newest first, each with the unit as it was then.

        None means that the unit did not exist. The oldest kept version counts as a change if it has the unit.
        """
        info = TableInfo.of(name)

        def attempt(_: int) -> Sequence[tuple[Version, N | None]] | ConflictError:
            kept = self.metadata.history()
            try:
                return self._changes(info, kept)
            except (NotFoundError, StorageError) as error:
                if all(self.metadata.keeps(version.version) for version in kept):
                    raise
                return ConflictError(f"a version expired while it was read: {error}")

        lost = StorageError(f"versions of {self.noun} {info} expired faster than they could be read")
        return on_newest(self.metadata, attempt, lost)

    def restore(self, name: TableInfo | str, version: int) -> int:
        """Restore the unit ``name`` from ``version``, without changing other units; returns the new version.

        Raises NotFoundError when the version is not kept or does not have the unit.
        """
        info = TableInfo.of(name)
        earlier = self.find(info, at=version)
        if earlier is None:
            raise NotFoundError(f"version {version} holds no {self.noun} {info}")
        return self.create(earlier, replace=True)

    def unknown(self, name: TableInfo) -> NotFoundError:
        """Return the error for a missing name; it suggests the nearest ones."""
        known = [str(unit.info) for unit in self.list()]
        return NotFoundError(f"there is no {self.noun} {name}{did_you_mean(str(name), known)}")

    def _changes(self, name: TableInfo, versions: Sequence[Version]) -> Sequence[tuple[Version, N | None]]:
        changes = []
        before: N | None = None
        for version in reversed(versions):
            unit = self.find(name, at=version.version)
            if unit != before:
                changes.append((version, unit))
            before = unit
        return changes[::-1]

    def _all(self, at: int | None, as_of: datetime | None) -> Read[N]:
        if at is not None and as_of is not None:
            raise InvalidRequestError("give a version or a time, not both")
        read = self.read().metadata_types(MetadataType.ALL)
        if at is not None:
            read.at(at)
        if as_of is not None:
            read.as_of(as_of)
        return read

    def _transact(self, name: TableInfo, change: _Change[N], within: BooleanExpression | None = None) -> int:
        """Commit what ``change`` stages for the unit ``name``, with compare-and-set on the version it was read in."""
        watched = name_filter(name) if within is None else within

        def attempt(version: int) -> int | ConflictError:
            modify = self.modify()
            if not change(modify, self.find(name, at=version), version):
                return version
            return modify.execute_unless_changed(version, watched)

        lost = ConflictError(f"others kept changing {self.noun} {name}; nothing was changed, try again")
        return on_newest(self.metadata, attempt, lost)


def _rename_unit(unit: N, name: TableInfo, **changes: Any) -> N:
    """Return ``unit`` renamed to ``name``, in the spelling that look-ups use, with other fields' ``changes``."""
    new = {"storage_plugin": name.storage_plugin, "workspace": name.workspace, "name": name.name}
    return dataclasses.replace(unit, **new, **changes)
