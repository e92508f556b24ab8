"""Entries of new files count NaN, which bounds leave out: so ``f > 5`` skips files that have none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from metastore.config.settings import Settings
from metastore.session import Session, connect

VALUES = [
    "(1.5, 2.5, {'f': 3.5}, [1])",
    "('nan'::FLOAT, NULL, NULL, ['nan'::DOUBLE])",
    "(NULL, 'nan'::DOUBLE, {'f': 'nan'::FLOAT}, NULL)",
    "(-0.0, 'inf'::DOUBLE, {'f': NULL}, [])",
]


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session with the empty table ``lake.db.t``."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/wh"}
    given = {"iceberg.location.base_path": f"{tmp_path}/md", "catalogs.lake": lake}
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        opened.sql("CREATE SCHEMA lake.db")
        opened.sql("CREATE TABLE lake.db.t (f FLOAT, d DOUBLE, s STRUCT(f FLOAT), l ARRAY(DOUBLE))")
        yield opened


def nans(values: list[Any]) -> int:
    """The number of NaNs among values of a file."""
    return sum(value is not None and math.isnan(value) for value in values)


@pytest.mark.parametrize("groups", ["1", "100"])
def test_counts_are_those_of_the_files(ms: Session, groups: str) -> None:
    """Of columns and fields of structs, over all row groups; a column without metrics has none."""
    ms.sql(f"ALTER TABLE lake.db.t SET PROPERTIES \"write.parquet.row-group-limit\" = '{groups}'")
    ms.sql(f"INSERT INTO lake.db.t VALUES {', '.join(VALUES)}")
    table = ms.catalogs.open("lake").load_table("db.t")
    ids = [table.schema().find_field(name).field_id for name in ("f", "d", "s.f")]
    [task] = table.scan().plan_files()
    rows = pq.read_table(task.file.file_path.removeprefix("file://")).to_pylist()
    columns = [[row["f"] for row in rows], [row["d"] for row in rows], [(row["s"] or {"f": None})["f"] for row in rows]]
    assert task.file.nan_value_counts == dict(zip(ids, map(nans, columns), strict=True))
    assert list(task.file.nan_value_counts.values()) == [1, 1, 1]
    ms.sql("ALTER TABLE lake.db.t SET PROPERTIES \"write.metadata.metrics.column.d\" = 'none'")
    ms.sql("INSERT INTO lake.db.t VALUES (1, 'nan'::DOUBLE, NULL, NULL)")
    files = [task.file for task in ms.catalogs.open("lake").load_table("db.t").scan().plan_files()]
    assert sorted(ids[1] in file.nan_value_counts for file in files) == [False, True]


@pytest.mark.parametrize("condition", ["f > 2", "d >= 3", "s.f > 4", "NOT (f < 2)"])
def test_files_without_nan_are_skipped(ms: Session, condition: str) -> None:
    """The file with a NaN is read, because NaN is above all numbers."""
    ms.sql(f"INSERT INTO lake.db.t VALUES {VALUES[0]}")
    ms.sql("INSERT INTO lake.db.t VALUES ('nan'::FLOAT, 'nan'::DOUBLE, {'f': 'nan'::FLOAT}, NULL)")
    lines = ms.sql(f"EXPLAIN SELECT f FROM lake.db.t WHERE {condition}")["plan"].to_pylist()
    assert lines[1] == "  files: 1 of 2 read, 1 skipped"
    assert ms.sql(f"SELECT count(*) AS n FROM lake.db.t WHERE {condition}").to_pylist() == [{"n": 1}]
