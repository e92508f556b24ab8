"""Access to pyarrow's private reader of Parquet, on which ``pyarrow.parquet.ParquetFile`` is built.

``ParquetFile`` takes a third longer for a footer, and selects columns by name only: for a name with a dot, it cannot
distinguish a column from a field of a struct. A test fails as soon as ``ParquetFile`` accepts column numbers; this
module can then be removed.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow._parquet import ParquetReader

__all__ = ["ParquetReader", "open_parquet"]


def open_parquet(source: pa.NativeFile, *, dictionaries: Sequence[int] = ()) -> ParquetReader:
    """Returns a reader of ``source``, with INT96 in microseconds; columns with these numbers are read as dictionaries.

    Raises ArrowInvalid or OSError if it is not a Parquet file.
    """
    reader = ParquetReader()
    reader.open(source, coerce_int96_timestamp_unit="us", read_dictionary=dictionaries or None)
    return reader
