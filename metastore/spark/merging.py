"""``metastore.spark.merge``: a DataFrame changes a table of a catalog; Spark joins both, and one commit follows.

Place in the flow: this is MERGE (:mod:`metastore.sql.rows.merge`) whose source is a DataFrame. Its rows may be of any
size, and of any origin that Spark can read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from metastore.errors import InvalidRequestError
from metastore.session import Session
from metastore.spark.engine import SparkEngine
from metastore.spark.spark_rows import SparkRows, merged_rows
from metastore.sql.rows.merge import merge as merge_statement
from metastore.sql.statement import Statement
from metastore.sql.target import QueriedRows, ReadRows, StatementTarget


def merge(ms: Session, source: DataFrame, into: str, on: str, *when: str, branch: str | None = None) -> pa.Table:
    """Merge the rows of ``source`` into the table ``into``, which is named ``catalog.schema.table``, in one snapshot.

    ``on`` and ``when`` are Spark SQL, in which the two sides are called ``target`` and ``source``. Each of ``when`` is
    a clause, such as ``WHEN MATCHED THEN UPDATE SET *`` or ``WHEN NOT MATCHED THEN INSERT *``; the first that fits a
    row applies. ``branch`` is the branch that is read and changed; one that does not exist begins at the current
    snapshot. Returns one row: the numbers of rows ``inserted``, ``updated`` and ``deleted``, the snapshot, and the
    engine. Raises InvalidRequestError for a clause that cannot be read, a value that does not fit, a row that is
    changed twice, and a tag as branch; NotFoundError; ConflictError; EngineError. After an error the table is as
    before.
    """
    if branch == "":
        raise InvalidRequestError("branch names a branch; it is empty")
    if not when:
        raise InvalidRequestError("merge needs a clause, such as 'WHEN MATCHED THEN UPDATE SET *'")
    text = "\n".join((f"MERGE INTO {into} AS target USING source ON {on}", *when))
    engine = _WithSource(SparkEngine(source.sparkSession), source)
    return merge_statement(ms, replace(Statement.parse(text), engine=engine), branch)


@dataclass(frozen=True)
class _WithSource:
    """A :class:`metastore.sql.target.QueryEngine` that has the source of MERGE."""

    engine: SparkEngine
    source: DataFrame

    def query_rows(self, session: StatementTarget, text: str) -> SparkRows:
        """As :meth:`metastore.sql.target.QueryEngine.query_rows`: the rows of the source."""
        return SparkRows(self.engine, self.source)

    def merge_rows(self, table: ReadRows, source: QueriedRows, text: str) -> SparkRows:
        """As :meth:`metastore.sql.target.QueryEngine.merge_rows`."""
        return merged_rows(self.engine, table, source, text)
