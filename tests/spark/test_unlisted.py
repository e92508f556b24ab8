"""``$row_id`` and what the file of a row says, in ``select`` on Spark: what the SQL door gives, by the same files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect
from metastore.spark import select

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """``dfs.w.t``: four files in ``y=…/m=…``, six rows each in row groups of two."""
    folder = tmp_path_factory.mktemp("lake")
    for y, m in ((1, 1), (1, 2), (2, 1), (2, 2)):
        path = folder / f"t/y={y}/m={m}/f{y}{m}.parquet"
        path.parent.mkdir(parents=True)
        first = y * 100 + m * 10
        pq.write_table(pa.table({"id": range(first, first + 6)}), path, row_group_size=2)
    given = {
        "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
        "drill.metastore.storage.dfs.workspaces.w.location": str(folder),
    }
    with connect(Settings.from_mapping(given, environ={})) as opened:
        opened.analyze("dfs.w.t")
        yield opened


QUERIES = [
    'SELECT id, "$row_id", "$path", "$partition", fqn, filepath, filename, suffix FROM dfs.w.t',
    "SELECT * FROM dfs.w.t WHERE filename = 'f12.parquet'",
    "SELECT *, \"$partition\" FROM dfs.w.t t WHERE t.filename LIKE 'f2%' AND id > 200",
    'SELECT count(*) AS n FROM dfs.w.t a JOIN dfs.w.t b ON a."$row_id" = b."$row_id"',
    "SELECT filename, count(*) AS n FROM dfs.w.t GROUP BY filename",
]


@pytest.mark.parametrize("query", QUERIES)
def test_spark_says_what_the_sql_door_says(spark: SparkSession, session: Session, query: str) -> None:
    """Columns and rows."""
    right = session.sql(query)
    found = select(spark, session, query.replace('"', "`"))
    assert found.columns == right.column_names
    rows = [tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in found.collect()]
    assert sorted(rows, key=str) == sorted((tuple(row.values()) for row in right.to_pylist()), key=str)


def test_a_lookup_opens_the_files_named(spark: SparkSession, session: Session, tmp_path: Path) -> None:
    """The others are gone from the store's point of view: whoever opens one fails. The ids are those of the scan."""
    ids: list[Any] = session.tables.scan("dfs.w.t", "id IN (111, 225)", row_id=True).to_arrow()["$row_id"].to_pylist()
    listed = ", ".join(f"X'{one.hex()}'" for one in ids)
    frame = select(spark, session, f"SELECT id FROM dfs.w.t WHERE `$row_id` IN ({listed}) AND id > 0")
    others = [Path(path) for path in session.tables.scan("dfs.w.t").paths if "f12" in path or "f21" in path]
    moved = [path.rename(tmp_path / path.name) for path in others]
    try:
        assert sorted(row.id for row in frame.collect()) == [111, 225]
    finally:
        for path, place in zip(moved, others, strict=True):
            path.rename(place)
    with pytest.raises(InvalidRequestError, match="no row id of"):
        select(spark, session, f"SELECT id FROM dfs.w.t WHERE `$row_id` = X'{'00' * 24}'")
