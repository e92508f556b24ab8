"""Spark finds data sources by the names of modules: this one makes ``spark.read.format("metastore")`` known.

PySpark looks for top-level modules called ``pyspark_*`` with a ``DefaultSource``; there is nothing to register where
this package is installed, or was sent to the session.
"""

from metastore.spark.data_source import MetastoreSource as DefaultSource

__all__ = ["DefaultSource"]
