"""The metastore in a Spark session: its data source, and temporary views of its own tables."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from metastore.errors import InvalidRequestError
from metastore.information_schema.relations import NAME, RELATIONS
from metastore.session import Session
from metastore.spark.data_source import FORMAT, SETTINGS, MetastoreSource, settings_option
from metastore.spark.engine import SparkEngine
from metastore.spark.session import adopt, quiet_about_pandas
from metastore.spark.session_keys import OF_HADOOP, session_conf

_COMPONENTS: Final = "components"


def register_source(spark: SparkSession) -> None:
    """Make ``spark.read.format("metastore")`` known to this session, whether the package is installed or not.

    Executors without the package receive it. This call is needed only where Spark does not find the source by itself.
    Spark finds it if the package is installed on the driver's host, for the Python that Spark runs. Only a source that
    was made known by this call has the keys of object stores in the session's configuration.
    """
    SparkEngine(adopt(spark)).prepare()
    keys = {key: value for key, value in session_conf(spark).items() if key.startswith(OF_HADOOP)}
    spark.dataSource.register(type(MetastoreSource.__name__, (MetastoreSource,), {"keys_of_session": keys}))


def register(spark: SparkSession, ms: Session, *, prefix: str = "") -> list[str]:
    """Create temporary views of the metastore's own tables in ``spark``; returns their names, sorted.

    The names are ``information_schema_tables``, ``components_tables`` and so on, each after ``prefix``. The views show
    the newest state at this moment, because Spark's views keep the read that they were made of. Call this again to see
    later changes. Raises InvalidRequestError for a prefix that cannot begin the name of a view.
    """
    if prefix and not prefix.isidentifier():
        raise InvalidRequestError(f"views cannot be called {prefix!r}…: letters, digits and _ are expected")
    register_source(spark)
    tables = {f"{NAME}_{name.lower()}": f"{NAME}.{name}" for name in RELATIONS}
    tables |= {f"{_COMPONENTS}_{name}": f"metastore.{_COMPONENTS}.{name}" for name in ms.metastore.components}
    settings = settings_option(ms.settings)
    for view, table in tables.items():
        with quiet_about_pandas():
            frame = spark.read.format(FORMAT).option(SETTINGS, settings).load(table)
            frame.createOrReplaceTempView(prefix + view)
    return sorted(prefix + view for view in tables)
