"""IN and NOT IN over lists of any length: the same rows as DuckDB finds, by one look-up for each row."""

from __future__ import annotations

import datetime as dt
from datetime import timezone
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from metastore.duck.sql_filter import filter_batches
from metastore.lake.formats.arrow_schema import tuple_schema
from metastore.predicates.arrow_filter import arrow_filter
from metastore.predicates.columns import Columns
from metastore.predicates.spark_sql import condition_of

VALUES: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "integers": (pa.int32(), [1, 2, 7], "1, 2.0, 2.5, 99999999999"),
    "unsigned": (pa.uint8(), [0, 255], "255, 256, -1"),
    "decimals": (pa.decimal128(9, 2), [Decimal("1.10"), Decimal(2)], "1.1, 2, 2.001"),
    "doubles": (pa.float64(), [0.0, -0.0, 1.5, float("nan"), float("inf")], "-0.0, 1.5"),
    "floats": (pa.float32(), [0.0, -0.0, 1.5, float("nan")], "0, 1.5"),
    "texts": (pa.string(), ["", "a", "é"], "'a', 'é', 'b'"),
    "long_texts": (pa.large_string(), ["a", "b"], "'b'"),
    "days": (pa.date32(), [dt.date(2024, 2, 29), dt.date(1, 1, 1)], "DATE '2024-02-29', DATE '2024-03-01'"),
    "moments": (
        pa.timestamp("us"),
        [dt.datetime(2024, 1, 1), dt.datetime(2025, 1, 1)],
        "TIMESTAMP '2024-01-01 00:00:00'",
    ),
    "clock": (pa.time64("us"), [dt.time(1), dt.time(2)], "TIME '01:00:00'"),
    "flags": (pa.bool_(), [True, False], "true"),
}


@pytest.mark.parametrize("asked", ["IN", "NOT IN"])
@pytest.mark.parametrize("name", VALUES)
def test_the_rows_are_those_of_duckdb(name: str, asked: str) -> None:
    """Of every type, with nulls, zeros of both signs, NaN, and literals that the type cannot hold."""
    type_, values, literals = VALUES[name]
    rows = pa.table({"x": pa.array([*values, None], type_), "n": range(len(values) + 1)})
    chosen = arrow_filter(f"x {asked} ({literals})", Columns(tuple_schema(rows.schema)[0]), rows.schema, timezone.utc)
    assert chosen is not None
    judged = duckdb.connect().execute(f"SELECT n FROM rows WHERE x {asked} ({literals}) ORDER BY n").fetchall()
    assert rows.filter(chosen.expression)["n"].to_pylist() == [number for (number,) in judged]


def test_a_list_of_thousands_is_one_look_up() -> None:
    """Whatever its length; a chain of comparisons would take time with its square."""
    schema = pa.schema([("x", pa.int64())])
    question = f"x IN ({', '.join(map(str, range(5000)))})"
    chosen = arrow_filter(question, Columns(tuple_schema(schema)[0]), schema, timezone.utc)
    assert chosen is not None
    said = str(chosen.expression)
    assert (said.count("is_in"), said.count("==")) == (1, 0)


def test_a_condition_that_was_carried_out_is_still_what_it_was() -> None:
    """Its tree is shared by all that read the text, so an engine's spelling of it is made of a copy."""
    question = "x + 1 IN (2, 3) AND s.x + 1 = 8"
    before = condition_of(question).sql()
    rows = pa.table({"x": [1, 5], "s": [{"x": 7}, {"x": 7}]})
    found = filter_batches(
        rows.to_batches(), rows.schema, question, Columns(tuple_schema(rows.schema)[0]), timezone.utc
    )
    assert [row for batch in found for row in batch.to_pylist()] == [{"x": 1, "s": {"x": 7}}]
    assert condition_of(question).sql() == before
