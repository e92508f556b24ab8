"""The layout of row ids: 24 bytes that name one row at one version of its partition's data.

Version 1; all numbers are big-endian and unsigned:

====== ===== ==========================================================================================================
offset bytes content
====== ===== ==========================================================================================================
0      8     number of the row in its row group, from 0
8      4     row group id: number of the row group among those of its partition, by file path and position, from 0
12     12    partition component (:mod:`metastore.model.partition_component`), whose first byte is the version
====== ===== ==========================================================================================================

Ids are compared for equality, byte by byte; their order has no meaning. Whole columns are encoded and decoded at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from metastore.errors import InvalidRequestError
from metastore.model.partition_component import LENGTH as COMPONENT_LENGTH

ROW_ID: Final = "$row_id"
"""The name of the column."""

LENGTH: Final = 12 + COMPONENT_LENGTH
TYPE: Final = pa.binary()

Ids: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any] | Sequence[bytes]"
"""Many ids, as a column or in a sequence."""

_WORDS: Final = LENGTH // 8
_ROW: Final = np.dtype([("row", ">u8"), ("group", ">u4"), ("component", f"V{COMPONENT_LENGTH}")])


@dataclass(frozen=True)
class RowIds:
    """Decoded ids: row numbers and row group ids by position, and each id's partition component."""

    rows: np.ndarray[Any, np.dtype[np.uint64]]
    groups: np.ndarray[Any, np.dtype[np.uint32]]
    components: Sequence[bytes]
    component_of: np.ndarray[Any, np.dtype[np.intp]]
    """For each id, the index of its component in ``components``."""

    def positions(self) -> Iterator[tuple[bytes, np.ndarray[Any, np.dtype[np.intp]]]]:
        """Each component with the positions of its ids."""
        for index, component in enumerate(self.components):
            yield component, np.flatnonzero(self.component_of == index)


def encode(component: bytes, group: int, first_row: int, count: int) -> pa.Array[Any]:
    """The ids of ``count`` consecutive rows of one row group, from ``first_row`` on; at most 2^31 bytes."""
    words: Any = np.empty((count, _WORDS), ">u8")
    words[:, 0] = np.arange(first_row, first_row + count, dtype=np.uint64)
    words[:, 1:] = np.frombuffer(group.to_bytes(4, "big") + component, ">u8")
    offsets: Any = np.arange(0, (count + 1) * LENGTH, LENGTH, dtype=np.int32)
    return pa.Array.from_buffers(TYPE, count, [None, pa.py_buffer(offsets), pa.py_buffer(words)])


def decode(ids: Ids) -> RowIds:
    """The parts of ``ids``. Raises InvalidRequestError for a null, and for a value without the length of an id."""
    texts = _join_ids(ids)
    pieces = np.frombuffer(texts, _ROW)
    components, inverse = np.unique(pieces["component"], return_inverse=True)
    return RowIds(
        pieces["row"].astype(np.uint64),
        pieces["group"].astype(np.uint32),
        [component.tobytes() for component in components],
        inverse.reshape(-1),
    )


def _join_ids(ids: Ids) -> bytes:
    array: Any = ids if isinstance(ids, (pa.Array, pa.ChunkedArray)) else _array(ids)
    if not any(is_type(array.type) for is_type in _BINARY):
        raise InvalidRequestError(f"row ids are binary, not {array.type}")
    values: list[bytes | None] = array.to_pylist()
    for value in values:
        if value is None or len(value) != LENGTH:
            shown = "NULL" if value is None else f"X'{value[:32].hex()}'"
            raise InvalidRequestError(f"{shown} is no row id: an id has {LENGTH} bytes")
    return b"".join(value for value in values if value is not None)


_BINARY: Final = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_null)
"""Types whose values may be ids; nulls are refused one by one."""


def _array(ids: Sequence[bytes]) -> Any:
    try:
        return pa.array(list(ids))
    except (pa.ArrowException, TypeError) as error:
        raise InvalidRequestError(f"row ids are bytes: {error}") from error
