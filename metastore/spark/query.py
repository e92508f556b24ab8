"""``metastore.spark.select``: a query over the metastore's tables and views in Spark, each table pruned by its WHERE.

Place in the flow: the query is expanded and bound as a view's query is. The conditions on each table prune that table's
scan, and Spark runs the query over the remaining files. This module does not need Spark's own push-down: every table is
planned for one query only, so files that were skipped for one query cannot be missing in another.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from metastore.session import Session
from metastore.spark.views import frame_of_query
from metastore.sql.views.freshness import Freshness


def select(spark: SparkSession, ms: Session, query: str, *, freshness: Freshness | str | None = None) -> DataFrame:
    """Returns the rows of ``query`` (Spark SQL) as a DataFrame; it names tables and views ``plugin.workspace.name``.

    Tables are planned now, so the DataFrame does not see later changes. A column without a name is called by its text,
    such as ``count(*)``. ``freshness`` applies to materialized views, as in ``register_views``.

    Raises InvalidRequestError, with line and column, for SQL that cannot be parsed, an unknown column, or an expression
    that Spark does not support; NotFoundError for an unknown table; and as ``read_table`` does.
    """
    return frame_of_query(spark, ms, query, ms.views.lookup(freshness))
