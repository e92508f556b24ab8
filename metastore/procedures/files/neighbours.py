"""The other tables of a catalog and their folders: where a table may look for orphans, and what it must leave alone.

Place in the flow: ``remove_orphan_files`` has found files that its own table does not reach. They may be a neighbour's,
which no metadata of the table itself can say. So before the first of them is taken for an orphan, every other table of
the catalog is asked where it lies and where it writes.

Promise: what lies in the folder of a neighbour stays. A folder that two tables use, or that a neighbour's folder holds,
is refused, since no name tells whose a file is. A table that cannot be loaded may lie anywhere, and is refused, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadata

from metastore.catalogs import Catalogs, TargetTable
from metastore.errors import MetastoreError, NotFoundError, ProcedureError
from metastore.procedures.files.listing import StoredFile
from metastore.procedures.files.spelling import Place, Spelling, surely_apart

PATH_PROPERTIES: Final = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""Properties that name folders of data and metadata files; the last two are those of older engines."""


@dataclass(frozen=True)
class Grounds:
    """The folders of one table: its location, and those that it writes data and metadata to."""

    name: str
    location: str
    written: tuple[str, ...]

    @classmethod
    def of(cls, name: str, metadata: TableMetadata) -> Grounds:
        """The folders as the newest metadata has them."""
        location = metadata.location.rstrip("/")
        written = [f"{location}/data", f"{location}/metadata"]
        written += [metadata.properties[key] for key in PATH_PROPERTIES if key in metadata.properties]
        return cls(name, location, tuple(written))


Neighbours: TypeAlias = Callable[[], Sequence[Grounds]]
"""Asks for the grounds of all other tables, as they are now."""


def neighbours(catalogs: Catalogs, target: TargetTable) -> list[Grounds]:
    """The grounds of all tables of the catalog of ``target`` but its own.

    Raises ProcedureError for a table that cannot be loaded, StorageError when the catalog does not answer.
    """
    found: list[Grounds] = []
    for schema in catalogs.schemas(target.catalog_name):
        for name in catalogs.tables(target.catalog_name, schema):
            other = catalogs.target(target.catalog_name, schema, name)
            if other.identifier != target.identifier:
                found += _grounds(catalogs, other, target)
    return found


def _grounds(catalogs: Catalogs, other: TargetTable, target: TargetTable) -> Iterator[Grounds]:
    """The grounds of ``other``; none when it was dropped since its catalog listed it."""
    try:
        yield Grounds.of(str(other), other.load().metadata)
    except (MetastoreError, ValueError, ValidationError) as error:
        if isinstance(error, NotFoundError) and other.name not in catalogs.tables(
            other.catalog_name, other.schema_name
        ):
            return
        raise ProcedureError(
            f"{other} cannot be loaded ({error}), so that nobody can say whether files below the folders of {target} "
            "are its own. Nothing was deleted; mend or drop that table first"
        ) from error


def outside_neighbours(
    stored: Iterable[StoredFile], own: Grounds, listed: Sequence[str], others: Iterable[Grounds], spelling: Spelling
) -> list[StoredFile]:
    """``stored``, which was found below the folders ``listed``, without what lies in folders of ``others``.

    Raises ProcedureError when one of ``listed`` is a folder of another table, or inside one; but a table whose location
    is inside that of another has its location for itself.
    """
    home = spelling.place(f"{own.location}/")
    roots = [spelling.place(f"{location.rstrip('/')}/") for location in listed]
    inside: set[Place] = set()
    for other in others:
        location = spelling.place(f"{other.location}/")
        for folder in {location, *(spelling.place(f"{each.rstrip('/')}/") for each in other.written)}:
            is_around = folder == location and location.path != home.path and _holds(location, home)
            for root in roots:
                if _holds(folder, root) and not (is_around and _holds(home, root)):
                    raise ProcedureError(
                        f"{_said(root)} is also in use by {other.name}, which has {_said(folder)}: whose a file there "
                        f"is cannot be told, so nothing was deleted. Give {own.name} folders of its own, or name one "
                        "that is by location"
                    )
                if _holds(root, folder):
                    inside.add(folder)
    if not inside:
        return list(stored)
    return [file for file in stored if not any(_holds(folder, spelling.place(file.location)) for folder in inside)]


def _holds(folder: Place, place: Place) -> bool:
    """Whether ``place`` is ``folder`` or may lie in it."""
    within = place.path == folder.path or place.path.startswith(f"{folder.path.rstrip('/')}/")
    return within and not surely_apart(folder, place)


def _said(place: Place) -> str:
    return place.path if place.scheme in {None, "file"} else f"{place.scheme}://{place.authority or ''}{place.path}"
