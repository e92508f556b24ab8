"""A column whose name is empty, as indexes of data frames are written: it keeps its name, and others keep theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect

ROW = {"": 1, "v0": 2, "_1": 3}


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session with the analyzed folder ``dfs.tmp.t``, and an empty schema of a catalog."""
    (tmp_path / "data/t").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([ROW]), tmp_path / "data/t/a.parquet")
    given = {
        "iceberg.location.base_path": f"{tmp_path}/md",
        "catalogs.lake": {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/wh"},
        "storage.dfs.workspaces.tmp": {"location": f"{tmp_path}/data"},
    }
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        opened.sql("ANALYZE TABLE dfs.tmp.t REFRESH METADATA")
        opened.sql("CREATE SCHEMA lake.s")
        yield opened


def test_no_column_takes_the_name_of_another(ms: Session) -> None:
    """DuckDB calls a column without a name ``v0``, and then the column ``v0`` by another name."""
    assert ms.sql("SELECT * FROM dfs.tmp.t").to_pylist() == [ROW]
    assert ms.sql("SELECT v0, _1 FROM dfs.tmp.t WHERE v0 = 2").to_pylist() == [{"v0": 2, "_1": 3}]
    assert ms.sql("SELECT a.*, b.v0 AS w FROM dfs.tmp.t a JOIN dfs.tmp.t b USING (_1)").to_pylist() == [{**ROW, "w": 2}]


@pytest.mark.parametrize("more", ["", " WITH NO DATA"])
def test_a_table_of_a_catalog_is_not_made_of_it(ms: Session, more: str) -> None:
    """Its files could not be written; with names for all columns it is made."""
    with pytest.raises(InvalidRequestError, match="column without a name"):
        ms.sql(f"CREATE TABLE lake.s.c AS SELECT * FROM dfs.tmp.t{more}")
    ms.sql(f"CREATE TABLE lake.s.c AS SELECT * FROM dfs.tmp.t AS t(i, v0, k){more}")
    assert ms.sql("SELECT v0 FROM lake.s.c").to_pylist() == ([] if more else [{"v0": 2}])
