"""Makes the columns of facts that a partition's data file carries beside the columns of statistics.

Place in the flow: :func:`metastore.bounds.embedded_columns.embedded` stores the columns of :func:`fact_columns` in its
record batch, and :mod:`metastore.bounds.embedded_facts` reads them. Only Arrow is imported, because tasks encode
partitions in processes that do not load Iceberg.

What follows from other columns is not stored: the path of a row group is that of its file. An identifier is usually
the end of the path, and a time of modification is usually the recorded time in milliseconds. Columns without any value
are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.bounds.bound_arrays import mask_of
from metastore.bounds.embedded_place import runs_of
from metastore.bounds.unit_columns import Coded, Longs
from metastore.bounds.units import FILE_COUNT, ROW_COUNT, START
from metastore.mapping.recorded_numbers import UNKNOWN, recorded_numbers, with_nulls
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR, Statistic

NANOS: Final = 1_000_000
"""Nanoseconds of a millisecond."""

KIND: Final = "kind"
"""The column with the metadata type of each unit, in batches with facts."""

_MOST: Final = 1 << 62
"""Times beyond are not stored as differences, which could exceed 64 bits."""


class StoredNumbers(NamedTuple):
    """Numbers in the metadata statistics of units: :data:`metastore.mapping.recorded_numbers.UNKNOWN` for none."""

    rows: Longs
    lengths: Longs
    starts: Longs
    times: Longs
    """Times of modification in epoch nanoseconds."""

    @classmethod
    def of(cls, units: pa.Table) -> StoredNumbers:
        """The numbers of ``units``. Raises FormatError."""
        holders = whole(units["metadataStatistics"])
        return cls(*recorded_numbers(holders, Statistic.ROW_COUNT, Statistic.LENGTH, Statistic.START, _TIME))


_TIME: Final = Statistic.MODIFICATION_TIME_NANOS


def fact_columns(units: pa.Table, files: int, found: Any, numbers: StoredNumbers) -> dict[str, Any] | None:
    """The facts of ``units`` as columns of the same rows: first ``files`` files, then row groups, then others.

    ``found`` has the index of each row group's file, and ``numbers`` are those of all units. Returns None for units
    that these columns cannot hold, such as a unit without identifier.
    """
    modified = longs(units["lastModifiedTime"])
    if units["metadataIdentifier"].null_count or ((modified > _MOST) | (modified < -_MOST)).any():
        return None
    owners = np.full(units.num_rows, -1, np.int64)
    owners[files : files + len(found)] = longs(found, -1)
    base = np.where(numbers.times == UNKNOWN, 0, numbers.times // NANOS)
    base[files:] = 0
    differences = modified - np.where(owners >= 0, modified[owners], base)
    columns: dict[str, Any] = {
        KIND: runs_of(Coded.of(whole(units["metadataType"]))),
        "location": runs_of(Coded.of(whole(units["location"]))),
        **_texts_beside_path(units, files, owners.tolist()),
        "modified": pa.array(differences, mask=~mask_of(whole(units["lastModifiedTime"]).is_valid())),
        ROW_COUNT: with_nulls(numbers.rows),
        START: with_nulls(numbers.starts),
    }
    if units["locations"].null_count < units.num_rows:
        columns[FILE_COUNT] = pc.list_value_length(whole(units["locations"])).cast(pa.int64())
    if units["column"].null_count < units.num_rows:
        columns["column"] = runs_of(Coded.of(whole(units["column"])))
    if units["partitionValues"].null_count < units.num_rows:
        columns["partitionValues"] = whole(units["partitionValues"])
    return {name: column for name, column in columns.items() if column.null_count < len(column)}


def _texts_beside_path(units: pa.Table, files: int, owners: Sequence[int]) -> dict[str, Any]:
    """What paths and identifiers have beside the paths of files, in three columns.

    These are the number of characters that precede the identifier in a file's path, identifiers that follow from
    nothing, and paths of units that have no file.
    """
    columns = ("metadataIdentifier", "path", "rowGroupIndex")
    names, paths, numbers = (list[Any](units[name].to_pylist()) for name in columns)
    cuts: list[int | None] = [None] * len(names)
    identifiers, places = list(names), list(paths)
    for row, owner in enumerate(owners):
        name = names[row]
        if row < files:
            places[row] = None
            if paths[row].endswith(name):
                cuts[row], identifiers[row] = len(paths[row]) - len(name), None
        elif owner >= 0:
            places[row] = None
            if numbers[row] is not None and name == f"{names[owner]}{IDENTIFIER_SEPARATOR}{numbers[row]}":
                identifiers[row] = None
    found = {"cut": (cuts, pa.int32()), "identifier": (identifiers, pa.string()), "place": (places, pa.string())}
    return {name: pa.array(values, type_) for name, (values, type_) in found.items()}


def longs(column: Any, instead: int = 0) -> Longs:
    """Whole numbers, with ``instead`` for null."""
    numbers = whole(column).cast(pa.int64())
    found: Longs = (pc.fill_null(numbers, instead) if numbers.null_count else numbers).to_numpy(zero_copy_only=False)
    return found


def whole(column: Any) -> Any:
    """The column in one chunk; the only chunk is not copied."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
