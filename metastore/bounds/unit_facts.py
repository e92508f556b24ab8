"""Facts of units that lists show: what a unit describes, where it is, when it changed, and its numbers.

Facts are columns named as on disk, plus numbers that units keep in JSON or as lists. They come from rows
(:func:`facts_of_rows`) or from the bytes embedded in a data file (:mod:`metastore.bounds.embedded_facts`), with the
same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from metastore.mapping.arrow import plain_arrow_schema
from metastore.mapping.recorded_numbers import exact_row_counts, recorded_numbers, with_nulls
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import Statistic

ROW_COUNT: Final = "rowCount"
"""The number of rows; null if it is not exact."""
LENGTH: Final = "length"
"""The size of a file or row group in bytes."""
START: Final = "start"
"""The offset of a row group in its file."""
FILE_COUNT: Final = "fileCount"
"""The number of files of a segment or partition."""

_STORED: Final = (
    *TableMetadataUnit.partition_columns,
    "metadataType",
    "metadataIdentifier",
    "location",
    "path",
    "rowGroupIndex",
    "lastModifiedTime",
    "column",
    "partitionValues",
)
_TYPES: Final = plain_arrow_schema(TableMetadataUnit)
FACTS: Final = pa.schema(
    [
        *(_TYPES.field(name) for name in _STORED),
        *(pa.field(name, pa.int64()) for name in (ROW_COUNT, LENGTH, START, FILE_COUNT)),
    ]
)
"""All facts as Arrow columns; whatever is unknown is null."""


def _recorded(name: str) -> Callable[[Any], pa.Array[Any]]:
    return lambda holders: with_nulls(recorded_numbers(holders, name))


_NUMBERS: Final[Mapping[str, tuple[str, Callable[[Any], pa.Array[Any]]]]] = {
    ROW_COUNT: ("metadataStatistics", exact_row_counts),
    LENGTH: ("metadataStatistics", _recorded(Statistic.LENGTH)),
    START: ("metadataStatistics", _recorded(Statistic.START)),
    FILE_COUNT: ("locations", lambda locations: pc.list_value_length(locations).cast(pa.int64())),
}
"""By number, the on-disk column that it comes from, and how."""


def columns_for(wanted: Iterable[str]) -> tuple[str, ...]:
    """The on-disk columns that the facts ``wanted`` come from."""
    return tuple(dict.fromkeys(_NUMBERS[name][0] if name in _NUMBERS else name for name in wanted))


def facts_of_rows(rows: pa.Table, wanted: Sequence[str]) -> pa.Table:
    """The facts ``wanted`` of units in on-disk columns, which are those of :func:`columns_for`, in the same order."""
    arrays: list[Any] = []
    for name in wanted:
        if name in _NUMBERS:
            column, number_of = _NUMBERS[name]
            arrays.append(number_of(rows[column].combine_chunks()))
        else:
            arrays.append(rows[name])
    return pa.Table.from_arrays(arrays, schema=pa.schema([FACTS.field(name) for name in wanted]))
