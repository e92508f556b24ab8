"""Conjuncts of one column are judged together: the same rows pass, and fewer files are opened."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNull,
    Or,
)

from metastore.config.settings import Settings
from metastore.model.column_path import parse
from metastore.model.drill_types import parse_type
from metastore.predicates.columns import PredicateColumn
from metastore.predicates.conjunctions import judged_together
from metastore.session import Session, connect

COMPARISONS: Mapping[Any, Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    NotEqualTo: operator.ne,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
}
TYPES = {"`x`": "DOUBLE", "`n`": "BIGINT", "`d`": "DECIMAL(6, 2)", "`l`.`[element]`": "BIGINT"}
COLUMNS = {key: PredicateColumn(parse(key), parse_type(name)) for key, name in TYPES.items()}
VALUES: Mapping[str, list[Any]] = {
    "`x`": [None, math.nan, -1.5, 0.0, 1.0, 1.5, 2.0, 3.5],
    "`n`": [None, *range(-2, 5)],
    "`d`": [None, 0, Decimal("0.50"), 1, Decimal("1.50"), 2],
    "`l`.`[element]`": [None, 0, 1, 2, 3],
}
LISTS = [[], [0, 3], [1, 2], [None, 2]]
"""Values of the list; a condition on its elements holds for a row if one of them passes."""


def leaves(name: str) -> st.SearchStrategy[BooleanExpression]:
    """Leaves over one column; what reaches NaN says so, as leaves of a predicate do."""
    number = st.sampled_from([value for value in VALUES[name] if value is not None and value == value])
    of_one = st.builds(lambda kind, value: kind(name, value), st.sampled_from(list(COMPARISONS)), number)
    if name == "`x`":
        reaching = of_one.filter(lambda leaf: isinstance(leaf, (GreaterThan, GreaterThanOrEqual, NotEqualTo)))
        of_one = reaching.map(lambda leaf: Or(leaf, IsNaN(name))) | of_one
    several = st.lists(number, min_size=2, max_size=3, unique=True)
    of_many = st.builds(lambda kind, values: kind(name, set(values)), st.sampled_from([In, NotIn]), several)
    return of_one | of_many | st.sampled_from([IsNull(name), NotNull(name)])


CONDITIONS = st.recursive(
    st.sampled_from(list(TYPES)).flatmap(leaves),
    lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner),
    max_leaves=8,
)


def passes(node: Any, row: Mapping[str, Any]) -> bool:
    """Whether ``row`` passes: no comparison passes a null, and only IsNaN passes NaN."""
    if isinstance(node, (AlwaysTrue, AlwaysFalse)):
        return isinstance(node, AlwaysTrue)
    if isinstance(node, (And, Or)):
        both = passes(node.left, row), passes(node.right, row)
        return all(both) if isinstance(node, And) else any(both)
    value = row[node.term.name]
    if isinstance(value, list):
        return any(passes(node, {**row, node.term.name: element}) for element in value)
    if isinstance(node, (IsNull, NotNull)):
        return (value is None) is isinstance(node, IsNull)
    if value is None or value != value or isinstance(node, IsNaN):
        return value is not None and value != value and isinstance(node, IsNaN)
    if isinstance(node, (In, NotIn)):
        return (value in {literal.value for literal in node.literals}) is isinstance(node, In)
    return COMPARISONS[type(node)](value, node.literal.value)


@given(condition=CONDITIONS)
def test_the_same_rows_pass(condition: BooleanExpression) -> None:
    """For all values of the columns, nulls, NaN and lists among them."""
    simplified = judged_together(condition, COLUMNS)
    for values in product(VALUES["`x`"], VALUES["`n`"], VALUES["`d`"], LISTS):
        row = dict(zip(TYPES, values, strict=True))
        assert passes(simplified, row) is passes(condition, row), (row, simplified)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Path]]:
    """Ten files whose floats have no count of NaN, as Parquet has none."""
    folder: Path = tmp_path_factory.mktemp("lake")
    (folder / "t").mkdir()
    for number in range(10):
        columns: dict[str, Any] = {
            "x": [number * 1.0, number + 0.9],
            "n": [number * 10, number * 10 + 9],
            "f": pa.array([number + 0.1, number + 0.2], pa.float32()),
            "s": [f"a{number}", f"b{number}"],
            "d": pa.array([Decimal(number), Decimal(f"{number}.5")], pa.decimal128(6, 2)),
        }
        pq.write_table(pa.table(columns), folder / "t" / f"{number}.parquet")
    location = {"iceberg.location.base_path": f"{folder}/m", "storage.dfs.workspaces.z.location": str(folder)}
    with connect(Settings.from_mapping({"drill.metastore": location}, environ={})) as opened:
        opened.analyze("dfs.z.t")
        yield opened, folder / "t"


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("x > 4 AND x < 5", 1),
        ("x BETWEEN 4 AND 4.95", 1),
        ("(x > 4 AND x < 5) OR n = 95", 2),
        ("x IS NULL AND x = 5", 0),
        ("n > 4 AND n < 5", 0),
        ("n = 3 AND n = 4", 0),
        ("n IN (1, 2) AND n = 3", 0),
        ("n = 3 AND n <> 3", 0),
        ("s = 'a' AND s = 'b'", 0),
        ("f = CAST(3.1 AS FLOAT)", 1),
        ("f > CAST(3.05 AS FLOAT) AND f < 4", 1),
        ("n = 2 * 15 + 9", 1),
        ("d > 4 AND d < 5", 1),
    ],
)
def test_files_that_cannot_pass_all_conjuncts_are_not_opened(
    lake: tuple[Session, Path], where: str, files: int
) -> None:
    """The rows are those of DuckDB over the plain files."""
    session, folder = lake
    assert len(session.prune("dfs.z.t", where).files) == files
    [[count]] = duckdb.execute(f"SELECT count(*) FROM '{folder}/*.parquet' WHERE {where}").fetchall()
    assert session.tables.scan("dfs.z.t", where).to_arrow().num_rows == count
