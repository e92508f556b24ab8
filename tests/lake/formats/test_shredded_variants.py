"""Shredded variants are put together again with the values that DuckDB, which shredded them, reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metastore.errors import FormatError
from metastore.lake.formats.parquet.marked_footer import FooterHeld, variant_mark
from metastore.lake.formats.parquet.shredded_variants import assemble_variants

KINDS = {
    "boolean": "i % 2 = 0",
    "tinyint": "i - 50",
    "smallint": "i * 7",
    "integer": "i * -1000",
    "bigint": "i * 1000000000000",
    "float": "i / 3",
    "double": "i / 7",
    "decimal(5, 2)": "i / 100",
    "decimal(15, 3)": "i * 1000.123",
    "decimal(38, 5)": "i * -10000000000000000000000000.12",
    "date": "date '1960-01-01' + i::int",
    "time": "time '01:02:03.123456' + to_seconds(i::int)",
    "timestamp": "timestamp '1900-01-01 00:00:01.123456' + to_days(i::int)",
    "timestamptz": "timestamptz '1900-01-01 00:00:01.123456+00' + to_days(i::int)",
    "timestamp_ns": "make_timestamp_ns(i * 1234567890123 - 10)",
    "varchar": "repeat('ä', i::int)",
    "blob": "repeat('ab', i::int)",
    "uuid": "uuid()",
}
SHREDDINGS = (
    "",
    ", shredding {v: 'STRUCT(a INTEGER, b VARCHAR[])'}",
    ", shredding {v: 'STRUCT(a STRUCT(b BIGINT, c VARCHAR), d DOUBLE)'}",
    ", shredding {v: 'STRUCT(a VARCHAR)[]'}",
    ", shredding {v: 'STRUCT(c VARIANT, b BIGINT[][])'}",
    ", shredding {v: 'VARCHAR'}",
)
VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("xü", max_size=80),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.sampled_from("abcdü"), parts, max_size=4),
    max_leaves=12,
)


def shredded(path: Path, query: str, options: str = "") -> pa.Table:
    """The rows of ``query``, with a column ``v`` of variants, as DuckDB stores them."""
    with duckdb.connect() as database:
        database.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet{options})")
    return pq.ParquetFile(path).read()


def rewritten(rows: pa.Table, path: Path) -> None:
    """Write the column ``v`` as metadata and value."""
    column: Any = rows["v"].combine_chunks()
    names = [pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")]
    made = pa.StructArray.from_arrays([*assemble_variants(column)], fields=names, mask=column.is_null())
    schema = pa.schema([pa.field("v", made.type, metadata={"PARQUET:field_id": "1"}), rows.schema.field("i")])
    with path.open("wb") as stream:
        held: Any = FooterHeld(stream)
        with pq.ParquetWriter(held, schema, store_schema=False, write_statistics=False) as writer:
            writer.write_table(pa.table([made, rows["i"]], schema=schema))
            held.hold()
        held.release({1: variant_mark()})


def read(path: Path, columns: str = "v::VARCHAR, variant_typeof(v)") -> list[tuple[Any, ...]]:
    """What DuckDB reads."""
    with duckdb.connect() as database:
        return database.sql(f"SELECT i, {columns} FROM '{path}' ORDER BY i").fetchall()


@pytest.mark.parametrize("kind", KINDS)
def test_each_type_keeps_its_values(tmp_path: Path, kind: str) -> None:
    """Beside rows without a value, and rows of another type. A decimal has no precision in a variant."""
    before, after = tmp_path / "before.parquet", tmp_path / "after.parquet"
    query = (
        f"SELECT i, CASE WHEN i % 7 = 0 THEN NULL WHEN i % 11 = 0 THEN ([i])::VARIANT ELSE ({KINDS[kind]})::{kind}"
        "::VARIANT END AS v FROM range(100) t(i)"
    )
    rows = shredded(before, query)
    assert "typed_value" in [field.name for field in rows.schema.field("v").type]
    rewritten(rows, after)
    columns = (
        f"TRY_CAST(v AS {kind}), TRY_CAST(v AS BIGINT[])" if "decimal" in kind else "v::VARCHAR, variant_typeof(v)"
    )
    assert read(after, columns) == read(before, columns)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(values=st.lists(VALUES, min_size=1, max_size=20), shredding=st.sampled_from(SHREDDINGS))
def test_values_of_any_shape_are_equal(tmp_path: Path, values: list[Any], shredding: str) -> None:
    """Nested, partially shredded, missing, null: whatever a file has for them."""
    before, after, source = (tmp_path / name for name in ("before.parquet", "after.parquet", "source.parquet"))
    texts = [json.dumps(value) for value in values]
    pq.write_table(pa.table({"i": range(len(texts)), "j": pa.array(texts, pa.string())}), source)
    rows = shredded(before, f"SELECT i, j::JSON::VARIANT AS v FROM '{source}'", shredding)
    rewritten(rows, after)
    assert read(after) == read(before)


def test_objects_with_many_and_long_fields(tmp_path: Path) -> None:
    """Their counts, numbers and offsets take more than one byte."""
    before, after = tmp_path / "before.parquet", tmp_path / "after.parquet"
    fields = ", ".join(
        f"'k{number}': CASE WHEN i = {number} THEN NULL ELSE repeat('x', i) END" for number in range(300)
    )
    rows = shredded(before, f"SELECT i, ({{{fields}}})::VARIANT AS v FROM range(300) t(i)")
    assert "typed_value" in [field.name for field in rows.schema.field("v").type]
    rewritten(rows, after)
    assert read(after) == read(before)


NAMES = b"\x01\x01\x00\x01a"  # a dictionary of the name a


def _column(metadata: bytes, value: bytes | None, typed: Any) -> Any:
    return pa.StructArray.from_arrays(
        [pa.array([metadata]), pa.array([value], pa.binary()), typed], ["metadata", "value", "typed_value"]
    )


def _object(name: str) -> Any:
    part = pa.StructArray.from_arrays([pa.array([None], pa.binary()), pa.array([7])], ["value", "typed_value"])
    return pa.StructArray.from_arrays([part], [name])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (_column(NAMES, b"\x00", pa.array([7])), "both a value and a typed value of int64"),
        (_column(NAMES, b"\x0c\x01", _object("a")), "beside a value that is no object"),
        (_column(NAMES, None, _object("b")), "lacks the name of its shredded field 'b'"),
        (_column(b"\x02\x00\x00", None, _object("a")), "metadata of a variant is damaged, or of an unknown version"),
        (_column(b"\x01\x01\x00\x09a", None, _object("a")), "ends before its names do"),
        (_column(NAMES, None, pa.array([7], pa.uint8())), "shredded into uint8, which is no type of variants"),
        (_column(NAMES, None, pa.StructArray.from_arrays([pa.array([1])], ["a"])), "shredded into int64; expected are"),
    ],
)
def test_what_is_no_variant_is_refused(column: Any, message: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(FormatError, match=message):
        assemble_variants(column)


def test_a_variant_without_a_value_is_null() -> None:
    """As the specification says; other rows have theirs. Values of files without a column ``value`` are read, too."""
    typed = pa.array([7, None], pa.int8())
    column = pa.StructArray.from_arrays([pa.array([NAMES] * 2), typed], ["metadata", "typed_value"])
    _, values = assemble_variants(column)
    assert values.to_pylist() == [b"\x0c\x07", b"\x00"]


def test_a_shredded_field_wins_over_the_same_field_of_the_value() -> None:
    """A writer must not store both; then the typed one is read."""
    inner = b"\x02\x01\x00\x00\x02\x0c\x01"  # {"a": 1}
    _, values = assemble_variants(_column(NAMES, inner, _object("a")))
    assert values.to_pylist() == [b"\x02\x01\x00\x00\x09\x18" + (7).to_bytes(8, "little")]
