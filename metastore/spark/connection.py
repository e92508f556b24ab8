"""``metastore.spark.connect``: a metastore session whose work runs on Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from metastore.config import Settings, load
from metastore.session import Session
from metastore.session import connect as connect_session
from metastore.spark.query_engine import SparkQueryEngine
from metastore.spark.session import active_session, is_stopped
from metastore.spark.session_keys import session_conf, with_keys_of_session
from metastore.spark.workers import require_workers


def connect(spark: SparkSession | None = None, conf: str | Path | Settings | None = None) -> Session:
    """Open a session on the metastore that ``conf`` describes; Spark runs all work, whatever its size.

    If ``spark`` is given, the session uses it as it is and never stops it. Otherwise it uses the running session of
    this process. If there is none, it starts one from ``drill.metastore.engine.spark`` when work first needs it, and
    stops it when the metastore's session is closed. Keys of object stores in Spark's configuration, such as
    ``spark.hadoop.fs.s3a.access.key``, and in Hadoop's ``core-site.xml`` are used for stores that ``conf`` has no keys
    for. Raises ConfigError, and EngineError if the workers of a running session lack a library that tasks need.
    """
    settings = conf if isinstance(conf, Settings) else load(conf)
    engine = settings.engine
    running = active_session() if spark is None else spark
    if running is None:
        settings = with_keys_of_session(settings, engine.spark)
    elif not is_stopped(running):
        require_workers(running)
        settings = with_keys_of_session(settings, session_conf(running))
    return connect_session(
        replace(settings, engine=replace(engine, kind="spark")),
        spark_engine=lambda: SparkQueryEngine(spark, engine.spark),
    )
