"""The files of a list that the caller made, such as an inventory of the store, in place of a listing of folders.

A list names candidates only. Size and time of what may be deleted come from the store, and a file that is no longer
there is passed over. So a wrong or old list deletes nothing that a listing would not delete.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from metastore.errors import InvalidRequestError
from metastore.lake.stores.spelling import Spelling
from metastore.lake.stores.trees import Folder, StoredFile, files_in
from metastore.procedures.orphans.orphans import ReachedFiles

_PATH: Final = "file_path"
_TIME: Final = "last_modified"
_compute: Any = pc


@dataclass(frozen=True)
class ListedLocations:
    """Locations with the time that the list says, in epoch milliseconds."""

    files: Mapping[str, int]

    @classmethod
    def of(cls, name: str, rows: pa.Table) -> ListedLocations:
        """Read the rows of the view ``name``. Raises InvalidRequestError if it lacks one of Spark's two columns."""
        for column, fits in ((_PATH, pa.types.is_string), (_TIME, pa.types.is_timestamp)):
            kind: Any = rows.schema.field(column).type if column in rows.column_names else None
            if kind is None or not (fits(kind) or (column == _PATH and pa.types.is_large_string(kind))):
                raise InvalidRequestError(
                    f"file_list_view {name} needs the columns {_PATH} (a text) and {_TIME} (a timestamp)"
                )
            if rows[column].null_count:
                raise InvalidRequestError(f"file_list_view {name} has NULL in {_PATH} or {_TIME}")
        times = _compute.cast(_compute.cast(rows[_TIME], pa.timestamp("ms"), safe=False), pa.int64())
        paths: list[Any] = rows[_PATH].to_pylist()
        return cls(dict(zip(paths, times.to_pylist(), strict=True)))

    def find_unreached(self, folders: Collection[str], reached: ReachedFiles) -> list[str]:
        """Returns the locations in ``folders`` that nothing in ``reached`` names."""
        spelling = reached.spelling
        inside = tuple(spelling.path(f"{folder.rstrip('/')}/").rstrip("/") + "/" for folder in folders)
        found = ((location, spelling.place(location)) for location in self.files)
        return [location for location, place in found if place.path.startswith(inside) and not reached.among(place)]

    def on_store(self, io: FileIO, locations: Iterable[str], spelling: Spelling) -> list[StoredFile]:
        """Returns those of ``locations`` that are on the store, with the later of both times. Raises StorageError."""
        wanted = {spelling.path(location): self.files[location] for location in locations}
        parents = sorted({posixpath.dirname(location) for location in self.files if spelling.path(location) in wanted})
        return [
            file._replace(modified_ms=max(file.modified_ms, wanted[path]))
            for parent in parents
            for file in files_in(Folder(io, parent))
            if (path := spelling.path(file.location)) in wanted
        ]


def metadata_beside(
    io: FileIO, files: Iterable[StoredFile], roots: Collection[str], spelling: Spelling
) -> list[StoredFile]:
    """Returns the metadata files in or above the folders of ``files``, below ``roots``: evidence of other tables."""
    folders: set[str] = set()
    for file in files:
        folder = posixpath.dirname(file.location)
        while folder not in folders and not _is_root(folder, roots, spelling):
            folders.add(folder)
            folder = posixpath.dirname(folder)
    places = {f"{folder}/metadata" for folder in folders} | {each for each in folders if each.endswith("/metadata")}
    return [each for place in sorted(places) for each in files_in(Folder(io, place))]


def _is_root(folder: str, roots: Collection[str], spelling: Spelling) -> bool:
    return spelling.path(f"{folder}/").rstrip("/") in roots or not posixpath.basename(folder)
