"""What one Parquet schema, as one writer wrote it, lets us say about its columns.

Made once per distinct (schema, writer) and applied to thousands of footers, so everything that can be decided before a
footer's numbers are seen is decided here.

Guarantee: a bound is unknown unless format, writer and value together make it certain. Beyond what
:mod:`metastore.formats.parquet_types` cannot read, that leaves out decimals in bytes of writers that compared them as
text; pyarrow itself already hides the bounds that such writers got wrong for text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq

from metastore.formats.parquet_footer import Footer, schema_in
from metastore.formats.parquet_types import ParquetType, Reading, is_of_old_calendar, moved_by_spark, reading_of
from metastore.model.column_path import ColumnPath, is_among, quote, repeated_names
from metastore.model.drill_types import FLOAT_TYPES, DrillType, StructField, minor_type, parse_type
from metastore.model.statistics import ColumnStatistics
from metastore.model.statistics_json import micros
from metastore.model.tuple_schema import LOGICAL_TYPE, TIME_ZONE, SchemaColumn, TupleSchema, property_name, with_twins

_PLANS_KEPT: Final = 32
"""Plans of wide schemas are megabytes, and tables with more schemas than a few are rare."""

_WRITER = re.compile(r"(\S+)(?:.*?version (\d+)\.(\d+))?", re.DOTALL)


Bounds: TypeAlias = tuple[Any, Any, int | None, int | None]
"""One column in one row group or file: low and high bound in comparable form, nulls, values; None is "unknown".

A column without a value (values == 0) has no bounds, and none are missed. A plain tuple: there are sixty per file of
ten columns and two row groups, and a class would take a tenth of ANALYZE.
"""


@dataclass(frozen=True)
class Leaf:
    """One column with statistics: where it stands in the footer and how it is read and written."""

    index: int
    path: ColumnPath
    physical: str
    type: str
    required: bool
    reading: Reading | None
    exact: bool
    counts_nans: bool
    """True if bounds in a footer prove that no value is a NaN."""

    @cached_property
    def key(self) -> str:
        """The column's name in ``columnsStatistics``."""
        return quote(self.path)

    @cached_property
    def measure(self) -> Callable[[pq.ColumnChunkMetaData], Bounds]:
        """What a footer says of this column in one row group. Raises ValueError when its type is not the column's.

        A function of its own, since it is called for each chunk of each file: what it needs to know is looked up once.
        """
        physical, required, is_null = self.physical, self.required, self.type == "NULL"
        is_readable = self.reading is not None
        comparable = None if self.reading is None else self.reading.comparable

        def measured(chunk: pq.ColumnChunkMetaData) -> Bounds:
            if chunk.physical_type != physical:
                # Arrow would end the process over the statistics of such a chunk.
                raise ValueError(f"column {self.key} is {physical}, a row group has {chunk.physical_type}")
            rows = chunk.num_values
            statistics = chunk.statistics
            if statistics is None:
                if rows == 0 or is_null:
                    return None, None, rows, 0
                return (None, None, 0, rows) if required else (None, None, None, None)
            nulls = 0 if required else statistics.null_count
            values = None if nulls is None else rows - nulls
            low = statistics.min_raw
            if low is None or values == 0 or not is_readable:
                return None, None, nulls, values
            high = statistics.max_raw
            if comparable is not None:
                low, high = comparable(low), comparable(high)
                if low is None or high is None:
                    # Where one bound is no good (a NaN, say) the other was made by the same comparisons.
                    return None, None, nulls, values
            return low, high, nulls, values

        return measured

    def statistics(self, bounds: Bounds, rows: int) -> ColumnStatistics:
        """``bounds`` over ``rows`` rows, in the model's form; the rows are left out where they are nulls + values.

        That is a fifth of the text of a footer's statistics, and of the time to write it.
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
            rows if nulls is None else None,
            0 if self._has_no_nans(bounds) else None,
        )

    def texts(self, bounds: Sequence[Bounds], rows: Sequence[int]) -> list[str]:
        """The JSON of :meth:`statistics` for many containers, without the way through it where the type allows."""
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
        """Moments that are no whole milliseconds, as JSON has them: outer milliseconds and microseconds of each."""
        if self.reading is None or self.reading.micros is None:
            return None
        low_micros, high_micros = self.reading.micros(low), self.reading.micros(high)
        if low_micros is None or high_micros is None or low_micros % 1000 == 0 or high_micros % 1000 == 0:
            return None
        return low_micros // 1000, low_micros, high_micros // 1000 + 1, high_micros

    @cached_property
    def _fine_pattern(self) -> str:
        """The same with blanks between the pieces, for moments that are no whole milliseconds."""
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
        """The model's own JSON in five pieces: what differs from one container to the next stands between them."""
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


def combined(parts: Sequence[Bounds]) -> Bounds:
    """Bounds of all ``parts`` together; for no parts those of no rows."""
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


@dataclass
class Plan:
    """Everything the footers of one schema, one writer and one calendar have in common."""

    schema: TupleSchema
    leaves: tuple[Leaf, ...]
    writer: str
    old_calendar: bool
    beginning: bytes | None
    schema_json: str = field(init=False)
    keys: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.schema_json = self.schema.to_json()
        self.keys = tuple(leaf.key for leaf in self.leaves)

    @classmethod
    def of(cls, footer: Footer, columns: Sequence[ColumnPath] | None) -> Plan:
        """The plan for files like the one of ``footer``; ``columns`` None means statistics of every leaf.

        A struct named in ``columns`` stands for all leaves below it.
        """
        old_calendar = is_of_old_calendar(footer.content)
        builder = _SchemaReader(footer.metadata, old_calendar=old_calendar)
        schema = builder.read()
        leaves = tuple(leaf for leaf in builder.leaves if columns is None or is_among(leaf.path, columns))
        return cls(schema, leaves, footer.metadata.created_by, old_calendar, schema_in(footer.content))

    def fits(self, footer: Footer) -> bool:
        """Whether a footer has this schema and writer. Bytes tell: Arrow compares the leaves of schemas only."""
        return (
            self.beginning is not None
            and footer.content.startswith(self.beginning)
            and footer.metadata.created_by == self.writer
            and is_of_old_calendar(footer.content) == self.old_calendar
        )


class Plans:
    """The plans of the schemas met last, over all tasks of this process; ``columns`` as for :meth:`Plan.of`."""

    def __init__(self, columns: Sequence[ColumnPath] | None) -> None:
        self._columns = columns
        self._known: tuple[Plan, ...] = ()

    def plan(self, footer: Footer) -> Plan:
        """The plan that fits ``footer``. Raises as pyarrow does for a schema that makes no sense."""
        for known in self._known:
            if known.fits(footer):
                return known
        plan = Plan.of(footer, self._columns)
        if plan.beginning is not None:  # without it, it fits no other footer
            # A new tuple, since another thread may be looking through the old one.
            self._known = (plan, *self._known[: _PLANS_KEPT - 1])
        return plan


@lru_cache(maxsize=4)
def plans_of(columns: tuple[ColumnPath, ...] | None) -> Plans:
    """This process's plans for statistics of these columns."""
    return Plans(columns)


class _SchemaReader:
    """Walks the Arrow form of a schema for its structure and takes the leaves' types from the Parquet form.

    Parquet's own paths cannot tell a dotted name from a nested one; Arrow's types cannot tell JSON from text.
    """

    def __init__(self, metadata: pq.FileMetaData, *, old_calendar: bool) -> None:
        self._old_calendar = old_calendar
        self._arrow = metadata.schema.to_arrow_schema()
        self._parquet = metadata.schema
        self._writer = _Writer.parse(metadata.created_by)
        self._next = 0
        self.leaves: list[Leaf] = []

    def read(self) -> TupleSchema:
        """The columns. ValueError where two have one name: nobody could say which of them is meant."""
        if repeated := repeated_names(self._arrow.names):
            raise ValueError(f"its schema names {repeated} more than once")
        columns = []
        for arrow in self._arrow:
            properties: dict[str, str] = {}
            type_ = self._type(arrow.type, (arrow.name,), properties, repeated=False)
            columns.append(SchemaColumn(arrow.name, str(type_), not arrow.nullable, properties))
        return with_twins(TupleSchema(tuple(columns)))

    def _type(self, arrow: pa.DataType, path: ColumnPath, properties: dict[str, str], *, repeated: bool) -> DrillType:
        if isinstance(arrow, pa.BaseExtensionType):
            return self._type(arrow.storage_type, path, properties, repeated=repeated)
        if pa.types.is_struct(arrow):
            fields = (arrow.field(index) for index in range(arrow.num_fields))
            return DrillType(
                "STRUCT",
                fields=tuple(
                    StructField(
                        f.name, self._type(f.type, (*path, f.name), properties, repeated=repeated), not f.nullable
                    )
                    for f in fields
                ),
            )
        if pa.types.is_map(arrow):
            parts = (arrow.key_type, arrow.item_type)
            return DrillType("MAP", parts=tuple(self._type(part, path, properties, repeated=True) for part in parts))
        if pa.types.is_nested(arrow):  # a list of any kind
            return DrillType("ARRAY", parts=(self._type(arrow.field(0).type, path, properties, repeated=True),))
        return self._leaf(path, properties, repeated=repeated)

    def _leaf(self, path: ColumnPath, properties: dict[str, str], *, repeated: bool) -> DrillType:
        column = self._parquet.column(self._next)
        kind = ParquetType.of(column)
        type_ = kind.type
        if not repeated:
            reading = None if self._writer.misorders(column) else reading_of(column, kind)
            if kind.logical:
                properties[property_name(LOGICAL_TYPE, path)] = kind.logical
            if kind.zoned:
                properties[property_name(TIME_ZONE, path)] = "UTC"
            self.leaves.append(
                Leaf(
                    self._next,
                    path,
                    column.physical_type,
                    minor_type(type_),
                    column.max_definition_level == 0,
                    moved_by_spark(kind, reading) if self._old_calendar else reading,
                    minor_type(type_) not in ("VARCHAR", "VARBINARY") or self._writer.keeps_bounds_whole,
                    self._writer.bounds_show_nans,
                )
            )
        self._next += 1
        return parse_type(type_)


@dataclass(frozen=True)
class _Writer:
    """What is known of a writer's habits from the footer's ``created_by``."""

    name: str
    version: tuple[int, int]

    @classmethod
    def parse(cls, created_by: str | None) -> _Writer:
        match = _WRITER.match(created_by or "")
        if match is None:
            return cls("", (0, 0))
        return cls(match.group(1), (int(match.group(2) or 0), int(match.group(3) or 0)))

    @property
    def keeps_bounds_whole(self) -> bool:
        """Whether bounds of text and bytes are values of the data; other writers may shorten long ones.

        Footers can mark shortened bounds, but pyarrow does not tell, so only a writer that never shortens is trusted.
        """
        return self.name == "parquet-cpp-arrow"

    @property
    def bounds_show_nans(self) -> bool:
        """Whether a NaN would have cost the column its bounds.

        parquet-mr orders NaN above all numbers since 1.10 and then writes no bounds; before, and in most other writers,
        NaNs are passed over. Releases from 1.18 may count NaNs apart, and are not trusted until they are known.
        """
        return self.name == "parquet-mr" and (1, 10) <= self.version < (1, 18)

    def misorders(self, column: pq.ColumnSchema) -> bool:
        """Whether the writer compared decimals in bytes as if they were text."""
        in_bytes = column.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
        old = self.name in ("parquet-mr", "parquet-cpp") and self.version < (1, 10)
        return old and in_bytes and column.logical_type.type == "DECIMAL"
