"""Spark opens the files that the interpreter names, and no other, through every door and for tables of every kind."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyarrow import orc
from pyspark.sql import DataFrame, SparkSession
from support.tables_of_kinds import settings_of_kinds

from metastore.session import Session, connect
from metastore.spark import read_table, register_source, select
from metastore.spark.source_options import SETTINGS, settings_option

pytestmark = pytest.mark.spark

ANALYZED = ("dfs.w.plain", "dfs.w.orc", "dfs.w.types", "lake.db.t", "delta.w.t")

CONDITIONS = {
    "id < 10 OR s = 'v30'": 2,
    "date_trunc('MONTH', at) = DATE '2024-02-01'": 1,
    "s LIKE 'v2%' AND at IS NOT NULL": 1,
    "st.x IN (5, 35)": 2,
    "d < 4.5": 1,
    "at >= TIMESTAMP '2024-03-05 00:00:00' AND at < TIMESTAMP '2024-03-06 00:00:00'": 1,
}
"""Conditions on the four files of each table, with the number of files that may have such rows."""


def rows(number: int) -> pa.Table:
    """The rows of one file: ids from ten times ``number``."""
    first = number * 10
    moment = pa.timestamp("us", "UTC")
    struct = pa.struct([("x", pa.int64())])
    types: dict[str, Any] = {"id": pa.int64(), "s": pa.string(), "at": moment, "st": struct, "d": pa.float64()}
    schema = pa.schema(types)
    columns: dict[str, Any] = {
        "id": range(first, first + 10),
        "s": [f"v{first}"] * 10,
        "at": [f"2024-0{number + 1}-0{day}T00:00:00" for day in range(1, 10)] + [None],
        "st": [{"x": value} for value in range(first, first + 10)],
        "d": [float(value) for value in range(first, first + 10)],
    }
    times = pa.array(columns["at"]).cast(pa.timestamp("us")).cast(moment)
    return pa.table({**columns, "at": times}, schema)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Tables of four files each."""
    folder = tmp_path_factory.mktemp("opened")
    with connect(settings_of_kinds(folder)) as opened:
        catalog = opened.catalogs.open("prod")
        catalog.create_namespace("db")
        tables = [catalog.create_table(f"db.{name}", rows(0).schema) for name in ("t", "bare")]
        lake = folder / "lake"
        for name in ("plain", "orc", "types"):
            (lake / name).mkdir(parents=True)
        for number in range(4):
            content = rows(number)
            pq.write_table(content, lake / f"plain/{number}.parquet")
            # Arrow reads files whose columns differ in type, Spark's own reader the others.
            number_types = content.set_column(0, "id", content["id"].cast(pa.int32() if number % 2 else pa.int64()))
            pq.write_table(number_types, lake / f"types/{number}.parquet")
            orc.write_table(content.drop_columns(["st", "d"]), str(lake / f"orc/{number}.orc"))
            for table in tables:
                table.append(content)
            for name in ("t", "bare"):
                write_deltalake(str(folder / "delta" / name), content, mode="append")
        for name in ANALYZED:
            opened.analyze(name)
        yield opened


@contextmanager
def unreadable(paths: Collection[str]) -> Iterator[None]:
    """Within it, the files hold garbage; their lengths and times stay, so they are those that ANALYZE saw."""
    places = [(Path(path), Path(f"{path}.kept")) for path in paths]
    for path, kept in places:
        stat = path.stat()
        path.rename(kept)
        path.write_bytes(b"x" * stat.st_size)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    try:
        yield
    finally:
        for path, kept in places:
            kept.replace(path)


def ids_of(frame: DataFrame) -> list[Any]:
    """The ids of its rows, in order."""
    return sorted(row.id for row in frame.collect())


@pytest.mark.parametrize("table", [*ANALYZED, "prod.db.bare"])
def test_only_the_files_that_may_match_are_opened(spark: SparkSession, session: Session, table: str) -> None:
    """With garbage in all others, read_table and select, in turn, have the rows of Spark's filter over all files."""
    conditions = [where for where in CONDITIONS if table != "dfs.w.orc" or not where.startswith(("st", "d <"))]
    judged = read_table(spark, session, table).selectExpr("id", *(f"{where} AS `{where}`" for where in conditions))
    everything = judged.collect()
    wrong = []
    for number, where in enumerate(conditions):
        scan = session.tables.scan(table, where, time_zone=spark.conf.get("spark.sql.session.timeZone"))
        others = set(session.tables.scan(table).paths) - set(scan.paths)
        if number % 2:
            frame = select(spark, session, f"SELECT id FROM {table} WHERE {where}")
        else:
            frame = read_table(spark, session, table, where, ["id"])
        with unreadable(others):
            found = ids_of(frame)
        expected = sorted(row.id for row in everything if row[where])
        # PyIceberg writes no bounds of fields of structs.
        files = 4 if "st." in where and ".db." in table else CONDITIONS[where]
        if found != expected or len(scan.paths) != files:
            wrong.append((where, len(scan.paths), found, expected))
    assert wrong == []


@pytest.mark.parametrize("table", ["dfs.w.plain", "prod.db.bare", "delta.w.bare"])
def test_the_data_source_opens_no_other(spark: SparkSession, session: Session, table: str) -> None:
    """Its option ``where`` chooses the files; the columns of a row's file are there, too."""
    register_source(spark)
    names = "id,$path,filename"
    source = spark.read.format("metastore").option(SETTINGS, settings_option(session.settings))
    frame = source.option("where", "id = 25").option("columns", names).load(table)
    [path] = session.tables.scan(table, "id = 25").paths
    others = set(session.tables.scan(table).paths) - {path}
    with unreadable(others):
        assert [tuple(row) for row in frame.collect()] == [(25, path, Path(path).name)]


@pytest.mark.parametrize("table", ["prod.db.bare", "delta.w.bare"])
def test_tables_that_nobody_analyzed_say_where_rows_lie(spark: SparkSession, session: Session, table: str) -> None:
    """``$path`` and its like, by read_table and select, as the SQL door has them; a condition on them chooses files."""
    columns = ["id", "$path", "fqn", "filepath", "filename", "suffix"]
    query = f"SELECT {', '.join(f'{chr(34)}{name}{chr(34)}' for name in columns)} FROM {table}"
    right = sorted(tuple(row.values()) for row in session.sql(query).to_pylist())
    frames = [
        read_table(spark, session, table, None, columns),
        select(spark, session, query.replace('"', "`")),
    ]
    for frame in frames:
        assert frame.columns == columns
        assert sorted(map(tuple, frame.collect())) == right
    path = right[0][1]
    chosen = select(spark, session, f"SELECT id, filename FROM {table} WHERE `$path` = '{path}'")
    with unreadable(set(session.tables.scan(table).paths) - {path}):
        assert sorted(map(tuple, chosen.collect())) == [(row[0], row[4]) for row in right if row[1] == path]
    assert select(spark, session, f"SELECT * FROM {table}").columns == ["id", "s", "at", "st", "d"]


def test_a_file_that_may_match_is_opened(spark: SparkSession, session: Session) -> None:
    """The check can fail: garbage in a file with matching rows is an error at every door."""
    for table in ("dfs.w.plain", "prod.db.bare"):
        scan = session.tables.scan(table, "id = 25")
        frame = read_table(spark, session, table, "id = 25")
        with unreadable(scan.paths), pytest.raises(Exception, match=r"\.parquet"):
            frame.collect()
