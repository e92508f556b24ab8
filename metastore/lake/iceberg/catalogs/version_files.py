"""The pointer of a Hadoop-tables Iceberg table: ``metadata/vN.metadata.json`` and ``metadata/version-hint.text``.

A commit creates ``v(N+1).metadata.json``, which must never replace a file: this is the only lock. The hint only tells
readers where to start looking. A stale, missing or unreadable hint costs a listing of the folder, but never leads to a
wrong version. The hint is written after its version. So a hint beyond all existing versions means that version files
were lost, and so do versions after a gap: reading and writing then raise :class:`~metastore.errors.DamageError`.

Old version files are deleted in ascending order, and only those before a version that the deleting process published
itself (:func:`VersionFiles.remove_before`). The checks of :func:`VersionFiles.find` and :func:`VersionFiles.publish`
rely on this.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from metastore.errors import DamageError, StorageError
from metastore.ground.threads import Threads
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.pointer_store import LOCAL_POINTERS, PointerStore

A = TypeVar("A")
B = TypeVar("B")

HINT: Final = "version-hint.text"
_SPELLINGS: Final = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_VERSION = re.compile(r"v(0|[1-9]\d*)(\.gz\.metadata\.json|\.metadata\.json(\.gz)?)")
_LOOKS: Final = 100
_HINT_BYTES: Final = 64
"""Longest hint: it is a number, so longer content is invalid."""
_CONFIRMATIONS: Final = 10
"""Number of consecutive looks that must show that a version is lost: a listing is not atomic, and can miss the newest
versions."""
_WAY_ON: Final = (
    "Nothing was read or changed. Restore the metadata folder from a backup, or let `metastore repair --dry-run` show "
    "what can be saved"
)


@dataclass(frozen=True)
class FoundVersion:
    """An existing version: its file, and the store's identity of that file."""

    version: int
    location: str
    identity: Hashable


@dataclass(frozen=True)
class _ListedFile:
    """A version file in a listing, with the identity that the listing contains."""

    name: str
    identity: Hashable | None


@dataclass(frozen=True)
class Standing:
    """The content of a table's metadata folder: ``hint`` is None if it is missing or unreadable."""

    hint: int | None
    versions: Mapping[int, str]
    """Names of the version files, by version."""


def _names_of(version: int) -> list[str]:
    return [f"v{version}{spelling}" for spelling in _SPELLINGS]


def is_version_file(name: str) -> bool:
    """Whether a file in a table's metadata folder is a version file, by its name."""
    return _VERSION.fullmatch(name) is not None


class VersionFiles:
    """The version files of one table location in ``store``."""

    def __init__(self, location: str, store: PointerStore = LOCAL_POINTERS) -> None:
        self.folder = f"{location.rstrip('/')}/metadata"
        self._store = store

    def location_of(self, version: int) -> str:
        """Return the location of ``version`` as this package writes it."""
        return f"{self.folder}/v{version}.metadata.json"

    def current(self) -> tuple[int, str] | None:
        """Return the newest version and its file, or None if there is no table. Never follows a hint backwards."""
        found = self.find()
        return None if found is None else (found.version, found.location)

    def find(self, start: int | None = None) -> FoundVersion | None:
        """Return the newest version, or None if the table does not exist.

        ``start`` is a version known to have existed: while it exists, the search continues from it, without the hint
        and without a listing. Raises DamageError if version files are lost, and OSError.
        """
        if start is not None and (known := self._onwards(start)) is not None:
            return known
        doubtful = 0
        for _ in range(_LOOKS):
            hint, listed = self._at_once(self._hint, self._list_versions)
            if shown := self._prove_newest(hint, listed):
                return shown
            found = None if hint is None else self._onwards(hint)
            newest = max(listed, default=0)
            reached = max(newest, found.version if found else 0)
            if hint is not None and reached < hint:
                doubtful += 1
                if doubtful == _CONFIRMATIONS:
                    raise self._lost_versions_error(hint, newest)
            elif not reached:
                return None
            elif found is None:
                if (found := self._onwards(newest)) is not None:
                    return found
            elif (beyond := self._across(found, newest)) is not None:
                return beyond
        raise OSError(errno.EBUSY, "versions expire faster than they can be read", self.folder)

    def find_to_publish(self, earlier: int | None) -> tuple[FoundVersion | None, bool]:
        """Return the newest version, and whether the next one is free to be published. Raises as :meth:`find`.

        ``earlier`` is a version known to have existed. The next version is free if no file of it exists, and the hint
        names none after the newest. Meanwhile the store is prepared for the publication, and may raise StorageError.
        """
        if earlier is None:
            # This look reads the hint, too, and raises DamageError if it names a version after the newest.
            found, _ = self._at_once(self.find, self._prepare)
            return found, found is not None
        (found, hint), _ = self._at_once(lambda: self._at_once(lambda: self.find(earlier), self._hint), self._prepare)
        return found, found is not None and (hint is None or hint <= found.version)

    def _prepare(self) -> None:
        self._store.prepare(f"{self.folder}/{HINT}")

    def is_unused(self) -> bool:
        """Whether one listing shows neither a version nor a hint. An answer for readers, as fresh as the listing."""
        found = self._store.files_after(self.folder, "v")
        return HINT not in found and not any(map(is_version_file, found))

    def _prove_newest(self, hint: int | None, listed: Mapping[int, _ListedFile]) -> FoundVersion | None:
        """Return the newest version if the listing alone proves it: it has every version from the hint on."""
        newest = max(listed, default=0)
        if hint is None or not hint <= newest or not listed.keys() >= set(range(hint, newest + 1)):
            return None
        file = listed[newest]
        if file.identity is None:
            return None
        return FoundVersion(newest, f"{self.folder}/{file.name}", file.identity)

    def _across(self, version: FoundVersion, newest: int) -> FoundVersion | None:
        """Return the newest version from ``version`` on, if a listing shows ``newest``; None if a new look is needed.

        Versions are created and removed in ascending order. So a version was lost if it is missing after a later one
        was seen, and while the one before it exists. Raises DamageError.
        """
        if newest > version.version:
            version = self._onwards(version.version + 1) or version
        if newest <= version.version:
            return version
        if not self._stands(version.version):
            return None
        raise DamageError(
            f"{self.folder}: version {version.version + 1} of the table is missing, while {version.version} and "
            f"{newest} exist. {_WAY_ON}"
        )

    def _lost_versions_error(self, hint: int, newest: int) -> DamageError:
        stands = f"the newest version file is that of {newest}" if newest else "there is no version file"
        return DamageError(f"{self.folder}: {HINT} names version {hint}, and {stands}: newer ones are lost. {_WAY_ON}")

    def publish(
        self,
        version: int,
        content: bytes,
        is_built_upon: Callable[[], bool] = lambda: False,
        base: str | None = None,
        *,
        is_free: bool = False,
    ) -> FoundVersion | None:
        """Create the file of ``version`` with ``content``; None if another writer already has that version.

        ``base`` is the file of the version before, if its name is known. ``is_free`` is what
        :meth:`find_to_publish` returned for that version; it saves another look before the file is created. The
        identity in the answer is None if the file is already gone again.

        A writer that slept while others committed and expired could find the name of its version free again. Version
        files are deleted in ascending order, so its base (``version - 1``) is gone then. But the base of a writer that
        won can be gone just as soon, if others continued from its version and expired. ``is_built_upon`` distinguishes
        the two cases. In both, a newer version exists, because its publisher removed the base, and this file is no
        longer needed. The first version has no base, so only ``is_built_upon`` tells whether others continued from it.

        Raises DamageError, and creates nothing, if the hint names a version that is lost.
        """
        location = self.location_of(version)
        if not is_free:
            stands, hint = self._at_once(lambda: self._stands(version), self._hint)
            if stands or self._was_taken(version, hint):
                return None
        created = self._store.create_if_absent(location, content)
        if created is None:
            return None
        if created.identity is None:
            [own], overtaken = self._at_once(
                lambda: self._store.identities([location]), lambda: self._overtaken(version, base)
            )
        else:
            own, overtaken = created.identity, self._overtaken(version, base)
        if overtaken:
            if version == 1 and is_built_upon():
                return FoundVersion(version, location, own)
            with suppress(FileNotFoundError):
                self._store.remove(location)
            return FoundVersion(version, location, None) if version > 1 and is_built_upon() else None
        # The version is published, even if writing the hint fails.
        with suppress(OSError, StorageError):
            self._store.replace(f"{self.folder}/{HINT}", str(version).encode())
        return FoundVersion(version, location, own)

    def _was_taken(self, version: int, hint: int | None) -> bool:
        """Whether the missing ``version`` existed and others continued from it. DamageError if it is lost."""
        if hint is None or hint < version:
            return False
        newest = self.find()
        return newest is not None and newest.version >= version

    def _overtaken(self, version: int, base: str | None) -> bool:
        """Whether others may have committed and expired while the writer of ``version``, built upon ``base``, slept."""
        if version == 1:
            return max(self._listed_after(1), default=0) > 1
        bases = [base] if base else [f"{self.folder}/{name}" for name in _names_of(version - 1)]
        return not any(identity is not None for identity in self._store.identities(bases))

    def remove_before(self, version: int) -> tuple[int, list[OSError]]:
        """Delete version files older than ``version``, oldest first; returns how many were deleted, and the failures.

        Only the publisher of ``version`` may call it. Another publisher may not have checked yet whether the version
        before its own exists, and would remove its own. Stops at the first failure, so that the ascending order holds.
        """
        removed = 0
        try:
            listed = self._list_versions()
        except OSError as error:
            return removed, [error]
        for number, file in sorted(listed.items()):
            if number >= version:
                break
            try:
                self._store.remove(f"{self.folder}/{file.name}")
            except FileNotFoundError:
                continue
            except OSError as error:
                return removed, [error]
            removed += 1
        return removed, []

    def standing(self) -> Standing:
        """Return the hint and the existing version files, without interpreting them. Raises OSError."""
        return Standing(self._hint(), {version: file.name for version, file in self._list_versions().items()})

    def set_hint(self, version: int) -> None:
        """Set the version where readers begin to look. Raises OSError, StorageError."""
        self._store.replace(f"{self.folder}/{HINT}", str(version).encode())

    def set_aside(self, name: str, target: str) -> None:
        """Move the version file ``name`` to ``target``, an unused name elsewhere. Raises OSError, StorageError."""
        self._store.move(f"{self.folder}/{name}", target)

    def _onwards(self, version: int) -> FoundVersion | None:
        """Return the newest version from ``version`` on; None if that one does not exist."""
        found, following = self._look(version, version + 1)
        while found is not None and following is not None:
            found, [following] = following, self._look(following.version + 1)
        return found

    def _look(self, *versions: int) -> list[FoundVersion | None]:
        """Look for each of ``versions`` in all of Iceberg's spellings; None for those that do not exist."""
        asked = [(version, name) for version in versions for name in _names_of(version)]
        identities = self._store.identities_in(self.folder, [name for _, name in asked])
        standing: dict[int, FoundVersion] = {}
        for (version, name), identity in zip(asked, identities, strict=True):
            if identity is not None:
                standing.setdefault(version, FoundVersion(version, f"{self.folder}/{name}", identity))
        return [standing.get(version) for version in versions]

    def _stands(self, version: int) -> bool:
        return self._look(version) != [None]

    def _at_once(self, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
        """Return both results, called concurrently if the store has latency."""
        if is_local(self.folder):
            return first(), second()
        with Threads(1) as thread:
            other = thread.submit(second)
            return first(), other.result()

    def _hint(self) -> int | None:
        try:
            return int(self._store.read(f"{self.folder}/{HINT}", _HINT_BYTES))
        except (OSError, ValueError):
            return None

    def _listed_after(self, version: int) -> dict[int, _ListedFile]:
        """List the folder, including a version after ``version`` if there is one.

        A listing is not atomic: while versions are created and expire, it can miss the removed one and the new one. So
        an empty result is believed only if the hint has nothing newer either, or if it repeats.
        """
        listed, hint = self._at_once(self._list_versions, self._hint)
        looks = 1
        while looks < _LOOKS and max(listed, default=0) <= version < (hint or 0):
            listed, hint = self._at_once(self._list_versions, self._hint)
            looks += 1
        return listed

    def _list_versions(self) -> dict[int, _ListedFile]:
        """List the version files; of several spellings of a version, the first of :data:`_SPELLINGS`."""
        files = self._store.files_after(self.folder, "v")
        found: dict[int, _ListedFile] = {}
        for name in sorted(files, key=lambda name: -len(name)):
            if match := _VERSION.fullmatch(name):
                found[int(match.group(1))] = _ListedFile(name, files[name])
        return found
