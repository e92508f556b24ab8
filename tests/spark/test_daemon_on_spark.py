"""The daemon's actions with their tasks on Spark: the guard stands before them as it stands before local ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from metastore.config import Settings
from metastore.daemon.actions import Actions
from metastore.daemon.policy import Action, TableName, policies
from metastore.errors import ConflictError
from metastore.session import Session, connect
from metastore.spark import SparkEngine

pytestmark = pytest.mark.spark

ORDERS = TableName("lake", "shop", "orders")


def settings_in(folder: Path, **budgets: dict[str, int]) -> Settings:
    """A metastore and a catalog ``lake``, where tables are rewritten and expire within these budgets."""
    rewrite = {"enabled": True, "min_input_files": 2, "budget": budgets.get("rewrite", {})}
    expire = {"enabled": True, "older_than": "0 s", "retain_last": 1, "budget": budgets.get("expire", {})}
    return Settings.from_mapping(
        {
            "drill.metastore": {
                "iceberg.location": {"base_path": str(folder), "relative_path": "metastore"},
                "catalogs.lake": {
                    "type": "sql",
                    "uri": f"sqlite:///{folder}/lake.db",
                    "warehouse": f"file://{folder}/lake",
                },
                "policies.default": {"rewrite_data_files": rewrite, "expire_snapshots": expire},
            }
        },
        environ={},
    )


def carry_out(session: Session, action: Action, looks: list[int] | None = None) -> Any:
    """One action on ``shop.orders``; where ``looks`` is given, the lease is lost by the first look."""

    def lease() -> None:
        if looks is not None:
            looks.append(len(looks))
            raise ConflictError("lost")

    [policy] = [each for each in policies(session.settings.policies, ORDERS) if each.action is action]
    return Actions(session, lease, lambda: False).carry_out(ORDERS, policy)


def orders(session: Session) -> Table:
    """The table with six files of ten rows, made by six commits."""
    lake = session.catalogs.open("lake")
    lake.create_namespace("shop")
    table = lake.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    for start in range(0, 60, 10):
        table.append(pa.table({"id": pa.array(range(start, start + 10), pa.int64())}))
    return table


def ids(spark: SparkSession, table: Table) -> list[int]:
    """What Spark reads in the files of the newest version."""
    paths = [task.file.file_path for task in table.refresh().scan().plan_files()]
    return sorted(row["id"] for row in spark.read.parquet(*paths).collect())


def test_budgets_bound_what_tasks_on_executors_do(spark: SparkSession, engine: SparkEngine, tmp_path: Path) -> None:
    """A rewrite keeps the groups that it has room for, an expiration deletes so many files; no row is lost."""
    with connect(settings_in(tmp_path, expire={"files": 3}), engine=engine) as session:
        table = orders(session)
        folder = Path(table.metadata.location.removeprefix("file://"))
        size = next(iter(table.scan().plan_files())).file.file_size_in_bytes
    with connect(settings_in(tmp_path, rewrite={"bytes": 2 * size}, expire={"files": 3}), engine=engine) as session:
        rewrite = carry_out(session, Action.REWRITE_DATA_FILES)
        assert (rewrite.status, rewrite.before.files, rewrite.after.files) == ("bounded", 6, 5)
        assert ids(spark, table) == list(range(60))
        before = {path for path in folder.rglob("*") if path.is_file()}
        expire = carry_out(session, Action.EXPIRE_SNAPSHOTS)
        assert expire.status == "bounded"
        gone = before - set(folder.rglob("*"))
        assert len(gone) == 3
        assert ids(spark, table) == list(range(60))


def test_a_lost_lease_lets_no_task_change_anything(spark: SparkSession, engine: SparkEngine, tmp_path: Path) -> None:
    """Asked for right before the commit of a rewrite and before files are deleted on executors."""
    with connect(settings_in(tmp_path), engine=engine) as session:
        table = orders(session)
        newest = table.metadata_location
        for action in (Action.REWRITE_DATA_FILES, Action.EXPIRE_SNAPSHOTS):
            looks: list[int] = []
            assert carry_out(session, action, looks).status == "stopped"
            assert looks == [0]
            assert table.refresh().metadata_location == newest
        assert ids(spark, table) == list(range(60))
        assert carry_out(session, Action.REWRITE_DATA_FILES).status == "done"
        assert carry_out(session, Action.EXPIRE_SNAPSHOTS).status == "done"
        assert ids(spark, table) == list(range(60))
        assert len(table.metadata.snapshots) == 1
