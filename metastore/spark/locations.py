"""Locations of data in the spelling that a Spark session opens.

Place in the flow: storage plugins and metadata use ``s3://``, ``s3a://`` or ``s3n://`` for the same store. Hadoop has a
file system for ``s3a`` only, unless the session configures more. This module finds the spelling for Spark's own reader
and writer.
"""

from __future__ import annotations

from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from metastore.lake.stores.locations import is_on_object_store, one_spelling
from metastore.spark.session import is_classic

_SPELLINGS: Final = {"s3": ("s3a",), "gs": (), "abfss": ()}
"""By the shared scheme: other schemes of the same store for which Hadoop has file systems."""


def spark_location(spark: SparkSession, location: str) -> str | None:
    """Returns ``location`` in a spelling that Spark opens by itself: unchanged if the session has a file system for it.

    A local path stays a path. Returns None if there is no file system for any spelling. A Spark Connect session cannot
    report its file systems; for such a session, no object store counts as readable.
    """
    if not is_on_object_store(location):
        return location
    if not is_classic(spark):
        return None
    shared, _, _ = one_spelling(location).partition("://")
    scheme, _, rest = location.partition("://")
    return next((f"{each}://{rest}" for each in (scheme, *_SPELLINGS.get(shared, ())) if _opens(spark, each)), None)


def _opens(spark: SparkSession, scheme: str) -> bool:
    context = spark.sparkContext
    jvm, java_context = context._jvm, context._jsc  # noqa: SLF001 - PySpark has no other door to Hadoop
    assert jvm is not None
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, java_context.hadoopConfiguration())
    except Py4JError:
        return False
    return True
