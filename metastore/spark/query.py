"""``metastore.spark.select``: a query over the metastore's tables and views in Spark, each table pruned by its WHERE.

Place in the flow: the query is expanded and bound as a view's is, what it asks of each table prunes that table's scan,
and Spark runs it over what is left. This is the door where Spark's own push-down is not needed: every table of every
query is planned for that query alone, so nothing that was left out of one can be missing from another.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from metastore.session import Session
from metastore.spark.views import frame_of_query
from metastore.views.freshness import Freshness


def select(spark: SparkSession, ms: Session, query: str, *, freshness: Freshness | str | None = None) -> DataFrame:
    """The rows of ``query`` (Spark SQL), whose tables and views are named ``plugin.workspace.name``, as a DataFrame.

    Tables are planned now: a DataFrame does not see what comes later. Columns without a name are called by their text,
    as ``count(*)``. ``freshness`` is that of materialized views, as ``register_views`` has it.

    Raises InvalidRequestError, with line and column, for SQL that cannot be read, an unknown column, or what Spark has
    no word for; NotFoundError for an unknown table; and as ``read_table`` does.
    """
    return frame_of_query(spark, ms, query, ms.views.lookup(freshness))
