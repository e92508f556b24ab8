"""``metastore.spark.connect``: a metastore session whose work runs on Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from metastore.config import Settings, load
from metastore.session import Session
from metastore.session import connect as connect_session
from metastore.spark.materialized import SparkQueryEngine


def connect(spark: SparkSession | None = None, conf: str | Path | Settings | None = None) -> Session:
    """Open a session on the metastore that ``conf`` describes, with Spark for all work, whatever its size.

    ``spark`` is used as it is and never stopped. Without it the running session of this process is used, else one is
    started from ``drill.metastore.engine.spark`` when work first needs it, and stopped when the metastore's session is
    closed. Raises ConfigError.
    """
    settings = conf if isinstance(conf, Settings) else load(conf)
    engine = settings.engine
    return connect_session(
        replace(settings, engine=replace(engine, kind="spark")),
        spark_engine=lambda: SparkQueryEngine(spark, engine.spark),
    )
