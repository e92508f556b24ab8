"""A column of rows as its pieces, each an array of plain values or of what holds them; and what a piece comes to. Pure.

A list is a piece, and so are its elements; of a null list there is none. So a null list, an empty one and a list of
nulls differ, at any depth, and so do maps and structs. Pieces are called by their path, ``items.element.price``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from metastore.hive.types import ELEMENT, KEY, VALUE
from metastore.sketches.hashing import hashes_of

Array = Any
"""An Arrow array of any type."""

_WRAP = (1 << 64) - 1


@dataclass
class Measured:
    """What one reading of a piece found.

    ``low`` and ``high`` are the bounds of plain values without NaNs; days and times are the numbers that Arrow keeps.
    ``digest`` is the sum of the values' hashes, so that equal values in any order have one digest. ``error`` says why
    it could not be read.
    """

    rows: int = 0
    nulls: int = 0
    low: Any = None
    high: Any = None
    digest: int = 0
    error: str | None = None

    def add(self, values: Array) -> None:
        """Take in a batch of the piece."""
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
        """Widen the bounds, if there are any to widen them by."""
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)

    def __str__(self) -> str:
        if self.error is not None:
            return f"an error ({self.error})"
        bounds = "" if self.low is None else f"from {self.low!r} to {self.high!r}, "
        return f"{self.rows} values ({self.nulls} of them null, {bounds}digest {self.digest:x})"

    def merge(self, other: Measured) -> None:
        """Take in what was found in other rows."""
        self.rows += other.rows
        self.nulls += other.nulls
        self.digest = (self.digest + other.digest) & _WRAP
        self.include(other.low, other.high)
        self.error = self.error or other.error


def pieces(path: str, array: Array, type_: Any) -> Iterator[tuple[str, Array]]:
    """The pieces of a column as they are in a file, read as ``type_``; the fields of structs are found in any case.

    Raises pyarrow's errors for an array that cannot be read so.
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
    """The paths of all pieces of a column of ``type_``, with the type of each."""
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
    # Flattened, a field is null where its struct is.
    held = dict(zip((field.name.lower() for field in array.type), array.flatten(), strict=True))
    for index in range(type_.num_fields):
        field = type_.field(index)
        found = held.get(field.name.lower())
        if found is None:
            found = pa.nulls(len(array), field.type)
        yield from pieces(f"{path}.{field.name}", found, field.type)
