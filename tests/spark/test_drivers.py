"""Drivers in processes of their own: a cluster, a Connect session, another copy of the package, an interrupted job.

Each scenario runs once, in a working directory that holds nothing, and its tests look at what it said.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

import metastore

pytestmark = [pytest.mark.clusters, pytest.mark.spark, pytest.mark.integration]

Driver = Callable[..., dict[str, Any]]

TASKS = """
import os, signal
import pyarrow as pa
from metastore.errors import EngineError, FormatError
from metastore.spark import SparkEngine, read_files, spark_session

PLACE = pa.schema([("package", pa.string()), ("process", pa.int64()), ("parent", pa.int64())])

def where(chunk):
    import metastore
    yield pa.record_batch([[metastore.__file__], [os.getpid()], [os.getppid()]], schema=PLACE)

def refuse(chunk):
    raise FormatError(f"/data/part-{chunk}.parquet is not a Parquet file")

def die_once(marker):
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        yield from where(marker)
    else:
        os.kill(os.getpid(), signal.SIGKILL)

def error_of(engine, chunks, task):
    try:
        return [batch.num_rows for batch in engine.run(chunks, task, PLACE)]
    except Exception as error:
        return [type(error).__name__, str(error)]
"""
"""In __main__, so they travel by value, as a user's would."""


@pytest.fixture(scope="module")
def cluster(
    run_driver: Driver, bare_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """Two executors, each a JVM of its own, whose Python has every library but not the package."""
    home = tmp_path_factory.mktemp("spark-home")  # executors write to SPARK_HOME/work: not into the installed PySpark
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    (home / "work").mkdir()
    yield run_driver(
        TASKS
        + f"""
engine = SparkEngine(settings={{"spark.master": "local-cluster[2,1,1024]"}})
engine.spark
while len(engine.spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) < 3:
    pass
for name in ("first", "second"):
    answer[name] = [row for batch in engine.run(range(8), where, PLACE) for row in batch.to_pylist()]
answer["error"] = error_of(engine, [7], refuse)
answer["retried"] = error_of(engine, [{str(home / "marker")!r}], die_once)
answer["jobs"] = len(engine.spark.sparkContext.statusTracker().getJobIdsForGroup(None))
engine.close()
""",
        PYSPARK_PYTHON=str(bare_python),
        SPARK_HOME=str(home),
    )
    shutil.rmtree(home / "work")


def test_executors_that_lack_the_package_are_sent_it(cluster: dict[str, Any]) -> None:
    """The task ran in both executors, on the package out of the zip, of which nothing is left when the driver ends."""
    packages = {row["package"] for row in cluster["first"]}
    assert all(".zip/metastore/" in package for package in packages)
    assert len({row["parent"] for row in cluster["first"]}) == 2
    assert not [package for package in packages if os.path.exists(package.partition(".zip")[0] + ".zip")]


def test_the_package_is_sent_once(cluster: dict[str, Any]) -> None:
    """Five jobs: one that asked, and one for each run."""
    assert len(cluster["second"]) == 8
    assert cluster["jobs"] == 5


def test_an_error_comes_from_a_cluster_as_itself(cluster: dict[str, Any]) -> None:
    """After one attempt: an error of a task is an answer, and Spark does not try it again."""
    assert cluster["error"] == ["FormatError", "/data/part-7.parquet is not a Parquet file"]


def test_chunks_of_a_killed_process_run_again(cluster: dict[str, Any]) -> None:
    """The Python process ended by SIGKILL; the run did not notice."""
    assert cluster["retried"] == [1]


@pytest.fixture(scope="module")
def connect(run_driver: Driver, bare_python: Path) -> dict[str, Any]:
    """A Connect session and its server, whose Python lacks the package."""
    return run_driver(
        TASKS
        + """
import tempfile, pyarrow.parquet as pq
engine = SparkEngine(settings={"spark.remote": "local[2]"})
answer["session"] = type(engine.spark).__module__
answer["parallelism"] = engine.parallelism
answer["places"] = [row for batch in engine.run(range(4), where, PLACE) for row in batch.to_pylist()]
answer["error"] = error_of(engine, [7], refuse)
answer["adopted"] = spark_session() is engine.spark
with tempfile.TemporaryDirectory() as folder:
    files = [f"{folder}/part=[{number}].parquet" for number in range(40)]
    for number, file in enumerate(files):
        pq.write_table(pa.table({"n": [number]}), file)
    frame = read_files(engine.spark, folder, None, files[5:])
    answer["read"] = sorted(row.n for row in frame.collect())
    answer["empty"] = read_files(engine.spark, folder, frame.schema, []).count()
engine.close()
""",
        PYSPARK_PYTHON=str(bare_python),
        SPARK_CONNECT_MODE_ENABLED="1",
    )


def test_connect_runs_tasks_and_is_sent_the_package(connect: dict[str, Any]) -> None:
    """No SparkContext, and still the same engine."""
    assert connect["session"].startswith("pyspark.sql.connect")
    assert connect["parallelism"] == 2
    assert len(connect["places"]) == 4
    assert all(".zip/metastore/" in place["package"] for place in connect["places"])


def test_an_error_comes_over_connect_as_itself(connect: dict[str, Any]) -> None:
    """Not as an error of gRPC."""
    assert connect["error"] == ["FormatError", "/data/part-7.parquet is not a Parquet file"]


def test_connect_reads_chosen_files(connect: dict[str, Any]) -> None:
    """All that are named, odd names too; and none."""
    assert connect["read"] == list(range(5, 40))
    assert connect["empty"] == 0


def test_the_running_connect_session_is_adopted(connect: dict[str, Any]) -> None:
    """There is one session, whoever asks."""
    assert connect["adopted"] is True


def test_other_code_under_our_name_is_replaced(run_driver: Driver, tmp_path: Path) -> None:
    """Executors that hold an older copy of the package, and have loaded it already, run the driver's."""
    older = tmp_path / "older"
    shutil.copytree(Path(metastore.__file__).parent, older / "metastore", ignore=shutil.ignore_patterns("__pycache__"))
    (older / "metastore" / "errors.py").write_text((older / "metastore" / "errors.py").read_text() + "\n# as it was\n")
    said = run_driver(
        TASKS
        + """
engine = SparkEngine(settings={"spark.master": "local[1]"})
def loaded(batches):
    import metastore
    for batch in batches:
        yield pa.record_batch([[metastore.__file__]], ["package"])
answer["before"] = [row.package for row in engine.spark.range(1).mapInArrow(loaded, "package string").collect()]
answer["after"] = [row["package"] for batch in engine.run([1], where, PLACE) for row in batch.to_pylist()]
engine.close()
""",
        PYTHONPATH=str(older),
    )
    assert said["before"] == [str(older / "metastore" / "__init__.py")]
    assert ".zip/metastore/" in said["after"][0]


def test_an_interrupt_ends_the_tasks(tmp_path: Path) -> None:
    """Ctrl-C in the driver: its tasks end with it, not when they are through, though no handler of PySpark helps."""
    held = tmp_path / "held by tasks"
    os.mkfifo(held)
    program = (
        TASKS
        + f"""
import signal, sys, threading
def hold(chunk):
    with open({str(held)!r}, "w") as pipe:
        pipe.write("x")
        pipe.flush()
        threading.Event().wait()
    yield from where(chunk)
engine = SparkEngine(settings={{"spark.master": "local[2]"}})
engine.spark
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    list(engine.run([1, 2], hold, PLACE))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.stdin.read()  # the driver and its JVM live on while the test looks at the tasks
"""
    )
    driver = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(Path(metastore.__file__).parents[1])!r})\n{program}",
        ],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driver.stdin is not None
    assert driver.stdout is not None
    with open(held, encoding="ascii") as pipe:  # opens when the first task has
        assert pipe.read(2) == "xx"
        driver.send_signal(signal.SIGINT)
        assert driver.stdout.readline() == "interrupted\n"
        assert pipe.read() == ""  # ends when both tasks have let go
        assert driver.poll() is None
    driver.communicate("")
    assert driver.returncode == 0


@pytest.fixture(scope="module")
def stopped(run_driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Sessions that their owner stops: in the middle of a job, and before the next one."""
    held = tmp_path_factory.mktemp("stopped") / "held by a task"
    os.mkfifo(held)
    return run_driver(
        TASKS
        + f"""
import threading
def hold(chunk):
    with open({str(held)!r}, "w") as pipe:
        threading.Event().wait()
    yield from where(chunk)
def stop(spark):
    with open({str(held)!r}):  # opens when the task has
        spark.stop()
spark = spark_session({{"spark.master": "local[2]"}})
given, found = SparkEngine(spark), SparkEngine()
answer["before"] = error_of(found, [1], where)
stopping = threading.Thread(target=stop, args=[spark])
stopping.start()
answer["in the middle"] = error_of(given, [1], hold)
stopping.join()
answer["given"] = error_of(given, [1], where)
try:
    SparkEngine(spark).parallelism
except EngineError as error:
    answer["new engine"] = str(error)
answer["found"] = error_of(found, [1], where)
java = found.spark.sparkContext._gateway.proc
java.kill()
java.wait()
answer["no Java"] = error_of(found, [1], where)
found.close()
"""
    )


def test_a_session_that_was_stopped_is_an_engine_error(stopped: dict[str, Any]) -> None:
    """In words about the session, before a job and in the middle of one; also where Java is gone."""
    again = "the Spark session was stopped; connect the metastore with one that runs"
    assert stopped["given"] == ["EngineError", again]
    assert stopped["new engine"] == again
    for when, said in (("in the middle", "its session was stopped"), ("no Java", "Spark does not start: ")):
        assert stopped[when][0] == "EngineError"
        assert said in stopped[when][1]


def test_who_was_given_no_session_goes_on_with_another(stopped: dict[str, Any]) -> None:
    """The one that ran is taken, and when that was stopped one is started."""
    assert stopped["before"] == stopped["found"] == [1]


def test_a_master_that_cannot_be_had_is_an_engine_error(run_driver: Driver) -> None:
    """In one line that says where Java said more; PySpark's own exception is the cause."""
    said = run_driver(
        TASKS
        + """
try:
    spark_session({"spark.master": "no such thing"})
except EngineError as error:
    answer |= {"error": str(error), "cause": type(error.__cause__).__module__}
"""
    )
    assert said["error"].startswith("Spark does not start: ")
    assert "standard error" in said["error"]
    assert "Master must" in said["stderr"]
    assert "\n" not in said["error"]
    assert not said["cause"].startswith("metastore")
