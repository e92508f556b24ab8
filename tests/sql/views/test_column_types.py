"""REFRESH where a source's columns get other types: the rows are those of the query, as everything is read now."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import DoubleType, LongType

from metastore.config.settings import Settings
from metastore.errors import ConflictError, InvalidRequestError
from metastore.model.materialized_view_unit import RefreshStatus
from metastore.session import Session, connect
from metastore.sql.views.refresh import refresh

Rows = Callable[..., list[dict[str, Any]]]
M = "dfs.tmp.m"
NARROW = pa.table({"k": [1, 1], "x": pa.array([Decimal("1.5"), Decimal(2)], pa.decimal128(5, 2)), "z": [1, 2]})


@pytest.fixture
def source(session: Session, data: Path) -> Callable[..., None]:
    """Write a file of ``dfs.tmp.t``, and analyze the table."""

    def add(name: str, rows: pa.Table) -> None:
        (data / "t").mkdir(exist_ok=True)
        pq.write_table(rows, data / "t" / f"{name}.parquet")
        session.analyze("dfs.tmp.t")

    add("1", NARROW)
    return add


@pytest.mark.parametrize(
    ("query", "x"),
    [
        ("SELECT k, sum(x) AS s FROM t GROUP BY k", pa.array([Decimal("0.0049")], pa.decimal128(9, 4))),
        ("SELECT k, x FROM t WHERE x > 1.5", pa.array([Decimal("1.5049")], pa.decimal128(9, 4))),
        ("SELECT CAST(x AS STRING) AS s FROM t", pa.array([Decimal("2.5049")], pa.decimal128(9, 4))),
        (
            "SELECT CAST(x AS STRING) AS s, count(*) AS c FROM t GROUP BY CAST(x AS STRING)",
            pa.array([Decimal("2.5049")], pa.decimal128(9, 4)),
        ),
        ("SELECT max(x) AS m, min(x) AS n FROM t", pa.array(["10"])),
    ],
)
def test_a_new_file_that_widens_a_column_means_everything(
    session: Session, rows: Rows, source: Callable[..., None], query: str, x: pa.Array[Any]
) -> None:
    """Old rows would be of the old type, or new ones squeezed into it; what the engine answers is the measure."""
    session.materialized_views.define(M, query)
    session.materialized_views.refresh(M)
    source("2", pa.table({"k": [2], "x": x, "z": [3]}))
    assert session.materialized_views.status(M) is RefreshStatus.STALE
    with pytest.raises(InvalidRequestError, match="the type of column x of dfs.tmp.t has changed"):
        session.materialized_views.refresh(M, "incremental")
    result = session.materialized_views.refresh(M)
    assert result.mode == "full"
    assert result.reason is not None
    # New types of the result, where there are any, follow.
    assert result.reason.partition("; ")[0] == "the type of column x of dfs.tmp.t has changed"
    assert rows(f"SELECT * FROM {M}", "any") == rows(query)
    assert session.materialized_views.refresh(M).mode == "up to date"


def test_columns_that_the_query_does_not_use_may_change(
    session: Session, rows: Rows, source: Callable[..., None]
) -> None:
    """Nothing of them is in the rows, so new files alone are read."""
    query = "SELECT k, count(*) AS c FROM t GROUP BY k"
    session.materialized_views.define(M, query)
    session.materialized_views.refresh(M)
    wider = pa.array([Decimal("1.2345")], pa.decimal128(9, 4))
    source("2", pa.table({"k": [2], "x": wider, "z": ["a"], "new": [True]}))
    assert session.materialized_views.refresh(M).mode == "incremental"
    assert rows(f"SELECT * FROM {M}", "any") == rows(query)


def test_a_star_stays_with_its_columns(session: Session, rows: Rows, source: Callable[..., None]) -> None:
    """A column that the source gets later is none of the view's, so that new files alone are read."""
    session.materialized_views.define(M, "SELECT * FROM t")
    session.materialized_views.refresh(M)
    source("2", NARROW.append_column("new", pa.array([True, False])))
    assert session.materialized_views.refresh(M).mode == "incremental"
    named = ", ".join(NARROW.column_names)
    assert rows(f"SELECT * FROM {M}", "any") == rows(f"SELECT {named} FROM t")


def test_another_declared_schema_of_the_same_files_means_everything(session: Session, rows: Rows, data: Path) -> None:
    """No file has changed, and each row reads otherwise: what is stored is served no more."""
    (data / "c").mkdir()
    (data / "c/1.csv").write_text("a,b\n01,x\n002,y\n10,z\n")
    session.sql("ANALYZE TABLE dfs.tmp.c (format => 'CSV', schema => 'a VARCHAR, b VARCHAR') REFRESH METADATA")
    query = "SELECT a, b FROM c WHERE a < '1'"
    session.materialized_views.define(M, query)
    session.materialized_views.refresh(M)
    assert [row["a"] for row in rows(f"SELECT * FROM {M}", "any")] == ["002", "01"]
    session.sql("ANALYZE TABLE dfs.tmp.c (format => 'CSV', schema => 'a INT, b VARCHAR') REFRESH METADATA")
    assert session.materialized_views.status(M) is RefreshStatus.STALE
    result = session.materialized_views.refresh(M)
    assert result.mode == "full"
    assert result.reason is not None
    # New types of the result, where there are any, follow.
    assert result.reason.partition("; ")[0] == "the type of column a of dfs.tmp.c has changed"
    assert rows(f"SELECT * FROM {M}", "any") == rows(query) == []


@pytest.mark.usefixtures("source")
def test_types_that_change_while_rows_are_read_change_nothing(session: Session, data: Path) -> None:
    """Rows that were read by two schemas are never served."""
    session.materialized_views.define(M, "SELECT k, x FROM t")
    pq.write_table(pa.table({"k": [2], "x": [0.5], "z": [3]}), data / "t/2.parquet")

    def meanwhile(said: str) -> None:
        if said == "written":
            session.analyze("dfs.tmp.t")

    with pytest.raises(ConflictError, match=r"dfs.tmp.t changed while it was being read"):
        refresh(session, M, on_step=meanwhile)
    assert session.materialized_views.refresh(M).files == 2


@pytest.mark.usefixtures("source")
def test_a_refresh_that_noted_no_types_is_followed_by_a_full_one(session: Session, rows: Rows) -> None:
    """As those of older releases: nobody can say what they read, so their rows are not served as fresh."""
    query = "SELECT k, x FROM t"
    session.materialized_views.define(M, query)
    session.materialized_views.refresh(M)
    unit = session.materialized_views.get(M)
    kept = json.loads(unit.additional_metadata or "")
    for state in kept["refresh"]["sources"].values():
        assert state.pop("columns") == {"": "PARQUET", "k": "BIGINT", "x": "DECIMAL(5, 2)"}
    session.materialized_views.replace(dataclasses.replace(unit, additional_metadata=json.dumps(kept)), seen=unit)
    assert session.materialized_views.status(M) is RefreshStatus.STALE
    assert session.materialized_views.refresh(M).reason.startswith("the last refresh did not note the types")
    assert session.materialized_views.refresh(M).mode == "up to date"
    assert rows(f"SELECT * FROM {M}") == rows(query)


def test_columns_that_others_widened_are_analyzed_first(tmp_path: Path) -> None:
    """Rows in the types of before would be null, or lose digits; neither is stored or told."""
    plugins = {"dfs.workspaces.w": {"location": str(tmp_path), "writable": True}}
    given = {
        "iceberg.location.base_path": f"{tmp_path}/metastore",
        "catalogs.prod": {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/wh"},
        "storage": {**plugins, "lake": {"type": "iceberg", "catalog": "prod"}},
    }
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as session:
        prod = session.catalogs.open("prod")
        prod.create_namespace("shop")
        narrow = pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([0.5], pa.float32())})
        table = prod.create_table("shop.o", narrow.schema)
        table.append(narrow)
        session.analyze("lake.shop.o")
        session.materialized_views.define("dfs.w.m", "SELECT max(id) AS id, max(v) AS v FROM lake.shop.o")
        with table.update_schema() as update:
            update.update_column("id", LongType()).update_column("v", DoubleType())
        table.append(pa.table({"id": [5_000_000_000], "v": [1.1]}))
        for statement in ("REFRESH MATERIALIZED VIEW dfs.w.m", "SELECT v FROM lake.shop.o", "SELECT v FROM dfs.w.m"):
            with pytest.raises(InvalidRequestError, match=r"column (id|v) of lake.shop.o was of type .* run ANALYZE"):
                session.sql(statement)
        session.analyze("lake.shop.o")
        for _ in range(2):
            assert session.sql("SELECT * FROM dfs.w.m").to_pylist() == [{"id": 5_000_000_000, "v": 1.1}]
            session.sql("REFRESH MATERIALIZED VIEW dfs.w.m")
