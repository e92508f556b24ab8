"""A pruned scan returns what DuckDB returns of all files, for random rows, predicates and changes since ANALYZE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.questions import LITERALS, Question, questions, rows, unsigned

NAMES_OF_FILES = [f"k={k}/{name}.parquet" for k in (0, 1) for name in "ab"] + ["k=2/e/c.parquet"]


@pytest.mark.exhaustive
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=12)
@given(
    before=st.dictionaries(st.sampled_from(NAMES_OF_FILES), rows(), min_size=1, max_size=4),
    after=st.dictionaries(st.sampled_from(NAMES_OF_FILES), rows() | st.none(), max_size=2),
    asked=st.lists(questions([*LITERALS]), min_size=1, max_size=8),
    group_size=st.integers(1, 4),
)
def test_a_pruned_scan_returns_what_all_files_hold(
    before: dict[str, pa.Table],
    after: dict[str, pa.Table | None],
    asked: list[Question],
    group_size: int,
    new_lake: Callable[[Path], Any],
) -> None:
    """Rows, counts and bounds are those of DuckDB over every file, however files changed after ANALYZE."""
    number = 0
    with TemporaryDirectory() as folder, duckdb.connect() as engine:
        lake = new_lake(Path(folder))

        def write(name: str, content: pa.Table) -> None:
            nonlocal number
            ids = pa.array(range(number, number + content.num_rows), pa.int64())
            number += content.num_rows
            lake.write(name, content.set_column(0, "id", ids), row_group_size=group_size)

        for name, content in before.items():
            write(name, content)
        lake.analyze()
        for name, changed in after.items():
            if changed is not None:
                write(name, changed)
            elif (lake.root / name).exists():
                lake.remove(name)
        engine.execute("SET TimeZone = 'UTC'")
        if not lake.paths():
            assert lake.scan(asked[0][0]).to_arrow().num_rows == 0
            return
        engine.execute("CREATE TABLE t AS SELECT * FROM read_parquet(?, hive_partitioning = true)", [lake.paths()])
        for spark, duck in asked:
            found = engine.execute(f"SELECT id FROM t WHERE {duck} ORDER BY id").fetchall()
            scan = lake.scan(spark, ["id"])
            assert sorted(scan.to_arrow()["id"].to_pylist()) == [row for (row,) in found], spark
            assert sorted(scan.to_duckdb().fetchall()) == found, spark
            assert scan.count() == len(found), spark
            expected = engine.execute(
                f"SELECT min(i), max(f), count(s), min(local), max(k) FROM t WHERE {duck}"
            ).fetchone()
            texts = ["min(i)", "max(f)", "count(s)", "min(local)", "max(k)"]
            answer = lake.tables.aggregate("dfs.tmp.t", texts, spark).to_pylist()[0]
            assert repr(unsigned(answer[text] for text in texts[:3])) == repr(unsigned(expected or ())[:3]), spark
            assert [answer[text] for text in texts[3:]] == list(expected or ())[3:], spark
