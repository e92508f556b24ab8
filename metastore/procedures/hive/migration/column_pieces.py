"""Splits a column into its pieces, arrays of plain or nested values, and measures each piece. Pure functions.

A list is a piece, and its elements are another. A null list has no elements. So a null list, an empty list and a list
of nulls differ at any depth; the same holds for maps and structs. Pieces are named by their path,
``items.element.price``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from metastore.model.sketches.hashing import hashes_of
from metastore.sources.hive.types import ELEMENT, KEY, VALUE

Array = Any
"""An Arrow array of any type."""

_WRAP = (1 << 64) - 1


@dataclass
class PieceMeasures:
    """The measurements of one piece by one way of reading.

    ``low`` and ``high`` are the bounds of plain values, ignoring NaN; days and times are Arrow's stored numbers.
    ``digest`` is the sum of the values' hashes, so equal values in any order have one digest. ``error`` is the reason
    why the piece could not be read.
    """

    rows: int = 0
    nulls: int = 0
    low: Any = None
    high: Any = None
    digest: int = 0
    error: str | None = None

    def add(self, values: Array) -> None:
        """Add a batch of the piece."""
        self.rows += len(values)
        self.nulls += values.null_count
        if pt.is_nested(values.type) or pt.is_null(values.type):
            return
        held = values.drop_null()
        self.digest = sum((int(part.sum()) for part in hashes_of(held)), self.digest) & _WRAP
        if pt.is_floating(held.type):
            held = held.filter(pc.invert(pc.is_nan(held)))
        elif pt.is_temporal(held.type):
            held = held.view(pa.int32() if held.type.bit_width == 32 else pa.int64())
        if len(held):
            found: Any = pc.min_max(held).as_py()
            self.include(found["min"], found["max"])

    def include(self, low: Any, high: Any) -> None:
        """Widen the bounds to include ``low`` and ``high``, unless they are None."""
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)

    def __str__(self) -> str:
        if self.error is not None:
            return f"an error ({self.error})"
        bounds = "" if self.low is None else f"from {self.low!r} to {self.high!r}, "
        return f"{self.rows} values ({self.nulls} of them null, {bounds}digest {self.digest:x})"

    def merge(self, other: PieceMeasures) -> None:
        """Add the measurements of other rows."""
        self.rows += other.rows
        self.nulls += other.nulls
        self.digest = (self.digest + other.digest) & _WRAP
        self.include(other.low, other.high)
        self.error = self.error or other.error


def pieces(path: str, array: Array, type_: Any) -> Iterator[tuple[str, Array]]:
    """Yields the path and values of each piece of a file's column, read as ``type_``. Struct fields ignore case.

    Raises pyarrow's errors if the array cannot be read as ``type_``.
    """
    if pt.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if not pt.is_nested(type_):
        yield path, array.cast(type_, safe=False)
        return
    yield path, array
    inner: Any = type_
    if pt.is_struct(type_):
        yield from _fields(path, array, type_)
    elif pt.is_map(type_):
        pair = pa.struct([pa.field(KEY, array.type.key_type, nullable=False), (VALUE, array.type.item_type)])
        held = array.cast(pa.list_(pair)).flatten()
        yield from pieces(f"{path}.{KEY}", held.field(KEY), type_.key_type)
        yield from pieces(f"{path}.{VALUE}", held.field(VALUE), type_.item_type)
    else:
        yield from pieces(f"{path}.{ELEMENT}", array.flatten(), inner.value_type)


def paths(path: str, type_: Any) -> Iterator[tuple[str, Any]]:
    """Yields the path and the type of each piece of a column of ``type_``."""
    yield path, type_
    inner: Any = type_
    if pt.is_struct(type_):
        for index in range(type_.num_fields):
            yield from paths(f"{path}.{type_.field(index).name}", type_.field(index).type)
    elif pt.is_map(type_):
        yield from paths(f"{path}.{KEY}", type_.key_type)
        yield from paths(f"{path}.{VALUE}", type_.item_type)
    elif pt.is_nested(type_):
        yield from paths(f"{path}.{ELEMENT}", inner.value_type)


def _fields(path: str, array: Array, type_: Any) -> Iterator[tuple[str, Array]]:
    # Flattening makes the fields of a null struct null.
    held = dict(zip((field.name.lower() for field in array.type), array.flatten(), strict=True))
    for index in range(type_.num_fields):
        field = type_.field(index)
        found = held.get(field.name.lower())
        if found is None:
            found = pa.nulls(len(array), field.type)
        yield from pieces(f"{path}.{field.name}", found, field.type)
