"""A query sees what it was given, and nothing of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.sales_lake import Lake

from metastore.errors import InvalidRequestError, MetastoreError

FORBIDDEN = (
    "SELECT * FROM '{file}'",
    'SELECT * FROM "{file}"',
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM sniff_csv('{file}')",
    "WITH a AS (SELECT * FROM read_csv('{file}')) SELECT * FROM a",
    "SELECT (SELECT content FROM read_text('{file}'))",
    "SELECT * FROM query('SELECT * FROM read_text(''{file}'')')",
    "SELECT * FROM query_table('{file}')",
    "SELECT getenv('HOME')",
    "SELECT * FROM local_variable",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "ATTACH '{folder}/out.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "PRAGMA database_list",
    "CREATE TABLE t AS SELECT 1",
    "EXPORT DATABASE '{folder}/out'",
    "EXPLAIN COPY (SELECT 1) TO '{folder}/out.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/out.csv'",
    "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
)


@pytest.mark.parametrize("query", FORBIDDEN)
def test_files_variables_and_settings_are_out_of_reach(lake: Lake, tmp_path: Path, query: str) -> None:
    """Each is an error, and no file is made or read."""
    local_variable = [1]  # noqa: F841 - DuckDB would find it by its name
    file = tmp_path / "secret.csv"
    file.write_text("word\nhush\n")
    with pytest.raises(MetastoreError) as caught:
        lake.session.sql(query.format(file=file, folder=tmp_path))
    assert "hush" not in str(caught.value)
    assert os.listdir(tmp_path) == ["secret.csv"]


def test_what_is_not_there_is_not_brought(lake: Lake) -> None:
    """A function of an extension is an unknown function."""
    with pytest.raises(InvalidRequestError):
        lake.session.sql("SELECT ST_Point(1, 2)")


def test_queries_know_nothing_of_each_other(lake: Lake) -> None:
    """Every statement has a database of its own, in which the names of tables are nobody's."""
    lake.session.sql("SELECT * FROM lake.default.sales")
    for name in ("_s1", "_1.sales", "main._s1"):
        with pytest.raises(MetastoreError):
            lake.session.sql(f"SELECT * FROM {name}")
