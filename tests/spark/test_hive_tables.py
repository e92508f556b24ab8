"""Hive tables by tasks of Spark jobs: text analyzed, a table migrated and verified, with what the local engine says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from services.hive_tables import HiveMaker

import metastore
from metastore.config import Settings
from metastore.model.vocabulary import MetadataType
from metastore.session import Session
from metastore.sources.hive.client import HiveClient
from metastore.spark import connect

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.fixture
def hive(hive_metastore: str, tmp_path: Path) -> Iterator[HiveMaker]:
    """A database of the test's own."""
    folder = tmp_path / "hive"
    folder.mkdir()
    with HiveClient(hive_metastore) as client:
        yield HiveMaker(client, folder)


def settings(uri: str, folder: Path, name: str) -> Settings:
    """A metastore of that name, with the service as catalog and as plugin."""
    return Settings.from_mapping(
        {
            "drill.metastore": {
                "iceberg.location": {"base_path": str(folder), "relative_path": name},
                "catalogs.lake": {"type": "hive", "uri": uri, "hive.hive2-compatible": "true"},
                "storage.hive": {"type": "hive", "uri": uri},
            }
        },
        environ={},
    )


def files_of(session: Session) -> list[dict[str, Any]]:
    """What FILE units say of the files' contents."""
    columns = ("path", "schema", "columnsStatistics", "metadataStatistics")
    rows = session.tables.read().metadata_types(MetadataType.FILE).columns(*columns).to_arrow()
    return rows.sort_by("path").to_pylist()


@contextmanager
def jobs_of(spark: SparkSession, group: str) -> Iterator[list[int]]:
    """The jobs that the body has run, once it is done. Spark counts in a thread of its own, which may be behind."""
    context = spark.sparkContext
    context.setJobGroup(group, f"the jobs of {group}")
    found: list[int] = []
    yield found
    context._jsc.sc().listenerBus().waitUntilEmpty()
    found += context.statusTracker().getJobIdsForGroup(group)
    context.setJobGroup("tests", "everything after")


def test_on_executors(spark: SparkSession, hive: HiveMaker, hive_metastore: str, tmp_path: Path) -> None:
    """Units of text, migration, and a check that finds what is wrong, each in jobs of their own."""
    text = hive.table({"id": "int", "s": "string"}, {"p": "date"}, format_="TEXT", serde={"field.delim": ","})
    for number in range(3):
        place = hive.partition(text, f"2024-01-0{number + 1}")
        (place / "000000_0").write_text(f"{number},a\n{number + 10},\\N\n")
    lake = hive.table({"id": "bigint"}, {"p": "int"})
    places = [hive.partition(lake, str(number)) for number in range(3)]
    for number, place in enumerate(places):
        hive.write(place, {"ID": [number, None]})
    arguments: dict[str, Any] = {"schema_name": hive.database, "table_name": lake}
    with (
        connect(spark, settings(hive_metastore, tmp_path, "on_spark")) as session,
        metastore.connect(settings(hive_metastore, tmp_path, "local")) as local,
    ):
        done = session.analyze(f"hive.{hive.database}.{text}")
        assert (done.rows, done.files) == (6, 3)
        local.analyze(f"hive.{hive.database}.{text}")
        assert files_of(session) == files_of(local) != []
        with jobs_of(spark, "migrate") as of_migrate:
            assert session.call("lake.system.migrate", **arguments).to_pylist()[0]["records"] == 6
        with jobs_of(spark, "verify_migration") as of_checks:
            checks = session.call("lake.system.verify_migration", **arguments).to_pylist()
        assert of_migrate
        assert of_checks
        assert checks == local.call("lake.system.verify_migration", **arguments).to_pylist()
        assert [(each["column"], each["ok"], each["hive_rows"], each["min"], each["max"]) for each in checks] == [
            ("id", True, 6, "0", "2"),
            ("p", True, 6, "0", "2"),
        ]
        hive.write(places[1], {"ID": [1000]})
        [wrong, _] = session.call("lake.system.verify_migration", **arguments).to_pylist()
        assert not wrong["ok"]
        assert wrong["max"] == "1000"
