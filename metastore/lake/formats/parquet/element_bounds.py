"""Bounds of the elements of lists and maps in Parquet footers, for ANALYZE and to exclude row groups.

Place in the flow: ANALYZE keeps these bounds (:mod:`metastore.lake.formats.parquet.parquet_plans`). The task that reads
a file calls this module before it reads row groups that other statistics left (:mod:`metastore.scan.probes`
determines what a condition requires). A row group is excluded if it has no matching element, key or value.

Promise: only bounds are used that are trusted for their writer and type. Null and empty lists have no element, so they
match nothing. Writers disagree about null counts in lists, so these counts are not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow.parquet as pq

from metastore.lake.formats.parquet.parquet_columns import Leaf
from metastore.lake.formats.parquet.parquet_types import ParquetType, moved_by_spark, reading_of
from metastore.lake.formats.parquet.writer_faults import Doubt, Writer, WrittenColumn
from metastore.model.column_path import ColumnPath
from metastore.model.drill_types import minor_type
from metastore.model.elements import has_order


class ElementProbe(NamedTuple):
    """``value`` is in ``column`` of each row: in its first leaf (elements, keys) or the second (a map's values).

    ``parts`` is 1 for a list, 2 for a map.
    """

    column: str
    part: int
    parts: int
    value: int | str


_TYPES: Final = {"INT": int, "BIGINT": int, "VARCHAR": str}


def groups_with_elements(
    metadata: pq.FileMetaData, probes: Sequence[ElementProbe], groups: Sequence[int]
) -> Sequence[int]:
    """Returns those of the row groups ``groups`` in which each of ``probes`` may occur."""
    tests = [(probe.value, leaf) for probe in probes if (leaf := _leaf(metadata, probe)) is not None]
    return [group for group in groups if all(_may_have(metadata, group, leaf, value) for value, leaf in tests)]


def _may_have(metadata: pq.FileMetaData, group: int, leaf: Leaf, value: int | str) -> bool:
    chunk = metadata.row_group(group).column(leaf.index)
    found = leaf.statistics(leaf.measure(chunk, chunk.num_values), chunk.num_values)
    low, high = found.min, found.max
    return low is None or high is None or bool(low <= value <= high)  # type: ignore[operator] # of the value's type


def _leaf(metadata: pq.FileMetaData, probe: ElementProbe) -> Leaf | None:
    """Returns the leaf of a list or map of simple values, if its bounds are trusted and have the value's order."""
    places = list(_places(metadata, probe.column))
    if len(places) != probe.parts:  # another shape, or another column whose name begins the same way
        return None
    column = metadata.schema.column(places[probe.part])
    kind = ParquetType.of(column)
    if column.max_repetition_level != 1 or _TYPES.get(minor_type(kind.type)) is not type(probe.value):
        return None
    return element_leaf(column, places[probe.part], (probe.column,), Writer.of_parquet(metadata.created_by))


def element_leaf(
    column: pq.ColumnSchema, index: int, path: ColumnPath, writer: Writer, *, old_calendar: bool = False
) -> Leaf | None:
    """Returns the Parquet column number ``index`` as elements, keys or values at ``path``; None if they have no order.

    ``old_calendar``: Spark moves days of the file that are before 1582.
    """
    kind = ParquetType.of(column)
    type_ = minor_type(kind.type)
    if kind.logical or not has_order(type_):
        return None
    # Arrow may have written texts from dictionaries.
    written = WrittenColumn(type_, column.physical_type, column.physical_type == "BYTE_ARRAY", in_struct=True)
    doubt = writer.doubts(written)
    reading = None if Doubt.BOUNDS in doubt else reading_of(column, kind)
    return Leaf(
        index,
        path,
        column.physical_type,
        type_,
        required=False,
        reading=moved_by_spark(kind, reading) if old_calendar else reading,
        exact=False,
        counts_nans=writer.bounds_show_nans,
        doubt=doubt,
        of_elements=True,
    )


def _places(metadata: pq.FileMetaData, name: str) -> Iterator[int]:
    """Returns the leaves of the column ``name``; also those of a column whose name is ``name``, a dot and more."""
    for index in range(metadata.num_columns):
        if metadata.schema.column(index).path.partition(".")[0] == name:
            yield index
