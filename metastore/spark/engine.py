"""The engine on Spark: chunks of work become the partitions of a small range, and batches return to the driver.

Place in the flow: implements :class:`metastore.engines.engine.Engine` on a local master, a cluster and Spark Connect.
It runs RDD jobs, which start in half the time of a query. Connect has no RDDs; there, ``mapInArrow`` runs the same
function.

Promises, in addition to those of every engine: a job carries at most :data:`JOB_BYTES` of pickled chunks, because a
server that receives a closure of hundreds of megabytes fails; more work makes more jobs. When a process or an executor
dies, Spark replaces it and runs its chunks again. Only answers that reach the driver count.

Executors need pyarrow and the libraries that a task imports. They need not have this package. If the first job finds an
executor without it, or with other code under its name, the package is sent to the executors once, as a zip, and the job
runs again. So a cluster where the package is installed pays nothing, and no separate job checks for it.
"""

from __future__ import annotations

import os
import pickle
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from threading import Lock
from typing import Final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import column, spark_partition_id
from pyspark.sql.functions import max as greatest
from pyspark.sql.types import StructType

from metastore.engines.engine import Capabilities, Chunk, ResultsTooLargeError
from metastore.engines.traffic import count_elsewhere
from metastore.errors import EngineError, MetastoreError
from metastore.spark import worker
from metastore.spark.cancelling import cancellable
from metastore.spark.failures import reason_of
from metastore.spark.jdbc import read_jdbc
from metastore.spark.jobs import dealt, jobs, left_chunks
from metastore.spark.pinned_settings import pin_settings
from metastore.spark.session import (
    GONE,
    active_session,
    adopt,
    create_frame,
    is_classic,
    is_stopped,
    process_folder,
    quiet_about_pandas,
    start_session,
)
from metastore.spark.spark_types import arrow_rows
from metastore.spark.supported_versions import has_artifacts
from metastore.spark.workers import require_workers
from metastore.sql.target import Dealt

_ANSWER_BYTES: Final = 128 << 20
"""About the most bytes of answers that one job returns to the driver. Tasks have equal shares, and each answers at
least one chunk."""

_PARTITIONS_PER_CORE: Final = 2
"""Evens out chunks of unequal cost. Each further task costs about 10 ms, so a higher factor is slower."""

_CODE: Final = tuple(worker.package_files())
"""The files of this package, read as early as possible.

So the code that runs, is compared and is sent stays the same, even if its files are edited while this process lives.
"""

_FINDER: Final = "pyspark_metastore"
"""The package by whose name Spark finds the data source; it is sent together with this package."""

_FINGERPRINT: Final = worker.fingerprint(_CODE)

_HAS_CODE: Final = "_has_code_of_metastore"
"""Attribute of a session that has our code, whichever engine sent it: Spark warns of a file that it is given again."""

_SHIPPING: Final = Lock()
"""Held while the zip is made and given to Spark: each thread may have its own engine, but there is one zip.

A file that changes after Spark has seen it ends every job of the session, including jobs of other users.
"""

_Job = Callable[[Iterable[worker.Part]], Iterator[tuple[str, bytes]]]
"""Maps parts of a job to the answers of their tasks."""

cloudpickle.register_pickle_by_value(worker)  # type: ignore[no-untyped-call]

_MAX_RESULT: Final = "spark.driver.maxResultSize"


class SparkEngine:
    """Runs tasks on Spark's executors.

    With ``spark``, the engine uses that session, classic or Connect, and never stops it. Without it, the engine uses
    the running session of this process. If there is none, it starts one with ``settings`` (Spark's own keys) on first
    use, and :meth:`close` stops it. Use an engine from one thread at a time.
    """

    name: Final = "spark"
    capabilities = Capabilities(reads_databases=True, runs_statements=True)

    def __init__(
        self,
        spark: SparkSession | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        answer_bytes: int = _ANSWER_BYTES,
    ) -> None:
        self._given = spark
        self._settings = dict(settings or {})
        self._answer_bytes = answer_bytes
        self._spark: SparkSession | None = None
        self._started = False
        self._parallelism = 0
        self._repeated = False

    @property
    def spark(self) -> SparkSession:
        """The session in use; starts Spark if necessary.

        Raises EngineError if Spark does not start or the given session was stopped.
        """
        if self._spark is not None and is_stopped(self._spark):
            self.close()
        if self._spark is None:
            if self._given is not None and is_stopped(self._given):
                raise EngineError("the Spark session was stopped; connect the metastore with one that runs")
            running = self._given or active_session()
            self._spark = start_session(self._settings) if running is None else adopt(running)
            self._started = running is None
        return self._spark

    @property
    def parallelism(self) -> int:
        """The number of tasks that Spark runs at once by default: the cores, or ``spark.default.parallelism``."""
        if not self._parallelism:
            if is_classic(self.spark):
                self._parallelism = self.spark.sparkContext.defaultParallelism
            else:  # Connect has no such property, but divides a range by it.
                partitions = self.spark.range(1 << 20).select(spark_partition_id().alias("id"))
                self._parallelism = partitions.agg(greatest("id")).collect()[0][0] + 1
        return self._parallelism

    def run(
        self, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`metastore.engines.engine.Engine.run`; nothing runs before the caller asks for the first batch.

        The batches of a job arrive together when it ends. A failing task does not end the other tasks of its job. Tasks
        whose answers are large leave some of their chunks to a further job. A job whose results nevertheless exceed
        ``spark.driver.maxResultSize`` runs again as two jobs. Raises ResultsTooLargeError if the
        results of a single chunk exceed it, InvalidRequestError for a chunk above :data:`JOB_BYTES`, and EngineError
        when Spark itself fails.
        """
        if not chunks:
            return
        self._repeated = False
        pickled_task = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
        partitions = self.parallelism * _PARTITIONS_PER_CORE
        waiting = deque(jobs(chunks, partitions))
        while waiting:
            parts = waiting.popleft()
            job = worker.mapper(pickled_task, schema, _FINGERPRINT, self._answer_bytes // len(parts))
            try:
                job_of_tasks = f"a job of {len(parts)} tasks"
                collect = partial(_collect, self.spark, job, list(enumerate(parts)))
                answers = self._answers(collect, job_of_tasks)
                if worker.OTHER_CODE in answers and not hasattr(self.spark, _HAS_CODE):
                    self._ship()
                    answers = self._answers(collect, job_of_tasks)
            except ResultsTooLargeError:
                # The size of the results is known only now, so the work runs again, as two jobs.
                sent = [chunk for part in parts for chunk in part]
                if len(sent) == 1:
                    raise
                half = len(sent) // 2
                waiting.extendleft((dealt(sent[half:], partitions), dealt(sent[:half], partitions)))
                continue
            for pickled in answers.get(worker.TRAFFIC, ()):
                count_elsewhere(pickle.loads(pickled))  # noqa: S301 - our own executors wrote it
            if left := left_chunks(answers, parts):
                waiting.appendleft(dealt(left, partitions))
            yield from _batches(answers)

    def rows(
        self,
        chunks: Sequence[Chunk],
        task: Callable[[Chunk], Iterable[pa.RecordBatch]],
        schema: StructType,
    ) -> DataFrame:
        """Returns the batches of ``task`` over ``chunks`` as a DataFrame of ``schema``.

        It has one partition for each chunk. Batches must have the columns of ``schema``, in its order and types. The
        package is sent to executors at once, because nothing can be sent once the DataFrame runs.
        """
        if not chunks:
            return create_frame(self.spark, [], schema)
        self.prepare()
        pickled_task = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
        sent = [zlib.compress(pickle.dumps(chunk, pickle.HIGHEST_PROTOCOL)) for chunk in chunks]
        with quiet_about_pandas():
            return self._one_each(sent).mapInArrow(worker.reader(pickled_task, _FINGERPRINT), schema)

    def _one_each(self, sent: Sequence[bytes]) -> DataFrame:
        """Returns a DataFrame with one partition for each of ``sent``, which has it as its only row."""
        if is_classic(self.spark):
            rows = self.spark.sparkContext.parallelize([(each,) for each in sent], len(sent))
            return create_frame(self.spark, rows, worker.CHUNK)
        numbers = self.spark.range(0, len(sent), 1, len(sent))
        return numbers.mapInArrow(worker.one_of(sent), worker.CHUNK)

    def shuffle(
        self,
        chunks: Sequence[Chunk],
        deal: Callable[[Chunk], Iterable[tuple[int, pa.RecordBatch]]],
        gather: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
        groups: int,
        schema: pa.Schema,
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`metastore.sql.tasks.statement_tasks.StatementEngine.shuffle`; Spark sorts rows on disk."""
        if not chunks:
            return
        self.prepare()
        dealer = worker.dealer(cloudpickle.dumps(deal), _FINGERPRINT)  # type: ignore[no-untyped-call]
        sent = [zlib.compress(pickle.dumps(chunk, pickle.HIGHEST_PROTOCOL)) for chunk in chunks]
        with quiet_about_pandas():
            rows = self._one_each(sent).mapInArrow(dealer, worker.DEALT)
            # Before Spark 4.1 a task may get several groups.
            by_group = getattr(rows, "repartitionById", None) or rows.repartition
            rows = by_group(groups, column("part"))
        yield from self._run_gather(rows, gather, schema, of_rows=False)

    def answers_of(
        self,
        frame: DataFrame,
        gather: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
        deal: Callable[[Iterator[pa.RecordBatch]], Iterable[Dealt]] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yields the batches of ``gather``, which gets the rows of a partition of ``frame``, by Spark's own plan.

        With ``deal``, which numbers the groups of rows, rows of a group come together before, by the numbers of
        groups; Spark decides how many groups are one task. Raises as :meth:`run`.
        """
        self.prepare()
        rows = frame.toDF(*map(str, range(len(frame.columns))))  # mapInArrow splits names at dots
        if deal is not None:
            dealer = worker.dealer(cloudpickle.dumps(deal), _FINGERPRINT, of_rows=True)  # type: ignore[no-untyped-call]
            with quiet_about_pandas():
                rows = rows.mapInArrow(dealer, worker.DEALT).repartition(column("part"))
            rows = rows.sortWithinPartitions("part")
        yield from self._run_gather(rows, gather, schema, of_rows=deal is None)

    def _run_gather(
        self,
        rows: DataFrame,
        gather: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
        *,
        of_rows: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Run the query and ``gather`` on its rows as one job of Spark; the batches come when all tasks are done."""
        # After a failed fetch, Spark runs a stage again, and tasks do not see it. A local master has no such failure.
        self._repeated = not str(self.spark.conf.get("spark.master", "")).startswith("local")
        pickled = cloudpickle.dumps(gather)  # type: ignore[no-untyped-call]
        gatherer = worker.gatherer(pickled, schema, _FINGERPRINT, of_rows=of_rows)

        def collect() -> list[tuple[str, bytes]]:
            with quiet_about_pandas():
                return _pairs(arrow_rows(rows.mapInArrow(gatherer, worker.ANSWER)))

        yield from _batches(self._answers(lambda: cancellable(self.spark, collect), "a query and its tasks"))

    @property
    def repeats_tasks(self) -> bool:
        """As :attr:`metastore.sql.tasks.statement_tasks.StatementEngine.repeats_tasks`."""
        return self._repeated or self.spark.conf.get("spark.speculation", "false") == "true"

    def prepare(self) -> None:
        """Send this package to all executors, once, even if they have it. Raises EngineError if they lack a library."""
        require_workers(self.spark)
        self._ship()

    def read_jdbc(
        self, url: str, table: str, properties: Mapping[str, str]
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Returns the schema and the rows of a table of a database.

        Raises as :func:`metastore.spark.jdbc.read_jdbc`.
        """
        with pin_settings(self.spark) as spark:
            return read_jdbc(spark, url, table, properties)

    def close(self) -> None:
        """Stop the session if this engine started it; the next use starts a new one."""
        if self._spark is not None and self._started:
            with suppress(*GONE):
                self._spark.stop()
        self._spark = None
        self._started = False
        self._parallelism = 0

    def _answers(self, collect: Callable[[], list[tuple[str, bytes]]], work: str) -> dict[str, list[bytes]]:
        """Run one job, which errors call ``work``; returns its payloads by kind."""
        spark = self.spark
        try:
            found = collect()
        except Exception as error:
            reason = reason_of(error, spark)
            if _MAX_RESULT in str(error):
                raise ResultsTooLargeError(
                    f"the results of {work} exceed {_MAX_RESULT}: {reason}; start Spark with a larger {_MAX_RESULT}"
                ) from error
            raise EngineError(f"Spark could not finish {work}: {reason}") from error
        answers: dict[str, list[bytes]] = {}
        for kind, payload in found:
            answers.setdefault(kind, []).append(payload)
        self._repeated = self._repeated or worker.REPEATED in answers
        return answers

    def _ship(self) -> None:
        """Send our code to the executors of this session, and to executors that join later; once."""
        spark = self.spark
        with _SHIPPING:
            if hasattr(spark, _HAS_CODE):
                return
            if is_classic(spark) and not has_artifacts(spark.version):
                spark.sparkContext.addPyFile(_own_code_zipped())
            else:
                spark.addArtifacts(_own_code_zipped(), pyfile=True)
            setattr(spark, _HAS_CODE, True)


def _batches(answers: Mapping[str, Sequence[bytes]]) -> Iterator[pa.RecordBatch]:
    for found in answers.get(worker.OTHER_CODE, ()):
        raise EngineError(
            f"an executor cannot load the code it was sent: {found.decode()}. "
            "Install the missing library on the executors, or the same version of metastore as on the driver"
        )
    for pickled in answers.get(worker.ERROR, ()):
        error, trace = pickle.loads(pickled)  # noqa: S301 - our own executors wrote it
        assert isinstance(error, MetastoreError)
        raise error from EngineError(f"on an executor:\n{trace}")
    for stream in answers.get(worker.BATCHES, ()):
        with pa.ipc.open_stream(stream) as batches:
            yield from batches


@cache
def _own_code_zipped() -> str:
    """Returns the path of a zip of this package. Spark serves this very file, so it stays until this process ends.

    The files are in a fixed order and have one fixed date. Equal code makes an equal zip, which Spark accepts a second
    time without an error.
    """
    path = os.path.join(process_folder(), worker.zip_name(_FINGERPRINT))
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (*_CODE, *worker.package_files(_FINDER)):
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return path


def _collect(spark: SparkSession, job: _Job, parts: Sequence[worker.Part]) -> list[tuple[str, bytes]]:
    """Returns all answers of ``job``. Each task receives its own part; over Connect, which has no RDDs, all parts."""
    if not is_classic(spark):
        with quiet_about_pandas():
            numbers = spark.range(0, len(parts), 1, len(parts))
            return _pairs(arrow_rows(numbers.mapInArrow(worker.in_arrow(job, parts), worker.ANSWER)))
    return cancellable(spark, spark.sparkContext.parallelize(parts, len(parts)).mapPartitions(job).collect)


def _pairs(rows: pa.Table) -> list[tuple[str, bytes]]:
    return [(kind.as_py(), payload.as_py()) for kind, payload in zip(*rows.columns, strict=True)]
