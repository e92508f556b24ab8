"""Facts of units that lists show: what a unit describes, where it is, when it changed, and its numbers.

Facts are columns named as on disk, plus numbers that units keep in JSON or as lists. They come from rows
(:func:`facts_of_rows`) or from the bytes embedded in a data file (:mod:`metastore.model.bounds.embedded_facts`), with
the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.bounds.units import FILE_COUNT, LENGTH, ROW_COUNT, START
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.mapping.recorded_numbers import recorded_numbers, with_nulls
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import Statistic

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


_RECORDED: Final[Mapping[str, str]] = {
    ROW_COUNT: Statistic.ROW_COUNT,
    LENGTH: Statistic.LENGTH,
    START: Statistic.START,
}
"""By number, its name in ``metadataStatistics``."""


def columns_for(names: Iterable[str]) -> tuple[str, ...]:
    """The on-disk columns that the facts ``names`` come from."""
    return tuple(dict.fromkeys(_column_of(name) for name in names))


def _column_of(fact: str) -> str:
    if fact in _RECORDED:
        return "metadataStatistics"
    return "locations" if fact == FILE_COUNT else fact


def facts_of_rows(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The facts named ``columns`` of units in the on-disk columns of :func:`columns_for`, in the same order."""
    recorded = [name for name in columns if name in _RECORDED]
    found: dict[str, Any] = {}
    if recorded:
        holders = rows["metadataStatistics"].combine_chunks()
        numbers = recorded_numbers(holders, *(_RECORDED[name] for name in recorded))
        found = dict(zip(recorded, map(with_nulls, numbers), strict=True))
    if FILE_COUNT in columns:
        found[FILE_COUNT] = pc.list_value_length(rows["locations"]).cast(pa.int64())
    arrays = [found[name] if name in found else rows[name] for name in columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema([FACTS.field(name) for name in columns]))
