"""The engine on a local master: the same results and errors as the local engine, whatever Arrow type comes back."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from decimal import Decimal
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import RDD, cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from metastore.engines.engine import LocalEngine
from metastore.errors import EngineError, FormatError, InvalidRequestError
from metastore.spark import SparkEngine
from metastore.spark.engine import _collect, _own_code_zipped
from metastore.spark.jobs import JOB_BYTES, jobs

pytestmark = pytest.mark.spark

# Executors cannot import a test module; its functions travel as they are.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

NUMBERS = pa.schema([("number", pa.int64())])
ODD = pa.schema(
    [
        pa.field("required", pa.int32(), nullable=False),
        pa.field("dictionary", pa.dictionary(pa.int8(), pa.string())),
        pa.field("large", pa.large_string()),
        pa.field("fixed", pa.binary(3)),
        pa.field("nanos", pa.timestamp("ns", tz="Asia/Tokyo")),
        pa.field("decimal", pa.decimal128(38, 18)),
        pa.field("map", pa.map_(pa.string(), pa.list_(pa.float32()))),
        pa.field("nothing", pa.null()),
        pa.field("a.`dotted` name", pa.struct([("x y", pa.uint64())]), metadata={"kept": "yes"}),
    ],
    metadata={"whole": "schema"},
)
"""Types that Spark has not, or has otherwise."""


def odd_rows(first: int) -> Iterator[pa.RecordBatch]:
    """Three batches: two rows, none, one row of nulls."""
    row = {
        "required": first,
        "dictionary": "ä",
        "large": "x" * first,
        "fixed": b"abc",
        "nanos": datetime(2013, 1, 1, tzinfo=timezone.utc),
        "decimal": Decimal("0.000000000000000001"),
        "map": [("k", [1.5, None])],
        "a.`dotted` name": {"x y": 2**64 - 1},
    }
    yield pa.RecordBatch.from_pylist([row, row], schema=ODD)
    yield pa.RecordBatch.from_pylist([], schema=ODD)
    yield pa.RecordBatch.from_pylist([{"required": -1}], schema=ODD)


def count_up(limit: int) -> Iterator[pa.RecordBatch]:
    """One batch of the numbers below ``limit``."""
    yield pa.record_batch([pa.array(range(limit), pa.int64())], schema=NUMBERS)


def in_all(chunk: bytes) -> Iterator[pa.RecordBatch]:
    """The length of the chunk."""
    yield pa.record_batch([pa.array([len(chunk)], pa.int64())], ["n"])


def refuse_two(number: int) -> Iterator[pa.RecordBatch]:
    """A batch for every chunk but 2."""
    if number == 2:
        raise FormatError("/data/part-2.parquet is not a Parquet file: no magic bytes")
    yield from count_up(number)


def stumble(number: int) -> Iterator[pa.RecordBatch]:
    """A mistake in the task itself."""
    yield from count_up(1 // (number - number))


def end_the_process(_: int) -> Iterator[pa.RecordBatch]:
    """What the kernel does to a process that takes too much memory."""
    os.abort()


def sort_key(batch: pa.RecordBatch) -> str:
    """Batches come in any order."""
    return str(batch.to_pylist())


def test_batches_equal_those_of_the_local_engine_in_every_type(engine: SparkEngine) -> None:
    """Schema, metadata, nullability, values and the cut into batches: Spark's types never touch them."""
    on_spark = sorted(engine.run([1, 2, 3, 4, 5], odd_rows, ODD), key=sort_key)
    here = sorted(LocalEngine(1).run([1, 2, 3, 4, 5], odd_rows, ODD), key=sort_key)
    assert len(on_spark) == 15
    assert all(batch.schema.equals(ODD, check_metadata=True) for batch in on_spark)
    assert [batch.to_pylist() for batch in on_spark] == [batch.to_pylist() for batch in here]


def test_a_result_larger_than_one_payload_comes_whole(engine: SparkEngine) -> None:
    """Twelve million numbers, about 90 MB before compression, of one chunk and of several."""
    batches = list(engine.run([4_000_000] * 3, count_up, NUMBERS))
    assert [batch.num_rows for batch in batches] == [4_000_000] * 3
    assert all(batch.column(0)[-1].as_py() == 3_999_999 for batch in batches)


def test_more_chunks_than_fit_one_job_make_more_jobs(engine: SparkEngine) -> None:
    """Each chunk is answered once, though together they are three times what a job may carry."""
    chunks = [(number, b"x" * (JOB_BYTES // 4)) for number in range(12)]
    batches = list(engine.run(chunks, lambda chunk: count_up(chunk[0]), NUMBERS))
    assert sorted(batch.num_rows for batch in batches) == list(range(12))


@pytest.mark.parametrize("answer_bytes", [0, 100_000, 1 << 30])
def test_large_answers_come_in_several_jobs(spark: SparkSession, answer_bytes: int) -> None:
    """Whatever a job may return, each chunk is answered once; a task that returned its share leaves the others."""
    engine, context, group = SparkEngine(spark, answer_bytes=answer_bytes), spark.sparkContext, f"of {answer_bytes}"
    tasks = engine.parallelism * 2
    context.setJobGroup(group, "answers")
    try:
        batches = list(engine.run([50_000] * 16, count_up, NUMBERS))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert [batch.num_rows for batch in batches] == [50_000] * 16
    jobs = len(context.statusTracker().getJobIdsForGroup(group))
    assert jobs == (1 if answer_bytes > 1 << 20 else -(-16 // tasks))


def test_a_task_receives_its_own_chunks_alone(engine: SparkEngine) -> None:
    """Of a scan, too: what each of two tasks is sent is a small part of what all are sent."""
    schema = StructType([StructField("n", LongType())])
    chunks = [os.urandom(100_000) for _ in range(8)]
    active = SparkSession.getActiveSession()
    frame = engine.rows(chunks, in_all, schema)
    assert SparkSession.getActiveSession() is active
    assert sorted(row.n for row in frame.collect()) == [100_000] * 8
    assert frame.rdd.getNumPartitions() == 8
    plan: Any = frame._jdf.queryExecution().analyzed()
    while plan.nodeName() != "MapInArrow":
        plan = plan.children().head()
    assert plan.functionExpr().func().command().size() < 1 << 16


def test_a_chunk_above_the_limit_is_refused(engine: SparkEngine) -> None:
    """It says so, and what to do, before Spark is asked."""
    with pytest.raises(InvalidRequestError, match="cut the work into smaller chunks"):
        list(engine.run([b"x" * (JOB_BYTES + 1)], lambda _: [], NUMBERS))


@given(st.lists(st.binary(max_size=60), min_size=1), st.integers(1, 5))
def test_jobs_hold_every_chunk_once_within_the_limit(chunks: list[bytes], partitions: int) -> None:
    """Whatever the sizes; and no partition is empty."""
    found = list(jobs(chunks, partitions, limit=100))
    dealt = [part for job in found for part in job]
    assert sorted(pickle.loads(chunk) for part in dealt for chunk in part) == sorted(chunks)  # noqa: S301 - our own
    assert all(sum(len(chunk) for part in job for chunk in part) <= 100 for job in found)
    assert all(dealt)
    assert max(len(job) for job in found) <= partitions


def test_an_error_of_a_task_arrives_as_itself(engine: SparkEngine) -> None:
    """Class and text as raised; the executor's traceback is the cause, and nothing of Java is in either."""
    with pytest.raises(FormatError, match=r"^/data/part-2.parquet is not a Parquet file: no magic bytes$") as caught:
        list(engine.run([1, 2, 3], refuse_two, NUMBERS))
    assert "in refuse_two" in str(caught.value.__cause__)
    assert "java" not in str(caught.value.__cause__)


def test_a_mistake_in_a_task_reads_as_on_the_local_engine(engine: SparkEngine) -> None:
    """An EngineError of the same words, wherever the task ran."""
    with pytest.raises(EngineError) as here:
        list(LocalEngine(1).run([1], stumble, NUMBERS))
    with pytest.raises(EngineError) as on_spark:
        list(engine.run([1], stumble, NUMBERS))
    assert str(on_spark.value) == str(here.value)
    assert "ZeroDivisionError" in str(here.value)


def test_batches_of_another_schema_are_refused(engine: SparkEngine) -> None:
    """A task that breaks its promise does not slip through."""
    with pytest.raises(EngineError, match="declares batches of"):
        list(engine.run([1], count_up, ODD))


def test_a_dying_process_is_an_engine_error_in_one_line(engine: SparkEngine) -> None:
    """A local master does not try again; the Java stack stays in the cause, and the engine goes on working."""
    with pytest.raises(EngineError, match=r"Python worker exited unexpectedly") as caught:
        list(engine.run([1], end_the_process, NUMBERS))
    assert len(str(caught.value).splitlines()) == 1
    assert [batch.num_rows for batch in engine.run([7], count_up, NUMBERS)] == [7]


def test_no_chunk_needs_no_spark() -> None:
    """Nothing is started for nothing: this engine could not start."""
    assert list(SparkEngine(settings={"spark.master": "no such thing"}).run([], count_up, NUMBERS)) == []


def test_engines_of_many_threads_send_one_whole_package(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zip that is written while Spark takes it ends the jobs of the session; Spark warns of one that it has."""
    _own_code_zipped.cache_clear()
    monkeypatch.setattr(RDD, "toDF", RDD.toDF)  # of the last session that was made; given back afterwards
    session, sent = spark.newSession(), []
    monkeypatch.setattr(session, "addArtifacts", lambda path, **_: sent.append(path))
    engines = [SparkEngine(session) for _ in range(8)]
    with ThreadPoolExecutor(len(engines)) as threads:
        for ready in [threads.submit(engine.prepare) for engine in engines]:
            ready.result()
    assert sent == [_own_code_zipped()]
    assert session.range(10).count() == 10


def test_parallelism_is_the_cores_of_the_master(engine: SparkEngine) -> None:
    """Two, as the session was started with."""
    assert engine.parallelism == 2


def test_an_engine_leaves_a_session_it_was_given_or_found(spark: SparkSession) -> None:
    """Closing it stops nothing that somebody else started, and it can be used again."""
    for engine in (SparkEngine(spark), SparkEngine()):
        assert engine.spark is spark
        engine.close()
        assert spark.range(3).count() == 3
        assert [batch.num_rows for batch in engine.run([2], count_up, NUMBERS)] == [2]


class Interrupts:
    """Interrupts this process when it is pickled, and is through when the interrupt has cancelled the job once."""

    def __init__(self, cancelled: Event) -> None:
        self.cancelled = cancelled

    def __reduce__(self) -> tuple[type[int], tuple[()]]:
        """Another thread pickles it, while the main thread waits for that."""
        os.kill(os.getpid(), signal.SIGINT)
        assert self.cancelled.wait(60)
        return int, ()


@pytest.mark.usefixtures("restarted_calls")
def test_an_interrupt_before_spark_has_begun_ends_the_job(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark forgets such a cancellation, and would keep the caller for as long as the tasks take."""
    cancelled, context = Event(), spark.sparkContext
    interrupts, cancel = Interrupts(cancelled), context.cancelJobsWithTag

    def cancel_and_tell(tag: str) -> None:
        cancel(tag)
        cancelled.set()

    def wait_long(_: Iterable[Any]) -> Iterator[tuple[str, bytes]]:
        yield str(Event().wait(100)), pickle.dumps(interrupts)

    monkeypatch.setattr(context, "cancelJobsWithTag", cancel_and_tell)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _collect(spark, wait_long, [(0, []), (1, [])])
    assert time.monotonic() - began < 60
