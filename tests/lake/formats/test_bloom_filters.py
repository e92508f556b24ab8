"""Bloom filters exclude row groups of which the file itself says that they lack a value, and never one that has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.footers import change_footer
from thrift.Thrift import TType

from metastore.lake.formats.parquet.bloom_filters import Probes, possible_groups, xxh64
from metastore.lake.formats.parquet.thrift_structs import Struct

CREATED_BY = 6
"""The field of a footer with the writer's name."""


def write(path: Path, table: pa.Table, groups: int) -> None:
    """A file of so many row groups with a bloom filter for each column."""
    options: Any = {"bloom_filter_options": dict.fromkeys(table.column_names, True)}
    pq.write_table(table, path, row_group_size=-(-len(table) // groups), **options)


def possible(path: Path, probes: Probes) -> list[int]:
    """The row groups that may have the values."""
    metadata = pq.read_metadata(path)
    return list(possible_groups(lambda: pa.OSFile(str(path), "rb"), metadata, probes, range(metadata.num_row_groups)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
    ],
)
def test_the_hash_is_xxh64(text: bytes, expected: int) -> None:
    """By the values that its author publishes; longer texts are compared with Arrow's own filters below."""
    assert xxh64(text) == expected


NUMBERS = st.integers(-(2**31), 2**31 - 1)


TRIPLES = st.tuples(NUMBERS, st.integers(-(2**63), 2**63 - 1), st.text(max_size=100))


@given(rows=st.lists(TRIPLES, min_size=4, max_size=40))
def test_no_row_group_that_has_a_value_is_excluded(
    rows: list[tuple[int, int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of integers of both widths and texts of any length, as Arrow writes them."""
    path = tmp_path_factory.mktemp("bloom") / "a.parquet"
    columns = list(zip(*rows, strict=True))
    table = pa.table(
        {"i": pa.array(columns[0], pa.int32()), "l": pa.array(columns[1], pa.int64()), "s": pa.array(columns[2])}
    )
    write(path, table, 2)
    half = -(-len(rows) // 2)
    for number, (narrow, wide, text) in enumerate(rows):
        for probes in ({"i": (narrow,)}, {"l": (wide,)}, {"s": (text,)}):
            assert number // half in possible(path, probes), probes


def test_duckdb_agrees(tmp_path: Path) -> None:
    """On its own files: what DuckDB's probe excludes is excluded here, and nothing else."""
    path = tmp_path / "a.parquet"
    with duckdb.connect() as engine:
        rows = (
            "SELECT (i // 4096) * 100 + i % 100 AS id, 'k' || (i // 4096) * 100 + i % 100 AS s FROM range(16384) t(i)"
        )
        rows = rows.replace("'k' || (i // 4096) * 100 + i % 100", "'k' || ((i // 4096) * 100 + i % 100)")
        engine.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 4096)")
        excluded = 0
        for value in range(-5, 420, 5):
            for name, sought in (("id", value), ("s", f"k{value}")):
                probe = engine.execute("SELECT * FROM parquet_bloom_probe(?, ?, ?)", [str(path), name, sought])
                theirs = [group for _, group, excludes in probe.fetchall() if not excludes]
                assert possible(path, {name: (sought,)}) == theirs, sought
                excluded += 4 - len(theirs)
    assert excluded > 300


def table_of_numbers() -> pa.Table:
    """Even numbers up to 2000."""
    return pa.table({"i": pa.array(range(0, 2000, 2), pa.int64())})


def test_values_are_all_looked_up(tmp_path: Path) -> None:
    """A group stays for any value of an IN, and only if each column that is asked for may have one of its own."""
    table = table_of_numbers()
    write(tmp_path / "a.parquet", table.append_column("s", table["i"].cast(pa.string())), 4)
    assert possible(tmp_path / "a.parquet", {"i": (1, 3, 1998)}) == [3]
    assert possible(tmp_path / "a.parquet", {"i": (0, 1998)}) == [0, 3]
    assert possible(tmp_path / "a.parquet", {"i": (0, 1998), "s": ("0", "nothing")}) == [0]
    assert possible(tmp_path / "a.parquet", {"other": (1,)}) == [0, 1, 2, 3]


def test_other_forms_of_a_value_exclude_nothing(tmp_path: Path) -> None:
    """A text for a number, a number beyond the column, narrow and unsigned integers, bytes, a value in a list."""
    columns: dict[str, pa.Array[Any]] = {
        "int": pa.array([1, 2], pa.int32()),
        "small": pa.array([1, 2], pa.int16()),
        "unsigned": pa.array([1, 2], pa.uint32()),
        "bytes": pa.array([b"a", b"b"]),
        "text": pa.array(["a", "b"]),
    }
    write(tmp_path / "a.parquet", pa.table(columns), 1)
    for name, value in (("int", "9"), ("int", 2**40), ("small", 9), ("unsigned", 9), ("bytes", "z"), ("text", 9)):
        assert possible(tmp_path / "a.parquet", {name: (value,)}) == [0], name
    assert possible(tmp_path / "a.parquet", {"int": (9,)}) == []


def test_filters_of_other_writers_and_damaged_ones_exclude_nothing(tmp_path: Path) -> None:
    """Arrow for Go is known to leave values out; of what cannot be understood nothing is said."""
    path = tmp_path / "a.parquet"
    write(path, table_of_numbers(), 1)
    assert possible(path, {"i": (1,)}) == []
    chunk: Any = pq.read_metadata(path).row_group(0).column(0)
    content = path.read_bytes()
    path.write_bytes(content[: chunk.bloom_filter_offset] + b"\xff" * 8 + content[chunk.bloom_filter_offset + 8 :])
    assert possible(path, {"i": (1,)}) == [0]
    path.write_bytes(content)

    def by_go(footer: Struct) -> None:
        footer[CREATED_BY] = (TType.STRING, b"parquet-go version 18.4.0")

    change_footer(path, by_go)
    assert possible(path, {"i": (1,)}) == [0]
