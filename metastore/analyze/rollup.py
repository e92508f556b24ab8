"""Fragments of many tasks -> the units of a table, level by level. Pure: Arrow tables in, Arrow tables out.

A :class:`Part` is what some files of one directory come to: schema, statistics, rows, files. Parts are added up to
nested segments, those to top-level segments, those to the table. Adding is associative and commutative (schemas keep
the order of the sorted files), so that it does not matter which parts came from footers just now and which from
units stored long ago: the result of an incremental run is that of a full one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from metastore.analyze.constants import constant_values
from metastore.analyze.levels import reaches
from metastore.analyze.unit_rows import UnitRow, of_kind, to_batch, values
from metastore.errors import InvalidRequestError
from metastore.model.column_path import ColumnPath, parse, quote
from metastore.model.drill_types import NO_TYPE, minor_type, parse_type
from metastore.model.identity import metadata_key, partition_identifier, segment_identifier
from metastore.model.statistics import ColumnStatistics, merge, parse_many
from metastore.model.statistics_json import holder_json, read_holders
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.model.tuple_schema import merge as merge_schemas
from metastore.model.vocabulary import GENERAL_INFO, MetadataType, Statistic
from metastore.pruning.partition_values import DirectoryColumns
from metastore.sources.naming import SourceTable

Directories = tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """What some files below ``directories`` come to; ``files`` are their paths, sorted, ``modified`` is in epoch ms."""

    directories: Directories
    schema: TupleSchema
    statistics: Mapping[str, ColumnStatistics]
    rows: int
    modified: int
    files: Sequence[str]

    @classmethod
    def added(cls, directories: Directories, parts: Sequence[Part]) -> Part:
        """All ``parts`` together, seen as parts of ``directories``; for no parts, no rows."""
        parts = sorted(parts, key=lambda part: list(part.files[:1]))
        schema = merge_schemas(part.schema for part in parts)
        named = dict.fromkeys(key for part in parts for key in part.statistics)
        leaves = {quote(path): path for path, _ in schema.leaves()}
        # Where files disagree on whether a column is nested, the merged schema settles which leaves there are.
        statistics = {key: merge(_of_part(part, key, leaves[key]) for part in parts) for key in leaves if key in named}
        return cls(
            directories,
            schema,
            statistics,
            sum(part.rows for part in parts),
            max((part.modified for part in parts), default=0),
            sorted(file for part in parts for file in part.files),
        )


def segment_parts(rows: pa.Table) -> list[Part]:
    """The parts that SEGMENT rows stand for, fragments and stored units alike."""
    return [
        Part(
            tuple(row["partitionValues"] or ()),
            _schema(row["schema"]),
            _statistics([key for key, _ in row["columnsStatistics"]], [text for _, text in row["columnsStatistics"]]),
            int(read_holders(row["metadataStatistics"])[Statistic.ROW_COUNT]),
            row["lastModifiedTime"],
            row["locations"],
        )
        for row in rows.to_pylist()
    ]


def file_parts(rows: pa.Table, root: str) -> list[Part]:
    """Parts made of stored FILE rows: one for each directory and schema among them."""
    files = of_kind(rows, MetadataType.FILE).sort_by("path")
    groups: dict[tuple[str, str], list[int]] = {}
    for position, group in enumerate(zip(values(files, "location"), values(files, "schema"), strict=True)):
        groups.setdefault(group, []).append(position)
    parts = []
    for (location, schema), positions in groups.items():
        members = files.take(pa.array(positions))
        keys = members["columnsStatistics"][0].as_py()
        merged = {key: merge(_known(_column(members, key))) for key, _ in keys}
        directories = tuple(location[len(root) :].split("/")[1:])
        modified = max(values(members, "lastModifiedTime"))
        parts.append(
            Part(directories, _schema(schema), merged, sum(row_counts(members)), modified, values(members, "path"))
        )
    return parts


def row_counts(units: pa.Table) -> list[int]:
    """The row count of every unit."""
    return [int(read_holders(holders)[Statistic.ROW_COUNT]) for holders in values(units, "metadataStatistics")]


def segment_units(
    source: SourceTable,
    schema: pa.Schema,
    parts: Sequence[Part],
    details: pa.Table,
    *,
    level: MetadataType,
    fingerprints: Mapping[str, str],
) -> tuple[pa.Table, list[Part]]:
    """The stored units of whole top-level segments, and each segment's part for the table's roll-up.

    ``parts`` and ``details`` (FILE and ROW_GROUP rows) cover every file of these segments. ``fingerprints`` tell, by
    key, the state of a segment's files (:mod:`metastore.analyze.changes`); they are stored with the segment.
    """
    segments = _nested(parts)
    tops = [segment for segment in segments if len(segment.directories) <= 1]
    rows: list[UnitRow] = []
    if reaches(level, MetadataType.SEGMENT):
        rows.extend(_segment_row(source, segment, fingerprints) for segment in segments)
    if reaches(level, MetadataType.PARTITION):
        rows.extend(row for top, files in _files_of(tops, details) for row in _partition_rows(source, top, files))
    kept = details if reaches(level, MetadataType.FILE) else details.slice(0, 0)
    return pa.concat_tables([pa.Table.from_batches([to_batch(schema, source.table, rows)]), kept]), tops


def _nested(parts: Sequence[Part]) -> list[Part]:
    """Every segment that ``parts`` lie in, top-level and nested, sorted by directories."""
    own: dict[Directories, list[Part]] = {}
    for part in parts:
        own.setdefault(part.directories, []).append(part)
    levels = {directories[:depth] for directories in own for depth in range(1, len(directories) + 1)}
    below: dict[Directories, list[Part]] = {}
    segments = []
    for directories in sorted(levels | own.keys(), key=lambda path: (-len(path), path)):
        # A directory's own files are one part before its subdirectories join, however tasks had cut them.
        joined = [*below.pop(directories, ())]
        if directories in own:
            joined.append(Part.added(directories, own[directories]))
        segment = Part.added(directories, joined) if len(joined) > 1 or directories not in own else joined[0]
        segments.append(segment)
        if len(directories) > 1:
            below.setdefault(directories[:-1], []).append(segment)
    return sorted(segments, key=lambda segment: segment.directories)


def table_unit(
    source: SourceTable,
    schema: pa.Schema,
    tops: Sequence[Part],
    *,
    owner: str,
    level: MetadataType,
    columns: Sequence[ColumnPath] | None,
    fingerprint: str,
) -> tuple[pa.Table, int]:
    """The one TABLE unit, from the parts of all top-level segments, and the table's row count."""
    whole = Part.added((), tops)
    every_directory = {tuple(directory) for part in tops for directory in _directories(part, source.location)}
    directory_columns = DirectoryColumns(every_directory)
    keys = _partition_keys(every_directory)
    names = {column.name for column in whole.schema.columns}
    added = [
        SchemaColumn(column.path[0], str(column.type))
        for column in directory_columns.columns
        if column.path[0] in keys and column.path[0] not in names
    ]
    row = UnitRow(
        MetadataType.TABLE,
        GENERAL_INFO,
        GENERAL_INFO,
        TupleSchema((*whole.schema.columns, *added), whole.schema.properties).to_json(),
        tuple(whole.statistics),
        [statistics.to_json() for statistics in whole.statistics.values()],
        (
            holder_json(Statistic.ROW_COUNT, whole.rows),
            holder_json(Statistic.ANALYZE_LEVEL, level.value, exact=False),
        ),
        whole.modified,
        location=source.location,
        additionalMetadata=fingerprint,
        owner=owner,
        tableType=source.format,
        interestingColumns=None if columns is None else [quote(path) for path in columns],
        partitionKeys=keys,
    )
    return pa.Table.from_batches([to_batch(schema, source.table, [row])]), whole.rows


def refuse_unknown_columns(columns: Iterable[ColumnPath], schema: TupleSchema) -> None:
    """InvalidRequestError for a column that the table does not have."""
    leaves = [path for path, _ in schema.leaves()]
    for column in columns:
        if not any(leaf[: len(column)] == column for leaf in leaves):
            known = ", ".join(quote(leaf) for leaf in leaves)
            raise InvalidRequestError(f"there is no column {quote(column)} to analyze; the table has {known}")


def _segment_row(source: SourceTable, part: Part, fingerprints: Mapping[str, str]) -> UnitRow:
    key = metadata_key(part.directories)
    place = "/".join((source.location, *part.directories))
    depth = len(part.directories)
    return UnitRow(
        MetadataType.SEGMENT,
        key,
        segment_identifier(part.directories),
        part.schema.to_json(),
        tuple(part.statistics),
        [statistics.to_json() for statistics in part.statistics.values()],
        (holder_json(Statistic.ROW_COUNT, part.rows),),
        part.modified,
        location=place,
        path=place,
        column=quote((f"dir{depth - 1}",)) if depth else None,
        locations=part.files,
        partitionValues=part.directories or None,
        additionalMetadata=fingerprints[key] if depth <= 1 else None,
    )


def _files_of(tops: Sequence[Part], details: pa.Table) -> Iterator[tuple[Part, _Files]]:
    """The FILE rows of every top-level segment; found by two short columns, the long ones are not copied."""
    columns = details.select(
        ["path", "location", "schema", "columnsStatistics", "metadataStatistics", "lastModifiedTime"]
    )
    is_file = pc.equal(details["metadataType"], pa.scalar(MetadataType.FILE.value))
    for top in tops:
        is_own = pc.equal(details["metadataKey"], pa.scalar(metadata_key(top.directories)))
        yield (
            top,
            _Files(columns, [int(position) for position in pc.indices_nonzero(pc.and_(is_file, is_own)).to_numpy()]),
        )


@dataclass(frozen=True)
class _Files:
    """Some FILE rows: those of ``columns`` at ``positions``."""

    columns: pa.Table
    positions: Sequence[int]

    def constant_in_one(self, keys: Iterable[str]) -> list[str]:
        """Which columns are constant in the first file that has rows, and so may be in all of them."""
        for position in self.positions:
            file = self.columns.slice(position, 1)
            if row_counts(file)[0]:
                return [key for key in keys if constant_values(_of_files(file, key)) is not None]
        return []

    def sorted(self) -> pa.Table:
        """All rows, by path."""
        return self.columns.take(pa.array(self.positions, pa.int64())).sort_by("path")


def _partition_rows(source: SourceTable, top: Part, chosen: _Files) -> Iterator[UnitRow]:
    """PARTITION units of one top-level segment: one for each directory and value of each constant column."""
    keys = chosen.constant_in_one(top.statistics)
    if not keys:
        return
    files = chosen.sorted()
    rows = row_counts(files)
    paths, places, modified = values(files, "path"), values(files, "location"), values(files, "lastModifiedTime")
    for key in keys:
        statistics = _of_files(files, key)
        constants = constant_values(statistics)
        groups: dict[tuple[str, str | None], list[int]] = {}
        for position, value in enumerate(constants or ()):
            if rows[position]:
                groups.setdefault((places[position], value), []).append(position)
        for (place, value), positions in groups.items():
            directories = tuple(place[len(source.location) :].split("/")[1:])
            yield UnitRow(
                MetadataType.PARTITION,
                metadata_key(directories),
                partition_identifier(directories, "null" if value is None else value),
                TupleSchema((top.schema.by_name[parse(key)[0]],)).to_json(),
                (key,),
                (merge(statistics[position] for position in positions).to_json(),),
                (holder_json(Statistic.ROW_COUNT, sum(rows[position] for position in positions)),),
                max(modified[position] for position in positions),
                column=key,
                locations=[paths[position] for position in positions],
                partitionValues=(value,),
            )


def _of_files(files: pa.Table, key: str) -> list[ColumnStatistics]:
    """Each file's statistics of one column."""
    path = parse(key)
    return [
        found if found is not None else _without_statistics(_schema(schema), path, rows)
        for found, schema, rows in zip(_column(files, key), values(files, "schema"), row_counts(files), strict=True)
    ]


def _of_part(part: Part, key: str, path: ColumnPath) -> ColumnStatistics:
    found = part.statistics.get(key)
    return found if found is not None else _without_statistics(part.schema, path, part.rows)


def _without_statistics(schema: TupleSchema, path: ColumnPath, rows: int) -> ColumnStatistics:
    """What rows of ``schema`` say of a leaf without statistics: all null if they lack it, else nothing."""
    if _lacks(schema, path):
        return ColumnStatistics(NO_TYPE, nulls=rows, non_nulls=0, rows=rows)
    return ColumnStatistics(minor_type(schema.by_name[path[0]].type), rows=rows)


def _lacks(schema: TupleSchema, path: ColumnPath) -> bool:
    column = schema.by_name.get(path[0])
    if column is None:
        return True
    type_ = parse_type(column.type)
    for name in path[1:]:
        if type_.name != "STRUCT":
            return False
        inner = next((field for field in type_.fields if field.name == name), None)
        if inner is None:
            return True
        type_ = inner.type
    return False


def _column(units: pa.Table, key: str) -> list[ColumnStatistics | None]:
    return parse_many(pc.map_lookup(units["columnsStatistics"], pa.scalar(key), "first").to_pylist())


def _known(statistics: Sequence[ColumnStatistics | None]) -> list[ColumnStatistics]:
    return [one for one in statistics if one is not None]


def _statistics(keys: Sequence[str], texts: Sequence[str]) -> dict[str, ColumnStatistics]:
    return dict(zip(keys, _known(parse_many(texts)), strict=True))


@lru_cache(maxsize=256)
def _schema(text: str) -> TupleSchema:
    """One object for each text, so that merging the schemas of alike files is cheap."""
    return TupleSchema.from_json(text)


def _directories(part: Part, root: str) -> set[Directories]:
    return {tuple(file[len(root) :].split("/")[1:-1]) for file in part.files}


def _partition_keys(directories: Iterable[Directories]) -> dict[str, str]:
    """Column name -> directory level: ``k`` for a directory ``k=v``, ``dirN`` for a plain one."""
    keys: dict[str, Any] = {}
    for levels in sorted(directories):
        for level, directory in enumerate(levels):
            name, equals, _ = directory.partition("=")
            keys.setdefault(name if equals and name else f"dir{level}", f"dir{level}")
    return dict(sorted(keys.items(), key=lambda item: (item[1], item[0])))
