"""Tables behind views are pruned by the view's condition, which is Spark's, and by that of the query, DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support.scan_lake import TABLE, Lake

VIEWS = {
    "plain": f"SELECT id AS k, s, ts, flag, struct.x AS x FROM {TABLE}",
    "dated": f"SELECT id, date(ts) AS day, ts FROM {TABLE} WHERE ts >= TIMESTAMP '2024-02-01 00:00:00'",
    "prefix": f"SELECT id FROM {TABLE} WHERE s LIKE 'm1%' AND isnotnull(s)",
    "function": f"SELECT id FROM {TABLE} WHERE date_trunc('MONTH', ts) = TIMESTAMP '2024-03-01 00:00:00'",
    "nested": "SELECT k, s FROM dfs.tmp.plain WHERE k > 1",
    "grouped": f"SELECT s, count(*) AS n FROM {TABLE} GROUP BY s",
    "monthly": f"SELECT date_trunc('MONTH', ts) AS m, count(*) AS n FROM {TABLE} GROUP BY date_trunc('MONTH', ts)",
    "kept": f"SELECT s, count(*) AS n FROM {TABLE} GROUP BY s HAVING s = 'm3' AND count(*) > 0",
    "limited": f"SELECT id AS k FROM {TABLE} ORDER BY id LIMIT 2",
    "twice": f"SELECT a.id AS k, b.id AS j FROM {TABLE} a JOIN {TABLE} b ON a.id = b.id",
    "named": f"SELECT id, filename AS f FROM {TABLE}",
}

FILES = [
    ("SELECT k FROM plain", 3),
    ("SELECT k FROM plain WHERE k = 2", 1),
    ("SELECT v.k FROM plain v WHERE v.k IN (1, 3) AND v.s <> 'x'", 2),
    ("SELECT k FROM plain WHERE ts < TIMESTAMP '2024-02-01 00:00:00'", 1),
    ("SELECT k FROM plain WHERE ts::DATE = DATE '2024-02-05' OR k = 3", 2),
    ("SELECT k FROM plain WHERE x >= 2", 2),
    ("SELECT k FROM plain WHERE flag", 1),
    ("SELECT k FROM plain WHERE k + 1 = 3", 1),
    ("SELECT k FROM plain WHERE s LIKE 'm3%'", 1),
    ("SELECT p.k FROM plain p LEFT JOIN nested n ON p.k = n.k WHERE p.k = 1", 1),
    ("SELECT id FROM dated", 2),
    ("SELECT id FROM dated WHERE ts < TIMESTAMP '2024-03-01 00:00:00'", 1),
    ("SELECT id FROM dated WHERE day = DATE '2024-02-05'", 2),  # a function of the view's in a comparison of DuckDB's
    ("SELECT id FROM prefix", 1),
    ("SELECT id FROM function", 1),
    ("SELECT k FROM nested", 2),
    ("SELECT k FROM nested WHERE s = 'm2'", 1),
    ("SELECT n FROM grouped WHERE s = 'm2'", 1),
    ("SELECT n FROM grouped WHERE s LIKE 'm2%' AND n > 0", 1),
    ("SELECT s FROM grouped WHERE n > 0", 3),
    ("SELECT n FROM monthly WHERE m = TIMESTAMP '2024-02-01 00:00:00'", 3),  # a function of the view's, as above
    ("SELECT n FROM kept", 1),
    ("SELECT k FROM limited WHERE k = 2", 3),
    ("SELECT k FROM twice WHERE k = 2", 3),
    ("SELECT id FROM named WHERE f = '2.parquet'", 1),
    ("SELECT count(*) FROM named WHERE f LIKE '%.parquet' AND id > 2", 1),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Three files of a month each, and the views."""
    made = Lake(tmp_path_factory.mktemp("through"))
    for month in (1, 2, 3):
        columns: dict[str, Any] = {
            "id": pa.array([month, None], pa.int32()),
            "s": [f"m{month}", None],
            "ts": pa.array([datetime(2024, month, 5, 12), None], pa.timestamp("us")),
            "flag": [month == 2, None],
            "struct": [{"x": month}, None],
        }
        made.write(f"{month}.parquet", columns)
    made.analyze()
    for name, text in VIEWS.items():
        made.session.views.define(f"dfs.tmp.{name}", text)
    yield made
    made.session.close()


@pytest.mark.parametrize(("query", "files"), FILES)
def test_files_are_those_that_both_conditions_leave(lake: Lake, query: str, files: int) -> None:
    """And the rows are those of the view as a whole, filtered."""
    for name in VIEWS:
        query = query.replace(f"FROM {name}", f"FROM dfs.tmp.{name}").replace(f"JOIN {name}", f"JOIN dfs.tmp.{name}")
    lines: list[Any] = lake.session.sql(f"EXPLAIN {query}")["plan"].to_pylist()
    read = [line.strip() for line in lines if line.strip().startswith("files:")]
    assert read[0].startswith(f"files: {files} of 3"), "\n".join(lines)
    if files == 3 and " WHERE " in query:
        assert any("note: the WHERE does not narrow what is read: it filters a view" in line for line in lines)
    found = sorted(map(repr, lake.session.sql(query).to_pylist()))
    view = query.partition(" WHERE")[0].partition("FROM ")[2].split()[0]
    unpruned = query.replace(view, "rows", 1)
    with duckdb.connect() as engine:
        engine.register("rows", lake.session.sql(f"SELECT * FROM {view}"))
        if " JOIN " in query:
            engine.register("others", lake.session.sql("SELECT * FROM dfs.tmp.nested"))
            unpruned = unpruned.replace("dfs.tmp.nested", "others")
        truth = engine.sql(unpruned).to_arrow_table().to_pylist()
    assert found == sorted(map(repr, truth))
