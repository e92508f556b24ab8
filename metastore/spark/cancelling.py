"""Waits for Spark's answers so that an interrupt of the caller ends the job, too.

Place in the flow: the engine (:mod:`metastore.spark.engine`) collects the answers of its jobs here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Final

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from metastore.ground.interrupts import result_of
from metastore.spark.session import GONE, is_classic
from metastore.spark.supported_versions import has_artifacts

_CANCELLED_AGAIN_AFTER: Final = 0.1
"""Seconds that an interrupted job gets to end before it is cancelled once more."""


def cancellable(spark: SparkSession, collect: Callable[[], list[tuple[str, bytes]]]) -> list[tuple[str, bytes]]:
    """Returns the answers that ``collect`` waits for; an interrupt of the caller cancels its jobs.

    Connect's client does so by itself. Classic PySpark waits for the end of a job even when it is interrupted, unless
    its own signal handler is installed. So another thread waits, and this thread stays free to cancel.
    """
    if not is_classic(spark):
        return collect()
    context, tag = spark.sparkContext, f"metastore-{uuid.uuid4()}"
    context.addJobTag(tag)
    with ThreadPoolExecutor(1, "metastore-spark") as thread:
        is_new = has_artifacts(spark.version)
        inheriting: Any = inheritable_thread_target(spark)(collect) if is_new else inheritable_thread_target(collect)
        running = thread.submit(inheriting)
        try:
            answers: list[tuple[str, bytes]] = result_of(running)
        except BaseException:
            # Spark ignores the cancellation of a job that has not started yet, and would run it to its end.
            while not running.done():
                with suppress(*GONE):
                    context.cancelJobsWithTag(tag)
                wait([running], _CANCELLED_AGAIN_AFTER)
            raise
        finally:
            with suppress(*GONE):
                context.removeJobTag(tag)
    return answers
