"""Makes the columns of facts that a partition's data file carries beside the columns of statistics.

Place in the flow: :func:`metastore.model.bounds.embedding.embed_partitions` stores the columns of :func:`fact_columns`
in its record batch, and :mod:`metastore.model.bounds.embedded_facts` reads them. Only Arrow is imported, because tasks
encode partitions in processes that do not load Iceberg.

What follows from other columns is not stored: the path of a row group is that of its file. An identifier is usually
the end of the path, and a time of modification is usually the recorded time in milliseconds. Columns without any value
of a partition are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.bounds.bound_arrays import mask_of
from metastore.model.bounds.embedded_place import runs_of
from metastore.model.bounds.unit_columns import CodedTexts, Longs
from metastore.model.bounds.unit_places import UnitPlaces
from metastore.model.bounds.units import FILE_COUNT, ROW_COUNT, START
from metastore.model.mapping.recorded_numbers import UNKNOWN, recorded_numbers, with_nulls
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR, Statistic

NANOS: Final = 1_000_000
"""Nanoseconds of a millisecond."""

KIND: Final = "kind"
"""The column with the metadata type of each unit, in batches with facts."""

_MOST: Final = 1 << 62
"""Times beyond are not stored as differences, which could exceed 64 bits."""


class StoredNumbers(NamedTuple):
    """Numbers in metadata statistics of units: :data:`metastore.model.mapping.recorded_numbers.UNKNOWN` for none."""

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


def fact_columns(units: pa.Table, places: UnitPlaces, numbers: StoredNumbers) -> tuple[dict[str, Any], Sequence[bool]]:
    """The facts of ``units`` as columns of the same rows, and which partitions have them.

    ``units`` are in the order of ``places``, and ``numbers`` are theirs. These columns cannot hold the units of some
    partitions, such as one with a unit without identifier.
    """
    modified, owners = longs(units["lastModifiedTime"]), places.owners
    is_far = (modified > _MOST) | (modified < -_MOST)
    lacks = ~mask_of(whole(units["metadataIdentifier"]).is_valid())
    base = np.where(places.is_file & (numbers.times != UNKNOWN), numbers.times // NANOS, 0)
    differences = np.where(is_far, 0, modified - np.where(owners >= 0, modified[owners], base))
    columns: dict[str, Any] = {
        KIND: runs_of(CodedTexts.of(whole(units["metadataType"])), places.starts[:-1]),
        "location": runs_of(CodedTexts.of(whole(units["location"])), places.starts[:-1]),
        **_texts_beside_path(units, places),
        "modified": pa.array(differences, mask=~mask_of(whole(units["lastModifiedTime"]).is_valid())),
        ROW_COUNT: with_nulls(numbers.rows),
        START: with_nulls(numbers.starts),
        FILE_COUNT: pc.list_value_length(whole(units["locations"])).cast(pa.int64()),
        "column": runs_of(CodedTexts.of(whole(units["column"])), places.starts[:-1]),
        "partitionValues": whole(units["partitionValues"]),
    }
    return columns, (~places.any_in_partition(is_far | lacks)).tolist()


def _texts_beside_path(units: pa.Table, places: UnitPlaces) -> dict[str, Any]:
    """What paths and identifiers have beside the paths of files, in three columns.

    These are the number of characters that precede the identifier in a file's path, identifiers that follow from
    nothing, and paths of units that have no file.
    """
    columns = ("metadataIdentifier", "path", "rowGroupIndex")
    names, paths, numbers = (list[Any](units[name].to_pylist()) for name in columns)
    cuts: list[int | None] = [None] * len(names)
    identifiers, own_paths = list(names), list(paths)
    for row, (owner, is_file) in enumerate(zip(places.owners.tolist(), places.is_file.tolist(), strict=True)):
        name = names[row]
        if is_file:
            own_paths[row] = None
            if name is not None and paths[row] is not None and paths[row].endswith(name):
                cuts[row], identifiers[row] = len(paths[row]) - len(name), None
        elif owner >= 0:
            own_paths[row] = None
            if numbers[row] is not None and name == f"{names[owner]}{IDENTIFIER_SEPARATOR}{numbers[row]}":
                identifiers[row] = None
    found = {"cut": (cuts, pa.int32()), "identifier": (identifiers, pa.string()), "place": (own_paths, pa.string())}
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
