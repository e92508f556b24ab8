"""The TABLE unit has bounds and counts of the columns of directories; a second run keeps them right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config.settings import Settings
from metastore.model.vocabulary import MetadataType
from metastore.overview.tables import describe
from metastore.session import Session, connect


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session with a workspace ``dfs.w``."""
    workspace = {"location": str(tmp_path / "lake")}
    base = {"iceberg.location.base_path": str(tmp_path / "m"), "storage.dfs.workspaces.w": workspace}
    with connect(Settings.from_mapping({"drill.metastore": base}, environ={})) as opened:
        yield opened


def add(tmp_path: Path, directories: str, rows: int = 2) -> None:
    """Write one file below the table ``t``."""
    folder = tmp_path / "lake" / "t" / directories
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array(range(rows), pa.int64())}), folder / "a.parquet")


def known(ms: Session) -> dict[str, tuple[Any, ...]]:
    """What INFORMATION_SCHEMA says of each column of directories; the bounds of ``describe`` are the same."""
    text = (
        "SELECT column_name, min_val, max_val, num_nulls, est_num_non_nulls FROM information_schema.columns "
        "WHERE table_name = 't' AND column_name <> 'id'"
    )
    rows = {row["COLUMN_NAME"]: tuple(row.values())[1:] for row in ms.sql(text).to_pylist()}
    described = {each.name: each for each in describe(ms, "dfs.w.t").columns if each.name != "id"}
    assert {name: str(each.min) for name, each in described.items()} == {
        name: str(row[0]) for name, row in rows.items()
    }
    return rows


def test_named_directories_have_typed_bounds(ms: Session, tmp_path: Path) -> None:
    """As DuckDB computes them from the rows: month=10 is above month=9. A new directory moves a bound."""
    for day in ("month=9/k=a", "month=10/k=__HIVE_DEFAULT_PARTITION__", "month=2/k=b%20c"):
        add(tmp_path, day)
    for new in ("month=11/k=z", "month=1/k=A"):
        ms.analyze("dfs.w.t")
        query = (
            "SELECT min(month), max(month), count(*) - count(month), count(month), min(k), max(k) "
            f"FROM read_parquet('{tmp_path}/lake/t/**/*.parquet', hive_partitioning = true)"
        )
        judged = duckdb.execute(query).fetchall()[0]
        found = known(ms)
        assert found["month"] == (*map(str, judged[:2]), *judged[2:4])
        assert found["k"] == (*judged[4:], None, None)  # how many rows are in directories of NULL is not known
        add(tmp_path, new)
    [unit] = ms.metastore.tables.read().metadata_types(MetadataType.TABLE).execute()
    assert list(unit.columns_statistics or ()) == ["`id`"], "Drill would look for month in the files"


def test_plain_directories_have_bounds_where_drill_finds_them(ms: Session, tmp_path: Path) -> None:
    """Under dir0 and dir1 of the TABLE unit, with the values that Drill's own ANALYZE of such a table has."""
    for year in (1994, 1995):
        for quarter in ("Q1", "Q4"):
            add(tmp_path, f"{year}/{quarter}")
    ms.analyze("dfs.w.t")
    assert known(ms) == {"dir0": ("1994", "1995", 0, 8.0), "dir1": ("Q1", "Q4", 0, 8.0)}
    add(tmp_path, "1993/Q0")
    assert ms.analyze("dfs.w.t").files == 5
    assert known(ms) == {"dir0": ("1993", "1995", 0, 10.0), "dir1": ("Q0", "Q4", 0, 10.0)}
    [unit] = ms.metastore.tables.read().metadata_types(MetadataType.TABLE).execute()
    assert list(unit.columns_statistics or ()) == ["`id`", "`dir0`", "`dir1`"]
    add(tmp_path, "1996")
    ms.analyze("dfs.w.t")
    assert known(ms)["dir1"] == (None,) * 4, "a file has no second directory, and its rows are not counted apart"
