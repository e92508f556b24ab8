"""The one door to pyarrow's private reader of Parquet, which stands beneath ``pyarrow.parquet.ParquetFile``.

``ParquetFile`` takes a third longer for a footer, and chooses columns by name alone: by a name with a dot it cannot
tell a column from a field of a struct. A test fails once it takes numbers of columns; then this module goes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow._parquet import ParquetReader

__all__ = ["ParquetReader", "opened"]


def opened(source: pa.NativeFile, *, dictionaries: Sequence[int] = ()) -> ParquetReader:
    """A reader of ``source``, with INT96 in microseconds; columns with these numbers come as dictionaries.

    Raises ArrowInvalid or OSError for what is no Parquet file.
    """
    reader = ParquetReader()
    reader.open(source, coerce_int96_timestamp_unit="us", read_dictionary=dictionaries or None)
    return reader
