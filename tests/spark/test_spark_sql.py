"""Texts in predicates are read as Spark reads them, and refused where a session's settings change that."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.predicates.spark_sql import condition_of
from metastore.session import Session, connect
from metastore.spark import read_table, select
from metastore.sql.views.text import parse_query

pytestmark = pytest.mark.spark

LITERALS = [
    "'O''Brien'", '"O""Brien"', '"O\'Brien"', "'O\"\"Brien'", "\"O''Brien\"", "''", "''''", "'a' 'b'", "'a' \"b\"",
    "'a'/* x */'b'", "'a''' 'b'", "'a'\"b\"", r"'a\'b'", r"'a\\b'", r"'a\\'", r"'a\_b'", r"'a\qb'", r"r'a\qb'",
    r"'a\tb'", r"'\u0041'", "'%''%'",
]  # fmt: skip
"""Ways to write a text, with every quote and escape that Spark has."""

NAMES = ["O'Brien", "OBrien", 'O"Brien', "x"]


@pytest.fixture(scope="module")
def ms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """``dfs.tmp.t``: a file for each of :data:`NAMES`."""
    folder = tmp_path_factory.mktemp("lake")
    (folder / "t").mkdir()
    for number, name in enumerate(NAMES):
        pq.write_table(pa.table({"s": [name]}), folder / "t" / f"{number}.parquet")
    known = {
        "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
        "drill.metastore.storage.dfs.workspaces.tmp.location": str(folder),
    }
    with connect(Settings.from_mapping(known, environ={})) as opened:
        opened.analyze("dfs.tmp.t")
        yield opened


def test_literals_say_what_they_say_to_spark(spark: SparkSession) -> None:
    """In a predicate and in a view's query, whichever quotes they have; read here, and judged by DuckDB."""
    said = spark.sql(f"SELECT {', '.join(f'{text} AS c{n}' for n, text in enumerate(LITERALS))}").collect()[0]
    with duckdb.connect() as engine:
        for text, expected in zip(LITERALS, said, strict=True):
            trees = (condition_of(text), parse_query(f"SELECT {text}").selects[0])
            assert [engine.execute(f"SELECT {tree.sql('duckdb')}").fetchall() for tree in trees] == [[(expected,)]] * 2


@pytest.mark.parametrize(
    "question",
    [
        "s = 'O''Brien'", "s != 'O''Brien'", "s IN ('O''Brien', 'x')", "s NOT IN ('O''Brien', 'x')", "s LIKE '%''%'",
        "contains(s, '''')", 's = "O""Brien"', "s LIKE 'O''%'", "s = 'O' 'Brien'", "NOT s = 'O' \"Brien\"",
    ],
)  # fmt: skip
def test_quotes_in_texts_are_found_as_spark_finds_them(spark: SparkSession, ms: Session, question: str) -> None:
    """Rows, counts and what is left of the table in Spark are those of Spark over all of it."""
    table = spark.createDataFrame([(name,) for name in NAMES], "s string")
    expected = sorted(str(row.s) for row in table.where(question).collect())
    scan = ms.tables.scan("dfs.tmp.t", question)
    assert sorted(map(str, scan.to_arrow()["s"].to_pylist())) == expected
    assert scan.count() == len(expected)
    assert sorted(row.s for row in read_table(spark, ms, "dfs.tmp.t", question).collect()) == expected


@pytest.mark.parametrize(
    ("setting", "question"),
    [
        ("spark.sql.legacy.consecutiveStringLiterals.enabled", "s = 'O''Brien'"),
        ("spark.sql.ansi.doubleQuotedIdentifiers", 's = "x"'),
    ],
)
def test_a_session_that_reads_quotes_otherwise_is_told(
    spark: SparkSession, ms: Session, setting: str, question: str
) -> None:
    """Its Spark would find other rows than pruning leaves; a question that it reads alike is answered."""
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(InvalidRequestError, match=setting):
            read_table(spark, ms, "dfs.tmp.t", question)
        assert [row.s for row in read_table(spark, ms, "dfs.tmp.t", r"s = 'O\'Brien' AND s != ''").collect()] == NAMES[
            :1
        ]
    finally:
        spark.conf.unset(setting)


@pytest.mark.parametrize("text", [r"'O\'Brien'", "'O''Brien'", r"'a\\b'"])
def test_a_session_without_escapes_is_told_what_it_cannot_be_told(spark: SparkSession, ms: Session, text: str) -> None:
    """Of a question and of a query; texts without quotes and backslashes are found."""
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        with pytest.raises(InvalidRequestError, match="escapedStringLiterals"):
            read_table(spark, ms, "dfs.tmp.t", f"s = {text}")
        with pytest.raises(InvalidRequestError, match="escapedStringLiterals"):
            select(spark, ms, f"SELECT {text} AS said FROM dfs.tmp.t")
        assert [row.s for row in select(spark, ms, "SELECT s FROM dfs.tmp.t WHERE s = 'x'").collect()] == ["x"]
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")


def test_a_session_that_would_replace_a_variable_is_told(spark: SparkSession, ms: Session) -> None:
    """Pruning looks for the text; what is said with an escape, or is no variable, is a text to Spark, too."""
    question = "s = '${env:PATH}' OR s = 'x'"
    for asked in (question, "s = '${nobody}'"):
        with pytest.raises(InvalidRequestError, match=r"variable\.substitute"):
            read_table(spark, ms, "dfs.tmp.t", asked)
    with pytest.raises(InvalidRequestError, match=r"variable\.substitute"):
        select(spark, ms, f"SELECT s FROM dfs.tmp.t WHERE {question}")
    for text in (r"$\{env:PATH}", "${", "$ {env:PATH}"):
        assert [row.s for row in read_table(spark, ms, "dfs.tmp.t", f"s IN ('x', '{text}')").collect()] == ["x"]
    spark.conf.set("spark.sql.variable.substitute", "false")
    try:
        found = select(spark, ms, "SELECT s, '${env:PATH}' said FROM dfs.tmp.t WHERE s IN ('x', '${env:PATH}')")
        assert [tuple(row) for row in found.collect()] == [("x", "${env:PATH}")]
    finally:
        spark.conf.unset("spark.sql.variable.substitute")
