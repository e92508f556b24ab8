"""The Spark session: adopts the running session, or starts one with suitable settings.

Place in the flow: the engine asks here for its session once. Promises:

- A running session of the caller, classic or Connect, is used as it is. Only runtime settings that the metastore needs
  are added.
- A session that is started here uses the Java that was checked, the Python that runs now, and logs little.
- The caller's configuration always takes precedence over the settings of this module.
- If no session can be had, the EngineError says what to do.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from metastore.engines.java import find_java
from metastore.errors import EngineError
from metastore.spark.supported_versions import require_supported

_RUNTIME: Final = {
    # While this is off (the default) Spark refuses to read from a Python data source that accepts filters.
    "spark.sql.python.filterPushdown.enabled": "true",
}
"""Required settings that can still be changed while a session runs."""

_STATIC: Final = {
    "spark.app.name": "metastore",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Tasks talk to Python over Unix sockets: measured 2 times faster than TCP for small tasks. The default directory,
    # java.io.tmpdir, is too long for a socket's path on YARN; only the owner may connect to a socket in this one.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.unix.domain.socket.dir": "/tmp",  # noqa: S108
}

_LOG_PROPERTIES: Final = Path(__file__).absolute().with_name("log4j2.properties")
_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_PROPERTIES.as_uri()}",
}
"""Only for a Spark on this machine.

No other host can reach it, and no other application shares its log configuration.
"""

_SET_UP_BY_OTHERS: Final = (
    "MASTER",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_API_MODE",
    "SPARK_CONF_DIR",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_HOME",
    "SPARK_REMOTE",
)
"""Any of these in the environment means that Spark is configured outside (spark-submit, spark-defaults.conf).

The master and its network are then not set here.
"""


GONE: Final = (AttributeError, Py4JError, OSError)
"""PySpark's errors for a stopped context: it has no Java object any more, or nothing answers for it."""


_COPYING: Final = Lock()
_ACTIVATING: Final = Lock()
"""Several threads that change the active session, and restore it, would restore each other's."""


def spark_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Returns the running session of this process if there is one, else a new one with ``settings`` (Spark's own keys).

    Raises EngineError when Java is missing or Spark does not start.
    """
    running = active_session()
    return start_session(settings or {}) if running is None else adopt(running)


def active_session() -> SparkSession | None:
    """Returns the session that runs in this process, or None. Starts nothing."""
    try:
        found = SparkSession.active()
    except (PySparkRuntimeError, *GONE):
        return None
    return None if is_stopped(found) else found


def is_classic(spark: SparkSession) -> bool:
    """Whether ``spark`` drives a JVM itself; a Connect session has the same interface but no JVM."""
    return isinstance(spark, SparkSession)


def is_stopped(spark: SparkSession) -> bool:
    """Whether ``spark`` was stopped, by its owner or because its JVM ended, and can run nothing any more."""
    if not is_classic(spark):
        return bool(spark.is_stopped)  # type: ignore[attr-defined]  # a Connect session's own
    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())  # noqa: SLF001 - PySpark has no other door to it
    except GONE:
        return True


def adopt(spark: SparkSession) -> SparkSession:
    """Prepare a running session, classic or Connect, for use; its static configuration and time zone stay.

    Raises EngineError if its Spark is older than the oldest supported version.
    """
    require_supported(spark.version)
    for key, value in _RUNTIME.items():
        spark.conf.set(key, value)
    return spark


def all_settings(spark: SparkSession) -> dict[str, str]:
    """Returns the settings of ``spark``. Spark 3.5 shows those of the session without values that it hides."""
    if hasattr(spark.conf, "getAll"):
        return dict(spark.conf.getAll)
    own = dict(spark.sparkContext.getConf().getAll()) if is_classic(spark) else {}
    shown = {row["key"]: row["value"] for row in spark.sql("SET").collect()}
    return own | {key: value for key, value in shown.items() if not value.endswith("(redacted)")}


@contextmanager
def copy_session(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yields a session like ``spark``, with its views and functions, and with ``settings``.

    It is removed afterwards.
    """
    if is_classic(spark):
        with _COPYING:
            # PySpark makes every new session the one that RDD.toDF uses, for all callers.
            owners = RDD.toDF
            try:
                copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001 - as above
            finally:
                RDD.toDF = owners  # type: ignore[method-assign]
    else:
        copy = spark.cloneSession()  # type: ignore[attr-defined]  # a Connect session's own
    try:
        for key, value in settings.items():
            copy.conf.set(key, value)
        yield copy
    finally:
        if not is_classic(spark):
            # Its stop() would stop a local server, and so the session from which this one was copied.
            copy.client.release_session()
            copy.client.close()


def create_frame(
    spark: SparkSession, rows: Iterable[tuple[object, ...]] | RDD[Any], schema: StructType | str
) -> DataFrame:
    """Returns ``rows`` as a DataFrame of ``schema``; the active session stays what it is.

    PySpark makes the session in which a DataFrame is created the active one, and so would keep a copy for ever.
    """
    if not is_classic(spark):
        return spark.createDataFrame(rows, schema)
    with _ACTIVATING:
        before = SparkSession._activeSession  # noqa: SLF001 - PySpark has no other door to it
        try:
            return spark.createDataFrame(rows, schema)
        finally:
            SparkSession._activeSession = before  # noqa: SLF001 - as above
            assert spark._jvm is not None  # noqa: SLF001 - as above
            sessions = spark._jvm.org.apache.spark.sql.SparkSession  # noqa: SLF001 - as above
            if before is None:
                sessions.clearActiveSession()
            else:
                sessions.setActiveSession(before._jsparkSession)  # noqa: SLF001 - as above


def start_session(settings: Mapping[str, str]) -> SparkSession:
    """Start Spark with ``settings`` over :func:`session_settings`.

    This takes seconds; the JVM lives as long as this process.
    """
    _prepare_environment(settings, os.environ)
    _quieten_error_loggers()
    builder = SparkSession.builder
    for key, value in session_settings(settings, os.environ).items():
        builder = builder.config(key, value)
    try:
        with quiet_about_pandas():
            if settings.get("spark.remote", "").startswith("local"):
                # The server that starts here takes static settings; it is then asked to change them, and warns.
                warnings.filterwarnings("ignore", r"Failed to set spark\.", UserWarning)
            return builder.getOrCreate()
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise EngineError(f"Spark does not start: {reason} (what Java wrote on standard error may say more)") from error


def session_settings(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of a new session.

    These are ``settings``, over the defaults for the place where Spark will run. Without a master or a remote in
    ``settings``, and with no sign in ``environ`` that Spark is configured outside, the master is this machine. The time
    zone is never set.
    """
    place = settings.get("spark.remote") or settings.get("spark.master")
    defaults = dict(_RUNTIME)
    if place is None and not any(name in environ for name in _SET_UP_BY_OTHERS):
        place = defaults["spark.master"] = "local[*]"
    if place is None or not place.startswith("sc:"):  # A server that is already running has its own static settings.
        defaults |= _STATIC
    if place is not None and place.startswith("local"):
        # Sockets stay behind if Spark is not stopped before the process ends; this folder and its sockets are removed
        # then.
        defaults |= _LOCAL | {"spark.python.unix.domain.socket.dir": process_folder()}
    return defaults | dict(settings)


@cache
def process_folder() -> str:
    """Returns a private folder that is removed when this process ends; its path is short enough for sockets inside it.

    A socket's path must stay below 104 bytes; Spark's name for it takes 43 and this folder's own name 19.
    """
    parent = tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="metastore-", dir=parent if len(os.fsencode(parent)) <= 40 else "/tmp")  # noqa: S108
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def quiet_about_pandas() -> Iterator[None]:
    """Suppress PySpark's notice, repeated at every Arrow call, that it does not know pandas 3.

    No pandas is used here.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def _prepare_environment(settings: Mapping[str, str], environ: MutableMapping[str, str]) -> None:
    # Spark would take the first python3 on the PATH, which may lack pyarrow. The Spark setting of this name has no
    # effect in a session builder; the environment variable has.
    environ.setdefault("PYSPARK_PYTHON", settings.get("spark.pyspark.python", sys.executable))
    starts_java = "PYSPARK_GATEWAY_PORT" not in environ and not settings.get("spark.remote", "").startswith("sc:")
    if starts_java:
        environ["JAVA_HOME"] = str(find_java(environ).home)  # exactly the Java that was checked


def _quieten_error_loggers() -> None:
    # PySpark logs every failed query as one long line of JSON; the exception itself says the same.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
