"""Deletion vectors of format version 3: the deleted positions of one data file, as a blob of a Puffin file.

A blob is a length, a magic number, bitmaps of 32-bit positions by the high half of the position, and a checksum.
PyIceberg reads them (:mod:`metastore.lake.iceberg.rows.position_deletes`) and does not write them.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import numpy as np
from pyroaring import BitMap

from metastore.lake.iceberg.rows.puffin import Blob

VECTOR: Final = "deletion-vector-v1"

_MAGIC: Final = b"\xd1\xd3\x39\x64"
_ROW_POSITION: Final = 2147483645
"""The id of the column that positions are of."""
_UNKNOWN: Final = -1
"""A vector is written before the snapshot that it belongs to, whose id and number it inherits."""

Positions = Any
"""A NumPy array of row numbers, sorted and distinct."""


def vector_blob(data_file: str, positions: Positions) -> Blob:
    """Return the blob of the deleted ``positions`` of ``data_file``."""
    return Blob(
        VECTOR,
        [_ROW_POSITION],
        _UNKNOWN,
        _UNKNOWN,
        vector_content(positions),
        {"referenced-data-file": data_file, "cardinality": str(len(positions))},
    )


def vector_content(positions: Positions) -> bytes:
    """Return the bytes of a vector."""
    high = positions >> 32
    parts = [struct.pack("<Q", len(np.unique(high)))]
    for key in np.unique(high):
        bitmap = BitMap((positions[high == key] & 0xFFFFFFFF).astype(np.uint32))
        bitmap.run_optimize()
        parts += [struct.pack("<I", int(key)), bitmap.serialize()]
    body = _MAGIC + b"".join(parts)
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
