"""Files that a table already has, or that a call names twice: an error, left out, or added again.

Place in the flow: ``add_files`` and ``add_files_from_hive`` ask here before each attempt to commit. Two spellings of
one place are one file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, TypeVar

from pyiceberg.table import Table

from metastore.engines.engine import Engine
from metastore.errors import InvalidRequestError, ProcedureError
from metastore.lake.iceberg.snapshots.sweep import FileKind
from metastore.lake.stores.spelling import Spelling
from metastore.procedures.files.inventory import Inventory

File = TypeVar("File")
_SHOWN: Final = 5


class DuplicateFile(str, Enum):
    """What happens to a file that the table already has, or that the call names twice."""

    ERROR = "ERROR"
    SKIP = "SKIP"
    ALLOW = "ALLOW"

    @classmethod
    def parse(cls, text: str) -> DuplicateFile:
        """Returns the choice ``text``, in any case. Raises InvalidRequestError for another text."""
        try:
            return cls(text.upper())
        except ValueError as error:
            raise InvalidRequestError(f"duplicate_file is one of ERROR, SKIP, ALLOW, not {text!r}") from error

    def without_known(
        self,
        files: Sequence[File],
        location_of: Callable[[File], str],
        table: Table,
        choose_engine: Callable[[int], Engine],
    ) -> Sequence[File]:
        """Returns the ``files`` to add to ``table``. Raises ProcedureError for duplicates that are an error."""
        if self is DuplicateFile.ALLOW:
            return files
        path = Spelling().path
        seen = _known_paths(table, choose_engine, path)
        fresh: list[File] = []
        twice: list[File] = []
        for file in files:
            place = path(location_of(file))
            (twice if place in seen else fresh).append(file)
            seen.add(place)
        if twice and self is DuplicateFile.ERROR:
            shown = ", ".join(map(location_of, twice[:_SHOWN]))
            raise ProcedureError(
                f"File already exists: {len(twice)} files are the table's already, or named twice, such as {shown}; "
                "duplicate_file => 'skip' leaves them out, 'allow' adds their rows again"
            )
        return fresh


def _known_paths(table: Table, choose_engine: Callable[[int], Engine], path: Callable[[str], str]) -> set[str]:
    """Returns the canonical paths of the data files of the current snapshot."""
    snapshot = table.metadata.current_snapshot()
    if snapshot is None:
        return set()
    inventory = Inventory(table.io, choose_engine)
    listed = inventory.lists([snapshot], must_stand=True).values()
    manifests = [file for file in listed if file.kind is FileKind.MANIFEST]
    return {path(location) for location, _ in inventory.live_files(manifests, must_stand=True)}
