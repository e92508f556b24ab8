"""pyarrow's public reader still lacks what the private one is used for: else the door to it is of no use any more."""

from __future__ import annotations

import inspect
import io

import pyarrow as pa
import pyarrow.parquet as pq

from metastore.lake.formats.arrow_reader import open_parquet


def test_columns_are_read_by_number() -> None:
    """A column with a dot in its name and the field of a struct are told apart."""
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a.b": [1], "a": [{"b": 2}]}), buffer)
    reader = open_parquet(pa.BufferReader(buffer.getvalue()))
    assert reader.read_row_group(0, column_indices=[0]).to_pylist() == [{"a.b": 1}]
    assert reader.read_row_group(0, column_indices=[1]).to_pylist() == [{"a": {"b": 2}}]


def test_the_public_reader_takes_names_alone() -> None:
    """If this fails, ``metastore/lake/formats/arrow_reader.py`` can be removed."""
    assert "column_indices" not in inspect.signature(pq.ParquetFile.read_row_group).parameters
