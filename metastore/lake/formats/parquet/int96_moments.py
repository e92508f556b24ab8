"""Finds times of INT96 for which Arrow returns another moment: those that microseconds cannot hold, and Julian day 0.

Place in the flow: scans, ANALYZE and the readers of Iceberg's and Delta's files call this module before they use times
of INT96. Arrow calculates modulo 2 ** 64 and returns 1970 for twelve zero bytes, so its results do not show the fault.
The twelve bytes of each value are read instead, through a footer that declares them as bytes. That is a second read of
these columns, so ANALYZE marks the files that it has checked (:data:`metastore.model.tuple_schema.HELD`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from thrift.Thrift import TType

from metastore.errors import FormatError
from metastore.lake.formats.arrow_reader import ParquetReader
from metastore.lake.formats.parquet.parquet_footer import Footer, read_footer
from metastore.lake.formats.parquet.thrift_structs import decode_struct, encode_struct

_EPOCH: Final = 2_440_588
"""The Julian day of 1970-01-01."""
_LAST_DAY: Final = _EPOCH + 106_751_990
"""The last whole day that 64 bits of microseconds hold."""
_DAY: Final = 86_400 * 10**9
"""Nanoseconds."""
_WIDTH: Final = 12
_INT96, _FIXED = 3, 7
_SCHEMA, _GROUPS, _CHUNKS, _CHUNK, _TYPE, _LENGTH, _CHILDREN = 2, 4, 1, 3, 1, 2, 5
"""Fields of a footer, a row group, a column chunk, and of a schema element or the metadata of a chunk."""

WHY: Final = (
    "has INT96 times that are no moment between 4713 BC and the year 294246, which microseconds hold: read other "
    "columns, or write the file again"
)


def int96_leaves(metadata: pq.FileMetaData, columns: Collection[str] | None = None) -> dict[int, str]:
    """Returns the leaves of INT96 by number, each with its column; only those of ``columns`` if these are given."""
    schema = metadata.schema
    found = [place for place in range(metadata.num_columns) if schema.column(place).physical_type == "INT96"]
    if not found:
        return {}
    names = [field.name for field in schema.to_arrow_schema() for _ in range(_leaf_count(field.type))]
    return {place: names[place] for place in found if columns is None or names[place] in columns}


def require_moments(
    opened: Callable[[], AbstractContextManager[pa.NativeFile]],
    metadata: pq.FileMetaData,
    columns: Collection[str],
    path: str = "it",
    groups: Sequence[int] | None = None,
) -> None:
    """Raise FormatError, which names ``path``, if a time of INT96 in ``columns`` is not the one that Arrow returns.

    Reads these columns of the row groups ``groups`` (None: all). Raises pyarrow's errors and OSError.
    """
    leaves = int96_leaves(metadata, columns)
    if not leaves:
        return
    with opened() as source:
        wrong = changed_leaves(source, list(leaves), groups)
    if wrong:
        raise FormatError(f"column {leaves[wrong[0]]} of {path} {WHY}")


def changed_leaves(
    source: pa.NativeFile, leaves: Sequence[int], groups: Sequence[int] | None = None, footer: Footer | None = None
) -> list[int]:
    """Returns those of ``leaves``, all of INT96, that hold a time for which Arrow returns another one.

    Reads the footer if it is not given. Raises pyarrow's errors and OSError.
    """
    footer = footer or read_footer(source)
    raw = _as_bytes(footer.content if footer.accepted is None else footer.accepted.content)
    reader = ParquetReader()
    reader.open(source, metadata=raw)
    chosen = range(raw.num_row_groups) if groups is None else groups
    return [leaf for leaf in leaves if not all(_holds(reader, leaf, group) for group in chosen)]


def _holds(reader: ParquetReader, leaf: int, group: int) -> bool:
    table = reader.read_row_group(group, column_indices=[leaf], use_threads=False)
    return all(_are_held(only_leaf(batch)) for batch in table.to_batches())


def _are_held(values: Any) -> bool:
    known = values.drop_null() if values.null_count else values
    if not len(known):
        return True
    buffer = known.buffers()[1]
    words = np.frombuffer(buffer, np.dtype("<u4"), 3 * len(known), known.offset * _WIDTH).reshape(-1, 3)
    days, high = words[:, 2], words[:, 1].astype(np.uint64)
    more = 0 if int(high.max()) < _DAY >> 32 else ((high << np.uint64(32)) | words[:, 0]) // np.uint64(_DAY)
    if int(high.max()) >> 31:
        return False  # readers with signed numbers see another moment
    return int(days.min()) > 0 and int((days.astype(np.uint64) + np.uint64(more)).max()) <= _LAST_DAY


def only_leaf(batch: pa.RecordBatch) -> Any:
    """Returns the values of the only leaf that was read, under any name; null if a struct around it is null.

    A list gives its elements. A map of which one part is read is a list, too.
    """
    values: Any = batch.column(0)
    while pa.types.is_nested(values.type):
        values = values.flatten()[0] if pa.types.is_struct(values.type) else values.flatten()
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _as_bytes(content: bytes) -> pq.FileMetaData:
    """Returns a footer in which INT96 is twelve bytes; both have the same encodings."""
    footer = decode_struct(content)
    bytes_ = (TType.I32, _FIXED)
    for element in footer[_SCHEMA][1][1]:
        if _CHILDREN not in element and element[_TYPE][1] == _INT96:
            element.update({_TYPE: bytes_, _LENGTH: (TType.I32, _WIDTH)})
    for group in footer[_GROUPS][1][1]:
        for chunk in group[_CHUNKS][1][1]:
            if chunk[_CHUNK][1][_TYPE][1] == _INT96:
                chunk[_CHUNK][1][_TYPE] = bytes_
    changed = encode_struct(footer)
    return pq.read_metadata(pa.BufferReader(b"PAR1" + changed + len(changed).to_bytes(4, "little") + b"PAR1"))


def _leaf_count(type_: Any) -> int:
    return sum(_leaf_count(type_.field(at).type) for at in range(type_.num_fields)) if pa.types.is_nested(type_) else 1
