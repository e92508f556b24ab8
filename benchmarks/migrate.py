"""Question: the time of making an Iceberg table of the files that a Hive table has.

Ours is what ``system.migrate`` does between the metastore's service and the switch: list, read all footers, write
manifests and metadata. The service's part is left out: it is a handful of calls, the same for any number of files.
Footers are read by the local engine, and by Spark. Beside it stands PyIceberg's ``add_files``, which gets the list of
files, on a catalog in memory. All give the table's rows as the manifests count them.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import date, timedelta
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StaticTable

from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, growth_at_most, measure
from metastore.engines.engine import Engine, LocalEngine
from metastore.procedures.hive.metrics import FRAGMENT, read_metrics
from metastore.procedures.hive.migration.staging import NewIcebergTable, stage
from metastore.procedures.hive.migration.survey import survey_files
from metastore.sources.hive.listing import HiveStore, NestedDirectories
from metastore.sources.hive.tables import FORMAT_CLASSES, HiveFormat, HiveTable
from metastore.spark import SparkEngine

QUESTION: Final = "Hive's files into an Iceberg table"
CASE: Final = "20 columns; items are files"
ON_SPARK: Final = f"{OURS} on Spark"
BY_PYICEBERG: Final = "PyIceberg add_files"

FILES: Final = (2_000, 20_000)
_ROWS: Final = 500
_CHUNK_FILES: Final = 250
_KINDS: Final[tuple[tuple[str, Callable[[int], Any]], ...]] = (
    ("bigint", lambda number: number),
    ("double", lambda number: number / 7),
    ("string", lambda number: f"value {number}"),
    ("date", lambda number: date(2020, 1, 1) + timedelta(days=number % 3_000)),
)


def run(folder: str, sizes: Sequence[int], pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure tables of each of ``sizes`` files."""
    series: list[Series] = []
    with LocalEngine() as local, closing(SparkEngine(settings={})) as spark:
        say("starting Spark")
        first = os.path.join(folder, "first")
        _build(first, 1)
        _staged(spark, first)  # a session is started once, whatever the number of files
        shutil.rmtree(first)
        for size in sizes:
            say(f"building {size:,} files")
            place = os.path.join(folder, str(size))
            _build(place, size)
            contenders = [
                Contender(OURS, partial(_staged, local), partial(str, place), _rows),
                Contender(ON_SPARK, partial(_staged, spark), partial(str, place), _rows),
                Contender(BY_PYICEBERG, _added, partial(str, place), _rows),
            ]
            say(f"making tables of {size:,} files")
            series += measure(QUESTION, CASE, size, contenders, pace, items=size)
            shutil.rmtree(place)
    return series


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was hoped for: twice as fast as PyIceberg, which reads the same footers, and as fast for more files."""
    few, many = FILES
    return [
        *(beside(series, QUESTION, size, (CASE, OURS), (CASE, BY_PYICEBERG), 2.0) for size in FILES),
        growth_at_most(series, QUESTION, CASE, few, many, 1.2 * many / few),
    ]


def _columns() -> list[tuple[str, str]]:
    return [(f"c{number}", _KINDS[number % len(_KINDS)][0]) for number in range(20)]


def _build(folder: str, files: int) -> None:
    """Files of one content under different names: what differs between footers costs nobody anything."""
    os.makedirs(folder)
    columns = {
        name: [_KINDS[number % len(_KINDS)][1](row) for row in range(_ROWS)]
        for number, (name, _) in enumerate(_columns())
    }
    first = os.path.join(folder, "part-000000")
    pq.write_table(pa.table(columns), first)
    for number in range(1, files):
        shutil.copyfile(first, os.path.join(folder, f"part-{number:06}"))


def _staged(engine: Engine, folder: str) -> str:
    fields = [FieldSchema(name, type_, None) for name, type_ in _columns()]
    input_format = FORMAT_CLASSES[HiveFormat.PARQUET]
    sd = StorageDescriptor(fields, f"file:{folder}", input_format, "", serdeInfo=SerDeInfo(), bucketCols=[])
    table = HiveTable.of(Table("t", "d", sd=sd, parameters={}, partitionKeys=[], tableType="EXTERNAL_TABLE"))
    store = HiveStore({})
    found = survey_files(store, table, (), NestedDirectories.REFUSE)
    batches = engine.run(found.chunks({}, _CHUNK_FILES), read_metrics, FRAGMENT)
    fragments = pa.Table.from_batches(list(batches), FRAGMENT)
    place = f"{table.location}/_iceberg/{uuid.uuid4()}"
    staged = stage(found, fragments, PyArrowFileIO(), place, new_table=NewIcebergTable(table.location, {}), now_ms=0)
    return staged.metadata_location


def _added(folder: str) -> str:
    catalog = load_catalog("memory", type="in-memory", warehouse=f"file://{folder}/_added/{uuid.uuid4()}")
    catalog.create_namespace("d")
    schema = pq.read_schema(os.path.join(folder, "part-000000"))
    table = catalog.create_table("d.t", schema)
    table.add_files(list(_paths(folder)), check_duplicate_files=False)
    place = table.metadata_location
    catalog.close()
    return place


def _paths(folder: str) -> Iterable[str]:
    return (os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.startswith("part-"))


def _rows(metadata_location: str) -> object:
    return StaticTable.from_metadata(metadata_location).scan().count()
