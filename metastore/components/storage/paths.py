"""Folder names of location keys, below a component's location; no key can leave that location.

Invalid keys are refused before anything is written: null, empty, ``.`` and ``..``, NUL and control characters, and
names too long for a folder. ``/`` is allowed only in the last key, where a table is named by its path: there it means
nested folders, and a leading slash is dropped, as in Drill. Characters that some store does not support are escaped
reversibly as ``%XX``.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from metastore.errors import InvalidRequestError
from metastore.model.fields import Unit
from metastore.model.mapping.rows import PartitionKey

LONGEST_FOLDER_BYTES: Final = 255
METADATA_FOLDER: Final = "metadata"

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNSAFE = re.compile(r'[%\\:*?"<>|#]')


def partition_folder(unit_type: type[Unit], key: PartitionKey) -> str:
    """Return a partition's folder below the component's location. InvalidRequestError for unsafe location keys."""
    keys: Mapping[str, str] = dict(zip(unit_type.partition_columns, key, strict=True))
    return folder_of(unit_type.location_columns, tuple(keys[column] for column in unit_type.location_columns))


def new_file_location(unit_type: type[Unit], table_location: str, key: PartitionKey, prefix: str = "") -> str:
    """Return a new location for a partition's file, whose name begins with ``prefix``. Raises as the folder does."""
    return f"{table_location.rstrip('/')}/{partition_folder(unit_type, key)}/{prefix}{uuid.uuid4()}.parquet"


@lru_cache(maxsize=1024)
def folder_of(columns: tuple[str, ...], keys: tuple[str | None, ...]) -> str:
    """Return the relative folder for location ``keys`` (values of ``columns``). InvalidRequestError if unsafe."""
    levels: list[str] = []
    last = len(keys) - 1
    for position, (column, key) in enumerate(zip(columns, keys, strict=True)):
        if key is None:
            raise InvalidRequestError(f"location key {column!r} must not be null")
        parts = key.lstrip("/").split("/") if position == last else [key]
        levels.extend(_folder(column, key, part) for part in parts)
    if levels[0] == METADATA_FOLDER:
        levels[0] = f"%{ord(METADATA_FOLDER[0]):02X}{METADATA_FOLDER[1:]}"
    return "/".join(levels)


def _folder(column: str, key: str, part: str) -> str:
    """The folder name of one ``part`` of ``key``, unsafe characters as ``%XX``. InvalidRequestError if it has none."""
    if part in ("", ".", ".."):
        raise InvalidRequestError(f"location key {column!r} has an unsafe value {key!r}: {part!r} cannot name a folder")
    if "/" in part:
        raise InvalidRequestError(f"location key {column!r} must not hold a slash: {key!r}")
    if _CONTROL.search(part):
        raise InvalidRequestError(f"location key {column!r} holds a control character: {key!r}")
    try:
        name = _UNSAFE.sub(lambda match: f"%{ord(match.group()):02X}", part)
        length = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"location key {column!r} is not valid Unicode: {key!r}") from error
    if length > LONGEST_FOLDER_BYTES:
        raise InvalidRequestError(
            f"location key {column!r} needs a folder name of {length} bytes, and {LONGEST_FOLDER_BYTES} is the most: "
            f"{key[:40]!r}…"
        )
    return name
