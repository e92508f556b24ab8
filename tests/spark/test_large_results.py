"""Results beyond ``spark.driver.maxResultSize`` come in several jobs, or say which setting to raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.integration]

Driver = Callable[..., dict[str, Any]]

SCRIPT = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
import pyarrow as pa
from pyspark import cloudpickle
from metastore.engines.engine import ResultsTooLargeError
from metastore.spark.engine import SparkEngine
from metastore.spark.session import start_session
BYTES = pa.schema([("number", pa.int64()), ("some", pa.binary())])
def some(chunk):
    number, size = chunk
    yield pa.record_batch([pa.array([number], pa.int64()), pa.array([os.urandom(size)])], schema=BYTES)
spark = start_session({"spark.master": "local[2]", "spark.driver.maxResultSize": "2m"})
engine = SparkEngine(spark)
batches = list(engine.run([(number, 400_000) for number in range(12)], some, BYTES))
answer["numbers"] = sorted(batch["number"][0].as_py() for batch in batches)
answer["bytes"] = {len(batch["some"][0].as_py()) for batch in batches} == {400_000}
try:
    list(engine.run([(0, 3_000_000)], some, BYTES))
except ResultsTooLargeError as error:
    answer["refused"] = str(error)
spark.stop()
"""


@pytest.mark.exhaustive
def test_what_is_too_much_for_one_job_comes_in_several(run_driver: Driver) -> None:
    """4.8 MB of twelve chunks under a limit of 2 MB come whole; one chunk of 3 MB names the setting."""
    answer = run_driver(SCRIPT)
    assert answer["numbers"] == list(range(12))
    assert answer["bytes"]
    assert "larger spark.driver.maxResultSize" in answer["refused"]
