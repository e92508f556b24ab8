"""Footers with wounds: over what Arrow's objects end the process, the judgement is an error, whatever bit was hurt."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.forked import in_child
from support.odd_parquet import write_odd_parquet

from metastore.lake.formats.parquet.parquet_footer import read_footer, schema_in

ALL_OF_IT = """
import sys
import pyarrow as pa
import pyarrow.parquet as pq

metadata = pq.read_metadata(sys.argv[1])
for group in map(metadata.row_group, range(metadata.num_row_groups)):
    for column in map(group.column, range(group.num_columns)):
        bounds = column.statistics
        bounds and bounds.has_min_max and (bounds.min, bounds.max)
"""
"""Everything that a footer says of its columns, without a look at whether it can be."""


@pytest.fixture(scope="module")
def content() -> bytes:
    """A small file with columns of most kinds, and a page index."""
    rows = pa.table(
        {
            "number": [1, None] * 4,
            "text": ["a", "b"] * 4,
            "list": [[1, 2], []] * 4,
            "decimal": pa.array([Decimal("1.2")] * 8, pa.decimal128(10, 2)),
            "struct": [{"x": 1.5, "when": datetime(2020, 1, 1)}] * 8,
            "flag": [True, None] * 4,
            "day": [date(2020, 1, 1)] * 8,
            "nothing": pa.nulls(8),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, write_page_index=True)
    return sink.getvalue().to_pybytes()


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file whose footer is changed before Arrow takes it."""
    folder = tmp_path_factory.mktemp("odd")
    write_odd_parquet(folder, ["map_of_optional_keys"])
    return (folder / "map_of_optional_keys.parquet").read_bytes()


def wounds(content: bytes) -> Iterator[bytes]:
    """The file with one bit of its footer turned over, each in its turn."""
    length = struct.unpack("<I", content[-8:-4])[0]
    for position in range(len(content) - 8 - length, len(content)):
        for bit in range(8):
            wounded = bytearray(content)
            wounded[position] ^= 1 << bit
            yield bytes(wounded)


def outcome(content: bytes) -> bool:
    """Whether the footer was taken; then everything in it can be asked for."""
    try:
        metadata = read_footer(pa.BufferReader(content)).metadata
    except (pa.ArrowException, OSError):
        return False
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for index in range(group.num_columns):
            assert group.column(index).num_values is not None
            try:
                bounds = group.column(index).statistics
                assert bounds is None or not bounds.has_min_max or bounds.min is not None
            except (pa.ArrowException, ValueError, OverflowError):
                continue  # Bounds that are no value of the type: an error, and the process goes on.
    return True


@pytest.mark.parametrize("kind", ["content", "refused"])
def test_no_turned_bit_ends_the_process(kind: str, request: pytest.FixtureRequest) -> None:
    """In a child, since a process that ended could not say so: every bit, and both outcomes come."""
    content: bytes = request.getfixturevalue(kind)
    met, told = os.pipe()

    def child() -> None:
        taken = [outcome(each) for each in wounds(content)]
        os.write(told, f"{taken.count(True)} {taken.count(False)}".encode())

    end = in_child(child)
    os.close(told)
    with open(met) as answer:
        counts = answer.read()
    assert end() == 0
    counted = [int(number) for number in counts.split()]
    assert min(counted) > 1000
    length = struct.unpack("<I", content[-8:-4])[0]
    assert sum(counted) == 8 * (length + 8)


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.float64(), pa.float32(), pa.bool_(), pa.binary(4)])
def test_a_bound_that_is_too_short_is_refused(tmp_path: Path, kind: pa.DataType) -> None:
    """Also an empty one; Arrow's own objects end the process over it, which is why anything is judged here."""
    values = [True] if kind == pa.bool_() else [b"abcd"] if kind == pa.binary(4) else [7]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": pa.array(values, kind)}), path)
    assert read_footer(str(path)).metadata.num_rows == 1
    stored = pa.array(values, kind).buffers()[1]
    assert stored is not None
    bound = stored.to_pybytes()[: max(1, kind.bit_width // 8)]
    content = path.read_bytes()
    length = struct.unpack("<I", content[-8:-4])[0]
    footer = content[-8 - length : -8]
    cut = footer.replace(bytes([len(bound)]) + bound, b"\0")
    assert len(cut) < len(footer)
    path.write_bytes(content[: -8 - length] + cut + struct.pack("<I", len(cut)) + b"PAR1")
    died = subprocess.run([sys.executable, "-c", ALL_OF_IT, str(path)], capture_output=True, check=False).returncode
    assert died < 0
    with pytest.raises(pa.ArrowInvalid, match="a bound has 0 bytes"):
        read_footer(str(path))


def test_a_long_footer_is_read_whole(tmp_path: Path) -> None:
    """Longer than what is read of a file at first; by its path, and through an open file."""
    path = str(tmp_path / "wide.parquet")
    pq.write_table(pa.table({f"column {number}": [number] for number in range(2000)}), path)
    expected = pq.read_metadata(path)
    assert expected.serialized_size > 64 << 10
    assert read_footer(path).metadata.equals(expected)
    with pa.OSFile(path, "rb") as source:
        assert read_footer(source).metadata.equals(expected)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"\xff" * 100, b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1"])
def test_what_is_no_parquet_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """As Arrow refuses it."""
    path = tmp_path / "t.parquet"
    path.write_bytes(content)
    with pytest.raises((pa.ArrowException, OSError)):
        read_footer(str(path))


def footer_of(table: pa.Table, **options: Any) -> bytes:
    """The bytes of the footer that Arrow writes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return read_footer(pa.BufferReader(sink.getvalue())).content


def test_a_footer_begins_with_its_schema() -> None:
    """Whatever the rows and row groups are; another name, type or structure is another beginning."""
    struct = pa.struct([("a", pa.int64())])
    schema = pa.schema([("k", pa.int32()), ("s", struct)])
    one = footer_of(pa.table({"k": [1, 2], "s": [None, {"a": 1}]}, schema))
    other = footer_of(pa.table({"k": [7] * 9, "s": [{"a": 5}] * 9}, schema), row_group_size=2)
    beginning = schema_in(one)
    assert beginning is not None
    assert b"k" in beginning
    assert len(beginning) < len(one)
    assert other.startswith(beginning)
    for different in (
        pa.schema([("j", pa.int32()), ("s", struct)]),
        pa.schema([("k", pa.int64()), ("s", struct)]),
        pa.schema([("k", pa.date32()), ("s", struct)]),
        pa.schema([("k", pa.int32()), ("t", struct)]),
        pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("s", struct)]),
    ):
        assert not footer_of(different.empty_table()).startswith(beginning)


@given(content=st.binary(max_size=60), cut=st.integers(0, 300))
def test_where_the_schema_is_not_first_nothing_is_said(content: bytes, cut: int) -> None:
    """Bytes that are no footer, and footers that end early: None, or a beginning of them."""
    whole = footer_of(pa.table({"k": [1]}))
    for footer in (content, whole[:cut] + content, b"\x36" + whole[1:], b"\x15\x02\x26" + whole):
        beginning = schema_in(footer)
        assert beginning is None or (beginning and footer.startswith(beginning))
    assert schema_in(b"\x36" + whole[1:]) is None
    assert schema_in(b"\x15\x02\x26" + whole) is None
