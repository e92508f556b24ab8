"""JSON: types as Spark infers them, values as Python's json reads them, and one reading for ANALYZE and scans."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.opened_data import opened_data

from metastore.lake.formats.file_format import Opening
from metastore.lake.formats.names import format_record
from metastore.lake.formats.row_files import read_file
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.formats.text.json_files import json_rows


def inferred(text: str) -> pa.Schema:
    """The columns of a file."""
    return opened_data("JSON", lambda: io.BytesIO(text.encode())).schema


def rows(text: str) -> list[dict[str, Any]]:
    """The rows of a file in the columns that are inferred of it."""
    return pa.Table.from_batches(json_rows(lambda: io.BytesIO(text.encode()), inferred(text))).to_pylist()


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, 2**63 - 1], pa.int64()),
        ([1, 2**63], pa.decimal128(20, 0)),
        ([-(2**63) - 1], pa.decimal128(19, 0)),
        ([10**37], pa.decimal128(38, 0)),
        ([10**37, 1], pa.decimal128(38, 0)),
        ([10**38], pa.float64()),
        ([2**64, 1.5], pa.float64()),
        ([2**53 + 1, 1.5], pa.float64()),
        ([[2**64]], pa.list_(pa.decimal128(20, 0))),
    ],
)
def test_integers_have_the_types_of_spark(values: list[Any], type_: pa.DataType) -> None:
    """DECIMAL beyond 64 bits up to 38 digits, DOUBLE beyond them or beside fractions; values stay different."""
    text = "".join(json.dumps({"a": value}) + "\n" for value in values)
    assert inferred(text).field("a").type == type_
    expected = [float(value) for value in values] if type_ == pa.float64() else values
    assert [row["a"] for row in rows(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":[{"n":null},{"n":null}]}\n', [{"a": [{"n": None}, {"n": None}]}]),
        ('{"a":{"n":null}}\n', [{"a": {"n": None}}]),
        ('{"a":[null]}\n{"a":[]}\n', [{"a": [None]}, {"a": []}]),
        ('{"a":null}\n', [{"a": None}]),
        ("[]", []),
        ("  \n", []),
        ("", []),
    ],
)
def test_values_that_leave_a_type_open(text: str, expected: list[dict[str, Any]]) -> None:
    """Fields that are always null are rows of nulls; an empty list and a blank file are tables without rows."""
    batches = list(json_rows(lambda: io.BytesIO(text.encode()), inferred(text)))
    assert [row for batch in batches for row in batch.to_pylist()] == expected


def test_objects_without_fields_are_rows() -> None:
    """A batch of no columns knows how many rows it stands for."""
    batches = opened_data("JSON", lambda: io.BytesIO(b"{}\n{}\n")).batches
    assert [batch.num_rows for batch in batches([])] == [2]


NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none()


@given(values=st.lists(st.dictionaries(st.sampled_from("abc"), NUMBERS | st.text(max_size=3)), max_size=5))
def test_analyze_and_scans_read_the_same(tmp_path_factory: pytest.TempPathFactory, values: list[Any]) -> None:
    """What ANALYZE measures is what a scan returns, and what Python's json reads."""
    folder = tmp_path_factory.mktemp("json")
    (folder / "a.json").write_text("".join(json.dumps(value) + "\n" for value in values))
    opening, file = Opening(format_record("JSON"), str(folder)), SourceFile((), "a.json", str(folder / "a.json"), 1, 0)
    with opening.open(file) as data:
        schema = data.schema
        plain = [field.name for field in schema if not field.metadata]
        measured = [row for batch in data.batches(plain) for row in batch.to_pylist()]
    scanned = [row for batch in read_file(opening, file.path, pa.schema(list(schema))) for row in batch.to_pylist()]
    assert measured == [{name: row[name] for name in plain} for row in scanned]
    for row, value in zip(scanned, values, strict=True):
        for name in plain:
            expected = value.get(name)
            assert row[name] == (float(expected) if isinstance(row[name], float) else expected)
            assert not isinstance(row[name], Decimal) or row[name] == expected
