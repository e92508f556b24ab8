"""The metastore on Spark: the only package that imports PySpark.

``connect`` opens a metastore with Spark for its work. Beneath it ``SparkEngine`` runs tasks on executors and
``spark_session`` adopts the running session or starts one; ``read_files`` reads the files that pruning has left.
"""

from importlib.util import find_spec

from metastore.errors import EngineError

# PySpark runs without pandas, but refuses the Arrow functions that everything here stands on.
if find_spec("pyspark") is None or find_spec("pandas") is None:
    raise EngineError("Spark for Python is not installed, or without its Arrow part: pip install 'pyspark[sql]'")

from metastore.spark.connection import connect
from metastore.spark.engine import SparkEngine
from metastore.spark.reading import read_files
from metastore.spark.session import spark_session

__all__ = ["SparkEngine", "connect", "read_files", "spark_session"]
