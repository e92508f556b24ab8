"""Tables in Spark by their names: the rows of Spark's own unpruned reading, from the files that metadata leaves."""

from __future__ import annotations

import gc
import os
import pickle
import weakref
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as source
from pyspark.sql import functions as sql
from pyspark.sql.types import IntegerType, StructType

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError, StaleRowIdError
from metastore.scan.pruning.row_id import ROW_ID, decode
from metastore.scan.rows import read_rows
from metastore.scan.task_parts import split
from metastore.session import Session, connect
from metastore.spark import read_table
from metastore.spark.pruned_table import _engines
from metastore.spark.scan_source import TableScanReader, predicate, table_schema, table_version
from metastore.spark.session import copy_session

pytestmark = pytest.mark.spark

TABLE = "dfs.tmp.t"
NAN, INF = float("nan"), float("inf")
MOMENTS = [datetime(2020, 3, 1, 11, 30, 0, micros, tzinfo=timezone.utc) for micros in (0, 1)]


def rows(start: int) -> pa.Table:
    """Six rows of many types, with nulls, NaN and texts that collations order differently."""
    return pa.table(
        {
            "id": pa.array(range(start, start + 6), pa.int64()),
            "i": pa.array([start, None, 1, 2, -3, 2**31 - 1], pa.int32()),
            "d": [float(start), NAN, -0.0, 0.1, INF, None],
            "dec": pa.array([Decimal(text) for text in ("0.10", "0.30", "-1.50", "9.99")] + [None, None]),
            "s": ["a", "A", "ä", "ab", None, "😀" if start else "a "],
            "x": [b"", b"\x00", b"\x80", b"\xff", None, b"a"],
            "day": [date(2020, 2, 29), date(1969, 12, 31), None, date(2020, 3, 1), None, None],
            "utc": pa.array([MOMENTS[0], MOMENTS[1], None, None, None, None], pa.timestamp("us", "UTC")),
            "local": pa.array([MOMENTS[0].replace(tzinfo=None), *[None] * 5], pa.timestamp("us")),
            "st": [{"a": start, "b": "z"}, None, {"a": None, "b": "y"}, None, None, None],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files, in two directories with odd names and one beneath."""
    base = tmp_path_factory.mktemp("lake")
    for number, name in enumerate(["k=1/a", "k=2/b", "k=2/e x+y/c"]):
        path = base / "t" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(number * 10), path, row_group_size=4)
    return base


@pytest.fixture(scope="module")
def settings(folder: Path) -> Settings:
    """A metastore beside the data."""
    return Settings.from_mapping(
        {
            "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
            "drill.metastore.storage.dfs.workspaces.tmp.location": str(folder),
        },
        environ={},
    )


@pytest.fixture(scope="module")
def ms(settings: Settings) -> Iterator[Session]:
    """A session that knows the table."""
    with connect(settings) as opened:
        opened.analyze(TABLE)
        yield opened


@pytest.fixture(scope="module")
def unpruned(spark: SparkSession, folder: Path) -> DataFrame:
    """Spark's own reading of everything."""
    schema = spark.read.parquet(f"{folder}/t/k=1/a.parquet").schema.add("k", IntegerType())
    return spark.read.schema(schema).parquet(f"{folder}/t").withColumn("file", sql.col("_metadata.file_name"))


QUESTIONS = [
    "i = 2", "i > 1.5", "NOT i = 2", "i IS NULL OR d > 5", "d > 0.05", "NOT d < 0.2", "d = double('nan')", "d <> 0",
    "dec >= 0.305", "dec IN (0.1, 9.99)", "s = 'a'", "s > 'a'", "s LIKE 'a%'", "s NOT LIKE '%b'", "s IN ('A', 'ä')",
    "NOT s IN ('a', 'b')", "x >= X'80'", "day < DATE '2020-03-01'", "day = '2020-02-29'", "st.a = 0", "st.b LIKE 'y%'",
    "utc = TIMESTAMP '2020-03-01 11:30:00'", "utc > TIMESTAMP '2020-03-01 11:30:00Z'", "k = 2 AND id < 12",
    "local = TIMESTAMP_NTZ '2020-03-01 11:30:00'", "k IN (1, 7) OR length(s) = 2", "i BETWEEN 1 AND 2", "st IS NULL",
]  # fmt: skip


@pytest.mark.exhaustive
def test_answers_are_those_of_the_unpruned_table(spark: SparkSession, ms: Session, unpruned: DataFrame) -> None:
    """For every kind of question, by Spark's reader and by tasks, NaN included; all asked in one job."""
    judged = unpruned.selectExpr("id", *(f"({question}) AS q{n}" for n, question in enumerate(QUESTIONS))).collect()
    true = {(n, row.id) for row in judged for n in range(len(QUESTIONS)) if row[f"q{n}"]}
    by_tasks = range(0, len(QUESTIONS), 4)
    frames = {
        "pruned": {n: read_table(spark, ms, TABLE, question, ["id"]) for n, question in enumerate(QUESTIONS)},
        "tasks": {n: read_table(spark, ms, TABLE, QUESTIONS[n], ["id"], row_id=True) for n in by_tasks},
    }
    asked = [
        frame.select("id", sql.lit(n).alias("n"), sql.lit(how).alias("how"))
        for how, of_question in frames.items()
        for n, frame in of_question.items()
    ]
    found: dict[str, list[tuple[int, int]]] = {how: [] for how in frames}
    for row in reduce(DataFrame.unionAll, asked).collect():
        found[row.how].append((row.n, row.id))
    assert sorted(found["pruned"]) == sorted(true)
    assert sorted(found["tasks"]) == sorted(one for one in true if one[0] in by_tasks)


def test_values_are_those_of_sparks_own_reader(spark: SparkSession, ms: Session, unpruned: DataFrame) -> None:
    """In the table's order of columns, with directories as columns, whichever way they are read."""
    names = [*rows(0).column_names, "dir1", "k"]
    level = sql.when(sql.col("file") == "c.parquet", "e x+y").alias("dir1")
    expected = sorted(map(repr, unpruned.select(*names[:-2], level, "k").collect()))
    native, by_tasks = read_table(spark, ms, TABLE), read_table(spark, ms, TABLE, row_id=True).drop(ROW_ID)
    assert native.columns == by_tasks.columns == names
    assert dict(native.dtypes) == dict(by_tasks.dtypes)
    assert sorted(map(repr, native.collect())) == sorted(map(repr, by_tasks.collect())) == expected


def test_sparks_vectorized_reader_reads_the_chosen_files(spark: SparkSession, ms: Session) -> None:
    """Nothing but these, and no job lists them."""
    context = spark.sparkContext
    context.setJobGroup("read_table", "what reading takes before anything is asked of the frame")
    frame = read_table(spark, ms, TABLE, "id >= 20")
    context._jsc.sc().listenerBus().waitUntilEmpty()
    assert list(context.statusTracker().getJobIdsForGroup("read_table")) == []
    context.setJobGroup("tests", "everything after")
    assert [os.path.basename(name) for name in frame.inputFiles()] == ["c.parquet"]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan
    assert "Batched: true" in plan


def test_row_ids_are_the_same_in_spark_and_elsewhere(spark: SparkSession, ms: Session, unpruned: DataFrame) -> None:
    """Those of the Arrow scan, pruned and split or not; and they say the row that Spark's own reader counts."""
    ids = dict(ms.tables.scan(TABLE, columns=["id"], row_id=True).to_duckdb().fetchall())
    assert len(set(ids.values())) == 18
    for question in (None, "id > 14", "d > 0.05 AND k = 2"):
        found = {row.id: bytes(row[ROW_ID]) for row in read_table(spark, ms, TABLE, question, row_id=True).collect()}
        assert found.items() <= ids.items()
        assert (len(found) == 18) is (question is None)
    counted = unpruned.select("id", sql.col("_metadata.row_index").alias("row"), "file").collect()
    first = {"a.parquet": 0, "b.parquet": 0, "c.parquet": 2}
    for row in counted:
        pieces = decode([ids[row.id]])
        assert (pieces.rows[0], pieces.groups[0]) == (row.row % 4, first[row.file] + row.row // 4)
    wanted = [ids[n] for n in (13, 2)]
    assert ms.tables.rows_by_id(TABLE, wanted)["id"].to_pylist() == [13, 2]
    left = read_table(spark, ms, TABLE, "id < 14", exclude=wanted).collect()
    assert sorted(row.id for row in left) == [0, 1, 3, 4, 5, 10, 11, 12]


def test_changed_files_and_other_types_are_read_by_tasks(
    spark: SparkSession, tmp_path: Path, settings: Settings
) -> None:
    """A new file with another type, a removed one, types that Spark has no word for."""
    root = tmp_path / "u"
    root.mkdir()
    pq.write_table(
        pa.table(
            {"n": pa.array([1], pa.int32()), "big": pa.array([2**64 - 1], pa.uint64()), "t": [datetime.min.time()]}
        ),
        root / "a.parquet",
    )
    pq.write_table(pa.table({"n": pa.array([2**40])}), root / "b.parquet")
    with connect(settings) as ms:
        ms.analyze(root)
        pq.write_table(pa.table({"n": pa.array([3], pa.int16())}), root / "c.parquet")
        (root / "b.parquet").unlink()
        frame = read_table(spark, ms, root, "n < 10")
        assert dict(frame.dtypes) == {"n": "bigint", "big": "decimal(20,0)", "t": "string"}
        found = sorted(frame.collect(), key=lambda row: row.n)
        assert [tuple(row) for row in found] == [(1, Decimal(2**64 - 1), "00:00:00.000000"), (3, None, None)]
        with pytest.raises(StaleRowIdError, match="DEFAULT_SEGMENT"):
            read_table(spark, ms, root, row_id=True)
        for path in list(root.iterdir()):
            path.unlink()
        assert read_table(spark, ms, root, "n < 10").collect() == []
        assert read_table(spark, ms, root).columns == ["n", "big", "t"]


def test_work_is_split_by_bytes(ms: Session) -> None:
    """All files, each once, in at least as many parts as asked for where there are as many files."""
    chunk = ms.tables.scan(TABLE).chunk
    for tasks in (1, 2, 9):
        parts = split(chunk, tasks)
        assert [file.path for part in parts for file in part.files] == [file.path for file in chunk.files]
        assert min(tasks, 3) <= len(parts) <= 3


def test_the_data_sources_reader_plans_and_reads(ms: Session, settings: Settings) -> None:
    """It travels as a pickle, prunes by what is pushed down and gives every filter back."""
    schema = table_schema(settings, TABLE, version=table_version(settings))
    assert schema.names == ms.tables.scan(TABLE).schema.names
    wanted = StructType([schema["k"], schema["id"]])
    reader = travelled(TableScanReader(settings, TABLE, wanted, version=table_version(settings)))
    filters = [
        source.GreaterThan(("id",), 14),
        source.Not(source.EqualTo(("s",), "a")),
        source.StringContains(("s",), "x"),
    ]
    assert list(reader.pushFilters(filters)) == filters
    parts: list[Any] = [travelled(part) for part in reader.partitions()]
    assert {file.path.rpartition("/")[2] for part in parts for file in part.value.files} == {"b.parquet", "c.parquet"}
    found = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert [(row["k"], row["id"]) for row in found] == [(2, 15), (2, 21), (2, 22), (2, 23), (2, 25)]
    nothing = TableScanReader(settings, TABLE, wanted)
    nothing.pushFilters([source.LessThan(("id",), 0)])
    assert [list(nothing.read(part)) for part in nothing.partitions()] == [[]]
    with pytest.raises(InvalidRequestError, match="unknown column 'nope'"):
        TableScanReader(settings, TABLE, StructType().add("nope", IntegerType())).partitions()


def travelled(value: Any) -> Any:
    """What arrives in another process."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301


@pytest.mark.parametrize(
    ("pushed", "text"),
    [
        (source.EqualTo(("a", "b`c"), True), "`a`.`b``c` = TRUE"),
        (source.In(("a",), (1, 2.5)), "`a` IN (1, 2.5e0)"),
        (source.In(("a",), (1, None)), None),
        (source.LessThanOrEqual(("a",), Decimal("1.50")), "`a` <= 1.50"),
        (source.GreaterThanOrEqual(("a",), Decimal("1E+3")), "`a` >= 1000.0"),
        (source.LessThan(("a",), INF), None),
        (source.EqualTo(("a",), "it's"), "`a` = 'it''s'"),
        (source.EqualTo(("a",), "back\\slash"), None),
        (source.EqualTo(("a",), b"\x01"), "`a` = X'01'"),
        (source.EqualTo(("a",), date(2020, 1, 2)), "`a` = DATE '2020-01-02'"),
        (source.EqualTo(("a",), datetime(2020, 1, 2)), "`a` = TIMESTAMP_NTZ '2020-01-02 00:00:00'"),
        (source.EqualTo(("a",), MOMENTS[1]), "`a` = TIMESTAMP '2020-03-01 11:30:00.000001+00:00'"),
        (source.StringStartsWith(("a",), "x"), "`a` LIKE 'x%'"),
        (source.StringStartsWith(("a",), "x_"), None),
        (source.Not(source.IsNull(("a",))), "NOT (`a` IS NULL)"),
        (source.IsNotNull(("a",)), "`a` IS NOT NULL"),
        (source.StringEndsWith(("a",), "x"), None),
        (source.EqualNullSafe(("a",), 1), None),
    ],
)
def test_pushed_filters_are_said_in_sql(pushed: source.Filter, text: str | None) -> None:
    """Exactly, or not at all."""
    assert predicate(pushed) == text


def test_a_task_returns_the_types_that_spark_takes(ms: Session) -> None:
    """Also of a scan that Spark's reader would do."""
    chunk = ms.tables.scan(TABLE, "k = 2").chunk
    assert {batch.schema for batch in read_rows(chunk)} == {chunk.output}


@pytest.mark.parametrize(
    ("files", "how"),
    [
        (("k=1/a", "k=1/b", "k=__HIVE_DEFAULT_PARTITION__/a"), "directory"),
        (("a", "[b]"), "directory"),
        (("k=1/m=x/a", "k=2/m=y/a"), "directory"),
        (("eu/a", "us/x/b"), "names"),
        (("k=1/a", "b"), "tasks"),
        (("k=1/a", "m=1/a"), "tasks"),
        (("k=1/x/m=2/a", "k=1/x/m=3/a"), "tasks"),
    ],
)
def test_where_nothing_prunes_all_is_read(spark: SparkSession, tmp_path: Path, files: Sequence[str], how: str) -> None:
    """By directory where Spark finds every file of it; the rows are all there in any layout."""
    for number, name in enumerate(files):
        path = tmp_path / "t" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [number]}), path)
    given = {
        "drill.metastore.iceberg.location.base_path": f"{tmp_path}/metastore",
        "drill.metastore.storage.dfs.workspaces.tmp.location": str(tmp_path),
    }
    with connect(Settings.from_mapping(given, environ={})) as session:
        session.analyze(TABLE)
        found = read_table(spark, session, TABLE)
        assert sorted(row.id for row in found.collect()) == list(range(len(files)))
        leaf = found._jdf.queryExecution().optimizedPlan().collectLeaves().head()
        if how == "tasks":
            assert leaf.nodeName() == "LogicalRDD"
        else:
            assert (leaf.relation().location().rootPaths().size() == 1) is (how == "directory")
        assert [row.id for row in read_table(spark, session, TABLE, "id = 1").collect()] == [1]
        if files[0].startswith("k=1"):
            assert found.where("k = 1").count() == session.tables.scan(TABLE, "k = 1").count()


def test_a_session_that_nobody_holds_is_not_kept(spark: SparkSession, ms: Session) -> None:
    """Though tasks have read in it, for which an engine is kept as long as the session is there."""
    with copy_session(spark, {}) as copy:
        for _ in range(2):
            assert read_table(copy, ms, TABLE, row_id=True).count() == 18
        held = weakref.ref(copy)
        assert _engines[copy].spark.sparkContext is spark.sparkContext
        del copy
    gc.collect()
    assert held() is None
