"""Spark's doors give the rows of the scan, of files as odd as writers make them, or refuse them by a typed error."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession
from support.corpus import make_corpus
from support.doctor.doors import DOORS, ReadRows
from support.doctor.files import examine
from support.doctor.spark_doors import spark_doors
from support.tables_of_kinds import settings_of_kinds

from metastore.errors import InvalidRequestError
from metastore.session import connect
from metastore.spark import read_table, select

pytestmark = [pytest.mark.corpus, pytest.mark.spark]


@pytest.fixture(scope="module")
def doors(spark: SparkSession) -> Mapping[str, ReadRows]:
    """The door that others are compared with, and Spark's."""
    return {"to_arrow": DOORS["to_arrow"], **spark_doors(spark)}


@pytest.mark.parametrize(
    ("writer", "refused"), [("arrow_int96", 0), ("delta", 0), ("arrow_csv", 0), ("odd_parquet", 15), ("json", 6)]
)
def test_spark_gives_the_rows_of_the_scan(
    writer: str, refused: int, doors: Mapping[str, ReadRows], tmp_path: Path
) -> None:
    """Each file is a table by itself. At most ``refused`` of them raise an error, for all columns or for some."""
    make_corpus(tmp_path / "corpus", [writer])
    report = examine(tmp_path / "corpus", doors=doors)
    assert {file.file: file.contradictions for file in report.files if file.contradictions} == {}
    assert report.outcomes["equal"] >= len(report.files) - refused


def test_a_column_beyond_spark_refuses_itself_alone(spark: SparkSession, tmp_path: Path) -> None:
    """By an error of ours that names it, at each door; the other columns are read."""
    place = tmp_path / "lake" / "t"
    place.mkdir(parents=True)
    wide = pa.array([Decimal(1), None], pa.decimal256(45, 2))
    pq.write_table(
        pa.table({"id": [1, 2], "d": wide, "s": pa.array([{"d": None}] * 2, pa.struct([("d", wide.type)]))}),
        place / "a.parquet",
    )
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("dfs.w.t")
        for column in ("d", "s"):
            with pytest.raises(InvalidRequestError, match=rf"column '{column}' has DECIMAL\(45, 2\), Spark holds 38"):
                read_table(spark, session, "dfs.w.t", columns=["id", column])
            with pytest.raises(InvalidRequestError, match=rf"column '{column}' has DECIMAL\(45, 2\)"):
                select(spark, session, f"SELECT id, {column} FROM dfs.w.t")
        assert read_table(spark, session, "dfs.w.t", columns=["id"]).count() == 2
        assert select(spark, session, "SELECT id FROM dfs.w.t").count() == 2


def test_orc_nanoseconds_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own reader, the scan and the doors cut the same."""
    place = tmp_path / "lake" / "t"
    place.mkdir(parents=True)
    counts = [1_700_000_000_123_456_789, None, 1_700_000_000_000_000_999]
    orc.write_table(pa.table({"ts": pa.array(counts, pa.timestamp("ns", "UTC"))}), place / "a.orc")
    own = [row.ts for row in spark.read.orc(str(place)).collect()]
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("dfs.w.t")
        assert [row.ts for row in read_table(spark, session, "dfs.w.t").collect()] == own
        found = session.tables.scan("dfs.w.t").to_arrow()["ts"].to_pylist()
        assert [None if each is None else each.timestamp() for each in found] == [
            None if each is None else each.timestamp() for each in own
        ]


def test_parquet_nanoseconds_are_cut_off_downwards(spark: SparkSession, tmp_path: Path) -> None:
    """Before 1970 as after it."""
    place = tmp_path / "lake" / "t"
    place.mkdir(parents=True)
    counts = [1_700_000_000_123_456_789, None, -1, -1_000]
    pq.write_table(pa.table({"ts": pa.array(counts, pa.timestamp("ns"))}), place / "a.parquet")
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("dfs.w.t")
        rows = read_table(spark, session, "dfs.w.t").toArrow()["ts"].cast(pa.int64()).to_pylist()
    assert rows == [None if count is None else count // 1000 for count in counts]
