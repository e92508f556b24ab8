"""A container that a condition excludes holds no row that DuckDB finds: for functions, casts, sums and constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from support.conditions import CONDITIONS

from metastore.lake.formats.arrow_schema import tuple_schema
from metastore.model.bounds.statistics_columns import StatisticsColumns
from metastore.model.statistics import ColumnStatistics
from metastore.predicates.columns import Columns
from metastore.predicates.condition import DUCKDB, Condition
from metastore.predicates.predicate import Predicate, parse
from metastore.scan.pruning.evaluate import Evaluation, Exclusion

FIELDS: list[tuple[str, pa.DataType]] = [
    ("i", pa.int32()),
    ("t", pa.int8()),
    ("b", pa.int64()),
    ("dec", pa.decimal128(9, 2)),
    ("big", pa.decimal128(38, 3)),
    ("f", pa.float64()),
    ("s", pa.string()),
    ("flag", pa.bool_()),
    ("day", pa.date32()),
    ("ts", pa.timestamp("us")),
    ("utc", pa.timestamp("us", "UTC")),
    ("p", pa.struct([("x", pa.int32()), ("ts", pa.timestamp("us"))])),
]
SCHEMA = pa.schema(FIELDS)
COLUMNS = Columns(tuple_schema(SCHEMA)[0])
MOMENTS = [datetime(2023, 12, 31, 23, 59, 59, 999999), *(datetime(2024, m, 1, h) for m in (1, 2, 3) for h in (0, 11))]
VALUES: dict[str, list[Any]] = {
    "i": [-(2**31), -7, -1, 0, 1, 4, 5, 6, 2**31 - 1],
    "t": [-128, -1, 0, 5, 126, 127],
    "b": [-(2**63), -1, 0, 5, 2**53 + 1, 2**63 - 1],
    "dec": [Decimal(v) for v in ("-9999999.99", "-0.01", "0.00", "4.99", "5.00", "9999999.99")],
    "big": [Decimal(v) for v in ("-1.000", "0.001", "12345678901234567890123456789012345.678")],
    "f": [-1.5, -0.0, 0.0, 0.1, 5.0, 9007199254740993.0, float("inf"), float("nan")],
    "s": ["", "a", "ab", "abc", "abcd", "abd", "b", "ä", "äb", "😀a"],
    "flag": [True, False],
    "day": [date(2023, 12, 31), date(2024, 1, 1), date(2024, 1, 31), date(2024, 2, 29), date(2025, 1, 1)],
    "ts": MOMENTS,
    "utc": [moment.replace(tzinfo=timezone.utc) for moment in MOMENTS],
    "p": [{"x": 1, "ts": MOMENTS[0]}, {"x": None, "ts": MOMENTS[3]}, {"x": 5, "ts": None}],
}


@st.composite
def rows(draw: st.DrawFn) -> pa.Table:
    """A few rows that lie together, as those of a container."""
    names = list(VALUES)
    count = draw(st.integers(1, 3))
    columns = {name: [draw(st.none() | st.sampled_from(VALUES[name])) for _ in range(count)] for name in names}
    return pa.table(columns, SCHEMA)


@dataclass
class Known:
    """What footers would say of containers."""

    tables: Sequence[pa.Table]

    def of(self, column: str, among: Any) -> StatisticsColumns:
        """Bounds, nulls and NaN of the column."""
        return StatisticsColumns.of([self._of_one(column, table) for table in self.tables])

    def excluded_by(self, predicate: Predicate) -> dict[int, Exclusion]:
        """The containers that a predicate excludes, each with the reason."""
        found = Evaluation(predicate).exclude(np.ones(len(self.tables), np.bool_), self)
        return {place: found.why(place) for place in np.flatnonzero(found.mask).tolist()}

    def _of_one(self, column: str, table: pa.Table) -> ColumnStatistics:
        values: Any = table
        for name in column.replace("`", "").split("."):
            values = values[name] if values is table else pc.struct_field(values, name)
        present = [value for value in values.to_pylist() if value is not None]
        plain = [value for value in present if value == value]
        low, high = (min(plain), max(plain)) if plain else (None, None)
        type_ = {"s": "VARCHAR", "f": "FLOAT8"}.get(column.replace("`", ""), "INT")
        nulls = table.num_rows - len(present)
        return ColumnStatistics(
            type_, low, high, nulls=nulls, non_nulls=len(present), rows=table.num_rows, nans=len(present) - len(plain)
        )


def of_duckdb(text: str) -> Condition:
    """``text`` as the WHERE of a query."""
    [tree] = sqlglot.parse(f"SELECT 1 FROM t WHERE {text}", read=DuckDB)
    assert tree is not None
    where = tree.find(exp.Where)
    assert where is not None
    return Condition(where.this, text, DUCKDB, alias="t")


def found(engine: duckdb.DuckDBPyConnection, table: pa.Table, text: str) -> int | None:
    """How many rows DuckDB finds; None where it fails, so that no answer can be lost."""
    engine.register("given", table)
    try:
        engine.execute("CREATE OR REPLACE TABLE t AS FROM given")
        [(number,)] = engine.execute(f"SELECT count(*) FROM t WHERE {text}").fetchall()
    except duckdb.Error:
        return None
    return int(number)


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB in UTC, which does not solve comparisons for the column itself."""
    with duckdb.connect() as opened:
        opened.execute("SET TimeZone = 'UTC'")
        opened.execute("SET disabled_optimizers = 'expression_rewriter'")
        yield opened


@pytest.mark.exhaustive
@given(text=CONDITIONS, tables=st.lists(rows(), min_size=1, max_size=4))
def test_what_is_excluded_holds_no_row(engine: duckdb.DuckDBPyConnection, text: str, tables: list[pa.Table]) -> None:
    """In both dialects and with every zone or none; an excluded container is empty to DuckDB."""
    predicates: list[Predicate] = [parse(of_duckdb(text), COLUMNS, "UTC"), parse(of_duckdb(text), COLUMNS)]
    if "::" not in text and "date_part" not in text:
        predicates += [parse(text, COLUMNS, "UTC"), parse(text, COLUMNS)]
    for predicate in predicates:
        excluded = Known(tables).excluded_by(predicate)
        for number, why in excluded.items():
            assert not found(engine, tables[number], text), f"{text}: {why}"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("b BETWEEN 9007199254740993 AND 1e17", {"b": [2**53]}),
        ("b BETWEEN '9007199254740993' AND 1e17", {"b": [2**53]}),
        ("b BETWEEN 1e0 AND 9007199254740991", {"b": [2**53 - 1]}),
        ("big BETWEEN 12345678901234567890123456789012345.679 AND 1e37", {"big": VALUES["big"]}),
        ("coalesce(big, 0) BETWEEN 12345678901234567890123456789012345.679 AND 1e37", {"big": VALUES["big"]}),
        ("f BETWEEN 9007199254740993 AND 1e17", {"f": [9007199254740992.0]}),
    ],
)
def test_ends_of_two_types_are_rounded_together(
    engine: duckdb.DuckDBPyConnection, text: str, values: dict[str, list[Any]]
) -> None:
    """DuckDB compares all three as DOUBLE; Spark takes each end by itself."""
    table = pa.table(values, pa.schema([(name, SCHEMA.field(name).type) for name in values]))
    columns = Columns(tuple_schema(table.schema)[0])
    assert found(engine, table, text)
    assert not Known([table]).excluded_by(parse(of_duckdb(text), columns, "UTC"))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("date(ts) = DATE '2024-03-05'", 1),
        ("CAST(ts AS DATE) IN ('2024-03-05', '2024-04-05')", 2),
        ("year(ts) = 2024 AND ts < TIMESTAMP '2024-02-01 00:00:00'", 1),
        ("year(ts) > 2024", 0),
        ("date_trunc('month', ts) = TIMESTAMP '2024-03-01 00:00:00'", 1),
        ("date_trunc('month', ts) = TIMESTAMP '2024-03-02 00:00:00'", 0),
        ("ts BETWEEN DATE '2024-02-01' AND DATE '2024-03-31'", 2),
        ("ts >= TIMESTAMP '2024-12-01 00:00:00' - INTERVAL 1 MONTH", 2),
        ("ts + INTERVAL 1 DAY >= TIMESTAMP_NTZ '2024-12-06 00:00:00'", 1),
        ("month + 1 > 11", 2),
        ("month(ts) = 3", 1),
        ("month(ts) IN (3, 4, 13)", 2),
        ("month(ts) > 10", 2),
        ("NOT (month(ts) < 11)", 2),
        ("quarter(ts) = 2", 3),
        ("extract(month FROM ts) = 13", 0),
        ("dayofmonth(ts) = 6", 0),
        ("2 * month <= 5", 2),
        ("5 - month > 2", 2),
        ("-month < -11", 1),
        ("coalesce(month, 0) = 7", 1),
        ("CAST(month AS BIGINT) = 7", 1),
        ("month = 7 OR (month > 10 AND ts < TIMESTAMP '2024-12-01 00:00:00')", 2),
        ("left(s, 3) = 'm07'", 1),
        ("substring(s, 1, 3) IN ('m07', 'm08', 'x')", 2),
        ("s LIKE 'm1%'", 3),
        ("startswith(s, 'm1')", 3),
        ("NOT s LIKE 'm%'", 0),
        ("p.x = 7", 1),
        (f"month IN ({', '.join(map(str, range(12, 5000)))})", 1),
        ("NOT (month < 11)", 2),
        ("month = 7.5", 0),
        ("month = 99999999999999999999", 0),
        ("5 < 4", 0),
    ],
)
def test_functions_keep_the_containers_that_match(text: str, kept: int) -> None:
    """Of twelve containers, one a month, exactly those that hold such rows are kept."""
    fields: list[tuple[str, pa.DataType]] = [("ts", pa.timestamp("us")), ("month", pa.int32()), ("s", pa.string())]
    schema = pa.schema([*fields, ("p", pa.struct([("x", pa.int32())]))])
    tables = [
        pa.table({"ts": [datetime(2024, m, 5, 12)], "month": [m], "s": [f"m{m:02}"], "p": [{"x": m}]}, schema)
        for m in range(1, 13)
    ]
    predicate = parse(text, Columns(tuple_schema(schema)[0]), "UTC")
    assert not predicate.notes
    excluded = Known(tables).excluded_by(predicate)
    assert 12 - len(excluded) == kept


@pytest.mark.parametrize(
    "text",
    [
        "lower(s) = 'a'",
        "i + t > 5",
        "f + 1 > 5",
        "CAST(ts AS TIMESTAMP(0)) = TIMESTAMP_NTZ '2024-01-01 00:00:00'",
        "TRY_CAST(b AS INT) > 1",
        "CAST(s AS DATE) = DATE '2024-01-01'",
        "CAST(f AS INT) = 5",
        "i IN (SELECT 1)",
        "s = upper('x')",
        "ts = now()",
    ],
)
def test_what_cannot_prune_says_why(text: str) -> None:
    """The note names the part, and has the reason in brackets."""
    predicate = parse(text, COLUMNS, "UTC")
    [note] = predicate.notes
    assert note.startswith("not usable for pruning: ")
    assert note.endswith(")")
    assert predicate.unusable


def test_overflow_is_kept() -> None:
    """Numbers with which a sum leaves its type: an engine fails there, or finds them by another number."""
    tables = [pa.table({"i": pa.array([value], pa.int32())}) for value in (2**31 - 1, 0, -(2**31))]
    columns = Columns(tuple_schema(tables[0].schema)[0])
    for text, kept in (("i + 1 < 0", {0, 2}), ("i - 1 > 0", {0, 2}), ("-i < 0", {0, 2}), ("i * 2 = -2", {0, 2})):
        excluded = Known(tables).excluded_by(parse(text, columns))
        assert {0, 1, 2} - excluded.keys() == kept, text


def test_a_zone_that_is_not_known_widens_and_says_so() -> None:
    """With a zone the bound is exact and no note is needed; without one the note says how to get there."""
    text = "utc < TIMESTAMP '2024-01-01 00:00:00'"
    assert not parse(text, COLUMNS, "UTC").notes
    [note] = parse(text, COLUMNS).notes
    assert "widened by 18 hours" in note
    assert "time_zone=" in note
    near_a_change = parse("utc < TIMESTAMP '2024-03-31 02:30:00'", COLUMNS, "Europe/Berlin")
    assert "clocks change" in near_a_change.notes[0]


def test_times_beyond_the_calendar_prune_nothing() -> None:
    """They are no error."""
    for text in ("day + 1 > DATE '0001-01-01'", "year(ts) = 9999", "day = DATE '9999-12-31' + INTERVAL 1 YEAR"):
        predicate = parse(text, COLUMNS, "UTC")
        assert predicate.notes or not isinstance(predicate.condition, AlwaysTrue)
