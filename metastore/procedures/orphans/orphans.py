"""Finds the orphans among stored files, by comparing listed files with reached files.

A stored file is in use if a reached file has the same canonical path, and scheme and authority agree. If only scheme or
authority differ, names cannot tell whether the two are one file; then the mode of the call decides. Folders of other
tables below the listed folder are skipped with all their files.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from pyiceberg.table import Table

from metastore.errors import MetastoreError, ProcedureError
from metastore.lake.iceberg.catalogs.metadata_json import read_document
from metastore.lake.stores.local_folders import with_link_target
from metastore.lake.stores.spelling import Place, Spelling, agree
from metastore.lake.stores.trees import StoredFile

METADATA_SUFFIX: Final = ".metadata.json"
_METADATA_SUFFIXES: Final = (METADATA_SUFFIX, ".metadata.json.gz")
_SHOWN: Final = 3


class PrefixMismatch(str, Enum):
    """What happens to a stored file that differs from a reached file only by scheme or authority."""

    ERROR = "ERROR"
    IGNORE = "IGNORE"
    DELETE = "DELETE"


@dataclass
class ReachedFiles:
    """Locations that must be kept, by canonical path."""

    spelling: Spelling
    _places: dict[str, set[Place]] = field(default_factory=lambda: defaultdict(set))

    def __len__(self) -> int:
        return len(self._places)

    def add(self, locations: Iterable[str]) -> None:
        """Add locations in the spelling of the metadata, and what links on the local disk lead to."""
        for location in locations:
            for name in with_link_target(location):
                place = self.spelling.place(name)
                self._places[place.path].add(place)

    def among(self, place: Place) -> set[Place]:
        """Returns the reached places with the path of ``place``."""
        return self._places.get(place.path, set())


def orphans(stored: Iterable[StoredFile], reached: ReachedFiles, mode: PrefixMismatch) -> Iterator[StoredFile]:
    """Returns the ``stored`` files that are not ``reached``.

    In mode ERROR, raises ProcedureError if files differ from reached files only by scheme or authority. The error comes
    before the first orphan is returned, so nothing is deleted then.
    """
    found: list[StoredFile] = []
    conflicts: set[tuple[str, str]] = set()
    for file in stored:
        place = reached.spelling.place(file.location)
        known = reached.among(place)
        if not known:
            found.append(file)
        elif not any(agree(place, other) for other in known):
            if mode is PrefixMismatch.DELETE:
                found.append(file)
            elif mode is PrefixMismatch.ERROR:
                conflicts.update((_prefix(place), _prefix(other)) for other in known)
    if conflicts:
        shown = "; ".join(f"{listed} and {known}" for listed, known in sorted(conflicts)[:_SHOWN])
        raise ProcedureError(
            "Unable to determine whether certain files are orphan: they are listed and reached under different "
            f"prefixes. Conflicting authorities/schemes: {shown}. Say that they are the same by equal_schemes or "
            "equal_authorities, or choose prefix_mismatch_mode IGNORE (keep such files) or DELETE (they are others)"
        )
    return iter(found)


def folders_of_tables(
    files: Iterable[StoredFile], own_roots: Collection[str], spelling: Spelling
) -> dict[str, StoredFile]:
    """Returns the folders of other tables by canonical path, each with a metadata file below it as evidence.

    ``own_roots`` are the canonical paths of the table's own folders, which contain its metadata folders.
    """
    found: dict[str, StoredFile] = {}
    for file in files:
        if file.location.endswith(_METADATA_SUFFIXES):
            folder = posixpath.dirname(spelling.path(file.location))
            root = posixpath.dirname(folder)
            if posixpath.basename(folder) == "metadata" and folder not in own_roots and root not in own_roots:
                found.setdefault(root, file)
    return found


def is_staged(table: Table, metadata: StoredFile, folder: str, spelling: Spelling) -> bool:
    """Returns whether ``metadata`` below ``folder`` is a staged copy of the table's own metadata, for another location.

    ``rewrite_table_path`` makes such copies: they have the UUID of this table, and another location than ``folder``.
    """
    try:
        content = read_document(table.io, metadata.location)
    except (FileNotFoundError, MetastoreError):
        return False
    return content.get("table-uuid") == str(table.metadata.table_uuid) and not _is_at(content, folder, spelling)


def _is_at(content: Mapping[str, Any], folder: str, spelling: Spelling) -> bool:
    return spelling.path(f"{content['location'].rstrip('/')}/") == folder


def outside_other_tables(
    stored: Collection[StoredFile], folders: Collection[str], spelling: Spelling
) -> list[StoredFile]:
    """Returns ``stored`` without the files below ``folders`` of other tables, given by canonical path."""
    below = tuple(f"{folder}/" for folder in folders)
    return [file for file in stored if not spelling.path(file.location).startswith(below)] if below else list(stored)


def _prefix(place: Place) -> str:
    return f"{place.scheme or 'file'}://{place.authority or ''}"
