"""Finds the folders that a table format keeps: Delta, Iceberg, Hudi and Paimon.

Place in the flow: a listing asks here, after it has named the folders below a table. The log of a format says which
files hold the rows. Taken as a plain directory, the folder has rows that were deleted or replaced, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from metastore.errors import InvalidRequestError
from metastore.lake.formats.source_file import SourceFile

_LOGS: Final = {"_delta_log": "Delta", ".hoodie": "Hudi"}
LOG_FOLDERS: Final = frozenset(_LOGS)
"""Hidden folders of which each makes the folder above it a table of its format."""

_METADATA: Final = "/metadata"
_SNAPSHOT, _MANIFEST = "/snapshot", "/manifest"
_DOORS: Final = {
    "Delta": "read it through a storage plugin of type delta",
    "Iceberg": "read it through a catalog of drill.metastore.catalogs; the procedure register_table adds it to one",
    "Hudi": "there is no door for it yet, so read it with its own engine",
    "Paimon": "there is no door for it yet, so read it with its own engine",
}


def require_not_kept(
    location: str, folders: Mapping[str, tuple[str, ...] | None], files: Collection[SourceFile]
) -> None:
    """Raise InvalidRequestError if the folder ``location``, or one below it, is kept by a table format.

    ``folders`` are the paths below ``location`` that have entries, each with a leading slash; None marks those below a
    hidden folder. ``files`` are the data files.
    """
    for path, names in folders.items():
        if names is None:
            parts = path.split("/")
            log = next((part for part in parts if part in LOG_FOLDERS), None)
            if log is not None:
                raise _refusal(location + "/".join(parts[: parts.index(log)]), _LOGS[log])
        elif path.endswith(_METADATA) and _has_metadata_of_iceberg(names, files):
            raise _refusal(location + path.removesuffix(_METADATA), "Iceberg")
        elif path.endswith(_SNAPSHOT) and path.removesuffix(_SNAPSHOT) + _MANIFEST in folders:
            raise _refusal(location + path.removesuffix(_SNAPSHOT), "Paimon")


def _has_metadata_of_iceberg(names: tuple[str, ...], files: Collection[SourceFile]) -> bool:
    return any(file.directories == names and ".metadata.json" in file.name for file in files)


def _refusal(folder: str, keeper: str) -> InvalidRequestError:
    article = "an" if keeper == "Iceberg" else "a"
    return InvalidRequestError(
        f"{folder} is {article} {keeper} table, whose log says which files hold its rows: {_DOORS[keeper]}. To take "
        "all its files as data nevertheless, set all_files = true in the workspace"
    )
