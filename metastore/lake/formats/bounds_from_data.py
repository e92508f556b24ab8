"""Bounds and null counts of Parquet columns from their data, if the footer has none that can be trusted.

Place in the flow: the task that reads footers (:mod:`metastore.analyze.tasks.footers`) calls this module for the
columns that :class:`BoundsFrom` selects. Only these columns are read, row group by row group.

Promises: bounds and counts are exact, except for INT96. Spark reads its times as instants, other programs as local
times, and Spark moves times of the Julian calendar. So INT96 bounds are widened by the largest difference between two
zones, and do not exist before 1900.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from metastore.errors import InvalidRequestError
from metastore.lake.formats.arrow_schema import ArrowLeaf
from metastore.lake.formats.parquet.int96_moments import WHY, only_leaf
from metastore.lake.formats.parquet.leaf_measures import LeafMeasure
from metastore.lake.formats.parquet.parquet_columns import Bounds, Leaf
from metastore.lake.formats.parquet.parquet_plans import FooterPlan
from metastore.lake.formats.parquet.writer_faults import Doubt
from metastore.lake.stores.read_errors import is_of_store
from metastore.model.column_path import ColumnPath, is_among, parse
from metastore.model.drill_types import FLOAT_TYPES
from metastore.model.elements import of_elements
from metastore.model.statistics import ColumnStatistics, Value

BoundsSource = Literal["auto", "footers", "data"]
SOURCES: Final[Mapping[str, BoundsSource]] = {"auto": "auto", "footers": "footers", "data": "data"}


@dataclass(frozen=True)
class BoundsFrom:
    """Where bounds of columns of Parquet and ORC come from.

    ``footers``: no data is read. ``data``: reads the data of every column whose footer lacks a bound or a null count,
    and of floats where the footer leaves open whether there is a NaN.
    ``auto``: reads the data of INT96, and of columns whose writer is known for wrong bounds, but not of bytes, nor of
    dates that Drill may have shifted. ``columns`` are always read if their footers lack something; a struct stands for
    its leaves.
    """

    source: BoundsSource = "auto"
    columns: tuple[ColumnPath, ...] = ()

    @classmethod
    def of(cls, wanted: str | Sequence[str]) -> BoundsFrom:
        """Read ``auto``, ``footers``, ``data``, or column names, which extend ``auto``.

        Raises InvalidRequestError otherwise.
        """
        if not isinstance(wanted, str):
            return cls(columns=tuple(dict.fromkeys(parse(column) for column in wanted)))
        source = SOURCES.get(wanted.lower())
        if source is None:
            raise InvalidRequestError(f"bounds come from auto, footers or data, not from {wanted!r}; or name columns")
        return cls(source)

    def reads(self, leaf: Leaf) -> bool:
        """Whether the data of ``leaf`` is read if its footer lacks something."""
        if self.source == "data" or is_among(leaf.path, self.columns):
            return True
        is_doubted = Doubt.BOUNDS in leaf.doubt and leaf.type not in ("VARBINARY", "DATE")
        return self.source == "auto" and (leaf.physical == "INT96" or is_doubted)

    @property
    def may_read_data(self) -> bool:
        """Whether the data of any column may be read."""
        return self.source != "footers" or bool(self.columns)

    def names(self, leaf: Leaf) -> bool:
        """Whether ``leaf`` was requested by name; then unreadable data is an error."""
        return is_among(leaf.path, self.columns)


AUTO: Final = BoundsFrom()
FOOTERS: Final = BoundsFrom("footers")


def lacks(leaf: Leaf, bounds: Bounds) -> bool:
    """Whether a footer's ``bounds`` of ``leaf`` lack something that the data can provide."""
    low, high, nulls, values = bounds
    lacks_counts = nulls is None and not leaf.of_elements
    lacks_counts |= leaf.type in FLOAT_TYPES and not leaf.counts_nans
    return leaf.type != "NULL" and values != 0 and (low is None or high is None or lacks_counts)


def measured_groups(
    source: Any,
    plan: FooterPlan,
    wanted: Sequence[tuple[Leaf, Sequence[int]]],
    *,
    must: Sequence[Leaf] = (),
    changed: Collection[int] = (),
) -> dict[tuple[int, int], ColumnStatistics]:
    """Returns statistics by leaf (its number among the file's leaves) and row group, for each leaf's groups ``wanted``.

    A column that cannot be read is left out, unless it is in ``must``; so is one whose leaf Arrow would return
    ``changed``. Raises pyarrow's errors, ValueError and OSError.
    """
    file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
    found: dict[tuple[int, int], ColumnStatistics] = {}
    for leaf, groups in wanted:
        try:
            if leaf.index in changed:
                raise ValueError(f"column {leaf.key} {WHY}")  # noqa: TRY301 - as an error of reading
            found.update({(leaf.index, group): _measure_leaf(file, plan, leaf, group) for group in groups})
        except (pa.ArrowException, OSError, ValueError) as error:  # noqa: PERF203 - each column for itself
            if leaf in must or is_of_store(error):
                raise
    return found


def _measure_leaf(file: pq.ParquetFile, plan: FooterPlan, leaf: Leaf, group: int) -> ColumnStatistics:
    """Statistics of a leaf in one row group, from its values. ValueError for decimals that Arrow cannot hold."""
    table = file.reader.read_row_group(group, column_indices=[leaf.index], use_threads=False)
    measure: LeafMeasure | None = None
    for batch in table.to_batches():
        values = only_leaf(batch)
        if leaf.type == "VARDECIMAL" and not pa.types.is_decimal(values.type):
            raise ValueError(f"{leaf.key} has decimals of more digits than Arrow holds")
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if measure is None:
            zoned = pa.types.is_timestamp(values.type) and values.type.tz is not None
            measure = LeafMeasure(ArrowLeaf(leaf.path, leaf.type, zoned))
        measure.add(values, batch.num_rows)
    known = (measure or LeafMeasure(ArrowLeaf(leaf.path, leaf.type))).statistics()
    if leaf.of_elements:
        known = of_elements(known)
    if leaf.physical == "INT96":
        return _in_any_zone(known)
    return _of_one_calendar(known) if plan.old_calendar else known


_ZONES_APART: Final = timedelta(hours=26)
"""The difference between the westernmost and the easternmost zone."""
_ALIKE_FROM: Final = date(1900, 1, 2)
"""From this day on, both calendars agree, and so do the zones' local times in them."""


def _in_any_zone(statistics: ColumnStatistics) -> ColumnStatistics:
    """Returns bounds that hold for INT96 times in whichever zone a reader interprets them."""
    low, high = _move_bound(statistics.min, -_ZONES_APART), _move_bound(statistics.max, _ZONES_APART)
    return _of_one_calendar(replace(statistics, min=low, max=high, min_exact=low is None, max_exact=high is None))


def _move_bound(bound: Value | None, reach: timedelta) -> Value | None:
    try:
        return bound + reach if isinstance(bound, datetime) else None
    except OverflowError:
        return None


def _of_one_calendar(statistics: ColumnStatistics) -> ColumnStatistics:
    """Returns ``statistics`` without bounds if the smallest is a time that readers may move to another calendar."""
    if not isinstance(statistics.min, date):
        return statistics if statistics.type not in ("DATE", "TIMESTAMP") else _without_bounds(statistics)
    day = statistics.min.date() if isinstance(statistics.min, datetime) else statistics.min
    return statistics if day >= _ALIKE_FROM else _without_bounds(statistics)


def _without_bounds(statistics: ColumnStatistics) -> ColumnStatistics:
    return replace(statistics, min=None, max=None, min_exact=True, max_exact=True)
