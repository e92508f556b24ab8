"""Which settings a session gets, where, and what an adopted one keeps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from metastore.spark import SparkEngine
from metastore.spark.reading import read_files
from metastore.spark.session import copy_session, process_folder, session_settings, spark_session

pytestmark = pytest.mark.spark

SET_UP_OUTSIDE = [{"PYSPARK_GATEWAY_PORT": "1"}, {"SPARK_CONF_DIR": "/etc/spark"}, {"MASTER": "yarn"}]


def test_a_session_of_nobody_runs_on_this_machine_alone() -> None:
    """All cores, reachable over loopback only, no web page, no time zone set."""
    settings = session_settings({}, {})
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"
    assert not [key for key in settings if "timezone" in key.lower()]


@pytest.mark.parametrize("environ", SET_UP_OUTSIDE)
def test_a_spark_that_is_set_up_outside_keeps_its_master_and_network(environ: dict[str, str]) -> None:
    """spark-submit and spark-defaults.conf decide; what is set in code would win over them."""
    settings = session_settings({}, environ)
    assert not {"spark.master", "spark.driver.host", "spark.driver.extraJavaOptions"} & settings.keys()


def test_what_the_caller_sets_wins() -> None:
    """Over every default, the place of a local Spark included."""
    mine = {"spark.master": "local[3]", "spark.ui.enabled": "true", "spark.driver.host": "10.0.0.1"}
    assert session_settings(mine, {}).items() >= mine.items()


def test_a_cluster_keeps_its_network_and_logs() -> None:
    """A driver on loopback could not be reached by executors."""
    settings = session_settings({"spark.master": "spark://head:7077"}, {})
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.driver.extraJavaOptions"} & settings.keys()


def test_a_connect_server_is_asked_for_runtime_settings_only() -> None:
    """It runs already; static settings would be refused with a warning each."""
    assert session_settings({"spark.remote": "sc://head"}, {}) == {
        "spark.remote": "sc://head",
        "spark.sql.python.filterPushdown.enabled": "true",
    }


def test_a_socket_fits_the_folder_for_sockets() -> None:
    """A socket's path has 103 bytes on the least generous system; the folder is private."""
    assert len(os.fsencode(process_folder())) + len("/.00000000-0000-0000-0000-000000000000.sock") <= 103
    assert os.stat(process_folder()).st_mode & 0o077 == 0


def test_the_running_session_is_adopted_as_it_is(spark: SparkSession) -> None:
    """It is the same one, with the runtime setting that is needed, and everything else as before."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    before = spark.conf.getAll
    assert spark_session({"spark.app.name": "another"}) is spark
    assert spark.conf.getAll == {**before, "spark.sql.python.filterPushdown.enabled": "true"}


@pytest.mark.parametrize("files", [(), ("part.parquet",)])
def test_the_active_session_stays(spark: SparkSession, tmp_path: Path, files: Sequence[str]) -> None:
    """What reads in a copy, no file or one, by Spark or by tasks, in several threads, never leaves it active."""
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "part.parquet")
    schema = StructType([StructField("id", LongType())])
    paths = [f"file://{tmp_path}/{name}" for name in files]
    batch = pa.record_batch({"id": [1, 2]})
    with copy_session(spark, {}) as copy, ThreadPoolExecutor(4) as threads:
        engine = SparkEngine(copy)
        read = [partial(read_files, copy, f"file://{tmp_path}", schema, paths)]
        read.append(partial(engine.rows, paths, lambda _: [batch], schema))
        for frame in threads.map(lambda make: make(), read * 20):
            assert frame.schema == schema
        assert SparkSession.active() is spark


def test_sockets_are_used(spark: SparkSession) -> None:
    """They lie in the folder for sockets while the session runs."""
    spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
    assert [name for name in os.listdir(process_folder()) if name.endswith(".sock")]
