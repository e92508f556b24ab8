"""Makes the columns of facts that a partition's data file carries beside the columns of statistics.

Place in the flow: :func:`metastore.bounds.embedded_columns.embedded` stores the columns of :func:`fact_columns` in its
record batch, and :mod:`metastore.bounds.embedded_facts` reads them. Only Arrow is imported, because tasks encode
partitions in processes that do not load Iceberg.

What follows from other columns is not stored: the path of a row group is that of its file. An identifier is usually
the end of the path, and a time of modification is usually the recorded time in milliseconds. Columns without any value
are left out.
"""

from __future__ import annotations

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


def fact_columns(
    files: pa.Table, groups: pa.Table, others: pa.Table, found: Any, numbers: StoredNumbers
) -> dict[str, Any] | None:
    """The facts of ``files``, row ``groups`` and ``others``, in this order, as columns of the same rows.

    ``found`` has each row group's index in ``files``, and ``numbers`` are those of all units. Returns None for units
    that these columns cannot hold, such as a unit without identifier.
    """
    lower = pa.concat_tables([groups, others])
    if lower["metadataIdentifier"].null_count:
        return None
    units = pa.concat_tables([files, lower]).combine_chunks()
    owners = _places(found, len(files), units.num_rows)
    modified = longs(units["lastModifiedTime"])
    if ((modified > _MOST) | (modified < -_MOST)).any():
        return None
    base = np.where(numbers.times == UNKNOWN, 0, numbers.times // NANOS)
    base[len(files) :] = 0
    differences = modified - np.where(owners >= 0, modified[owners], base)
    identifiers = _stored_identifiers(files, groups, owners[len(files) : len(files) + len(groups)])
    own_path: Any = pc.if_else(pa.array(owners < 0), units["path"].combine_chunks(), pa.scalar(None, pa.string()))
    nothing = pa.nulls(len(files), pa.string())
    columns: dict[str, Any] = {
        KIND: runs_of(Coded.of(units["metadataType"])),
        "location": runs_of(Coded.of(units["location"])),
        "cut": pa.concat_arrays([identifiers[0], pa.nulls(lower.num_rows, pa.int32())]),
        "identifier": pa.concat_arrays([identifiers[1], identifiers[2], whole(others["metadataIdentifier"])]),
        "place": pa.concat_arrays([nothing, own_path.slice(len(files))]),
        "modified": pa.array(differences, mask=~mask_of(units["lastModifiedTime"].combine_chunks().is_valid())),
        ROW_COUNT: with_nulls(numbers.rows),
        START: with_nulls(numbers.starts),
        FILE_COUNT: pc.list_value_length(units["locations"].combine_chunks()).cast(pa.int64()),
        "column": runs_of(Coded.of(units["column"])) if units["column"].null_count < units.num_rows else _NOTHING,
        "partitionValues": whole(units["partitionValues"]),
    }
    return {name: column for name, column in columns.items() if column.null_count < len(column)}


_NOTHING: Final = pa.nulls(1)


def _stored_identifiers(files: pa.Table, groups: pa.Table, owners: Longs) -> tuple[Any, Any, Any]:
    """Characters of each path that precede its identifier, and the other identifiers of files and of row groups."""
    names: list[Any] = files["metadataIdentifier"].to_pylist()
    paths: list[Any] = files["path"].to_pylist()
    cuts = [len(path) - len(name) if path.endswith(name) else None for path, name in zip(paths, names, strict=True)]
    of_files = [None if cut is not None else name for cut, name in zip(cuts, names, strict=True)]
    numbers, given = groups["rowGroupIndex"].to_pylist(), groups["metadataIdentifier"].to_pylist()
    of_groups = [
        None if owner >= 0 and number is not None and name == f"{names[owner]}{IDENTIFIER_SEPARATOR}{number}" else name
        for owner, number, name in zip(owners.tolist(), numbers, given, strict=True)
    ]
    return pa.array(cuts, pa.int32()), pa.array(of_files, pa.string()), pa.array(of_groups, pa.string())


def _places(found: Any, before: int, count: int) -> Longs:
    places = np.full(count, -1, np.int64)
    places[before : before + len(found)] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
    return places


def longs(column: Any) -> Longs:
    """Whole numbers, zero for null."""
    found: Longs = pc.fill_null(whole(column).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return found


def whole(column: Any) -> Any:
    """The column in one chunk; the only chunk is not copied."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
