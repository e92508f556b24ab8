"""Checks the size of a Delta table's log before deltalake reads it, since deltalake has no limit of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Final

import pyarrow.fs as pafs

from metastore.lake.stores.bounded_reading import Limit
from metastore.lake.stores.locations import one_spelling

_FOLDER: Final = "_delta_log"
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\..*parquet")
_COMMIT: Final = re.compile(r"(\d{20})\.json")


def require_bounded_log(location: str, options: Mapping[str, str] | None, limit: Limit) -> None:
    """Refuse a table whose newest checkpoint and later commits together are larger than ``limit``.

    Costs one listing. Raises FormatError, and OSError if the log cannot be listed.
    """
    store, folder = _open_log(location, options)
    listed = store.get_file_info(pafs.FileSelector(folder, allow_not_found=True))
    sizes = {entry.base_name: entry.size or 0 for entry in listed if entry.type == pafs.FileType.File}
    newest = max((int(found[1]) for name in sizes if (found := _CHECKPOINT.fullmatch(name))), default=-1)
    read = 0
    for name, size in sizes.items():
        commit, checkpoint = _COMMIT.fullmatch(name), _CHECKPOINT.fullmatch(name)
        if (commit and int(commit[1]) > newest) or (checkpoint and int(checkpoint[1]) == newest):
            read += size
    limit.require(f"{location}/{_FOLDER}", read)


def _open_log(location: str, options: Mapping[str, str] | None) -> tuple[pafs.FileSystem, str]:
    if location.startswith("/"):
        return pafs.LocalFileSystem(), f"{location}/{_FOLDER}"
    handler = import_module("deltalake.fs").DeltaStorageHandler(one_spelling(location), dict(options or {}) or None)
    return pafs.PyFileSystem(handler), _FOLDER
