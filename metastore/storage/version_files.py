"""The pointer of a Hadoop-tables Iceberg table: ``metadata/vN.metadata.json`` and ``metadata/version-hint.text``.

A commit is the creation of ``v(N+1).metadata.json``, which must never replace a file: that is the whole lock. The hint
only tells readers where to start looking; a stale, missing or unreadable hint costs a look at the folder, never a
wrong version. Old version files are deleted in ascending order (:func:`VersionFiles.remove_before`); on this the check
in :func:`VersionFiles.publish` rests.
"""

from __future__ import annotations

import re
from typing import Final

from metastore.storage.pointer_store import LOCAL_POINTERS, PointerStore

HINT: Final = "version-hint.text"
_SPELLINGS: Final = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_VERSION = re.compile(r"v(\d+)(\.gz)?\.metadata\.json(\.gz)?")


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
        version = self._hint()
        name = None if version is None else self._name_of(version)
        if version is None or name is None:
            listed = self._listed()
            if not listed:
                return None
            version = max(listed)
            name = listed[version]
        while following := self._name_of(version + 1):
            version, name = version + 1, following
        return version, f"{self.folder}/{name}"

    def publish(self, version: int, content: bytes) -> bool:
        """Create the file of ``version`` with ``content``; False when another writer has that version already.

        A writer that slept while others committed and expired could find the name of its version free again. Version
        files go in ascending order, so its base (``version - 1``) is gone then: the new file is taken back.
        """
        location = self.location_of(version)
        if self._name_of(version) is not None or not self._store.create_if_absent(location, content):
            return False
        if version > 1 and self._name_of(version - 1) is None:
            self._store.remove(location)
            return False
        self._store.replace(f"{self.folder}/{HINT}", str(version).encode())
        return True

    def remove_before(self, version: int) -> tuple[int, list[OSError]]:
        """Delete version files older than ``version``, oldest first; how many went, and what failed.

        Stops at the first failure, so that ascending order holds.
        """
        removed = 0
        for number, name in sorted(self._listed().items()):
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

    def _name_of(self, version: int) -> str | None:
        """Name of the file of ``version``, in whichever of Iceberg's spellings it stands; None when it does not."""
        names = (f"v{version}{spelling}" for spelling in _SPELLINGS)
        return next((name for name in names if self._store.identity(f"{self.folder}/{name}") is not None), None)

    def _hint(self) -> int | None:
        try:
            return int(self._store.read(f"{self.folder}/{HINT}"))
        except (OSError, ValueError):
            return None

    def _listed(self) -> dict[int, str]:
        try:
            names = self._store.entries(self.folder).files
        except FileNotFoundError:
            return {}
        return {int(match.group(1)): name for name in names if (match := _VERSION.fullmatch(name))}
