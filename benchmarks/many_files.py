"""Question: the time to choose, of a table's 100,000 files in 1,000 segments, those that a query must read.

No file is made: both sides know the same names, counts and bounds, ours as units and PyIceberg as entries of manifests,
1,000 files in each, in the order of the bounds: the best that it can have. Ours trusts what it knows, as PyIceberg does
(``list_files=False``), so no directory is listed. One query falls into one segment, one touches a tenth of all, and
one keeps every file. Warm: the session and the table have been used before, for other queries.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from benchmarks.measuring import OURS, Contender, Pace, Series, measure
from metastore.config.settings import Settings
from metastore.metastore import Metastore
from metastore.model.identity import TableInfo, file_identifier, row_group_identifier
from metastore.model.statistics import ColumnStatistics
from metastore.model.statistics_json import holder_json
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.model.vocabulary import GENERAL_INFO, MetadataType, Statistic
from metastore.session import Session

QUESTION: Final = "prune"
PEER: Final = "PyIceberg, plan_files"
FILES: Final = 100_000
FILES_OF_A_SEGMENT: Final = 100

ROWS: Final = 1_000
"""Of each file: its ids are a thousand that follow those of the file before."""
TABLE: Final = TableInfo("dfs", "tmp", "orders")
_ROOT: Final = "/data/orders"
_UNITS_OF_A_TRANSACTION: Final = 20_000
_FILES_OF_AN_APPEND: Final = 1_000
_SCHEMA_JSON: Final = TupleSchema((SchemaColumn("id", "BIGINT"),)).to_json()


def run(folder: str, files: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure over so many files, a multiple of 100; what is built is in ``folder`` and stays there."""
    say(f"building units of {files:,} files")
    ours = _ours(folder, files)
    say(f"building manifests of {files:,} files")
    catalog = SqlCatalog("peer", uri=f"sqlite:///{folder}/peer.db", warehouse=f"file://{folder}/peer")
    theirs = _theirs(catalog, files)
    rows = files * ROWS
    queries = {
        "one segment": (rows // 2, rows // 2 + ROWS),
        "a tenth of the files": (rows // 2, rows // 2 + rows // 10),
        "every file": (0, rows),
    }
    with ours, catalog:
        series: list[Series] = []
        for case, (low, high) in queries.items():
            say(f"prune: {case}")
            where = f"id >= {low} and id < {high}"
            contenders = [
                Contender(OURS, _prune(ours, where), answer=int),
                Contender(PEER, _plan(theirs, where), answer=int),
            ]
            series += measure(QUESTION, case, files, contenders, pace, items=files)
    return series


def _prune(session: Session, where: str) -> Callable[[object], int]:
    return lambda _: len(session.prune(str(TABLE), where, list_files=False).files)


def _plan(table: Table, where: str) -> Callable[[object], int]:
    return lambda _: sum(1 for _ in table.scan(row_filter=where).plan_files())


def _ours(folder: str, files: int) -> Session:
    settings = settings_at(folder)
    fill(settings, files, FILES_OF_A_SEGMENT)
    return Session(Metastore.open(settings))


def settings_at(folder: str) -> Settings:
    """Those of our metastore in ``folder``."""
    location = {"base_path": folder, "relative_path": "ours"}
    return Settings.from_mapping({"drill.metastore.iceberg.location": location})


def fill(settings: Settings, files: int, files_of_a_segment: int, *, row_groups: bool = False) -> None:
    """Describe a table of so many files, with a row group each if they are to be known."""
    with Metastore.open(settings) as metastore:
        metastore.tables.modify().overwrite([_general(files)]).execute()
        units: list[TableMetadataUnit] = []
        for number in range(files // files_of_a_segment):
            units += _segment(number, files_of_a_segment, row_groups=row_groups)
            if len(units) >= _UNITS_OF_A_TRANSACTION:
                metastore.tables.modify().overwrite(units).execute()
                units = []
        metastore.tables.modify().overwrite(units).execute()


def _segment(number: int, files: int, *, row_groups: bool) -> Iterator[TableMetadataUnit]:
    key = f"part={number:06d}"
    first = number * files
    names = [f"{file:08d}.parquet" for file in range(first, first + files)]
    place = f"{_ROOT}/{key}"
    shared: dict[str, Any] = {"metadata_key": key, "location": place, "last_modified_time": 0}
    yield _unit(
        MetadataType.SEGMENT,
        first,
        files,
        **shared,
        metadata_identifier=key,
        path=place,
        column="`dir0`",
        partition_values=(key,),
        locations=tuple(f"{place}/{name}" for name in names),
    )
    for file, name in enumerate(names, first):
        identifier = file_identifier((key,), name)
        of_file: dict[str, Any] = {**shared, "path": f"{place}/{name}"}
        yield _unit(MetadataType.FILE, file, 1, **of_file, metadata_identifier=identifier)
        if row_groups:
            group = row_group_identifier((key,), name, 0)
            yield _unit(MetadataType.ROW_GROUP, file, 1, **of_file, metadata_identifier=group, row_group_index=0)


def _general(files: int) -> TableMetadataUnit:
    shared: dict[str, Any] = {"metadata_key": GENERAL_INFO, "location": _ROOT, "last_modified_time": 0}
    return _unit(MetadataType.TABLE, 0, files, **shared, table_type="PARQUET", partition_keys={"part": "dir0"})


def _unit(kind: MetadataType, first: int, files: int, **values: Any) -> TableMetadataUnit:
    rows = files * ROWS
    statistics = ColumnStatistics("BIGINT", first * ROWS, first * ROWS + rows - 1, nulls=0, non_nulls=rows)
    return TableMetadataUnit(
        storage_plugin=TABLE.storage_plugin,
        workspace=TABLE.workspace,
        table_name=TABLE.name,
        metadata_type=kind.value,
        schema=_SCHEMA_JSON,
        columns_statistics={"`id`": statistics.to_json()},
        metadata_statistics=(holder_json(Statistic.ROW_COUNT, rows), holder_json(Statistic.LENGTH, 1)),
        **values,
    )


def _theirs(catalog: SqlCatalog, files: int) -> Table:
    catalog.create_namespace("benchmark")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", LongType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table = catalog.create_table(("benchmark", "orders"), schema, partition_spec=spec)
    for start in range(0, files, _FILES_OF_AN_APPEND):
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for file in range(start, min(files, start + _FILES_OF_AN_APPEND)):
                append.append_data_file(_entry(file))
    return table


def _entry(file: int) -> DataFile:
    part = file // FILES_OF_A_SEGMENT
    bounds: Sequence[int] = (file * ROWS, file * ROWS + ROWS - 1)
    low, high = ({1: to_bytes(LongType(), bound)} for bound in bounds)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=os.path.join(_ROOT, f"part={part:06d}", f"{file:08d}.parquet"),
        file_format=FileFormat.PARQUET,
        partition=Record(part),
        record_count=ROWS,
        file_size_in_bytes=1,
        value_counts={1: ROWS},
        null_value_counts={1: 0},
        lower_bounds=low,
        upper_bounds=high,
        spec_id=0,
    )
