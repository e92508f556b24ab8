"""Errors of scans say the step that helps: ANALYZE for what it has not read, and nothing of it otherwise."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyarrow import orc
from support.tables_of_kinds import settings_of_kinds

from metastore.config.settings import Settings
from metastore.errors import FormatError, InvalidRequestError
from metastore.session import connect


def _parquet(path: Path, values: list[Any]) -> None:
    pq.write_table(pa.table({"k": [1], "x": values}), path)


def _orc(path: Path, values: list[Any]) -> None:
    orc.write_table(pa.table({"k": [1], "x": values}), path)


def _csv(path: Path, values: list[Any]) -> None:
    path.write_text(f"k,x\n1,{values[0]}\n")


@pytest.mark.parametrize("write", [_parquet, _orc, _csv])
@pytest.mark.parametrize(
    "query",
    ["SELECT k, sum(x) AS s FROM t GROUP BY k", "SELECT k, x FROM t", "SELECT a.x FROM t a JOIN t b ON a.k = b.k"],
)
def test_a_new_file_of_another_type_says_analyze(tmp_path: Path, write: Any, query: str) -> None:
    """SELECT and REFRESH of a materialized view name the file and ANALYZE, which then helps."""
    table, suffix = tmp_path / "lake" / "t", write.__name__[1:]
    table.mkdir(parents=True)
    write(table / f"1.{suffix}", [1])
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("dfs.w.t")
        session.sql(f"CREATE MATERIALIZED VIEW dfs.w.mv AS {query}")
        session.sql("REFRESH MATERIALIZED VIEW dfs.w.mv")
        write(table / f"2.{suffix}", ["text"])
        for statement in ("SELECT * FROM dfs.w.mv", "REFRESH MATERIALIZED VIEW dfs.w.mv", "SELECT x FROM dfs.w.t"):
            with pytest.raises(FormatError, match=rf"2\.{suffix}.*run ANALYZE"):
                session.sql(statement)
        session.analyze("dfs.w.t")
        assert session.sql("SELECT x FROM dfs.w.t").num_rows == 2


def test_a_damaged_file_that_analyze_has_read_does_not(tmp_path: Path) -> None:
    """ANALYZE read its footer only, and would again."""
    table = tmp_path / "lake" / "t"
    table.mkdir(parents=True)
    path = table / "a.parquet"
    pq.write_table(pa.table({"x": list(range(1000))}), path, use_dictionary=False, compression="none")
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 64 + content[68:])
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("dfs.w.t")
        with pytest.raises(FormatError, match=r"a\.parquet") as raised:
            session.tables.scan("dfs.w.t").to_arrow()
        assert "ANALYZE" not in str(raised.value)


def test_columns_that_are_gone_say_analyze(tmp_path: Path) -> None:
    """A Delta table made anew, asked by a star, a name or a condition; what is left answers."""
    place = tmp_path / "delta" / "t"
    write_deltalake(str(place), pa.table({"id": [1, 2], "v": ["a", "b"]}))
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("delta.w.t")
        shutil.rmtree(place)
        write_deltalake(str(place), pa.table({"id": [1, 2], "w": [1, 2]}))
        for query in ("SELECT * FROM delta.w.t", "SELECT v FROM delta.w.t", "SELECT id FROM delta.w.t WHERE v = 'a'"):
            with pytest.raises(InvalidRequestError, match=r"no column v.*run ANALYZE"):
                session.sql(query)
        assert session.sql("SELECT count(id) FROM delta.w.t").column(0).to_pylist() == [2]
        session.analyze("delta.w.t")
        assert session.sql("SELECT * FROM delta.w.t").column_names == ["id", "w"]


def test_tables_without_times_have_none(tmp_path: Path) -> None:
    """Those of databases and of Iceberg are of an unknown time, and count as changed once their metadata changed."""
    with sqlite3.connect(tmp_path / "s.db") as database:
        database.execute("CREATE TABLE c (k INTEGER)")
    given = {
        "drill.metastore.iceberg.location.base_path": f"{tmp_path}/other",
        "drill.metastore.catalogs.prod": {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/c.db",
            "warehouse": f"file://{tmp_path}/wh",
        },
        "drill.metastore.storage": {
            "db": {"type": "jdbc", "connection": f"jdbc:sqlite:{tmp_path}/s.db"},
            "lake": {"type": "iceberg", "catalog": "prod"},
        },
    }
    with connect(Settings.from_mapping(given, environ={})) as session:
        catalog = session.catalogs.open("prod")
        catalog.create_namespace("db")
        catalog.create_table("db.c", pa.schema([("k", pa.int64())])).append(pa.table({"k": [1]}))
        query = "SELECT last_modified_time AS t FROM information_schema.tables WHERE table_name = 'c'"
        for _ in range(2):
            with sqlite3.connect(tmp_path / "s.db") as database:
                database.execute("INSERT INTO c VALUES (1)")
            before = session.tables.requests.metastore_table_info(session.analyze("lake.db.c").table)
            info = session.analyze("db.main.c").table
            assert session.sql(query).column(0).to_pylist() == [None, None]
            assert session.tables.requests.metastore_table_info(info).last_modified_time is None
            assert session.tables.requests.has_metastore_table_info_changed(before)
