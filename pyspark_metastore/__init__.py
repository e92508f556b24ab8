"""Spark finds data sources by the names of modules: this one makes ``spark.read.format("metastore")`` known.

PySpark looks for top-level modules called ``pyspark_*`` with a ``DefaultSource``; there is nothing to register where
this package is installed, or was sent to the session. A Spark whose data sources lack something gets a source that says
so.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark import __version__

from metastore.spark.supported_versions import has_data_sources, require_data_sources

if TYPE_CHECKING or has_data_sources(__version__):
    from metastore.spark.data_source import MetastoreSource as DefaultSource
elif find_spec("pyspark.sql.datasource") is not None:
    from pyspark.sql.datasource import DataSource

    class DefaultSource(DataSource):
        """The source of Spark 4.0, which is refused by name."""

        def __init__(self, options: dict[str, str]) -> None:
            super().__init__(options)
            require_data_sources(__version__)

        @classmethod
        def name(cls) -> str:
            """The name of the format."""
            return "metastore"
