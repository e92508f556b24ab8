"""Pruning never loses a row: over generated tables of every type, every row that DuckDB or Arrow finds is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timezone
from decimal import Decimal
from functools import reduce
from itertools import combinations_with_replacement, product
from operator import or_
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.questions import DAYS, INF, MOMENTS, NAN, TEXTS, quoted
from support.table_on_disk import TableOnDisk

from metastore.scan.pruning.listed_files import ListedFiles
from metastore.scan.pruning.prune import prune
from metastore.scan.pruning.result import PruneResult

UTC = timezone.utc

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("id", pa.int32()),
    ("i", pa.int32()),
    ("big", pa.int64()),
    ("f", pa.float32()),
    ("d", pa.float64()),
    ("dec", pa.decimal128(9, 2)),
    ("s", pa.string()),
    ("x", pa.binary()),
    ("yes", pa.bool_()),
    ("day", pa.date32()),
    ("local", pa.timestamp("us")),
    ("utc", pa.timestamp("us", tz="UTC")),
    ("größe.cm", pa.int32()),
    ("st", pa.struct([("a", pa.int32()), ("b", pa.string())])),
]
SCHEMA = pa.schema(_FIELDS)

VALUES: dict[str, Sequence[Any]] = {
    "i": [-3, -1, 0, 1, 2, 3, 2**31 - 1],
    "big": [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1],
    "f": [-INF, -1.5, -0.0, 0.0, 0.1, 0.5, 1.0, 16777216.0, INF, NAN],
    "d": [-INF, -1.5, -0.0, 0.0, 0.1, 0.3, 1.0, 9007199254740992.0, INF, NAN],
    "dec": [Decimal(v) for v in ("-1.50", "0.00", "0.10", "0.30", "1.00", "9999999.99")],
    "s": TEXTS,
    "x": [b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\x00"],
    "yes": [True, False],
    "day": DAYS,
    "local": MOMENTS,
    "utc": [moment.replace(tzinfo=UTC) for moment in MOMENTS],
    "größe.cm": [1, 2, 3],
    "st": [{"a": a, "b": b} for a in (None, 1, 2) for b in (None, "a", "b")],
}


@dataclass(frozen=True)
class Question:
    """One predicate in the words of each engine; Arrow has none for some."""

    spark: str
    duckdb: str
    arrow: pc.Expression | None


def double(value: float) -> str:
    """A literal that is a DOUBLE in every dialect."""
    return repr(value) if "e" in repr(value) else f"{value!r}e0"


def literals(column: str) -> Sequence[tuple[str, str, Any]]:
    """Literals to compare ``column`` with: for Spark, for DuckDB, and as a value of the column's type (or None)."""
    finite = [-1.5, 0.0, 0.1, 0.3, 0.5, 1.0, 9007199254740992.0]
    numbers = [(str(n), str(n), None) for n in (-1, 0, 1, 2, 16777217, 2**53, 2**53 + 1, 2**63 - 1)]
    numbers += [(d, d, None) for d in ("-1.5", "0.1", "0.30", "0.5", "1.00", "2.50", "0.1000000015")]
    numbers += [(double(v), double(v), None) for v in finite]
    days = [(f"DATE '{day}'",) * 2 + (day,) for day in DAYS]
    moments = [(f"TIMESTAMP '{m}'",) * 2 + (None,) for m in MOMENTS]
    by_column: dict[str, Sequence[tuple[str, str, Any]]] = {
        "i": [*numbers, *((str(v), str(v), v) for v in VALUES["i"])],
        "big": [*numbers, *((str(v), str(v), v) for v in VALUES["big"][1:])],
        "f": numbers,
        "d": [*numbers, *((double(v), double(v), v) for v in finite)],
        "dec": [*numbers, *((str(v), str(v), v) for v in VALUES["dec"])],
        "s": [(quoted(v), quoted(v), v) for v in TEXTS],
        "x": [(f"X'{v.hex()}'", f"unhex('{v.hex()}')", v) for v in VALUES["x"]],
        "yes": [("TRUE", "TRUE", True), ("FALSE", "FALSE", False)],
        "day": [*days, *moments, *((quoted(str(d)), quoted(str(d)), None) for d in DAYS)],
        "local": [*((f"TIMESTAMP_NTZ '{m}'", f"TIMESTAMP '{m}'", m) for m in MOMENTS), *days, *moments],
        "utc": [
            *moments,
            *days,
            *((f"TIMESTAMP '{m}Z'", f"TIMESTAMPTZ '{m}Z'", m.replace(tzinfo=UTC)) for m in MOMENTS),
        ],
        "größe.cm": [(str(v), str(v), v) for v in (0, 1, 2, 3, 4)],
        "k": [(str(v), str(v), None) for v in (0, 1, 2, 3)],
        "st.a": [(str(v), str(v), v) for v in (0, 1, 2, 3)],
        "st.b": [(quoted(v), quoted(v), v) for v in ("", "a", "b")],
    }
    chosen = by_column[column]
    return [
        (a, b, None if column in ("day", "local", "utc") and type(v) is date and column != "day" else v)
        for a, b, v in chosen
    ]


COLUMNS = [*(name for name in VALUES if name != "st"), "k", "st.a", "st.b"]
NAMES = {
    "größe.cm": ("`größe.cm`", '"größe.cm"', pc.field("größe.cm")),
    "st.a": ("st.a", "st.a", pc.field("st", "a")),
    "st.b": ("ST.b", "st.b", pc.field("st", "b")),
}
COMPARE: dict[str, Callable[[pc.Expression, Any], pc.Expression]] = {
    "=": lambda column, value: column == value,
    "<>": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}


@st.composite
def leaves(draw: st.DrawFn) -> Question:
    """One comparison, IN, BETWEEN, LIKE or IS NULL."""
    column = draw(st.sampled_from(COLUMNS))
    spark, duck, field = NAMES.get(column, (column, column, pc.field(column)))
    arrow = None if column == "k" else field
    kind = draw(st.sampled_from(["compare", "compare", "compare", "in", "between", "null", "like"]))
    if kind == "null":
        return Question(f"{spark} IS NULL", f"{duck} IS NULL", None if arrow is None else arrow.is_null())
    if kind == "like" and column in ("s", "st.b"):
        pattern = draw(
            st.sampled_from(["a%", "%", "ab%", "%b", "a_", "a", "ä%", "😀%", "e%c", "_%", "%'%", "a'%", "'"])
        )
        prefix = pattern[:-1]
        simple = pattern.endswith("%") and not set(prefix) & {"%", "_"}
        condition = pc.starts_with(field, prefix) if simple else None
        return Question(f"{spark} LIKE {quoted(pattern)}", f"{duck} LIKE {quoted(pattern)}", condition)
    known = st.sampled_from(literals(column))
    if kind == "in":
        chosen = draw(st.lists(known, min_size=1, max_size=4))
        terms = [arrow == value for _, _, value in chosen if arrow is not None and value is not None]
        either = reduce(or_, terms) if len(terms) == len(chosen) else None
        inside = [", ".join(items) for items in list(zip(*chosen, strict=True))[:2]]
        return Question(f"{spark} IN ({inside[0]})", f"{duck} IN ({inside[1]})", either)
    if kind == "between":
        low, high = draw(known), draw(known)
        usable = arrow is not None and low[2] is not None and high[2] is not None
        return Question(
            f"{spark} BETWEEN {low[0]} AND {high[0]}",
            f"{duck} BETWEEN {low[1]} AND {high[1]}",
            (arrow >= low[2]) & (arrow <= high[2]) if usable else None,
        )
    operator = draw(st.sampled_from(list(COMPARE)))
    literal = draw(known)
    condition = None if arrow is None or literal[2] is None else COMPARE[operator](arrow, literal[2])
    if draw(st.booleans()):
        return Question(f"{spark} {operator} {literal[0]}", f"{duck} {operator} {literal[1]}", condition)
    mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(operator, operator)
    return Question(f"{literal[0]} {mirrored} {spark}", f"{literal[1]} {mirrored} {duck}", condition)


def negated(one: Question) -> Question:
    """NOT."""
    return Question(f"NOT ({one.spark})", f"NOT ({one.duckdb})", None if one.arrow is None else ~one.arrow)


def joined(word: str, left: Question, right: Question) -> Question:
    """AND or OR."""
    arrow = None
    if left.arrow is not None and right.arrow is not None:
        arrow = left.arrow & right.arrow if word == "AND" else left.arrow | right.arrow
    return Question(f"({left.spark}) {word} ({right.spark})", f"({left.duckdb}) {word} ({right.duckdb})", arrow)


QUESTIONS = st.recursive(
    leaves(),
    lambda inner: inner.map(negated) | st.builds(joined, st.sampled_from(["AND", "OR"]), inner, inner),
    max_leaves=4,
)


@st.composite
def files(draw: st.DrawFn) -> dict[str, pa.Table]:
    """Rows in one to three files in directories k=0 to k=2, values close together so that bounds tell something."""
    made: dict[str, pa.Table] = {}
    identifier = 0
    for number in range(draw(st.integers(1, 3))):
        narrow = {
            name: draw(st.lists(st.sampled_from([None, *values]), min_size=1, max_size=3))
            for name, values in VALUES.items()
        }
        count = draw(st.integers(1, 6))
        columns = {name: [draw(st.sampled_from(values)) for _ in range(count)] for name, values in narrow.items()}
        columns["id"] = list(range(identifier, identifier + count))
        identifier += count
        made[f"k={draw(st.integers(0, 2))}/{number}.parquet"] = pa.Table.from_pydict(columns, SCHEMA)
    return made


def kept_rows(result: PruneResult, places: dict[int, tuple[str, int]]) -> set[int]:
    """Identifiers of the rows in what is to be read."""
    kept = {file.path: file.row_groups for file in result.files}

    def is_kept(path: str, group: int) -> bool:
        groups = kept.get(path, ())
        return groups is None or group in groups

    return {row for row, place in places.items() if is_kept(*place)}


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    rows=files(),
    questions=st.lists(QUESTIONS, min_size=1, max_size=12),
    size=st.integers(1, 4),
    nans=st.booleans(),
    data=st.data(),
)
def test_no_row_that_an_engine_finds_is_pruned(
    rows: dict[str, pa.Table],
    questions: list[Question],
    size: int,
    nans: bool,
    data: st.DataObject,
    table_on_disk: Callable[..., TableOnDisk],
) -> None:
    """Every row that DuckDB or Arrow finds in the whole table lies in a file and row group that pruning keeps."""
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as engine:
        table = table_on_disk(Path(folder), rows, row_group_size=size, count_nans=nans)
        engine.execute("SET TimeZone = 'UTC'")
        engine.execute("CREATE TABLE t AS SELECT * FROM read_parquet(?, hive_partitioning = true)", [table.paths])
        everything = pa.concat_tables(rows.values())
        zone = data.draw(st.sampled_from([None, "UTC"]))
        for question in questions:
            result = prune(question.spark, table.units, listing=ListedFiles.of(table.listing), time_zone=zone)
            kept = kept_rows(result, table.places)
            found = engine.execute(f"SELECT id FROM t WHERE {question.duckdb}").fetchall()
            assert {row for (row,) in found} <= kept, question
            if question.arrow is not None:
                assert set(everything.filter(question.arrow)["id"].to_pylist()) <= kept, question


@pytest.fixture(scope="module")
def pairs(
    table_on_disk: Callable[..., TableOnDisk], tmp_path_factory: pytest.TempPathFactory
) -> tuple[TableOnDisk, pa.Table]:
    """One file in which every two values of a column (null among them) share a row group."""
    by_column = {name: list(combinations_with_replacement([None, *values], 2)) for name, values in VALUES.items()}
    groups = max(map(len, by_column.values()))
    columns = {
        name: [value for i in range(groups) for value in found[i % len(found)]] for name, found in by_column.items()
    }
    rows = pa.Table.from_pydict(columns | {"id": list(range(2 * groups))}, SCHEMA)
    root = tmp_path_factory.mktemp("pairs")
    return table_on_disk(root, {"k=1/all.parquet": rows}, row_group_size=2, count_nans=True), rows


@pytest.mark.exhaustive
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("negate", [False, True])
def test_no_comparison_loses_a_row(pairs: tuple[TableOnDisk, pa.Table], column: str, negate: bool) -> None:
    """Every operator with every literal, plain and under NOT, keeps what DuckDB and Arrow find."""
    table, rows = pairs
    spark, duck, arrow = NAMES.get(column, (column, column, pc.field(column)))
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.execute("CREATE TABLE t AS SELECT * FROM read_parquet(?, hive_partitioning = true)", [table.paths])
        for (in_spark, in_duckdb, value), (operator, compare) in product(literals(column), COMPARE.items()):
            condition = None if value is None or column == "k" else compare(arrow, value)
            question = Question(f"{spark} {operator} {in_spark}", f"{duck} {operator} {in_duckdb}", condition)
            question = negated(question) if negate else question
            kept = kept_rows(prune(question.spark, table.units, time_zone="UTC"), table.places)
            found = engine.execute(f"SELECT id FROM t WHERE {question.duckdb}").fetchall()
            assert {row for (row,) in found} <= kept, question
            if question.arrow is not None:
                assert set(rows.filter(question.arrow)["id"].to_pylist()) <= kept, question


def test_pruning_is_worth_it(pairs: tuple[TableOnDisk, pa.Table]) -> None:
    """Where the literal has the column's type, what is kept holds little else than row groups with a match."""
    table, rows = pairs
    matching, kept = 0, 0
    for column in ("i", "s", "dec", "x", "day", "local", "st.a"):
        spark, _, arrow = NAMES.get(column, (column, column, pc.field(column)))
        for in_spark, _, value in literals(column):
            if value is not None:
                found: list[Any] = rows.filter(arrow == value)["id"].to_pylist()
                matching += len({table.places[row] for row in found})
                result = prune(f"{spark} = {in_spark}", table.units)
                kept += len({table.places[row] for row in kept_rows(result, table.places)})
    assert matching <= kept <= 3 * matching
