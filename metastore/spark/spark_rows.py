"""The rows of a statement's query in Spark's SQL, over pruned tables: Spark's plan joins, groups and spills.

Place in the flow: a caller of ``ms.sql`` has chosen Spark for the query. :func:`metastore.spark.query.select` makes it
a DataFrame. Its rows come here, or go to tasks, which write them by the one writer of all statements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from metastore.engines.engine import Chunk
from metastore.errors import EngineError, InvalidRequestError, MetastoreError
from metastore.ground.quoting import quote_for_spark
from metastore.scan.rows import in_types
from metastore.spark.engine import SparkEngine
from metastore.spark.failures import reason_of
from metastore.spark.spark_types import arrow_columns, arrow_rows, require_digits, spark_schema
from metastore.sql.target import MERGE_SOURCE, MERGE_TARGET, Dealt, QueriedRows, ReadRows, Rows


def merged_rows(engine: SparkEngine, table: ReadRows, source: QueriedRows, text: str) -> SparkRows:
    """As :meth:`metastore.sql.target.QueryEngine.merge_rows`."""
    assert isinstance(source, SparkRows)
    target = frame_of_tasks(engine, table.parts, table.task, table.schema)
    named = text.replace("{", "{{").replace("}", "}}")
    for name, place in ((MERGE_TARGET, "{target}"), (MERGE_SOURCE, "{source}")):
        named = named.replace(quote_for_spark(name), place)
    try:
        return SparkRows(engine, engine.spark.sql(named, target=target, source=source.frame))
    except Exception as error:
        found = _PLACE.search(str(error))
        place = f"line {found[1]}, column {int(found[2]) + 1}: " if found else ""
        # Spark proposes columns of the composed query, which are not all of the statement's.
        message = _PLACE.sub("", str(error).partition("\n")[0]).partition(" Did you mean")[0].rstrip("; ")
        raise InvalidRequestError(f"{place}Spark does not understand the statement: {message}") from error


def frame_of_tasks(
    engine: SparkEngine, parts: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """Returns the rows of ``task`` over ``parts``, which have ``schema``, as a DataFrame in Spark's types.

    Raises InvalidRequestError for decimals that Spark cannot hold.
    """
    struct, types = spark_schema(schema)
    require_digits(struct)
    return engine.rows(parts, partial(_in_types, task, types), struct)


def _in_types(task: Callable[[Chunk], Iterable[pa.RecordBatch]], types: pa.Schema, part: Chunk) -> Rows:
    return (in_types(batch, types) for batch in task(part))


_PLACE: Final = re.compile(r";? ?line (\d+),? pos (\d+)")
"""The place in the text, as Spark prints it; positions begin at 0."""


class SparkRows:
    """As :class:`metastore.sql.target.QueriedRows`."""

    def __init__(self, engine: SparkEngine, frame: DataFrame) -> None:
        self.engine = engine
        self.frame = frame
        self.columns = arrow_columns(frame.schema)

    @property
    def lines(self) -> Sequence[str]:
        """As :attr:`metastore.sql.target.QueriedRows.lines`."""
        plan = self.engine.spark.sql("EXPLAIN SELECT * FROM {rows}", rows=self.frame).collect()[0][0]
        return ["Run by Spark, in Spark's SQL", *plan.strip().splitlines()]

    def table(self) -> pa.Table:
        """As :meth:`metastore.sql.target.QueriedRows.table`."""
        try:
            return arrow_rows(self.frame)
        except MetastoreError:
            raise
        except Exception as error:
            reason = reason_of(error, self.engine.spark)
            raise EngineError(f"Spark could not finish the query: {reason}") from error

    def answers(
        self, gather: Callable[[Rows], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`metastore.sql.target.QueriedRows.answers`."""
        return self.engine.answers_of(self.frame, gather, schema)

    def dealt_answers(
        self,
        deal: Callable[[Rows], Iterable[Dealt]],
        gather: Callable[[Rows], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`metastore.sql.target.QueriedRows.dealt_answers`."""
        return self.engine.answers_of(self.frame, gather, schema, deal)
