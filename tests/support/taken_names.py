"""A local disk on which the name of a new file is taken a moment before it is created."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from metastore.lake.stores.local import LocalFile, local_path

SOMEBODYS = b"somebody's live file"


class TakenNames:
    """Plants somebody's file where the next new file whose name ends with ``suffix`` is to be; see :meth:`take`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.planted: list[Path] = []
        self._suffix: str | None = None
        self._passing = 0
        self._lock = threading.Lock()
        create = LocalFile.create

        def planting(file: LocalFile, overwrite: bool = False) -> Any:
            path = Path(local_path(file.location))
            with self._lock:
                if self._suffix is not None and path.name.endswith(self._suffix):
                    self._passing -= 1
                    if self._passing < 0:
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_bytes(SOMEBODYS)
                        self.planted.append(path)
                        self._suffix = None
            return create(file, overwrite)

        patch.setattr(LocalFile, "create", planting)

    def take(self, suffix: str, after: int = 0) -> None:
        """Take the name of the next such file, when ``after`` others were created."""
        self._suffix, self._passing = suffix, after

    def require_alive(self) -> None:
        """The file was planted, and stands as it was."""
        [path] = self.planted
        assert path.read_bytes() == SOMEBODYS
