"""The data that ANALYZE takes from an ORC footer instead of reading columns: exact counts and bounds, and the rows.

Place in the flow: a task that reads an ORC file calls this module first, and reads only the columns that are missing
here. Promise: the statistics equal those that the data would give. So floats (NaN), times (zones), bytes and shortened
texts are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa

from metastore.errors import FormatError
from metastore.lake.formats.arrow_schema import tuple_schema
from metastore.lake.formats.facts import ElementFacts, LeafFacts
from metastore.lake.formats.file_format import FooterStatistics
from metastore.lake.formats.orc.orc_facts import read_orc
from metastore.lake.formats.parquet.element_values import element_leaves
from metastore.model.column_path import ColumnPath
from metastore.model.elements import segments_of
from metastore.model.statistics import ColumnStatistics

_DIGITS: Final = Context(prec=38)


def orc_statistics(source: pa.NativeFile) -> FooterStatistics | None:
    """Returns the footer's statistics; None for a footer that only Arrow can read.

    Raises OSError if the store fails.
    """
    try:
        facts = read_orc(source, source.size())
    except FormatError:
        return None
    types = {leaf.path: leaf.type for leaf in tuple_schema(facts.schema)[1]}
    types_inside = {leaf.path: leaf.type for leaf in element_leaves(facts.schema)}
    found: dict[ColumnPath, ColumnStatistics] = {}
    others: dict[ColumnPath, ColumnStatistics] = {}
    elements: dict[ColumnPath, ColumnStatistics] = {}
    paths = [path for field in facts.schema for path in _leaves((field.name,), field.type, repeated=False)]
    for (path, type_, repeated), leaf in zip(paths, facts.leaves, strict=True):
        if repeated:
            if path in types_inside and leaf.elements is not None:
                elements[path] = _of_elements(types_inside[path], type_, leaf.elements)
            continue
        if (known := _statistics(types[path], type_, leaf)) is not None:
            found[path] = known
        else:
            others[path] = _some(types[path], type_, leaf, facts.records)
    return FooterStatistics(facts.records, found, others, elements)


def _statistics(name: str, type_: Any, leaf: LeafFacts) -> ColumnStatistics | None:
    if leaf.nulls is None or leaf.values is None or pa.types.is_floating(type_):
        return None
    present = leaf.values - leaf.nulls
    if present == 0:
        return ColumnStatistics(name, nulls=leaf.nulls, non_nulls=0)
    if not leaf.is_exact or leaf.low is None or leaf.high is None:
        return None
    low, high = (_rescale_bound(bound, type_) for bound in (leaf.low, leaf.high))
    return ColumnStatistics(name, low, high, nulls=leaf.nulls, non_nulls=present)


def _of_elements(name: str, type_: Any, known: ElementFacts) -> ColumnStatistics:
    low, high = (_rescale_bound(bound, type_) for bound in (known.low, known.high))
    exact = low is None
    return ColumnStatistics(name, low, high, exact, exact, non_nulls=0 if known.is_empty else None)


def _some(name: str, type_: Any, leaf: LeafFacts, rows: int) -> ColumnStatistics:
    """Returns what holds of a column that the footer does not describe completely.

    Bounds of texts are left out, because CHAR pads them.
    """
    low, high = (leaf.low, leaf.high) if pa.types.is_timestamp(type_) else (None, None)
    if leaf.nulls is None or leaf.values is None:
        return ColumnStatistics(name, low, high, low is None, high is None, rows=rows)
    present = leaf.values - leaf.nulls
    return ColumnStatistics(name, low, high, low is None, high is None, leaf.nulls, present)


def _rescale_bound(bound: Any, type_: Any) -> Any:
    """Returns ``bound`` with its column's number of digits after the point."""
    return bound.quantize(Decimal(1).scaleb(-type_.scale), context=_DIGITS) if isinstance(bound, Decimal) else bound


def _leaves(path: ColumnPath, type_: Any, *, repeated: bool) -> Iterator[tuple[ColumnPath, Any, bool]]:
    if not pa.types.is_nested(type_):
        yield path, type_, repeated
        return
    if pa.types.is_struct(type_):
        for inner in (type_.field(place) for place in range(type_.num_fields)):
            yield from _leaves((*path, inner.name), inner.type, repeated=repeated)
        return
    container: Any = type_
    is_map = pa.types.is_map(type_)
    parts = (container.key_type, container.item_type) if is_map else (container.value_type,)
    for segment, part in zip(segments_of("MAP" if is_map else "ARRAY"), parts, strict=True):
        yield from _leaves((*path, segment), part, repeated=True)
