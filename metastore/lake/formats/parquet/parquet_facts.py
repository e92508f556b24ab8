"""Facts of Parquet footers; the trust in bounds is the same as in ANALYZE.

:mod:`metastore.lake.formats.parquet.parquet_columns` leaves out statistics that format, writer and value together do
not make certain. In addition, a bound counts only if each row group with values has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from metastore.lake.formats.facts import INT96, OLD_CALENDAR, FileFacts, LeafFacts, without_old_calendar
from metastore.lake.formats.parquet.parquet_columns import Leaf, combine_bounds
from metastore.lake.formats.parquet.parquet_footer import Footer, read_footer
from metastore.lake.formats.parquet.parquet_plans import FooterPlan, arrow_schema_of
from metastore.lake.formats.parquet.refused_footers import has_map_as_list

_MOMENT: Final = pa.timestamp("us", "UTC")


class ParquetFooters:
    """Reads footers one by one, and keeps the common parts of files of one schema and writer."""

    def __init__(self, *, as_arrow_opens: bool = False) -> None:
        """With ``as_arrow_opens``, refuses a file that Arrow does not open by its own footer."""
        self._of_arrow = as_arrow_opens
        self._plans: list[tuple[FooterPlan, pa.Schema, dict[int, Leaf]]] = []

    def read(self, source: pa.NativeFile) -> FileFacts:
        """Returns the facts of one file. Raises pyarrow's errors if it is not a Parquet file."""
        footer = read_footer(source)
        if self._of_arrow and footer.accepted is not None:
            raise pa.ArrowInvalid(_refusal(footer))
        metadata = footer.metadata
        schema, leaves = self._plan(footer)
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        chunks = [[group.column(index) for group in groups] for index in range(metadata.num_columns)]
        rows = [group.num_rows for group in groups]
        facts = [_facts(leaves.get(index), of_column, rows) for index, of_column in enumerate(chunks)]
        starts = [_start(group) for group in groups if group.num_columns]
        # Offsets that do not increase come from a writer that left them out.
        splits = starts if all(left < right for left, right in pairwise(starts)) else []
        return FileFacts(metadata.num_rows, schema, facts, splits)

    def _plan(self, footer: Footer) -> tuple[pa.Schema, dict[int, Leaf]]:
        for plan, schema, leaves in self._plans:
            if plan.fits(footer):
                return schema, leaves
        plan = FooterPlan.of(footer, None)
        leaves = {leaf.index: leaf for leaf in plan.leaves}
        schema = _mark_times(footer, old_calendar=plan.old_calendar)
        if plan.beginning is not None:  # without it, it fits no other footer
            self._plans.append((plan, schema, leaves))
        return schema, leaves


def _refusal(footer: Footer) -> str:
    """Returns why Arrow does not open the file of ``footer``: the columns, and what is wrong with each."""
    assert footer.accepted is not None
    found = [f"column {name} is {why}" for name, why in footer.accepted.unread.items()]
    readers = "PyIceberg and other readers by Arrow open no such file" + (
        ", and Spark does not read it" if found else ""
    )
    found += [
        f"column {field.name} is or has a map whose keys are optional"
        for field in footer.metadata.schema.to_arrow_schema()
        if field.name not in footer.accepted.unread and has_map_as_list(field.type)
    ]
    return f"{'; '.join(found)}: {readers}; rewrite the file"


def _mark_times(footer: Footer, *, old_calendar: bool) -> pa.Schema:
    """Returns the schema in Arrow's types. INT96 is marked, and becomes timestamps in UTC, as all writers mean it.

    Days and times of a file of the ``old_calendar`` are marked, too.
    """
    metadata = footer.metadata
    arrow = arrow_schema_of(footer).remove_metadata()
    physical = [metadata.schema.column(index).physical_type for index in range(metadata.num_columns)]
    if "INT96" not in physical and not old_calendar:
        return arrow
    leaves = iter(physical)
    marks = {OLD_CALENDAR: b""} if old_calendar else {}
    return pa.schema([_with_moments(field, leaves, marks) for field in arrow])


def _with_moments(field: Any, leaves: Iterator[str], marks: Mapping[bytes, bytes]) -> Any:
    """Returns ``field`` of Arrow with timestamps for INT96, and with its times marked by ``marks``.

    ``leaves`` yields the physical types of its leaves.
    """
    arrow = field.type
    if not pa.types.is_nested(arrow):
        known = field.metadata or {}
        if next(leaves) == "INT96":
            return field.with_type(_MOMENT).with_metadata({**known, **marks, INT96: b""})
        is_time = pa.types.is_date(arrow) or pa.types.is_timestamp(arrow)
        return field.with_metadata({**known, **marks}) if marks and is_time else field
    if pa.types.is_map(arrow):
        key, item = (_with_moments(part, leaves, marks) for part in (arrow.key_field, arrow.item_field))
        return field.with_type(pa.map_(key, item, arrow.keys_sorted))
    parts = [_with_moments(arrow.field(index), leaves, marks) for index in range(arrow.num_fields)]
    return field.with_type(pa.struct(parts) if pa.types.is_struct(arrow) else pa.list_(parts[0]))


def _facts(leaf: Leaf | None, chunks: Sequence[pq.ColumnChunkMetaData], rows: Sequence[int]) -> LeafFacts:
    size = sum(chunk.total_compressed_size for chunk in chunks)
    if leaf is None:  # it is in a list or a map, where counts and bounds are not used
        return LeafFacts(size)
    low, high, nulls, values = combine_bounds(
        [leaf.measure(chunk, count) for chunk, count in zip(chunks, rows, strict=True)]
    )
    return LeafFacts(
        size,
        None if nulls is None or values is None else nulls + values,
        nulls,
        _read_bound(leaf, low),
        _read_bound(leaf, high, upper=True),
    )


def _read_bound(leaf: Leaf, raw: Any, *, upper: bool = False) -> Any:
    if raw is None or leaf.reading is None:
        return None
    value, _ = leaf.reading.high(raw) if upper else leaf.reading.low(raw)
    return without_old_calendar(value)


def _start(group: pq.RowGroupMetaData) -> int:
    first = group.column(0)
    return (first.dictionary_page_offset if first.has_dictionary_page else 0) or first.data_page_offset
