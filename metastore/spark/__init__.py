"""The metastore on Spark: the only package that imports PySpark.

``connect`` opens a metastore with Spark for its work. Beneath it ``SparkEngine`` runs tasks on executors and
``spark_session`` adopts the running session or starts one; ``read_files`` reads the files that pruning has left,
``read_table`` a whole table by its name, ``select`` a query over tables and views; ``register_views`` makes the
metastore's views temporary views.
"""

from importlib.util import find_spec

from metastore.errors import EngineError

# PySpark runs without pandas, but refuses the Arrow functions that everything here stands on.
if find_spec("pyspark") is None or find_spec("pandas") is None:
    raise EngineError("Spark for Python is not installed, or without its Arrow part: pip install 'pyspark[sql]'")

from metastore.spark.connection import connect
from metastore.spark.engine import SparkEngine
from metastore.spark.materialized import SparkQueryEngine
from metastore.spark.read_table import read_table
from metastore.spark.reading import read_files
from metastore.spark.register import register, register_source
from metastore.spark.select import select
from metastore.spark.session import spark_session
from metastore.spark.views import register_views

__all__ = [
    "SparkEngine",
    "SparkQueryEngine",
    "connect",
    "read_files",
    "read_table",
    "register",
    "register_source",
    "register_views",
    "select",
    "spark_session",
]
