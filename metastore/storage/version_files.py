"""The pointer of a Hadoop-tables Iceberg table: ``metadata/vN.metadata.json`` and ``metadata/version-hint.text``.

A commit is the creation of ``v(N+1).metadata.json``, which must never replace a file: that is the whole lock. The hint
only tells readers where to start looking; a stale, missing or unreadable hint costs a look at the folder, never a
wrong version. Old version files are deleted in ascending order (:func:`VersionFiles.remove_before`); on this the check
in :func:`VersionFiles.publish` rests.
"""

from __future__ import annotations

import os
import re
from typing import Final

from metastore.storage.local import create_if_absent, local_path, remove, replace

HINT: Final = "version-hint.text"
_VERSION = re.compile(r"v(\d+)(\.gz)?\.metadata\.json(\.gz)?")


class VersionFiles:
    """The version files of one table location on the local disk."""

    def __init__(self, location: str) -> None:
        self.folder = f"{location.rstrip('/')}/metadata"
        self._path = local_path(self.folder)

    def location_of(self, version: int) -> str:
        """Where version ``version`` stands when this package wrote it."""
        return f"{self.folder}/v{version}.metadata.json"

    def current(self) -> tuple[int, str] | None:
        """Newest version and its file, or None when the table does not exist. Never follows a hint backwards."""
        hinted = self._hint()
        if hinted is None or not self._exists(hinted):
            listed = self._listed()
            if not listed:
                return None
            hinted = max(listed)
            if not self._exists(hinted):
                return hinted, f"{self.folder}/{listed[hinted]}"
        while self._exists(hinted + 1):
            hinted += 1
        return hinted, self.location_of(hinted)

    def publish(self, version: int, content: bytes) -> bool:
        """Create the file of ``version`` with ``content``; False when another writer has that version already.

        A writer that slept while others committed and expired could find the name of its version free again. Version
        files go in ascending order, so its base (``version - 1``) is gone then: the new file is taken back.
        """
        location = self.location_of(version)
        if not create_if_absent(location, content):
            return False
        if version > 1 and not self._based(version - 1):
            remove(location)
            return False
        replace(f"{self.folder}/{HINT}", str(version).encode())
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
                remove(os.path.join(self._path, name))
            except FileNotFoundError:
                continue
            except OSError as error:
                return removed, [error]
            removed += 1
        return removed, []

    def _based(self, version: int) -> bool:
        return self._exists(version) or version in self._listed()

    def _exists(self, version: int) -> bool:
        return os.path.exists(os.path.join(self._path, f"v{version}.metadata.json"))

    def _hint(self) -> int | None:
        try:
            with open(os.path.join(self._path, HINT), "rb") as stream:
                return int(stream.read(32))
        except (OSError, ValueError):
            return None

    def _listed(self) -> dict[int, str]:
        try:
            names = os.listdir(self._path)
        except FileNotFoundError:
            return {}
        return {int(match.group(1)): name for name in names if (match := _VERSION.fullmatch(name))}
