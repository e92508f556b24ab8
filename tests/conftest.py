"""What every test can use: how hard Hypothesis tries, a clock that stands still, metastores in a folder of the test.

``HYPOTHESIS_PROFILE`` chooses: ``default`` while working, ``ci`` repeats the same examples on every run, ``nightly``
searches long. No profile has a deadline, since a shared machine's pace says nothing about the code.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from pyiceberg.table import StaticTable
from services.processes import BRIEFLY
from support.opened_metastores import OpenMetastore, opened_metastores, settings_in

from metastore.components.metastore import Metastore
from metastore.ground.clock import Clock
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType

settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=50,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # judges the machine, like a deadline
)
settings.register_profile("nightly", settings.get_profile("ci"), derandomize=False, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background jobs ignore Ctrl-C, and so would all that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Readline in the process that started this worker has exported the width of a terminal.
os.environ.pop("COLUMNS", None)

# Of Spark's launcher, and of the driver that it starts.
os.environ.setdefault("SPARK_LAUNCHER_OPTS", " ".join(BRIEFLY))
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(BRIEFLY))

pytest_plugins = [
    "services.selection",
    "services.hms",
    "services.spark_hive",
    "services.postgres",
    "services.rest_catalog",
    "services.hdfs_cluster",
    "services.drill",
    "services.s3",
    "services.azurite",
    "services.foreign_files",
    "services.gcs",
    "services.glue",
    "services.clickhouse",
    "services.duckdb_iceberg",
    "services.iceberg_java",
    "services.flink",
    "services.trino",
    "services.typesafe_config",
]

MakeUnit = Callable[..., TableMetadataUnit]


@pytest.fixture
def now() -> SimpleNamespace:
    """The time of the test: ``ms``, epoch milliseconds, moved by the test and by pauses alone."""
    return SimpleNamespace(ms=1_700_000_000_000)


@pytest.fixture
def clock(now: SimpleNamespace) -> Clock:
    """A clock that shows ``now``; a pause takes no time but moves it."""

    def pause(seconds: float) -> None:
        now.ms += max(1, round(seconds * 1000))

    return Clock(now_ms=lambda: now.ms, monotonic=lambda: now.ms / 1000, pause=pause)


@pytest.fixture
def restarted_calls() -> Iterator[None]:
    """A Ctrl-C ends no system call, as when Polars is imported."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.siginterrupt(signal.SIGINT, False)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.fixture(scope="session")
def unit() -> MakeUnit:
    """Make a unit of table ``dfs.tmp.<table>``: general information, or with another key that segment's own unit."""

    def make(table: str = "nation", key: str = GENERAL_INFO, **values: Any) -> TableMetadataUnit:
        kind = MetadataType.TABLE if key == GENERAL_INFO else MetadataType.SEGMENT
        identity = {"storage_plugin": "dfs", "workspace": "tmp", "table_name": table, "metadata_key": key}
        return TableMetadataUnit(**{**identity, "metadata_type": str(kind), "metadata_identifier": key, **values})

    return make


@pytest.fixture
def open_metastore(tmp_path: Path, clock: Clock) -> Iterator[OpenMetastore]:
    """Open the metastore below the test's folder; keyword arguments are keys below ``drill.metastore.iceberg``."""
    with opened_metastores(partial(settings_in, str(tmp_path)), clock) as open_:
        yield open_


@pytest.fixture
def metastore(open_metastore: OpenMetastore) -> Metastore:
    """A metastore that nobody has written to."""
    return open_metastore()


@pytest.fixture(scope="session")
def iceberg_table() -> Callable[[Path], StaticTable]:
    """PyIceberg's own view of the newest version of the component table in a folder, found by the names of files."""

    def load(folder: Path) -> StaticTable:
        files = (folder / "metadata").glob("v*.metadata.json")
        newest = max(files, key=lambda path: int(path.name.split(".", 1)[0][1:]))
        return StaticTable.from_metadata(str(newest))

    return load


@pytest.fixture(scope="session")
def as_rows() -> Callable[[pa.Table], list[str]]:
    """Arrow rows in a form that compares by content: no order of rows, no kind of string or list."""

    def rows(table: pa.Table) -> list[str]:
        names = sorted(table.schema.names)
        return sorted(repr([row[name] for name in names]) for row in table.to_pylist())

    return rows
