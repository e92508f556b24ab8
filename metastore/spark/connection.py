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
    """Open a session on the metastore that ``conf`` describes; Spark runs all work, whatever its size.

    If ``spark`` is given, the session uses it as it is and never stops it. Otherwise it uses the running session of
    this process. If there is none, it starts one from ``drill.metastore.engine.spark`` when work first needs it, and
    stops it when the metastore's session is closed. Raises ConfigError.
    """
    settings = conf if isinstance(conf, Settings) else load(conf)
    engine = settings.engine
    return connect_session(
        replace(settings, engine=replace(engine, kind="spark")),
        spark_engine=lambda: SparkQueryEngine(spark, engine.spark),
    )
