"""Reads exactly the named Parquet files of a table as a DataFrame.

Place in the flow: pruning has decided which files a query needs; Spark reads these and no others. Promises: a list of
thousands of files needs no listing job. A file name is never a pattern, whatever characters it holds. Columns that
exist only in directory names (``year=2013``) are present. An empty list of files gives an empty DataFrame, not an
error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from metastore.ground.quoting import quote_for_spark
from metastore.spark.session import create_frame

_LISTING_JOB_FROM: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"

_CHANGING: Final = Lock()
_listings: Final[WeakKeyDictionary[SparkSession, tuple[list[int], str | None]]] = WeakKeyDictionary()
"""For each session, the file counts of the listings under way, and the owner's setting.

The last listing to end restores it.
"""


def read_files(spark: SparkSession, base_path: str, schema: StructType | None, files: Sequence[str]) -> DataFrame:
    """Returns the rows of ``files``, Parquet files below the directory ``base_path``, all absolute paths or URIs.

    ``schema`` is the whole table's, with its partition columns; the DataFrame has its columns in its order. With None,
    the schema comes from one of the files, as in Spark, with the partition columns last. If ``files`` is empty too,
    Spark lists the whole of ``base_path`` to find a schema. A missing file raises Spark's own error.
    """
    if not files and schema is not None:
        return create_frame(spark, [], schema)
    frame = _frame_of_scan(spark, base_path, schema, files or [base_path], len(files))
    return frame if files else frame.limit(0)


def read_directory(spark: SparkSession, location: str, schema: StructType, directories: int) -> DataFrame:
    """Returns the rows of all Parquet files below ``location``, as :func:`read_files` does, without their names.

    It is correct only if all files lie equally deep in ``directories`` directories ``name=value``, or in none. Spark
    requests the state of each file that is given by name; for a directory it gets all states at once.
    """
    return _frame_of_scan(spark, location, schema, [location], directories)


def _frame_of_scan(
    spark: SparkSession, base_path: str, schema: StructType | None, paths: Sequence[str], listings: int
) -> DataFrame:
    # A table may be one file; Spark needs a base directory, below which it looks for columns in names.
    is_file = base_path in paths and len(paths) == listings == 1
    reader = spark.read.option("basePath", base_path.rpartition("/")[0] if is_file else base_path)
    if schema is not None:
        reader = reader.schema(schema)
    with _listed_by_the_driver(spark, listings):
        frame = reader.parquet(*map(_literal, paths))
        if schema is not None:
            frame = frame.select(*map(quote_for_spark, schema.names))
        frame.schema  # noqa: B018 - a Connect server lists the files on the first request about the frame
    return frame


def _literal(path: str) -> str:
    """Returns ``path`` as a pattern that matches nothing else.

    Spark's own switch for patterns (``__globPaths__``) is not usable: with it, each name that looks like a pattern
    stands for all names of the list, and n such names cause n * n listings.
    """
    return re.sub(r"([][{}*?\\])", r"\\\1", path)


@contextmanager
def _listed_by_the_driver(spark: SparkSession, files: int) -> Iterator[None]:
    """Let the driver list the files.

    Without this, Spark runs a job with one task per file: 25 s for 10,000 files that the driver lists in 1.7 s.
    """
    with _CHANGING:
        under_way, owners = _listings.setdefault(spark, ([], spark.conf.get(_LISTING_JOB_FROM)))
        under_way.append(files)
        spark.conf.set(_LISTING_JOB_FROM, str(max(*under_way, int(owners or 0))))
    try:
        yield
    finally:
        with _CHANGING:
            under_way.remove(files)
            if not under_way:
                del _listings[spark]
                if owners is not None:
                    spark.conf.set(_LISTING_JOB_FROM, owners)
