"""Which stored files are orphans: comparison of what is listed with what is reached.

A stored file is in use when its canonical path is that of a reached one and scheme and authority agree. When only these
differ nobody can tell by the names whether the two are one file: the call decides, by its mode. Folders of other tables
below the listed one are left alone, whatever is in them.
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
from metastore.iceberg.metadata_json import read_document
from metastore.procedures.files.spelling import Place, Spelling, agree
from metastore.stores.trees import StoredFile

METADATA_SUFFIX: Final = ".metadata.json"
_METADATA_SUFFIXES: Final = (METADATA_SUFFIX, ".metadata.json.gz")
_SHOWN: Final = 3


class PrefixMismatch(str, Enum):
    """What becomes of a stored file that is a reached one but for scheme or authority."""

    ERROR = "ERROR"
    IGNORE = "IGNORE"
    DELETE = "DELETE"


@dataclass
class Reached:
    """Locations that must stay, by canonical path."""

    spelling: Spelling
    _places: dict[str, set[Place]] = field(default_factory=lambda: defaultdict(set))

    def __len__(self) -> int:
        return len(self._places)

    def add(self, locations: Iterable[str]) -> None:
        """Take in locations, as metadata spells them."""
        for location in locations:
            place = self.spelling.place(location)
            self._places[place.path].add(place)

    def among(self, place: Place) -> set[Place]:
        """The reached places with the path of ``place``."""
        return self._places.get(place.path, set())


def orphans(stored: Iterable[StoredFile], reached: Reached, mode: PrefixMismatch) -> Iterator[StoredFile]:
    """Those of ``stored`` that are not ``reached``.

    Raises ProcedureError in mode ERROR when files differ from reached ones by scheme or authority alone; before the
    first orphan comes out, so that nothing is done by halves.
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
    """Folders of other tables by canonical path, each with a metadata file below it that tells so.

    ``own_roots`` are canonical paths of the folders of the table itself, which hold its metadata folders.
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
    """Whether ``metadata`` below ``folder`` is a copy of the table's own, staged on its way to another place.

    ``rewrite_table_path`` makes such copies: they say that they are this table, and that it lies elsewhere.
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
    """``stored`` without what lies below ``folders`` of other tables, by canonical path."""
    below = tuple(f"{folder}/" for folder in folders)
    return [file for file in stored if not spelling.path(file.location).startswith(below)] if below else list(stored)


def _prefix(place: Place) -> str:
    return f"{place.scheme or 'file'}://{place.authority or ''}"
