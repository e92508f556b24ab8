"""The pointer of a Hadoop-tables Iceberg table: ``metadata/vN.metadata.json`` and ``metadata/version-hint.text``.

A commit is the creation of ``v(N+1).metadata.json``, which must never replace a file: that is the whole lock. The hint
only tells readers where to start looking; a stale, missing or unreadable hint costs a look at the folder, never a
wrong version. It is written after its version. So a hint beyond all versions that stand says that version files are
lost, and so do versions beyond a gap: reading and writing are then refused by
:class:`~metastore.errors.DamageError`.

Old version files are deleted in ascending order, before a version that the remover published itself
(:func:`VersionFiles.remove_before`); on this the checks of :func:`VersionFiles.find` and :func:`VersionFiles.publish`
rest.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from metastore.errors import DamageError, StorageError
from metastore.stores.locations import is_local
from metastore.stores.pointer_store import LOCAL_POINTERS, PointerStore

A = TypeVar("A")
B = TypeVar("B")

HINT: Final = "version-hint.text"
_SPELLINGS: Final = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_VERSION = re.compile(r"v(0|[1-9]\d*)(\.gz\.metadata\.json|\.metadata\.json(\.gz)?)")
_LOOKS: Final = 100
_HINT_BYTES: Final = 64
"""A hint is a number; what is longer is none."""
_CONFIRMATIONS: Final = 10
"""Number of looks in a row that must show that a version is lost: a listing is no snapshot, and can miss the newest
ones."""
_WAY_ON: Final = (
    "Nothing was read or changed. Restore the metadata folder from a backup, or let `metastore repair --dry-run` show "
    "what can be saved"
)


@dataclass(frozen=True)
class FoundVersion:
    """A version that stands, its file, and what the store tells that file by."""

    version: int
    location: str
    identity: Hashable


@dataclass(frozen=True)
class Standing:
    """What stands in a table's folder of metadata: ``hint`` None when there is none that can be read."""

    hint: int | None
    versions: Mapping[int, str]
    """Names of the version files, by version."""


def _names_of(version: int) -> list[str]:
    return [f"v{version}{spelling}" for spelling in _SPELLINGS]


def is_version_file(name: str) -> bool:
    """Whether a file in a table's folder of metadata is a version of it, by its name."""
    return _VERSION.fullmatch(name) is not None


class VersionFiles:
    """The version files of one table location in ``store``."""

    def __init__(self, location: str, store: PointerStore = LOCAL_POINTERS) -> None:
        self.folder = f"{location.rstrip('/')}/metadata"
        self._store = store

    def location_of(self, version: int) -> str:
        """Where version ``version`` stands when this package wrote it."""
        return f"{self.folder}/v{version}.metadata.json"

    def current(self) -> tuple[int, str] | None:
        """Newest version and its file, or None when the table does not exist. Never follows a hint backwards."""
        found = self.find()
        return None if found is None else (found.version, found.location)

    def find(self, start: int | None = None) -> FoundVersion | None:
        """The newest version, or None when the table does not exist.

        ``start`` is a version known to have been there: while it is, the search goes on from it, without the hint and
        without a listing. Raises DamageError when version files are lost, and OSError.
        """
        if start is not None and (known := self._onwards(start)) is not None:
            return known
        doubtful = 0
        for _ in range(_LOOKS):
            hint, listed = self._at_once(self._hint, self._listed)
            found = None if hint is None else self._onwards(hint)
            newest = max(listed, default=0)
            reached = max(newest, found.version if found else 0)
            if hint is not None and reached < hint:
                doubtful += 1
                if doubtful == _CONFIRMATIONS:
                    raise self._lost(hint, newest)
            elif not reached:
                return None
            elif found is None:
                if (found := self._onwards(newest)) is not None:
                    return found
            elif (beyond := self._across(found, newest)) is not None:
                return beyond
        raise OSError(errno.EBUSY, "versions go faster than they can be looked at", self.folder)

    def _across(self, found: FoundVersion, newest: int) -> FoundVersion | None:
        """The newest version, from ``found`` on, where a listing shows ``newest``; None when a new look is needed.

        Versions are made and removed in ascending order. So a version that is missing after a later one was seen, and
        while the one before it stands, was lost. Raises DamageError.
        """
        if newest > found.version:
            found = self._onwards(found.version + 1) or found
        if newest <= found.version:
            return found
        if not self._stands(found.version):
            return None
        raise DamageError(
            f"{self.folder}: version {found.version + 1} of the table is missing, while {found.version} and {newest} "
            f"stand. {_WAY_ON}"
        )

    def _lost(self, hint: int, newest: int) -> DamageError:
        stands = f"the newest version file that stands is that of {newest}" if newest else "no version file stands"
        return DamageError(f"{self.folder}: {HINT} names version {hint}, and {stands}: newer ones are lost. {_WAY_ON}")

    def publish(
        self,
        version: int,
        content: bytes,
        is_built_upon: Callable[[], bool] = lambda: False,
        base: str | None = None,
    ) -> FoundVersion | None:
        """Create the file of ``version`` with ``content``; None when another writer has that version already.

        ``base`` is the file of the version before, where its name is known. The answer's identity is None when the file
        is gone again already.

        A writer that slept while others committed and expired could find the name of its version free again. Version
        files go in ascending order, so its base (``version - 1``) is gone then. But the base of a writer that won can
        be gone as soon, when others went on from its version and expired; ``is_built_upon`` tells the two apart. Either
        way a newer version stands, since its publisher took the base away, and this file has had its use.

        Raises DamageError, and creates nothing, when the hint knows of a version that is lost.
        """
        location = self.location_of(version)
        stands, hint = self._at_once(lambda: self._stands(version), self._hint)
        if stands or self._was_taken(version, hint) or not self._store.create_if_absent(location, content):
            return None
        bases = [base] if base else [f"{self.folder}/{name}" for name in _names_of(version - 1)]
        *based_on, own = self._store.identities([*bases, location])
        if self._overtaken(version, based_on):
            with suppress(FileNotFoundError):
                self._store.remove(location)
            return FoundVersion(version, location, None) if is_built_upon() else None
        # Published it is, whatever comes of the hint.
        with suppress(OSError, StorageError):
            self._store.replace(f"{self.folder}/{HINT}", str(version).encode())
        return FoundVersion(version, location, own)

    def _was_taken(self, version: int, hint: int | None) -> bool:
        """Whether ``version``, which does not stand, did: others went on from it. DamageError when it is lost."""
        if hint is None or hint < version:
            return False
        newest = self.find()
        return newest is not None and newest.version >= version

    def _overtaken(self, version: int, based_on: Sequence[Hashable | None]) -> bool:
        """Whether others may have gone on and expired while the writer of ``version`` slept.

        ``based_on`` are the identities of the version before in the spellings that it may have.
        """
        if version == 1:
            return max(self._listed_after(1)) > 1
        return not any(identity is not None for identity in based_on)

    def remove_before(self, version: int) -> tuple[int, list[OSError]]:
        """Delete version files older than ``version``, oldest first; how many went, and what failed.

        Only for who published ``version``: another writer that did may not have looked yet whether the one before it
        stands, and would take its own away. Stops at the first failure, so that ascending order holds.
        """
        removed = 0
        try:
            listed = self._listed()
        except OSError as error:
            return removed, [error]
        for number, name in sorted(listed.items()):
            if number >= version:
                break
            try:
                self._store.remove(f"{self.folder}/{name}")
            except FileNotFoundError:
                continue
            except OSError as error:
                return removed, [error]
            removed += 1
        return removed, []

    def standing(self) -> Standing:
        """What the hint says and which version files stand; nothing is made of it. Raises OSError."""
        return Standing(self._hint(), self._listed())

    def set_hint(self, version: int) -> None:
        """Let readers begin at ``version``. Raises OSError, StorageError."""
        self._store.replace(f"{self.folder}/{HINT}", str(version).encode())

    def set_aside(self, name: str, target: str) -> None:
        """Move the version file ``name`` to ``target``, a free name elsewhere. Raises OSError, StorageError."""
        self._store.move(f"{self.folder}/{name}", target)

    def _onwards(self, version: int) -> FoundVersion | None:
        """The newest version from ``version`` on; None when that does not stand."""
        found, following = self._look(version, version + 1)
        while found is not None and following is not None:
            found, [following] = following, self._look(following.version + 1)
        return found

    def _look(self, *versions: int) -> list[FoundVersion | None]:
        """Each of ``versions`` in whichever of Iceberg's spellings it stands; None where it does not."""
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
        """What both questions answer, in the time of one where the store has latency."""
        if is_local(self.folder):
            return first(), second()
        with ThreadPoolExecutor(1) as thread:
            other = thread.submit(second)
            return first(), other.result()

    def _hint(self) -> int | None:
        try:
            return int(self._store.read(f"{self.folder}/{HINT}", _HINT_BYTES))
        except (OSError, ValueError):
            return None

    def _listed_after(self, version: int) -> dict[int, str]:
        """What stands in the folder, with a version after ``version`` in it if there is any.

        A listing is no snapshot: while versions come and expire, it can miss the one that goes and the one that comes.
        So one that shows nothing is believed only where the hint knows of nothing either, or when it stays so.
        """
        listed = self._listed()
        looks = 1
        while looks < _LOOKS and max(listed, default=0) <= version < (self._hint() or 0):
            listed = self._listed()
            looks += 1
        return listed

    def _listed(self) -> dict[int, str]:
        names = self._store.names_after(self.folder, "v")
        return {int(match.group(1)): name for name in names if (match := _VERSION.fullmatch(name))}
