"""Tables that Spark made, by its own writers and by Hive's: rows after migrate are the rows it read before."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyiceberg.table import Table
from services.hive_tables import HiveMaker
from services.spark_hive import SparkHive

from metastore.session import Session

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]

Call = Callable[..., dict[str, Any]]

COLUMNS = """id bigint, n int, small smallint, tiny tinyint, f float, d double, dec decimal(10,2), big decimal(30,5),
  s string, c char(5), v varchar(10), b boolean, dt date, bin binary, arr array<int>, m map<string,int>,
  st struct<userName:string,x:int>, userId int"""
ROWS = """select id, cast(id as int), cast(id - 5 as smallint), cast(id % 100 as tinyint), cast(id / 3 as float),
  case id when 3 then double('NaN') else id / 7 end, cast(id / 100 as decimal(10,2)), cast(-id * 1.5 as decimal(30,5)),
  case id when 4 then null when 5 then repeat('long', 2000) else concat('é', id) end, cast(concat('c', id) as char(5)),
  cast(concat('v', id) as varchar(10)), id % 2 = 0, date_add(date'1969-12-28', cast(id as int)),
  cast(concat('b', id) as binary), array(cast(id as int), null), map('k', cast(id as int)),
  named_struct('userName', concat('u', id), 'x', cast(id as int)), cast(id as int)"""
TIME = ", timestamp'1969-12-30 00:00:00.5' + make_dt_interval(cast(id as int), 0, 0, 0.123456)"

NATIVE = {"spark.sql.hive.convertMetastoreParquet": "true", "spark.sql.hive.convertMetastoreOrc": "true"}
BY_HIVE = {
    "spark.sql.hive.convertMetastoreParquet": "false",
    "spark.sql.hive.convertMetastoreOrc": "false",
    "spark.sql.hive.convertInsertingPartitionedTable": "false",
}
LEGACY = {**NATIVE, "spark.sql.parquet.writeLegacyFormat": "true"}
PLAIN = {**NATIVE, "spark.sql.parquet.writeLegacyFormat": "false"}
WRITERS = {
    "parquet": ("parquet", PLAIN),
    "parquet by Hive": ("parquet", BY_HIVE),
    "parquet, legacy": ("parquet", LEGACY),
    "orc": ("orc", PLAIN),
    "orc by Hive": ("orc", BY_HIVE),
}


def as_text(row: dict[str, Any]) -> str:
    """A row in a form that compares by content, whichever library it came from."""
    return json.dumps({name.lower(): _plain(value) for name, value in row.items()}, default=repr, sort_keys=True)


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.replace(tzinfo=None)
        case Decimal():
            return repr(value)
        case [(str(), _), *_]:
            return dict(value)
        case float():
            return repr(value)
        case str():
            return value.rstrip(" ")  # Spark pads a char that a file holds without
        case _:
            return value


def rows_of(table: Table) -> list[str]:
    """What PyIceberg reads."""
    return sorted(as_text(row) for row in table.scan().to_arrow().to_pylist())


@pytest.fixture
def load(session: Session, hive: HiveMaker) -> Callable[[str], Table]:
    """The Iceberg table of a name."""
    return lambda name: session.catalogs.table("lake", hive.database, name).load()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("format_", "conf"), WRITERS.values(), ids=WRITERS.keys())
def test_every_type_by_every_writer(
    hive: HiveMaker,
    spark_hive: SparkHive,
    call: Call,
    load: Callable[[str], Table],
    format_: str,
    conf: dict[str, str],
) -> None:
    """Rows, and the way back, after which Spark reads what it read; no predicate loses a row by a bound."""
    name = f"{hive.database}.t"
    spark_hive.sql(f"create table {name} ({COLUMNS}, ts timestamp) stored as {format_}", **conf)
    for start in (0, 10):
        spark_hive.sql(f"insert into {name} {ROWS}{TIME} from range({start}, {start + 10})")
    # By Spark's own readers: through Hive's, it finds no field of a struct in ORC whose name has capitals.
    before = sorted(as_text(row) for row in spark_hive.sql(f"select * from {name}", **PLAIN))
    assert call("migrate", "t")["records"] == len(before) == 20
    table = load("t")
    assert set(rows_of(table)) - set(before) == set()
    assert rows_of(table) == before
    for predicate, found in (("id >= 13", 7), ("s >= 'long'", 19), ("s is null", 1), ("tiny = 7", 1), ("d < 0.5", 3)):
        assert len(table.scan(row_filter=predicate).to_arrow()) == found, predicate
    with pytest.raises(RuntimeError):
        spark_hive.sql(f"select * from {name}")
    call("revert_migration", "t")
    spark_hive.sql(f"refresh table {name}")
    assert sorted(as_text(row) for row in spark_hive.sql(f"select * from {name}")) == before


def test_partitions_that_spark_wrote(
    hive: HiveMaker, spark_hive: SparkHive, call: Call, load: Callable[[str], Table]
) -> None:
    """Null, spaces, slashes, percent signs, unicode and dates, as Spark escapes them; and appends beside them."""
    name = f"{hive.database}.p"
    spark_hive.sql(f"create table {name} (id bigint) partitioned by (ps string, pd date) stored as parquet", **PLAIN)
    spark_hive.sql(
        f"""insert into {name} select id, case id when 0 then null when 1 then 'a b' when 2 then 'x/y' when 3 then '50%'
        when 4 then 'é"' else 'z=1:2' end, date_add(date'2024-01-01', cast(id as int)) from range(6)"""
    )
    before = sorted(as_text(row) for row in spark_hive.sql(f"select * from {name}"))
    call("migrate", "p")
    assert rows_of(load("p")) == before
    load("p").append(pa.table({"id": [9], "ps": ["x/y"], "pd": pa.array([0], pa.date32())}))
    assert len(load("p").scan(row_filter="ps = 'x/y'").to_arrow()) == 2


def test_avro_is_migrated_and_counted(
    hive: HiveMaker, spark_hive: SparkHive, call: Call, load: Callable[[str], Table]
) -> None:
    """PyIceberg by itself cannot read it, and the report says so; counts are right."""
    name = f"{hive.database}.a"
    spark_hive.sql(f"create table {name} ({COLUMNS}) stored as avro")
    spark_hive.sql(f"insert into {name} {ROWS} from range(20)")
    done = call("migrate", "a")
    assert (done["records"], done["formats"]) == (20, [("AVRO", done["files"])])
    assert any("PyIceberg by itself does not read Avro" in warning for warning in done["warnings"])
    assert load("a").scan().count() == 20


def test_analyze_agrees_with_spark(hive: HiveMaker, spark_hive: SparkHive, session: Session) -> None:
    """Rows and bounds of a Hive table under ANALYZE are those of Spark's aggregates."""
    name = f"{hive.database}.s"
    spark_hive.sql(f"create table {name} (id bigint, s string) partitioned by (p string) stored as parquet", **PLAIN)
    spark_hive.sql(f"insert into {name} select id, concat('s', id), concat('p ', id % 3) from range(30)")
    [told] = spark_hive.sql(f"select count(*) as n, min(id) as low, max(s) as high from {name}")
    assert session.analyze(f"hive.{hive.database}.s").rows == told["n"] == 30
    files = ds.dataset(hive.folder / "s", format="parquet", exclude_invalid_files=True).files
    assert len(session.prune(f"hive.{hive.database}.s", "p = 'p 1'").files) == len([f for f in files if "p=p 1" in f])
