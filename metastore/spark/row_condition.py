"""The rows that a condition in Spark's SQL is true of: the option ``replaceWhere`` of a write into a table.

Place in the flow: tasks require it of the rows that they write, and the commit deletes the table's rows of it, as
DELETE does. Both run the same text in DuckDB, so a row that was written by an option is found by it later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from metastore.config.sql import SqlSettings
from metastore.duck.queries import Duck, Failure
from metastore.duck.spark_in_duckdb import SparkInDuckDb, in_duckdbs_words
from metastore.duck.value_kinds import mark
from metastore.errors import InvalidRequestError
from metastore.ground.quoting import double_quoted
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.writes.written_change import RowPlan
from metastore.predicates.spark_sql import condition_of
from metastore.spark.source_options import REPLACE_WHERE
from metastore.sql.expressions import expression
from metastore.sql.queries.named_table import named_table
from metastore.sql.rows.delete_update import deletion
from metastore.sql.statement import Cursor, Statement
from metastore.sql.target import StatementTarget
from metastore.sql.tasks.covered_files import is_plain
from metastore.sql.tasks.row_writes import StatementReading


@dataclass(frozen=True)
class RowCondition:
    """The condition ``given`` in Spark's SQL on rows of the table ``name``, and its ``text`` for DuckDB."""

    given: str
    name: str
    text: str

    @classmethod
    def of(cls, condition: str, name: str, columns: pa.Schema) -> RowCondition:
        """Returns the condition on rows with ``columns``. Times without a zone are in UTC.

        Raises InvalidRequestError for a text that is no condition, for an unknown column and for a subquery.
        """
        tree = condition_of(condition).copy()
        if tree.find(exp.Query) is not None:
            raise InvalidRequestError(f"the option {REPLACE_WHERE} uses one table and no subqueries: {condition!r}")
        try:
            # Comparisons with constants mean the same in both dialects, and only as they are they skip files.
            alike = not _mark_types(tree, columns) and all(
                isinstance(node, (exp.Is, exp.Null)) or is_plain(node) for node in tree.walk()
            )
            dialect, words = (DuckDB, tree) if alike else (SparkInDuckDb, in_duckdbs_words(tree))
            text = words.sql(dialect, identify=True, comments=False)
        except SqlglotError as error:
            raise InvalidRequestError(f"the option {REPLACE_WHERE} cannot be used: {condition!r}: {error}") from error
        found = cls(condition, name, text)
        for _ in found.met_by((), columns):
            pass
        return found

    def met_by(self, rows: Iterable[pa.RecordBatch], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields ``rows``. Raises InvalidRequestError for a row of which the condition is false or NULL."""
        now: list[pa.RecordBatch] = []
        with Duck(SqlSettings(threads=1)) as duck:
            table = duck.add(self.name, columns, lambda: iter(now))
            query = f"SELECT count(*) FROM {table} WHERE ({self.text}) IS NOT TRUE"  # noqa: S608 - the caller's condition, sandboxed
            try:
                duck.bind(query)
                for batch in rows:
                    now[:] = [batch]
                    if others := duck.run(query).column(0)[0].as_py():
                        raise InvalidRequestError(
                            f"{others} of {batch.num_rows} rows do not meet {REPLACE_WHERE} {self.given!r}: the write "
                            "would add rows that it does not replace. Filter the DataFrame, or change the option"
                        )
                    yield batch
            except Failure as failure:
                message = f"the option {REPLACE_WHERE} {self.given!r} fails: {failure.message}"
                raise InvalidRequestError(message) from failure

    def removal(self, ms: StatementTarget, table: TargetTable, reading: StatementReading) -> RowPlan:
        """Returns the plan that deletes the rows of the condition; covered files are dropped without reading."""
        names = [table.catalog_name, *table.schema_name.split("."), table.name]
        names += [] if reading.branch is None else [f"branch_{reading.branch}"]
        place = ".".join(map(double_quoted, names))
        statement = Statement.parse(f"DELETE FROM {place} WHERE {self.text}")  # noqa: S608 - as above
        cursor = Cursor(statement, 2)
        named = named_table(ms, cursor)
        cursor.accept_word("WHERE")
        return deletion(ms, statement, named, expression(cursor, what="a condition"), reading)


def _mark_types(tree: exp.Expr, columns: pa.Schema) -> bool:
    """Mark the columns and fields in ``tree`` with their types; returns whether one has a FLOAT.

    Spark compares a FLOAT with other numbers as DOUBLE. A cast that the type alone decides lets bounds skip files.
    """
    types = []
    for node in tree.find_all(exp.Column):
        found: pa.DataType = pa.struct(list(columns))
        for part in node.parts:
            fields = found.fields if pa.types.is_struct(found) else ()
            found = next((field.type for field in fields if field.name.lower() == part.name.lower()), pa.null())
        mark(node, found)
        types.append(found)
    return any(map(_has_float, types))


def _has_float(type_: pa.DataType) -> bool:
    is_nested = pa.types.is_nested(type_)
    inner = (type_.field(place).type for place in range(type_.num_fields)) if is_nested else ()
    return pa.types.is_float32(type_) or any(map(_has_float, inner))
