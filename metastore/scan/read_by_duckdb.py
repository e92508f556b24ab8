"""Rows of a Parquet file that is valid and that Arrow does not read, by DuckDB (extra ``sql``).

Place in the flow: the task of a scan (:mod:`metastore.scan.rows`) comes here when Arrow fails with one of the errors
:data:`LIMITS`. Promise: rows have the file's order, so a reader continues after the rows that Arrow has given. Other
errors of Arrow are about damaged files, which DuckDB might read as something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from metastore.errors import FormatError
from metastore.ground.optional import library
from metastore.ground.quoting import double_quoted
from metastore.lake.formats.conforming import conform_batch

LIMITS: Final = re.compile(r"Init(Mini)?Block EOF|delta bit width larger|FromBigEndian was \d+")
"""What Arrow says of whole numbers whose differences need more bits than they do, as DuckDB writes them with
``PARQUET_VERSION V2``, and of decimals in more bytes than 16."""

_BATCH_ROWS: Final = 65_536


def rows_by_duckdb(part: ds.ParquetFileFragment, schema: pa.Schema, after: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the row groups of ``part`` in the columns of ``schema``, without the first ``after`` ones.

    A file that is not on a local disk is copied to one. Raises InvalidRequestError without DuckDB, and FormatError for
    a damaged file, or a column whose type DuckDB and Arrow do not share.
    """
    duckdb = library("duckdb", "sql")
    ranges, row, left = [], 0, after
    wanted = {group.id for group in part.row_groups}
    for place in range(part.metadata.num_row_groups):
        count = part.metadata.row_group(place).num_rows
        if place in wanted:
            skipped = min(left, count)
            ranges.append((row + skipped, row + count))
            left -= skipped
        row += count
    with ExitStack() as opened:
        path = _on_local_disk(part, opened)
        connection = opened.enter_context(duckdb.connect(config={"threads": 1}))
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.from_parquet(path, file_row_number=True)
        columns = ", ".join(map(double_quoted, schema.names)) or "1"
        for first, end in ranges:
            chosen = found.filter(f"file_row_number >= {first} AND file_row_number < {end}").project(columns)
            try:
                for batch in chosen.to_arrow_reader(_BATCH_ROWS):
                    yield conform_batch(batch, schema)
            except duckdb.Error as error:
                raise FormatError(f"neither Arrow nor DuckDB reads it: {error}") from error


def _on_local_disk(part: ds.ParquetFileFragment, opened: ExitStack) -> str:
    """Returns the path of the file, or of a copy that exists as long as ``opened``."""
    if isinstance(part.filesystem, fs.LocalFileSystem):
        return part.path
    copy = str(Path(opened.enter_context(TemporaryDirectory())) / "copy.parquet")
    fs.copy_files(part.path, copy, source_filesystem=part.filesystem, destination_filesystem=fs.LocalFileSystem())
    return copy
