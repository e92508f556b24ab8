"""Which top-level directories a question leaves, by their names alone: so that the others' metadata is not even read.

Place in the flow: before a plan. A segment's units lie in one file of the metastore, keyed by its directory; a question
about directories therefore decides which of these files are opened, and which directories are listed. What a name
excludes is excluded for good, files that nobody has analyzed included; everything else is left to the plan.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa
from pyarrow import fs

from metastore.errors import InvalidRequestError
from metastore.model.tuple_schema import TupleSchema
from metastore.pruning.file_columns import FileColumns
from metastore.pruning.prune import prune
from metastore.scan.plan import Where
from metastore.sources.directories import directories_of
from metastore.sources.source_table import SourceTable
from metastore.stores.arrow import open_location

WORTH_IT: Final = 16
"""Fewer directories are planned at once."""


def top_level_directories(source: SourceTable) -> list[str] | None:
    """Names of the directories right below a table; None where they cannot be had, which the plan will explain."""
    try:
        store, root = open_location(source.location, source.options)
        entries = store.get_file_info(fs.FileSelector(root))
    except (OSError, pa.ArrowException):
        return None
    return [entry.base_name for entry in entries if entry.type == fs.FileType.Directory]


def directories_left(
    where: Where, table_unit: pa.Table, names: Collection[str], time_zone: str | None
) -> set[str] | None:
    """Those of ``names`` below which rows may satisfy ``where``; None where names do not tell.

    ``table_unit`` is the table's TABLE unit in pruning's columns.
    """
    location = table_unit["location"][0].as_py() or ""
    # A file that nobody has analyzed is judged by its directories alone.
    listing = {f"{location}/{name}/file": (0, 0) for name in names}
    try:
        # These are no files, so what files say of themselves is not to be asked of them.
        pruned = prune(where, table_unit, listing=listing, time_zone=time_zone, of_files=FileColumns())
    except InvalidRequestError:  # of a level deeper down, of a file, or of nothing at all: the plan knows
        return None
    # Empty directories are no partitions, and yet may have names that make text of a column of numbers.
    types = {c.name: c.type for c in TupleSchema.from_json(table_unit["schema"][0].as_py() or "{}").columns}
    if any(types.get(c.path[0], c.type.name) != c.type.name for c in pruned.directory_columns):
        return None
    left = {directories_of(path, location)[0] for path in pruned.paths}
    return left if len(left) < len(names) else None
