"""Spark's built-in functions where DuckDB runs the query: Spark's value, or a refusal. Spark's documentation judges."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.engine_values import comparable

from metastore.duck.spark_in_duckdb import SparkInDuckDb, in_duckdbs_words
from metastore.duck.spark_texts import define_what
from metastore.errors import InvalidRequestError
from metastore.sql.views.text import parse_query

pytestmark = pytest.mark.spark

PAGE: Final = Path(__file__).parents[2] / "docs" / "guide" / "spark-functions.md"

_EXAMPLE: Final = re.compile(r">\s*(SELECT.*?);\s*$", re.DOTALL | re.MULTILINE)

_ONE_ROW: Final = re.compile(
    r"SELECT\s+((?:(?!\b(?:FROM|SELECT|explode\w*|inline\w*|stack|json_tuple)\b).)*)", re.DOTALL | re.IGNORECASE
)

_AT_ONCE: Final = 32
"""Queries of one row that Spark runs as one: a query takes it a tenth of a second, whatever it computes."""

OF_THE_MOMENT: Final = frozenset(
    {"current_timestamp", "current_time", "localtime", "now", "rand", "random", "uuid", "localtimestamp"}
)
"""Each run has another value; a name without brackets is no function to the reader of conditions, but a column."""

ANY_OF_SEVERAL: Final = frozenset({"any_value"})
"""Spark and DuckDB may take different rows, and both are right."""


def examples(spark: SparkSession) -> dict[str, list[str]]:
    """The queries in Spark's documentation of each function."""
    found = {}
    for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
        described = "\n".join(line for (line,) in spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect())
        _, _, rest = described.partition("Examples:")
        found[name] = _EXAMPLE.findall(re.split(r"\n\s*(?:Note|Since|Group|Deprecated):", rest)[0])
    return found


def rows(table: pa.Table) -> list[Any]:
    """The rows of an answer in one order; a list that a set made is one too."""
    columns = [[comparable(value) for value in column.to_pylist()] for column in table.columns]
    return sorted(([_in_order(value) for value in row] for row in zip(*columns, strict=True)), key=repr)


def _in_order(value: Any) -> Any:
    return sorted(value, key=repr) if isinstance(value, list) else value


def by_duckdb(engine: duckdb.DuckDBPyConnection, query: str) -> pa.Table | None:
    """The answer of DuckDB to a query in Spark's words; None where it refuses. What was defined for it goes again."""
    engine.begin()
    try:
        said = in_duckdbs_words(parse_query(query)).sql(dialect=SparkInDuckDb)
        define_what(said, engine)
        answer: pa.Table = engine.sql(said).to_arrow_table()
    except (InvalidRequestError, duckdb.Error):
        return None
    finally:
        engine.rollback()
    return answer


def by_spark(spark: SparkSession, queries: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The answers of Spark, without those to queries that it refuses."""
    alone = [query for query in queries if _ONE_ROW.fullmatch(query) is None]
    for query in alone:
        yield from _of_spark(spark, [query])
    together = [query for query in queries if query not in alone]
    for start in range(0, len(together), _AT_ONCE):
        yield from _of_spark(spark, together[start : start + _AT_ONCE])


def _of_spark(spark: SparkSession, queries: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The answers to queries that one query can ask; to its halves where Spark refuses the whole."""
    lists = [_ONE_ROW.fullmatch(query) for query in queries]
    text = ", ".join(f"struct({found[1]})" for found in lists if found is not None)
    try:
        answer = spark.sql(f"SELECT {text}" if len(queries) > 1 else queries[0]).toArrow()
    except PySparkException:  # of what Spark's own documentation shows as an error, or has for other sessions
        half = len(queries) // 2
        if half:
            yield from _of_spark(spark, queries[:half])
            yield from _of_spark(spark, queries[half:])
        return
    if len(queries) == 1:
        yield queries[0], answer
        return
    for query, column in zip(queries, answer.columns, strict=True):
        struct: Any = column.combine_chunks()
        values = struct.flatten()
        yield query, pa.table(values, names=[str(number) for number in range(len(values))])


@pytest.mark.exhaustive
def test_examples_of_spark_have_sparks_values_or_are_refused(spark: SparkSession) -> None:
    """Every one that Spark prints for its own functions; and the guide lists those that are there."""
    ours: dict[str, pa.Table] = {}
    functions: dict[str, set[str]] = {}
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        for name, queries in examples(spark).items():
            for query in queries if name not in OF_THE_MOMENT | ANY_OF_SEVERAL else []:
                answer = by_duckdb(engine, query)
                if answer is not None:
                    ours[query] = answer
                    functions.setdefault(query, set()).add(name)
    wrong, answered = [], set()
    for query, theirs in by_spark(spark, list(ours)):
        if rows(ours[query]) != rows(theirs):
            wrong.append(f"{query}: {rows(ours[query])}, Spark has {rows(theirs)}")
        answered |= functions[query]
    assert wrong == []
    _, _, page = PAGE.read_text(encoding="utf-8").partition("## Functions")
    listed = set(re.findall(r"`(\w+)`", page.partition("## Refused functions")[0]))
    assert listed - OF_THE_MOMENT - ANY_OF_SEVERAL == {name for name in answered if name.isidentifier()}
