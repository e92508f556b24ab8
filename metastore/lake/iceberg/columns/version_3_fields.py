"""Fields of manifests and of manifest lists that format version 3 has and that PyIceberg's records have no names for.

Records of this package are read with all fields of version 3. Records that PyIceberg read, or that were made for an
older version, are shorter; their fields of version 3 are unset.
"""

from __future__ import annotations

from typing import Final

from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    ManifestFile,
)

RECORD_VERSION: Final = 3
"""The format version whose fields records have in memory; it has the fields of all versions before."""

_OF_FILE: Final = {field.name: position for position, field in enumerate(DATA_FILE_TYPE[RECORD_VERSION].fields)}
_FIRST_ROW_ID: Final = _OF_FILE["first_row_id"]
_REFERENCED: Final = _OF_FILE["referenced_data_file"]
_OFFSET: Final = _OF_FILE["content_offset"]
_SIZE: Final = _OF_FILE["content_size_in_bytes"]
_FIRST_ROW_ID_OF_MANIFEST: Final = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[RECORD_VERSION].fields].index(
    "first_row_id"
)


def first_row_id(file: DataFile) -> int | None:
    """Return the id of the file's first row, as the entry has it or inherits it; None if its rows have no ids yet."""
    found: int | None = file[_FIRST_ROW_ID] if len(file) > _FIRST_ROW_ID else None
    return found


def set_first_row_id(file: DataFile, value: int | None) -> None:
    """Set the id of the first row of a file that was read with the fields of version 3."""
    file[_FIRST_ROW_ID] = value


def referenced_data_file(file: DataFile) -> str | None:
    """Return the only data file that a delete file is about, if its entry names it."""
    found: str | None = file[_REFERENCED] if len(file) > _REFERENCED else None
    return found


def content_offset(file: DataFile) -> int | None:
    """Return where a deletion vector begins in its Puffin file; None for other files."""
    found: int | None = file[_OFFSET] if len(file) > _OFFSET else None
    return found


def content_size(file: DataFile) -> int | None:
    """Return the length in bytes of a deletion vector in its Puffin file; None for other files."""
    found: int | None = file[_SIZE] if len(file) > _SIZE else None
    return found


def first_row_id_of_manifest(manifest: ManifestFile) -> int | None:
    """Return the id from which files of the manifest without ids count theirs; None if it gives none."""
    has_it = len(manifest) > _FIRST_ROW_ID_OF_MANIFEST
    found: int | None = manifest[_FIRST_ROW_ID_OF_MANIFEST] if has_it else None
    return found


def set_first_row_id_of_manifest(manifest: ManifestFile, value: int) -> None:
    """Set the id from which files of a manifest count theirs; the manifest has the fields of version 3."""
    manifest[_FIRST_ROW_ID_OF_MANIFEST] = value
