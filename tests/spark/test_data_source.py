"""The data source ``metastore``: the rows that Arrow and DuckDB give, versions that stay, filters that cost no row."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as source
from pyspark.sql.types import LongType, StringType, StructField, StructType

from metastore.components.information_schema.relations import RELATIONS
from metastore.components.metastore import Metastore
from metastore.components.storage.file_groups import FileGroup
from metastore.config import load
from metastore.config.policies import PolicySettings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect
from metastore.spark import register, register_source, select
from metastore.spark.data_source import MetastoreSource
from metastore.spark.own_tables import OwnTable, OwnTableReader, condition
from metastore.spark.scan_source import FilesPartition, TableScanReader
from metastore.spark.source_options import SETTINGS, SourceRequest, settings_option

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site whose tables ``dfs.shop.sales`` and ``dfs.shop.other`` were analyzed."""
    folder = tmp_path_factory.mktemp("site")
    for table, months in (("sales", (1, 2)), ("other", (3,))):
        for month in months:
            path = folder / "data" / table / f"month={month}" / "part.parquet"
            path.parent.mkdir(parents=True)
            pq.write_table(pa.table({"id": range(month * 10, month * 10 + 4), "name": ["a", "b", None, "ä"]}), path)
    file = folder / "site.conf"
    file.write_text(
        f'drill.metastore.iceberg.location {{ base_path = "{folder}", relative_path = "metastore" }}\n'
        f'drill.metastore.storage.dfs.workspaces.shop.location = "{folder}/data"\n'
    )
    with connect(file) as session:
        session.analyze("dfs.shop.sales")
        session.analyze("dfs.shop.other")
    return file


@pytest.fixture
def session(conf: Path) -> Iterator[Session]:
    """A session of the same site."""
    with connect(conf) as opened:
        yield opened


Load = Callable[..., DataFrame]


@pytest.fixture
def load_table(spark: SparkSession, conf: Path) -> Load:
    """Load a table by its name, with options."""
    register_source(spark)
    return lambda name, **options: spark.read.format("metastore").options(conf=str(conf), **options).load(name)


def rows(table: pa.Table | DataFrame) -> list[str]:
    """Rows that compare by content: no order, no kind of list or map, times in UTC."""
    arrow = table if isinstance(table, pa.Table) else table.toArrow()
    return sorted(repr(row) for row in arrow.to_pylist())


@pytest.mark.parametrize("name", RELATIONS)
def test_information_schema_is_what_arrow_has(load_table: Load, session: Session, name: str) -> None:
    """Names of columns and rows."""
    found, arrow = load_table(f"information_schema.{name.lower()}").toArrow(), session.information_schema.read(name)
    assert found.schema.names == arrow.schema.names
    assert rows(found) == rows(arrow)


def test_components_are_what_a_read_gives(load_table: Load, session: Session) -> None:
    """Maps and lists too."""
    everything = session.sql("SELECT * FROM metastore.components.tables")
    assert rows(load_table("metastore.components.tables")) == rows(everything)
    assert load_table("metastore.components.views").count() == 0


def test_analyzed_tables_are_their_rows(load_table: Load, spark: SparkSession, conf: Path) -> None:
    """As Spark reads the directory itself."""
    plain = spark.read.parquet(str(conf.parent / "data" / "sales"))
    assert rows(load_table("dfs.shop.sales").select("id", "name", "month")) == rows(plain)
    assert load_table("dfs.shop.sales", columns="NAME").columns == ["name"]
    assert "$row_id" in load_table("dfs.shop.sales", rowId="true").columns


def test_what_files_say_is_there_for_who_names_it(load_table: Load) -> None:
    """Among the columns that the load names; a condition on them chooses files."""
    frame = load_table(
        "dfs.shop.sales", columns="id,filename,$partition", where="`$partition` = 'month=2'", pushFilters="true"
    )
    assert sorted(map(tuple, frame.collect())) == [(20 + n, "part.parquet", "month=2") for n in range(4)]


def test_an_analyzed_table_of_text_is_its_rows(load_table: Load, session: Session, conf: Path) -> None:
    """Rows without ids, which only row groups give: asking for none is no question about them."""
    place = conf.parent / "data" / "text"
    place.mkdir()
    (place / "a.csv").write_text("id,name\n1,a\n2,\n")
    session.analyze("dfs.shop.text")
    found = load_table("dfs.shop.text").orderBy("id").collect()
    session.drop_metadata("dfs.shop.text")
    assert [(row.id, row.name) for row in found] == [(1, "a"), (2, None)]


def test_spark_and_duckdb_answer_the_same(load_table: Load, session: Session, spark: SparkSession) -> None:
    """A query over INFORMATION_SCHEMA, a component and a table together."""
    register(spark, session)
    load_table("dfs.shop.sales").createOrReplaceTempView("sales")
    query = """
        SELECT f.METADATA_KEY, count(*) AS n, max(s.id) AS top, min(c.lastModifiedTime) > 0 AS known
        FROM {files} f JOIN {units} c ON c.path = f.PATH AND c.metadataType = 'ROW_GROUP'
        JOIN {sales} s ON f.METADATA_KEY = concat('month=', s.month)
        WHERE f.TABLE_NAME = 'sales' AND s.name IS NOT NULL GROUP BY f.METADATA_KEY
    """
    by_spark = spark.sql(query.format(files="information_schema_files", units="components_tables", sales="sales"))
    by_duckdb = session.sql(
        query.format(files="information_schema.files", units="metastore.components.tables", sales="dfs.shop.sales")
    )
    assert rows(by_spark) == rows(by_duckdb)
    assert by_duckdb.num_rows == 2


def test_versions_are_pinned_and_chosen(load_table: Load, session: Session, spark: SparkSession) -> None:
    """A DataFrame and a view stay with the version they were made at; a version or a time can be asked for."""
    assert "now_information_schema_files" in register(spark, session, prefix="now_")
    pinned = load_table("information_schema.files")
    version, moment = session.tables.metadata.version, datetime.now(timezone.utc)
    session.drop_metadata("dfs.shop.other")
    try:
        assert pinned.count() == 3
        assert spark.table("now_information_schema_files").count() == 3
        assert load_table("information_schema.files").count() == 2
        assert load_table("information_schema.files", version=str(version)).count() == 3
        named = "tableName = 'other'"
        assert load_table("metastore.components.tables", where=named).count() == 0
        assert load_table("metastore.components.tables", where=named, asOf=moment.isoformat()).count() > 0
        register(spark, session, prefix="now_")
        assert spark.table("now_information_schema_files").count() == 2
    finally:
        session.analyze("dfs.shop.other")


def test_what_is_filtered_once_is_whole_again(load_table: Load) -> None:
    """Spark would keep a read that it has pushed filters to, and take it for the next scan; here it pushes none."""
    frame = load_table("information_schema.files")
    assert frame.where("TABLE_NAME = 'other'").count() == 1
    assert frame.count() == 3
    assert frame.where("TABLE_NAME = 'other'").union(frame.where("TABLE_NAME = 'sales'")).count() == 3
    table = load_table("dfs.shop.sales")
    assert (table.where("id < 12").count(), table.count()) == (2, 8)


def test_the_log_says_that_filters_skip_no_files(conf: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once, by the table's name; Spark's plan has no place for it. With the option there is nothing to say."""
    given = {"path": "dfs.shop.other", "conf": str(conf)}
    for options in ({"where": "id > 0"}, {"pushFilters": "true"}, {}, {}):
        MetastoreSource({**given, **options}).schema()
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "dfs.shop.other is loaded without the option where"
    ]


def test_spark_still_mixes_up_reads_with_pushed_filters(load_table: Load) -> None:
    """The day this fails, pushFilters can become the default: see docs/design/019."""
    frame = load_table("information_schema.files", pushFilters="true")
    assert frame.where("TABLE_NAME = 'other'").count() == 1
    assert frame.count() == 1


def test_pushed_filters_give_the_same_rows(load_table: Load) -> None:
    """Where they are asked for, for a DataFrame that is scanned once."""
    for text in (
        "TABLE_NAME = 'sales' AND NUM_ROWS > 1",
        "TABLE_SCHEMA IN ('dfs.shop', 'x') AND NOT TABLE_NAME = 'other' AND PATH LIKE '%part%'",
        "LAST_MODIFIED_TIME > timestamp'2020-01-01' AND METADATA_KEY LIKE 'month=1%' AND LOCATION IS NOT NULL",
    ):
        pushed = load_table("information_schema.files", pushFilters="true").where(text)
        assert rows(pushed) == rows(load_table("information_schema.files").where(text))
        assert pushed.count() > 0


def test_a_condition_of_the_load_chooses_rows(load_table: Load) -> None:
    """Of own tables, before Spark sees any."""
    assert load_table("information_schema.files", where="table_name = 'other'", columns="PATH").count() == 1
    assert load_table("metastore.components.tables", where="tableName = 'other' and metadataType = 'FILE'").count() == 1


WHERE = (
    "id >= 20",
    "id < 12 AND name IS NOT NULL",
    "NOT (month = 1 AND name = 'a')",
    "name LIKE 'a%' OR id IN (13, 21)",
    "month > 2",
)


@pytest.mark.parametrize("where", WHERE)
def test_a_condition_of_the_load_prunes_an_analyzed_table(
    load_table: Load, spark: SparkSession, conf: Path, where: str
) -> None:
    """Its rows are those that Spark finds in the directory itself; one DataFrame serves any number of filters."""
    plain = spark.read.parquet(str(conf.parent / "data" / "sales"))
    frame = load_table("dfs.shop.sales", where=where)
    assert rows(frame.select("id", "name", "month")) == rows(plain.where(where))
    for more in WHERE:
        assert frame.where(more).count() == plain.where(where).where(more).count()
    both = frame.where("id >= 20").union(frame.where("id < 20"))
    assert both.count() == frame.count() == plain.where(where).count()


def test_a_condition_of_the_load_leaves_files_out(conf: Path) -> None:
    """With Spark's filters or without; the rows stay exact where those are beyond Arrow."""
    schema = StructType([StructField("id", LongType()), StructField("name", StringType())])
    reader = TableScanReader(load(conf), "dfs.shop.sales", schema, where="month = 2")
    found = [part.value for part in reader.partitions() if isinstance(part, FilesPartition)]
    assert [Path(file.path).parent.name for part in found for file in part.files] == ["month=2"]
    list(reader.pushFilters([source.LessThan(("id",), 22)]))
    assert sorted(row["id"] for row in read_all(reader)) == [20, 21]


def test_select_prunes_each_query_for_itself(spark: SparkSession, session: Session, conf: Path) -> None:
    """Random conditions over one table, in unions and joins with itself: the rows of the unpruned directory."""
    spark.read.parquet(str(conf.parent / "data" / "sales")).createOrReplaceTempView("plain_sales")
    for query in (
        "SELECT * FROM {} WHERE id >= 20",
        "SELECT count(*) AS n, max(name) AS last FROM {} WHERE month = 2 AND length(name) = 1",
        "SELECT id FROM {} WHERE month = 1 UNION ALL SELECT id + 100 FROM {} WHERE month = 2",
        "SELECT a.id, b.id AS other FROM {} a JOIN {} b ON a.name = b.name WHERE a.month = 1 AND b.id > 20",
        "WITH w AS (SELECT * FROM {} WHERE id < 12) SELECT w.id, t.month FROM w LEFT JOIN {} t ON w.id + 10 = t.id",
    ):
        found = select(spark, session, query.replace("{}", "dfs.shop.sales"))
        assert rows(found) == rows(spark.sql(query.replace("{}", "plain_sales"))), query
    read = select(spark, session, "SELECT id FROM dfs.shop.sales WHERE month = 2").inputFiles()
    assert [Path(path).parent.name for path in read] == ["month=2"]
    with pytest.raises(InvalidRequestError, match="line 1, column 8"):
        select(spark, session, "SELECT nope FROM dfs.shop.sales")


def test_select_names_what_the_query_does_not(spark: SparkSession, session: Session, conf: Path) -> None:
    """The rows are Spark's own; columns without a name are called by their text, and a name may stand twice."""
    spark.read.parquet(str(conf.parent / "data" / "sales")).createOrReplaceTempView("plain_sales")
    for query, columns in {
        "SELECT name, count(*) FROM {} WHERE id > 3 GROUP BY name ORDER BY COUNT(*) DESC, 1": ["name", "count(*)"],
        "SELECT sum(id), sum(id), 1, id + month FROM {} GROUP BY id + month ORDER BY id + month": [
            "sum(id)",
            "sum(id)",
            "1",
            "id + month",
        ],
        "SELECT * FROM (SELECT max(n) FROM (SELECT count(*) AS n FROM {} GROUP BY month) x) s": ["max(n)"],
        "SELECT a.*, b.id FROM {} a JOIN {} b ON a.id = b.id WHERE a.id < 12 ORDER BY a.id": [
            "id",
            "name",
            "month",
            "id",
        ],
    }.items():
        found = select(spark, session, query.replace("{}", "dfs.shop.sales"))
        assert found.columns == columns
        plain = spark.sql(query.replace("{}", "plain_sales"))
        assert list(map(tuple, found.collect())) == list(map(tuple, plain.collect())), query


def test_declared_columns_are_read_alone(spark: SparkSession, conf: Path) -> None:
    """Spark's own way to read fewer columns."""
    register_source(spark)
    reader = spark.read.format("metastore").option("conf", str(conf))
    assert reader.schema("PATH string, NUM_ROWS bigint").load("information_schema.files").count() == 3
    with pytest.raises(Exception, match="column PATH is string, not int"):
        reader.schema("PATH int").load("information_schema.files").count()


def test_the_source_serves_sql(spark: SparkSession, conf: Path) -> None:
    """CREATE TEMP VIEW … USING metastore."""
    register_source(spark)
    options = f"conf '{conf}', path 'information_schema.tables', where \"table_schema = 'dfs.shop'\""
    spark.sql(f"CREATE OR REPLACE TEMP VIEW shop_tables USING metastore OPTIONS ({options})")
    assert {row[0] for row in spark.sql("SELECT TABLE_NAME FROM shop_tables").collect()} == {"sales", "other"}


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("nation", {}, "dfs.shop.nation has not been analyzed"),
        ("dfs.shop.sale", {}, "did you mean dfs.shop.sales"),
        ("information_schema.filez", {}, "its tables are SCHEMATA"),
        ("metastore.components.nope", {}, "has no component nope; it has materialized_views"),
        ("information_schema.files", {"version": "7"}, "version 7 is not kept"),
        ("information_schema.files", {"version": "7", "asOf": "2024-01-01 UTC"}, "cannot be combined with asOf"),
        ("information_schema.files", {"asOf": "2024-01-01"}, "zone"),
        ("dfs.shop.sales", {"rowId": "perhaps"}, "is true or false"),
        ("information_schema.files", {"colums": "a"}, "unknown option colums"),
        ("information_schema.files", {"columns": "a"}, "unknown column a"),
        ("information_schema.files", {"where": "nope = 1"}, "unknown column 'nope'"),
        ("dfs.shop.sales", {"where": "length(name) = 1"}, "cannot express .* exactly"),
        ("dfs.shop.sales", {"where": "nope = 1"}, "nope"),
        ("dfs.shop.sales", {"asOf": "2024-01-01 UTC"}, "keeps no earlier rows"),
    ],
)
def test_errors_say_what_to_do(load_table: Load, name: str, options: dict[str, str], said: str) -> None:
    """In the words of the library, inside Spark's error."""
    with pytest.raises(AnalysisException, match=said):
        load_table(name, **options).count()


def test_settings_of_a_registered_session_are_not_shown(spark: SparkSession, session: Session) -> None:
    """They may hold secrets; Spark shows no value of an option that is called a token."""
    register(spark, session)
    frame = spark.table("information_schema_files")
    shown = frame._jdf.queryExecution().toString()
    assert "settings-token" not in shown or "redacted" in shown.lower()
    with pytest.raises(InvalidRequestError, match="letters, digits and _"):
        register(spark, session, prefix="a.b")


def test_the_plan_reads_what_the_filters_leave(conf: Path) -> None:
    """Parts of other tables are not made; the reader and its parts pickle."""
    table = OwnTable.find("metastore.components.tables")
    assert table is not None
    with Metastore.open(conf) as metastore:
        versions = table.versions(metastore, None, None)
    reader = OwnTableReader(load(conf), table, ["path", "tableName"], versions=versions, where=None)
    everything = read(reader)
    assert list(
        reader.pushFilters([source.EqualTo(("tableName",), "other"), source.GreaterThan(("rowGroupIndex",), 5)])
    )
    assert {row["tableName"] for row in read(reader)} <= {"other"}
    assert len(read(reader)) < len(everything)
    with Metastore.open(conf) as metastore:
        [part] = table.parts(
            metastore,
            versions,
            ["path"],
            "tableName = 'other' and metadataType = 'FILE'",
            condition(source.IsNotNull(("path",))),
        )
    assert isinstance(part, FileGroup)
    assert sum(batch.num_rows for batch in part.batches()) == 1


def read_all(reader: TableScanReader) -> list[dict[str, Any]]:
    """The rows of all partitions of a table's reader."""
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def read(reader: OwnTableReader) -> list[dict[str, Any]]:
    """The rows of all partitions, each read by a copy, as in another process."""
    found = []
    for partition in reader.partitions():
        copy, part = pickle.loads(pickle.dumps((reader, partition)))  # noqa: S301 - made right here
        found += [row for batch in copy.read(part) for row in batch.to_pylist()]
    return found


def test_settings_in_an_option_are_data(conf: Path) -> None:
    """They come back as they were given, without policies and engine; anything else is refused, and never run."""
    settings = load(conf)
    request = SourceRequest.of({"path": "dfs.tmp.t", SETTINGS: settings_option(settings)})
    here = replace(settings.engine, kind="local")
    assert request.settings == replace(settings, policies=PolicySettings(), effective=(), warnings=(), engine=here)
    with pytest.raises(InvalidRequestError, match="holds no settings"):
        SourceRequest.of({"path": "dfs.tmp.t", SETTINGS: base64.b64encode(pickle.dumps(settings)).decode()})
