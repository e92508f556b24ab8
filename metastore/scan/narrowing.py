"""Prunes top-level directories by their names alone, so that the metadata of the others is not even read.

This runs before planning. A segment's units are in one file of the metastore, keyed by its directory. So a question
about directories decides which of these files are opened and which directories are listed. A directory that its name
excludes stays excluded, including files that were never analyzed. The plan decides about everything else.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from metastore.errors import InvalidRequestError, StorageError
from metastore.model.tuple_schema import TupleSchema
from metastore.scan.plan import Where
from metastore.scan.pruning.file_columns import FileColumns
from metastore.scan.pruning.listed_files import ListedFiles
from metastore.scan.pruning.prune import prune
from metastore.sources.directories import directories_of
from metastore.sources.listing import directories_at
from metastore.sources.source_table import SourceTable

WORTH_IT: Final = 16
"""With fewer directories, pruning by names is skipped."""


def top_level_directories(source: SourceTable) -> list[str] | None:
    """Return the directories directly below a table; None if they cannot be listed, which the plan will explain."""
    try:
        return directories_at(source.location, source.options)
    except StorageError:
        return None


def directories_left(
    where: Where, table_unit: pa.Table, names: Collection[str], time_zone: str | None
) -> set[str] | None:
    """Return the ``names`` below which rows may satisfy ``where``; None if names do not decide.

    ``table_unit`` is the table's TABLE unit in pruning's columns.
    """
    location = table_unit["location"][0].as_py() or ""
    # A file that was never analyzed is judged by its directories alone.
    listing = ListedFiles.of({f"{location}/{name}/file": (0, 0) for name in names})
    try:
        # These are directories, so questions about properties of files do not apply.
        pruned = prune(where, table_unit, listing=listing, time_zone=time_zone, of_files=FileColumns())
    except InvalidRequestError:  # about a deeper level, a file, or nothing at all: the plan decides
        return None
    # Empty directories are no partitions, but their names could turn a column of numbers into text.
    types = {c.name: c.type for c in TupleSchema.from_json(table_unit["schema"][0].as_py() or "{}").columns}
    if any(types.get(c.path[0], c.type.name) != c.type.name for c in pruned.directory_columns):
        return None
    left = {directories_of(path, location)[0] for path in pruned.paths}
    return left if len(left) < len(names) else None
