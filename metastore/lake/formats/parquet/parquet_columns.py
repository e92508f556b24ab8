"""One column of a Parquet file: interprets a footer's statistics, and writes them as the model's JSON.

:mod:`metastore.lake.formats.parquet.parquet_plans` creates it once per distinct (schema, writer), for thousands of
footers.

Guarantee: a bound or a count is unknown unless format, writer and value together make it certain. It is unknown if
:mod:`metastore.lake.formats.parquet.parquet_types` cannot read it, if the register of writers' faults doubts it
(:mod:`metastore.lake.formats.parquet.writer_faults`), or if the statistics contradict their type or each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, TypeAlias, cast

import pyarrow.parquet as pq

from metastore.lake.formats.claims import Believed, check_claims
from metastore.lake.formats.parquet.parquet_types import BoundReading
from metastore.lake.formats.parquet.writer_faults import Doubt
from metastore.model.column_path import ColumnPath, quote
from metastore.model.drill_types import FLOAT_TYPES
from metastore.model.statistics import ColumnStatistics
from metastore.model.statistics_json import micros

Bounds: TypeAlias = Believed
"""One column in one row group or file, with bounds in comparable form.

A column without a value (values == 0) has no bounds, and none are missed.
"""


@dataclass(frozen=True)
class Leaf:
    """One column with statistics: its place in the footer, and how it is read and written."""

    index: int
    path: ColumnPath
    physical: str
    type: str
    required: bool
    reading: BoundReading | None
    exact: bool
    counts_nans: bool
    """True if a column with bounds in the footer cannot contain NaN."""
    doubt: Doubt = Doubt.NOTHING
    """What the register of writers' faults says of the column; NULLS makes a difference here, since doubted bounds
    have no reading."""
    of_elements: bool = False
    """Whether these are the elements of a list, or the keys or values of a map (:mod:`metastore.model.elements`)."""

    @cached_property
    def key(self) -> str:
        """The column's name in ``columnsStatistics``."""
        return quote(self.path)

    @cached_property
    def measure(self) -> Callable[[pq.ColumnChunkMetaData, int], Bounds]:
        """A function that returns a footer's statistics of this column in one row group of ``rows`` rows.

        Of elements it returns bounds, and whether there is no value: writers disagree about other counts.
        """
        of_values = self._measure_values
        if not self.of_elements:
            return of_values

        def measure_chunk(chunk: pq.ColumnChunkMetaData, _: int) -> Bounds:
            low, high, _nulls, values = of_values(chunk, chunk.num_values)
            return low, high, None, 0 if values == 0 else None

        return measure_chunk

    @cached_property
    def _measure_values(self) -> Callable[[pq.ColumnChunkMetaData, int], Bounds]:
        """A function that returns a footer's statistics of this column in one row group of ``rows`` rows.

        Statistics that contradict the type, the rows or each other are unknown. The function raises ValueError when the
        chunk's type is not the column's. It is called for each chunk of each file, so all lookups are done once, here.
        """
        physical, required, is_null = self.physical, self.required, self.type == "NULL"
        reading = self.reading
        comparable = None if reading is None else reading.comparable
        limits = None if reading is None else reading.limits
        counts_nulls = Doubt.NULLS not in self.doubt

        def measure_chunk(chunk: pq.ColumnChunkMetaData, rows: int) -> Bounds:
            """Bounds, nulls and values of one chunk of ``rows`` rows; None for each that is not certain."""
            if chunk.physical_type != physical:
                # Arrow would end the process on the statistics of such a chunk.
                raise ValueError(f"column {self.key} is {physical}, a row group has {chunk.physical_type}")
            if rows == 0 or is_null:
                return None, None, rows, 0
            statistics = chunk.statistics
            if chunk.num_values != rows:  # each row has one value or null
                return None, None, None, None
            if statistics is None:
                return (None, None, 0, rows) if required else (None, None, None, None)
            nulls = 0 if required else statistics.null_count if counts_nulls else None
            low = statistics.min_raw
            if low is not None and nulls == rows:  # unreadable bounds contradict it, too
                return None, None, None, None
            high = None if low is None or reading is None else statistics.max_raw
            if high is None:
                return check_claims(None, None, nulls, rows)
            if comparable is not None:
                low, high = comparable(low), comparable(high)
                if low is None or high is None:
                    # If one bound is unusable (a NaN, say), so is the other: the same comparisons made it.
                    low = high = None
            return check_claims(low, high, nulls, rows, limits)

        return measure_chunk

    def statistics(self, bounds: Bounds, rows: int) -> ColumnStatistics:
        """Returns ``bounds`` over ``rows`` rows, in the model's form; the row count is omitted if it is nulls + values.

        It would take a fifth of the text of a footer's statistics, and of the time to write it.
        """
        raw_low, raw_high, nulls, values = bounds
        low = high = None
        low_exact = high_exact = True
        if self.reading is not None:
            if raw_low is not None:
                low, low_exact = self.reading.low(raw_low)
            if raw_high is not None:
                high, high_exact = self.reading.high(raw_high)
        return ColumnStatistics(
            self.type,
            low,
            high,
            low is None or (low_exact and self.exact),
            high is None or (high_exact and self.exact),
            nulls,
            values,
            rows if nulls is None and not self.of_elements else None,
            0 if self._has_no_nans(bounds) else None,
        )

    def texts(self, bounds: Sequence[Bounds], rows: Sequence[int]) -> list[str]:
        """Returns the JSON of :meth:`statistics` for many containers, written directly if the type allows it."""
        literal = self._literal
        if literal is None:
            return list(map(self._json, bounds, rows))
        a, b, c, d, e = self._pieces
        texts = []
        for found, count in zip(bounds, rows, strict=True):
            low, high, nulls, values = found
            if (
                low is not None
                and nulls is not None
                and (low_text := literal(low)) is not None
                and (high_text := literal(high)) is not None
            ):
                texts.append(f"{a}{low_text}{b}{high_text}{c}{nulls}{d}{values}{e}")
            else:
                texts.append(self._json(found, count))
        return texts

    def _json(self, bounds: Bounds, rows: int) -> str:
        low, high, nulls, values = bounds
        if low is not None and nulls is not None and (fine := self._fine(low, high)) is not None:
            return self._fine_pattern % (*fine, nulls, values)
        return self.statistics(bounds, rows).to_json()

    @cached_property
    def _is_whole(self) -> bool:
        return self.type not in FLOAT_TYPES

    def _has_no_nans(self, bounds: Bounds) -> bool:
        low, _, _, values = bounds
        return not self._is_whole and (values == 0 or (self.counts_nans and low is not None))

    @cached_property
    def _literal(self) -> Callable[[Any], str | None] | None:
        return None if self.reading is None else self.reading.literal

    def _fine(self, low: Any, high: Any) -> tuple[int, int, int, int] | None:
        """Returns times that are not whole milliseconds as JSON: outer milliseconds and microseconds of each."""
        if self.reading is None or self.reading.micros is None:
            return None
        low_micros, high_micros = self.reading.micros(low), self.reading.micros(high)
        if low_micros is None or high_micros is None or low_micros % 1000 == 0 or high_micros % 1000 == 0:
            return None
        return low_micros // 1000, low_micros, high_micros // 1000 + 1, high_micros

    @cached_property
    def _fine_pattern(self) -> str:
        """The same with blanks between the pieces, for times that are not whole milliseconds."""
        assert self.reading is not None
        samples = self.reading.fine_samples
        nulls, values = counts = (10**18 + 2, 10**18 + 3)
        text = ColumnStatistics(self.type, *samples, self.exact, self.exact, nulls, values).to_json()
        low, high = (micros(cast("datetime", sample)) for sample in samples)
        # Microseconds first: the milliseconds are their first digits.
        for blank in (low, high, low // 1000, high // 1000 + 1, *counts):
            text = text.replace(str(blank), "%s")
        return text

    @cached_property
    def _pieces(self) -> list[str]:
        """Returns the model's own JSON in five pieces; the texts that differ between containers go between them."""
        assert self.reading is not None
        low, high = self.reading.samples
        nulls, values = counts = (10**18 + 2, 10**18 + 3)
        nans = None if self._is_whole or not self.counts_nans else 0
        text = ColumnStatistics(self.type, low, high, self.exact, self.exact, nulls, values, nans=nans).to_json()
        pieces = []
        for blank in (self.reading.shown(low), self.reading.shown(high), *map(str, counts)):
            piece, text = text.split(blank)
            pieces.append(piece)
        return [*pieces, text]


def combine_bounds(parts: Sequence[Bounds]) -> Bounds:
    """Returns the bounds of all ``parts`` together; without parts, the bounds of no rows."""
    low = high = None
    nulls: int | None = 0
    values: int | None = 0
    low_known = high_known = True
    for part_low, part_high, part_nulls, part_values in parts:
        nulls = None if nulls is None or part_nulls is None else nulls + part_nulls
        values = None if values is None or part_values is None else values + part_values
        if part_values == 0:
            continue
        if part_low is None:
            low_known = False
        elif low is None or part_low < low:
            low = part_low
        if part_high is None:
            high_known = False
        elif high is None or part_high > high:
            high = part_high
    return low if low_known else None, high if high_known else None, nulls, values
