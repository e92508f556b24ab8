"""Statements that users of Drill, Spark, Trino and DuckDB type at a folder of files: they run, or name the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config import Settings
from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError
from metastore.session import Session, connect


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of ``dfs.shop``: ``sales`` has two files, ``2024.parquet`` is a file with a dot in its name."""
    place = tmp_path_factory.mktemp("shop")
    for month in (1, 2):
        (place / f"sales/month={month}").mkdir(parents=True)
        times = pa.array([0, 1], pa.timestamp("us"))
        rows = pa.table({"id": pa.array([month, 10 * month]), "name": pa.array(["a", None]), "ts": times})
        pq.write_table(rows, place / f"sales/month={month}/f.parquet")
    pq.write_table(pa.table({"x": [7]}), place / "2024.parquet")
    return place


@pytest.fixture(scope="module")
def session(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """With both tables analyzed, and a catalog ``lake`` that nobody has made yet."""
    home = tmp_path_factory.mktemp("m")
    lake = {"type": "sql", "uri": f"sqlite:///{home}/lake.db", "warehouse": f"{home}/lake"}
    keys = {"iceberg.location.base_path": str(home), "storage.dfs.workspaces.shop.location": str(folder)}
    with connect(Settings.from_mapping({"drill.metastore": {**keys, "catalogs.lake": lake}}, environ={})) as made:
        made.analyze("dfs.shop.sales")
        made.analyze(folder / "2024.parquet")
        yield made


@pytest.mark.parametrize("name", ["'{0}'", '"{0}"', "'file://{0}'", "dfs.`{0}`", 'dfs."{0}"'])
@pytest.mark.parametrize("table", ["sales", "2024.parquet"])
def test_a_path_is_the_name_of_its_table(session: Session, folder: Path, name: str, table: str) -> None:
    """As in DuckDB, and as in Drill behind the plugin; what is read is what DuckDB reads there."""
    path = name.format(folder / table)
    files = f"{folder / table}{'/*/*.parquet' if table == 'sales' else ''}"
    counted = duckdb.connect().execute(f"SELECT count(*) AS n FROM '{files}'").fetchall()
    assert session.sql(f"SELECT count(*) AS n FROM {path}").to_pylist() == [{"n": counted[0][0]}]
    for statement in ("DESCRIBE", "DESCRIBE EXTENDED", "SHOW COLUMNS FROM", "SHOW STATS FOR"):
        assert session.sql(f"{statement} {path}").equals(session.sql(f'{statement} dfs.shop."{table}"'))
    [analyzed] = session.sql(f"ANALYZE TABLE {path} REFRESH METADATA").to_pylist()
    assert analyzed["summary"].startswith(f"dfs.shop.{table} ")


def test_a_path_follows_the_connection_of_its_plugin(tmp_path: Path, folder: Path) -> None:
    """``dfs.`/sales``` lies below it."""
    keys = {"iceberg.location.base_path": str(tmp_path), "storage.near.connection": f"file://{folder.parent}"}
    keys |= {"storage.near.type": "file", "storage.near.workspaces.shop.location": f"/{folder.name}"}
    with connect(Settings.from_mapping({"drill.metastore": keys}, environ={})) as made:
        made.analyze("near.shop.sales")
        assert made.sql(f"SELECT count(*) AS n FROM near.`/{folder.name}/sales`").to_pylist() == [{"n": 4}]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "SELECT 1 FROM '{0}/salse'",
            NotFoundError,
            "column 15: unknown table or view .*salse; did you mean dfs",
        ),
        ("SELECT 1 FROM parquet.`{0}/sales`", InvalidRequestError, "column 15: parquet is no plugin .* the path alone"),
        ("ANALYZE TABLE parquet.`{0}/sales` REFRESH METADATA", InvalidRequestError, "column 15: parquet is no plugin"),
        ("DESCRIBE dfs.shop.sales nmae", InvalidRequestError, "column 25: there is no column nmae; did you mean name"),
        ("DESCRIBE dfs.shop.sales id ts", InvalidRequestError, "the end of the statement is expected, not ts"),
        ("SELECT date_format(ts, 'yyyy') FROM dfs.shop.sales", InvalidRequestError, "column 8: .*; write strftime"),
        ("SELECT DATE_ADD('day', 1, ts) FROM dfs.shop.sales", InvalidRequestError, "column 8: .*; write t . INTERVAL"),
        ("SELECT input_file_name() FROM dfs.shop.sales", InvalidRequestError, r'write the column "\$path"'),
        ("SELECT uper(name) FROM dfs.shop.sales", InvalidRequestError, "no function uper; did you mean upper"),
    ],
)
def test_errors_name_the_way(session: Session, folder: Path, text: str, error: type, message: str) -> None:
    """With the place."""
    assert issubclass(error, MetastoreError)
    with pytest.raises(error, match=f"^line 1, .*{message}"):
        session.sql(text.format(folder))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("DESCRIBE dfs.shop.sales NAME", ["name"]),
        ("DESC TABLE dfs.shop.sales `id`", ["id"]),
        ("DESCRIBE dfs.shop.sales '%m%'", ["name", "month"]),
        ("DESCRIBE dfs.shop.sales 'z'", []),
    ],
)
def test_describe_takes_a_column_or_a_pattern(session: Session, text: str, columns: list[str]) -> None:
    """As in Drill and Spark."""
    assert session.sql(text)["COLUMN_NAME"].to_pylist() == columns


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("ANALYZE dfs.shop.sales", set()),
        ("ANALYZE TABLE dfs.shop.sales COMPUTE STATISTICS FOR COLUMNS id, name", {"id", "name"}),
        ("ANALYZE TABLE dfs.shop.sales COMPUTE STATISTICS FOR ALL COLUMNS", {"id", "name", "ts"}),
        ("ANALYZE TABLE dfs.shop.sales ESTIMATE STATISTICS", {"id", "name", "ts"}),
    ],
)
def test_analyze_takes_the_forms_of_trino_and_spark(session: Session, text: str, counted: set[str]) -> None:
    """Distinct values are counted of the columns that are named."""
    session.sql("ANALYZE TABLE dfs.shop.sales DROP METADATA IF EXISTS")
    assert session.sql(text)["files"].to_pylist() == [2]
    stats = session.sql("SHOW STATS FOR dfs.shop.sales").to_pylist()
    assert {row["column_name"] for row in stats if row["distinct_values_count"] is not None} == counted


def test_explain_plan_for_is_explain(session: Session) -> None:
    """As Drill has it; an error has its place in the text that was typed."""
    query = "SELECT id FROM dfs.shop.sales WHERE month = 2"
    explained = session.sql(f"EXPLAIN {query}")
    assert session.sql(f"EXPLAIN\nPLAN FOR {query}").equals(explained)
    assert "files: 1 of 2 read" in str(explained.to_pydict())
    with pytest.raises(InvalidRequestError, match="line 2, column 17: there is no column nope"):
        session.sql("EXPLAIN\nPLAN FOR SELECT nope FROM dfs.shop.sales")


@pytest.mark.parametrize("method", ["BERNOULLI (100)", "SYSTEM(100)", "bernoulli (100.0)", "BERNOULLI (100%)"])
def test_samples_are_per_cent(session: Session, method: str) -> None:
    """As in Trino; a number alone would be rows."""
    assert session.sql(f"SELECT id FROM dfs.shop.sales TABLESAMPLE {method}").num_rows == 4
    none = method.replace("100.0", "0.0").replace("100", "0")
    assert session.sql(f"SELECT id FROM dfs.shop.sales TABLESAMPLE {none}").num_rows == 0
