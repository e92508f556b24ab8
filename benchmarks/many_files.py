"""Question: the time to choose, of a table's 100,000 files in 1,000 segments, those that a query must read.

No file is made: all sides know the same names, counts and bounds (:mod:`benchmarks.peers.files_by_bounds`). Ours trusts
what it knows, as the others do (``list_files=False``), so no directory is listed. One query falls into one segment, one
touches a tenth of all, and one keeps every file. The last is also compared with a made-up listing. Then come fifty
conditions, and a list of 10,000 values. "Just opened" is a new session, and a table that was just loaded; else both
have been used before. PyIceberg is asked of 100,000 files at most: it takes minutes to make more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import In
from pyiceberg.table import Table

from benchmarks.measuring import OURS, Contender, Pace, Series, measure
from benchmarks.peers.files_by_bounds import (
    MadeUpFiles,
    by_delta,
    by_duckdb,
    delta_log,
    iceberg_table,
    typed_bounds,
)
from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.model.identity import TableInfo, file_identifier, row_group_identifier
from metastore.model.statistics import ColumnStatistics
from metastore.model.statistics_json import holder_json
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.model.vocabulary import GENERAL_INFO, MetadataType, Statistic
from metastore.scan.pruning.listed_files import ListedFiles
from metastore.scan.pruning.prune import prune
from metastore.scan.pruning.stored_units import StoredUnits
from metastore.session import Session

QUESTION: Final = "prune"
FILES: Final = 100_000
FILES_OF_A_SEGMENT: Final = 100

ROWS: Final = 1_000
"""Of each file: its ids are a thousand that follow those of the file before."""
TABLE: Final = TableInfo("dfs", "tmp", "orders")
_ROOT: Final = "/data/orders"
_UNITS_OF_A_TRANSACTION: Final = 20_000
_MOST_OF_PYICEBERG: Final = 100_000
_VALUES: Final = 10_000
_PARTS: Final = 50
_SCHEMA_JSON: Final = TupleSchema((SchemaColumn("id", "BIGINT"),)).to_json()


def run(folder: str, files: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure over so many files, a multiple of 100; what is built is in ``folder`` and stays there."""
    made_up = MadeUpFiles(_ROOT, files, FILES_OF_A_SEGMENT, ROWS)
    say(f"building units, a log and bounds of {files:,} files")
    settings = settings_at(folder)
    fill(settings, files, FILES_OF_A_SEGMENT)
    bounds, delta = f"{folder}/bounds.parquet", f"{folder}/delta"
    typed_bounds(made_up, bounds)
    delta_log(made_up, delta)
    loaded = DeltaTable(delta)
    iceberg: Table | None = None
    if files <= _MOST_OF_PYICEBERG:
        say(f"building manifests of {files:,} files")
        catalog = SqlCatalog("peer", uri=f"sqlite:///{folder}/peer.db", warehouse=f"file://{folder}/peer")
        iceberg = iceberg_table(made_up, catalog)
    rows = files * ROWS
    queries = {
        "one segment": (rows // 2, rows // 2 + ROWS),
        "a tenth of the files": (rows // 2, rows // 2 + rows // 10),
        "every file": (0, rows),
    }
    with Session(Metastore.open(settings)) as session:
        _prune(session, "id >= 0")(None)  # The first question of a session is measured by itself.
        series: list[Series] = []
        for case, (low, high) in queries.items():
            where = f"id >= {low} and id < {high}"
            opened = [
                Contender(OURS, _prune(session, where), answer=int),
                Contender("DuckDB, typed bounds", _duckdb(bounds, low, high), answer=int),
                Contender("delta-rs, add actions", _delta(lambda: loaded, low, high), answer=int),
            ]
            just_opened = [
                Contender(OURS, _prune_opened(settings, where), answer=int),
                Contender("DuckDB, typed bounds", _duckdb(bounds, low, high), answer=int),
                Contender("delta-rs, add actions", _delta(lambda: DeltaTable(delta), low, high), answer=int),
            ]
            if iceberg is not None:
                opened.append(Contender("PyIceberg, plan_files", _plan(iceberg, where), answer=int))
            for name, contenders in ((case, opened), (f"{case}, just opened", just_opened)):
                say(f"prune: {name}")
                series += measure(QUESTION, name, files, contenders, pace, items=files)
        say("prune: every file, compared with a listing")
        contender = Contender(OURS, _prune_listed(session, f"id >= 0 and id < {rows}", _listing(files)), answer=int)
        series += measure(QUESTION, "every file, compared with a listing", files, [contender], pace, items=files)
        every_second = range(0, min(rows, _VALUES * 2 * ROWS), 2 * ROWS)
        parts = " or ".join(f"id = {(part * 7919) % rows} and id < {rows}" for part in range(_PARTS // 2))
        for name, question in (
            (f"{_PARTS} conditions", parts),
            (f"a list of {len(every_second):,} values", In("id", set(every_second))),
        ):
            say(f"prune: {name}")
            contender = Contender(OURS, _prune(session, question), answer=int)
            series += measure(QUESTION, name, files, [contender], pace, items=files)
    return series


def _prune(session: Session, where: Any) -> Callable[[object], int]:
    return lambda _: len(session.prune(str(TABLE), where, list_files=False).files)


def _listing(files: int) -> ListedFiles:
    """The files as a listing would find them, unchanged."""
    folders = ((file, f"{_ROOT}/{_key(file // FILES_OF_A_SEGMENT)}") for file in range(files))
    return ListedFiles.of({f"{folder}/{_name(file)}": (1, 1) for file, folder in folders})


def _prune_listed(session: Session, where: str, listing: ListedFiles) -> Callable[[object], int]:
    tables = session.metastore.tables
    return lambda _: len(prune(where, StoredUnits(tables, TABLE, tables.metadata.version), listing=listing).files)


def _prune_opened(settings: Settings, where: str) -> Callable[[object], int]:
    def prune(_: object) -> int:
        with Session(Metastore.open(settings)) as session:
            return len(session.prune(str(TABLE), where, list_files=False).files)

    return prune


def _duckdb(bounds: str, low: int, high: int) -> Callable[[object], int]:
    return lambda _: by_duckdb(bounds, low, high).num_rows


def _delta(table: Callable[[], DeltaTable], low: int, high: int) -> Callable[[object], int]:
    return lambda _: by_delta(table(), low, high).num_rows


def _plan(table: Table, where: str) -> Callable[[object], int]:
    return lambda _: sum(1 for _ in table.scan(row_filter=where).plan_files())


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


def _key(segment: int) -> str:
    return f"part={segment:06d}"


def _name(file: int) -> str:
    return f"{file:08d}.parquet"


def _segment(number: int, files: int, *, row_groups: bool) -> Iterator[TableMetadataUnit]:
    key = _key(number)
    first = number * files
    names = [_name(file) for file in range(first, first + files)]
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
        metadata_statistics=(
            holder_json(Statistic.ROW_COUNT, rows),
            holder_json(Statistic.LENGTH, 1),
            holder_json(Statistic.MODIFICATION_TIME_NANOS, 1),
        ),
        **values,
    )
