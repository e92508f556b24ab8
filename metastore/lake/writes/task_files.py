"""The files that tasks of one statement write on other machines, and their removal.

Place in the flow: names of these files have the statement's mark. A task that fails removes its files, and answers of
tasks name the others. An attempt that was killed, or that lost against another attempt of its task, leaves files that
no answer names. They are found by the mark. No other writer has the mark, so they may be deleted as soon as it is
certain that no commit names them. A killed attempt may still create a file afterwards; ``remove_orphan_files`` finds
such a file.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pyiceberg.manifest import DataFile
from pyiceberg.table.locations import load_location_provider

from metastore.engines.engine import LocalEngine
from metastore.errors import StorageError
from metastore.lake.stores.files import discard
from metastore.lake.stores.trees import Folder, stored_files
from metastore.lake.writes.job import RewriteJob

_log: Final = logging.getLogger(__name__)


class TaskFiles:
    """The files that tasks write by :attr:`job`."""

    def __init__(self, job: RewriteJob) -> None:
        self.job: Final = replace(job, mark=uuid.uuid4().hex)
        self._named: list[str] = []
        self._may_be_others = False

    def start(self) -> None:
        """Note that tasks run: until :meth:`end`, any of them may have left files."""
        self._may_be_others = True

    def add(self, files: Iterable[DataFile]) -> None:
        """Add the files of an answer."""
        self._named += (file.file_path for file in files)

    def end(self, *, repeated: bool) -> None:
        """Note that all tasks have answered. ``repeated``: a task may have had several attempts."""
        self._may_be_others = repeated

    def remove(self) -> None:
        """Delete all files, because no commit names one of them. Never raises for a store that fails."""
        discard(self.job.io, self._named)
        self._named = []
        self.remove_unnamed()

    def remove_unnamed(self) -> None:
        """Delete the files that no answer names, if there may be some. Never raises for a store that fails."""
        if not self._may_be_others:
            return
        named = {_name(path) for path in self._named}
        folder = load_location_provider(self.job.location, self.job.properties).data_path
        try:
            found = stored_files([Folder(self.job.io, folder, ("_", "."))], lambda _: LocalEngine(1))
            lost = [each.location for each in found if self.job.mark in _name(each.location)]
        except StorageError as error:
            _log.warning("files of lost tasks may be left in %s: %s; run remove_orphan_files later", folder, error)
            return
        discard(self.job.io, (each for each in lost if _name(each) not in named))
        self._may_be_others = False


def _name(location: str) -> str:
    return location.rpartition("/")[2]
