"""Compares the Python of Spark's workers with the driver's, before a job fails for a library that workers lack.

Place in the flow: ``connect`` and the engine ask here once for each Spark application. A worker that runs the driver's
own Python on this machine is not asked. Otherwise one task without Arrow answers, because Arrow may be what is missing;
its Python process stays for later jobs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from threading import Lock
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from metastore.errors import EngineError
from metastore.spark.failures import CHOICE, python_of_workers, reason_of
from metastore.spark.session import is_classic

_NEEDED: Final = ("numpy", "pandas", "pyarrow", "pydantic", "pyiceberg", "sqlglot")
"""Libraries that tasks import. The package itself is sent to workers."""

_ASKING: Final = Lock()
_fit: Final[set[str]] = set()
"""The ids of the Spark applications whose workers have what tasks need."""


def require_workers(spark: SparkSession) -> None:
    """Raises EngineError, with the two settings that choose their Python, if the workers of ``spark`` lack a library.

    Also raises it if they run another minor version of Python.
    """
    if _is_own_python(spark):
        return
    application = spark.conf.get("spark.app.id", "") or ""
    with _ASKING:
        if application not in _fit:
            _require(spark, *_ask_workers(spark))
            _fit.add(application)


def _is_own_python(spark: SparkSession) -> bool:
    if not is_classic(spark):
        return False
    context = spark.sparkContext
    return str(context.master).partition("[")[0] == "local" and context.pythonExec == sys.executable


def _ask_workers(spark: SparkSession) -> tuple[str, list[str]]:
    """Returns the version of the workers' Python, and the libraries that they lack."""
    try:
        ask = udf(_question(_NEEDED), "string", useArrow=False)
        version, *lacking = spark.range(0, 1, 1, 1).select(ask("id")).collect()[0][0].split()
    except Exception as error:
        raise EngineError(f"Spark cannot run Python on its workers: {reason_of(error, spark)}") from error
    return version, lacking


def _question(names: Sequence[str]) -> Callable[[object], str]:
    """Returns a function that travels by value and needs the standard library alone."""

    def answer(_: object) -> str:
        import sys  # noqa: PLC0415 - in the worker's process
        from importlib.util import find_spec  # noqa: PLC0415 - as above

        return " ".join(["{}.{}".format(*sys.version_info), *(name for name in names if find_spec(name) is None)])

    return answer


def _require(spark: SparkSession, version: str, lacking: Sequence[str]) -> None:
    own = "{}.{}".format(*sys.version_info)
    python = python_of_workers(spark)
    if version != own:
        raise EngineError(f"{python} is Python {version}, the driver's {own}. Choose an equal one: {CHOICE} names it")
    if missing := [name for name in lacking if find_spec(name) is not None]:
        raise EngineError(
            f"{python} lacks {', '.join(missing)}, which the driver's has. Run pip install lake-metastore there, or "
            f"choose another Python: {CHOICE} names it"
        )
