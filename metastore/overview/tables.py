"""``tables``, ``describe``, ``segments`` and ``files``: the metadata of tables, at any kept version."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from metastore.analyze.states import StoredTableState
from metastore.analyze.unprunable import columns_without_bounds
from metastore.components.operations.read import Read
from metastore.components.requests import Request, of_names, of_table
from metastore.errors import NotFoundError
from metastore.ground.epoch import moment_of_millis
from metastore.lake.formats.names import PARQUET
from metastore.model.bounds.units import FILE_COUNT, ROW_COUNT
from metastore.model.column_path import parse, quote, sql_name
from metastore.model.identity import TableInfo
from metastore.model.statistics import ColumnStatistics, Value
from metastore.model.statistics_json import read_column_holders, read_level, read_row_count
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import DEFAULT_SEGMENT, IDENTIFIER_SEPARATOR, MetadataType, Statistic
from metastore.overview.file_summaries import SUMMARY_FACTS, FileSummaries, summaries
from metastore.overview.natural_order import natural_order
from metastore.overview.time_travel import version_at
from metastore.session import Session


@dataclass(frozen=True)
class TableSummary:
    """One table; ``rows`` and ``level`` are None if ANALYZE did not determine them."""

    table: str
    rows: int | None
    level: str | None
    modified: datetime | None
    owner: str | None
    location: str | None


@dataclass(frozen=True)
class TableList:
    """The tables of one version, by name; all of them, or those that match a ``pattern``.

    ``metastore`` is the location that was looked at.
    """

    version: int
    tables: tuple[TableSummary, ...]
    pattern: str | None = None
    metastore: str | None = None


@dataclass(frozen=True)
class ColumnSummary:
    """One leaf column of the table; unknown values are None.

    ``distinct`` is an estimate; ``cannot_prune`` is the reason why no condition on the column skips files.
    ``histogram`` has the borders of buckets with equal numbers of rows; it is empty if none was made.
    """

    name: str
    type: str
    nulls: int | None
    min: Value | None
    max: Value | None
    min_exact: bool
    max_exact: bool
    rows: int | None
    distinct: int | None = None
    cannot_prune: str | None = None
    histogram: tuple[float, ...] = ()


@dataclass(frozen=True)
class TableDescription:
    """One table: its summary, its number of metadata units by type, its directory keys, and its columns."""

    version: int
    summary: TableSummary
    type: str | None
    units: Mapping[str, int]
    partition_keys: Mapping[str, str]
    columns: tuple[ColumnSummary, ...]


@dataclass(frozen=True)
class SegmentSummary:
    """One directory of the table, including its subdirectories."""

    segment: str
    location: str | None
    rows: int | None
    files: int
    modified: datetime | None


@dataclass(frozen=True)
class SegmentList:
    """The segments of a table, by name."""

    version: int
    table: str
    segments: tuple[SegmentSummary, ...]


@dataclass(frozen=True)
class FileList:
    """The files of a table, or of one of its segments, by name."""

    version: int
    table: str
    segment: str | None
    files: FileSummaries


_NAME_COLUMNS: Final = ("storagePlugin", "workspace", "tableName")
_SUMMARY_COLUMNS: Final = (
    *_NAME_COLUMNS,
    "owner",
    "location",
    "lastModifiedTime",
    "metadataStatistics",
)
_DESCRIBED: Final = (
    *_SUMMARY_COLUMNS,
    "tableType",
    "schema",
    "columnsStatistics",
    "partitionKeys",
    "additionalMetadata",
)


def tables(session: Session, pattern: str | None = None, at: str | None = None) -> TableList:
    """Returns the tables whose name matches the shell ``pattern``, or all."""
    version = version_at(session, at)
    read = session.metastore.tables.read().metadata_types(MetadataType.TABLE).at(version)
    if pattern is not None:
        # Manifests hold the names, so only the files of matching tables are opened.
        named = read.columns(*_NAME_COLUMNS).to_arrow().to_pylist()
        read = read.filter(of_names(each["tableName"] for each in named if _matches(each, pattern)))
    units = read.columns(*_SUMMARY_COLUMNS).to_arrow().to_pylist()
    found = (_table_summary(unit) for unit in units if pattern is None or _matches(unit, pattern))
    listed = tuple(sorted(found, key=lambda each: each.table))
    return TableList(version, listed, pattern, session.settings.iceberg.base_location)


def describe(session: Session, table: str, at: str | None = None) -> TableDescription:
    """Returns one table with its columns. Raises NotFoundError if the version does not have it."""
    version = version_at(session, at)
    info = session.table_info(table)
    found = describe_tables(session, [info], version)
    if not found:
        raise session.no_metadata(info)
    every = (
        session.metastore.tables.read().metadata_types(MetadataType.ALL).filter(of_table(info)).columns("metadataType")
    )
    kinds: Counter[str] = Counter()
    for batch in every.at(version).to_batches():
        named: list[Any] = batch["metadataType"].to_pylist()
        kinds.update(named)
    return replace(found[0], units={str(kind): kinds[kind] for kind in MetadataType if kinds[kind]})


def describe_tables(session: Session, tables: Collection[TableInfo], version: int) -> list[TableDescription]:
    """Returns those of ``tables`` that the version has, by name, in one read; ``units`` of each is empty."""
    read = session.metastore.tables.read().metadata_types(MetadataType.TABLE).at(version)
    read = read.filter(of_table(next(iter(tables))) if len(tables) == 1 else of_names(each.name for each in tables))
    units = read.columns(*_DESCRIBED).to_arrow().to_pylist()
    wanted = {str(each) for each in tables}
    return sorted(
        (_describe_table(unit, version) for unit in units if _name(unit) in wanted), key=lambda each: each.summary.table
    )


def segments(session: Session, table: str, at: str | None = None) -> SegmentList:
    """Returns the segments of a table, nested ones included. Raises NotFoundError if the version does not have it."""
    version, info, read = _units_of_table(session, table, at)
    facts = read.metadata_types(MetadataType.SEGMENT).facts(
        "metadataIdentifier", "location", ROW_COUNT, FILE_COUNT, "lastModifiedTime"
    )
    found = [
        SegmentSummary(identifier, location, rows, files or 0, _moment(modified))
        for each in facts
        for identifier, location, rows, files, modified in zip(*(c.to_pylist() for c in each.columns), strict=True)
    ]
    if not found:
        describe(session, table, str(version))  # a table may have no segments, but it must exist
    return SegmentList(version, str(info), tuple(sorted(found, key=lambda each: natural_order(each.segment))))


def files(session: Session, table: str, segment: str | None = None, at: str | None = None) -> FileList:
    """Returns the files of a table, or those of ``segment`` and its nested segments.

    Raises what :func:`segments` raises, and NotFoundError if the table has no such segment.
    """
    version, info, read = _units_of_table(session, table, at)
    if segment is not None:
        read = read.filter(Request(metadata_keys=[segment.partition(IDENTIFIER_SEPARATOR)[0]]).expression())
    facts = read.metadata_types(MetadataType.FILE, MetadataType.ROW_GROUP).facts(*SUMMARY_FACTS)
    found = summaries(facts, lambda identifiers: _lie_in(identifiers, segment))
    if not found:
        describe(session, table, str(version))
        if segment is not None:
            raise NotFoundError(f"{info} has no segment {segment}; `metastore segments {info}` lists those that it has")
    return FileList(version, str(info), segment, found)


def _units_of_table(session: Session, table: str, at: str | None) -> tuple[int, TableInfo, Read[TableMetadataUnit]]:
    version = version_at(session, at)
    info = session.table_info(table)
    return version, info, session.metastore.tables.read().filter(of_table(info)).at(version)


def _name(unit: Mapping[str, Any]) -> str:
    return str(TableInfo(*(unit[column] for column in _NAME_COLUMNS)))


def _matches(unit: Mapping[str, Any], pattern: str) -> bool:
    return fnmatch.fnmatchcase(_name(unit), pattern)


def _describe_table(unit: Mapping[str, Any], version: int) -> TableDescription:
    return TableDescription(
        version=version,
        summary=_table_summary(unit),
        type=unit["tableType"],
        units={},
        partition_keys=dict(unit["partitionKeys"] or ()),
        columns=tuple(_columns(unit)),
    )


def _table_summary(unit: Mapping[str, Any]) -> TableSummary:
    return TableSummary(
        table=_name(unit),
        rows=read_row_count(unit["metadataStatistics"]),
        level=read_level(unit["metadataStatistics"] or ()),
        modified=_moment(unit["lastModifiedTime"]),
        owner=unit["owner"],
        location=unit["location"],
    )


def _columns(unit: Mapping[str, Any]) -> Iterable[ColumnSummary]:
    """Each leaf column in schema order, then those that only statistics name; with the reason if it cannot prune."""
    schema = TupleSchema.from_json(unit["schema"]) if unit["schema"] else TupleSchema()
    statistics = {**schema.directory_statistics, **dict(unit["columnsStatistics"] or ())}
    types = {quote(path): type_ for path, type_ in schema.leaves()}
    bounds = StoredTableState.of(unit["additionalMetadata"]).bounds
    reasons = columns_without_bounds(schema, statistics, bounds, unit["tableType"] or PARQUET)
    for key in (*types, *(key for key in statistics if key not in types)):
        known = ColumnStatistics.from_json(statistics[key]) if key in statistics else ColumnStatistics("")
        distinct, histogram = _descriptive(statistics.get(key))
        yield ColumnSummary(
            name=".".join(parse(key)),
            type=types.get(key, known.type),
            nulls=known.nulls,
            min=known.min,
            max=known.max,
            min_exact=known.min_exact,
            max_exact=known.max_exact,
            rows=known.rows,
            distinct=distinct,
            cannot_prune=reasons.get(sql_name(parse(key))),
            histogram=histogram,
        )


def _descriptive(statistics: str | None) -> tuple[int | None, tuple[float, ...]]:
    """Returns the number of distinct values and a histogram's borders, as COMPUTE STATISTICS estimated them."""
    if statistics is None or Statistic.DISTINCT not in statistics:
        return None, ()
    holders = read_column_holders(statistics)
    return int(holders[Statistic.DISTINCT]), tuple((holders.get(Statistic.HISTOGRAM) or {}).get("buckets", ()))


def _moment(epoch_ms: int | None) -> datetime | None:
    # ANALYZE writes 0 if there is no file with a modification time.
    return moment_of_millis(epoch_ms) if epoch_ms else None


def _lie_in(identifiers: pa.ChunkedArray[Any], segment: str | None) -> Any:
    """Returns which of the files are in ``segment`` or its nested segments."""
    if segment is None:
        return pa.repeat(pa.scalar(value=True), len(identifiers))
    if segment == DEFAULT_SEGMENT:
        return pc.invert(pc.match_substring(identifiers, IDENTIFIER_SEPARATOR))
    return pc.starts_with(identifiers, segment.rstrip(IDENTIFIER_SEPARATOR) + IDENTIFIER_SEPARATOR)
