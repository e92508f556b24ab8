"""The reason of a failed Spark job is one line, with the Python of the workers where that may be the cause."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metastore.spark.failures import OF_WORKER, reason

PYTHON = "the workers' Python (/opt/bare/bin/python)"
TRACE = f'{OF_WORKER}\nTraceback (most recent call last):\n  File "worker.py", line 1, in loads\n'


def test_what_the_workers_lack_is_named() -> None:
    """Spark's own text has it in the last line of a traceback, below a first line that says nothing."""
    lacking = reason(f"{TRACE}ModuleNotFoundError: No module named 'pyarrow'\n", PYTHON)
    assert lacking.startswith(f"{PYTHON} has no pyarrow. Install it there")
    assert "PYSPARK_PYTHON, or spark.pyspark.python" in lacking


def test_what_a_worker_raises_is_its_last_line() -> None:
    """With its Python and the setting that chooses it."""
    full = reason(f"{TRACE}OSError: no space left\n\n at java", PYTHON)
    assert full.startswith(f"OSError: no space left (in {PYTHON}; PYSPARK_PYTHON")
    assert reason(f"{OF_WORKER}\n it went", PYTHON).startswith(f"{OF_WORKER} it went (in {PYTHON}")


@pytest.mark.parametrize(
    "why",
    [
        'Cannot run program "/opt/bare/bin/python": error=2, No such file or directory',
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11",
    ],
)
def test_another_python_is_named(why: str) -> None:
    """One that is not there, or of another version."""
    told = reason(f"Job aborted, most recent failure: Lost task 0.0: {why}\nat java", PYTHON)
    assert told.startswith(f"Lost task 0.0: {why} (about {PYTHON};")


def test_other_failures_name_no_python() -> None:
    """A full disk of the JVM is not about Python."""
    assert reason("Job aborted, most recent failure: Lost task 0.0: disk full\nat java", PYTHON) == (
        "Lost task 0.0: disk full"
    )
    assert reason("An error occurred\n: java.lang.Exception: it\nat java", PYTHON) == "java.lang.Exception: it"


BARE = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
from metastore.errors import EngineError
from metastore.spark import connect, register_source
for name, call in {"connect": connect, "source": register_source}.items():
    try:
        call(spark)
    except EngineError as error:
        answer[name] = str(error)
spark.stop()
"""


def test_what_workers_lack_is_said_before_a_job_needs_it(
    run_driver: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """By ``connect`` and by everything that sends tasks, with the two settings."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    answer = run_driver(BARE, PYSPARK_PYTHON=str(bare))
    for name in ("connect", "source"):
        assert answer[name].startswith(f"the workers' Python ({bare}) lacks numpy, pandas, pyarrow, pydantic")
        assert answer[name].endswith("PYSPARK_PYTHON, or spark.pyspark.python in the configuration, names it")
