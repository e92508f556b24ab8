"""Which stored files are orphans: pure comparison of what is listed with what is reached.

A stored file is in use when its canonical path is that of a reached one and scheme and authority agree. When only these
differ nobody can tell by the names whether the two are one file: the call decides, by its mode. Folders of other tables
below the listed one are left alone, whatever is in them.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from metastore.errors import ProcedureError
from metastore.procedures.files.listing import StoredFile
from metastore.procedures.files.spelling import Place, Spelling, agree

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


def outside_other_tables(
    stored: Collection[StoredFile], around: Iterable[StoredFile], own_roots: Collection[str], spelling: Spelling
) -> list[StoredFile]:
    """``stored`` without what lies below the folder of another table, told by a metadata file of its own.

    Such a file may be among ``stored`` or ``around``. ``own_roots`` are canonical paths of the folders of the table
    itself, which hold its metadata folders.
    """
    roots = set()
    for file in (*stored, *around):
        if file.location.endswith(_METADATA_SUFFIXES):
            folder = posixpath.dirname(spelling.path(file.location))
            root = posixpath.dirname(folder)
            if posixpath.basename(folder) == "metadata" and folder not in own_roots and root not in own_roots:
                roots.add(f"{root}/")
    if not roots:
        return list(stored)
    below = tuple(roots)
    return [file for file in stored if not spelling.path(file.location).startswith(below)]


def _prefix(place: Place) -> str:
    return f"{place.scheme or 'file'}://{place.authority or ''}"
