"""The folders that belong to a table without further proof, and those in which its orphans are searched.

Place in the flow: ``remove_orphan_files`` asks this module which folders to list. A table's location and properties
(``write.data.path`` and others) name folders. Whoever may write the table can set them, so they could direct the run
into any folder of the store. Therefore the location counts only if the catalog made the table there
(:mod:`deletion_roots`) and the table's metadata file lies below it. Properties are followed only below a location that
is proven in this way or allowed, or if the call itself names the folder.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.lake.stores.spelling import Place, Spelling, is_inside
from metastore.procedures.files.known_tables import PATH_PROPERTIES

_log: Final = logging.getLogger(__name__)

_ALLOW: Final = (
    "unless the location is allowed by drill.metastore.procedures.allowed_locations, the policy, or the argument "
    "allowed_locations"
)


def claimed_by(metadata: TableMetadata) -> list[str]:
    """Returns the table's location, then the folders that its properties name, without trailing slashes, each once."""
    named = [metadata.properties[key] for key in PATH_PROPERTIES if metadata.properties.get(key)]
    return list(dict.fromkeys(each.rstrip("/") for each in (metadata.location, *named)))


def _is_proven(table: Table, spelling: Spelling) -> bool:
    home = spelling.place(f"{table.metadata.location.rstrip('/')}/")
    return is_inside(spelling.place(table.metadata_location), home)


@dataclass(frozen=True)
class ListedFolders:
    """The folders that one call on the table ``name`` may list.

    ``location`` is the folder that the call names. ``allowed`` are locations of the configuration, policy or call;
    below them, the table's properties are followed.
    """

    name: str
    spelling: Spelling
    location: str | None = None
    allowed: Sequence[str] = ()

    def of(self, table: Table, *, is_own: bool) -> list[str]:
        """Returns the folders to list, none of them inside another. ``is_own``: whether the location is the table's.

        Raises InvalidRequestError if the call names a folder that is neither the table's nor allowed, and
        ProcedureError if there is no folder to list.
        """
        home, *named = claimed_by(table.metadata)
        if self.location is not None:
            return [self._require_allowed(self.location, [home, *named])]
        is_own = (is_own and _is_proven(table, self.spelling)) or self._is_allowed(home)
        inside = [folder for folder in named if self._is_in(folder, home)]
        followed = [home, *inside] if is_own else []
        followed += [folder for folder in named if self._is_allowed(folder) and folder not in followed]
        for folder in (home, *named):
            if folder not in followed:
                _log.warning("%s: orphans are not looked for in %s, %s", self.name, folder, _ALLOW)
        if not followed:
            raise ProcedureError(
                f"{self.name} was not made at its location {home} by the catalog, or has its metadata file at "
                f"{table.metadata_location} and not below: only the table itself says that {home} is its own. No "
                f"orphans are looked for there, {_ALLOW}"
            )
        roots = {self._place(folder).path: folder for folder in followed}
        return [
            folder
            for path, folder in roots.items()
            if not any(path != other and self._is_in(folder, root) for other, root in roots.items())
        ]

    def _require_allowed(self, location: str, own: Sequence[str]) -> str:
        if not (self._is_allowed(location) or any(self._is_in(location, root) for root in own)):
            raise InvalidRequestError(
                f"{location} is not below {' or '.join(own)}, where files of {self.name} are; files around it may "
                "belong to other tables. Name a folder of the table, or allow the location by allowed_locations"
            )
        return location

    def _is_allowed(self, folder: str) -> bool:
        return any(self._is_in(folder, each) for each in self.allowed)

    def _is_in(self, folder: str, root: str) -> bool:
        return is_inside(self._place(folder), self._place(root))

    def _place(self, folder: str) -> Place:
        return self.spelling.place(f"{folder.rstrip('/')}/")
