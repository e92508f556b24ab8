"""The reason of a Spark failure, in one line.

Spark's own first line often says only that a Python worker raised an error.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import SparkSession

from metastore.spark.session import is_classic, is_stopped

OF_WORKER: Final = "An exception was thrown from the Python worker:"
"""The beginning of Spark's error texts whose reason is in the last line of the worker's traceback."""

_OF_PYTHON: Final = ("PYTHON_VERSION_MISMATCH", "Cannot run program")
CHOICE: Final = "PYSPARK_PYTHON, or spark.pyspark.python in the configuration,"
"""The two settings that choose the Python of the workers."""


def reason_of(error: Exception, spark: SparkSession) -> str:
    """Returns the reason why ``spark`` failed, and the Python of its workers where that is the likely cause."""
    return "its session was stopped" if is_stopped(spark) else reason(str(error), python_of_workers(spark))


def reason(text: str, python: str) -> str:
    """Returns the part of the ``text`` of Spark's error that gives the reason, without the Java stack around it.

    ``python`` describes the Python of the workers, because the worker's last line alone does not identify it.
    """
    if missing := re.search(r"ModuleNotFoundError: No module named '([^'\n]+)'", text):
        return (
            f"{python} has no {missing[1]}. Install it there (pip install 'pyspark[sql]' brings what "
            f"Spark needs), or choose another Python: {CHOICE} names it"
        )
    if OF_WORKER in text:
        raised = [line for line in text.splitlines() if re.match(r"\w[\w.]*(Error|Exception)\b", line)]
        last = raised[-1] if raised else " ".join(text.split())
        return f"{last} (in {python}; {CHOICE} chooses it)"
    failure = re.search(r"most recent failure: (.*)", text) or re.search(r"^: (.*)", text, re.MULTILINE)
    why = failure.group(1) if failure else text.partition("\n")[0]
    if any(sign in text for sign in _OF_PYTHON):
        return f"{why} (about {python}; {CHOICE} chooses it)"
    return why


def python_of_workers(spark: SparkSession) -> str:
    """Returns which Python the workers of ``spark`` run."""
    if not is_classic(spark):
        return "the Python of the server's workers"
    return f"the workers' Python ({spark.sparkContext.pythonExec})"
