"""Rolls fragments of many tasks up to the units of a table, level by level. Pure: Arrow tables in, Arrow tables out.

Parts (:mod:`metastore.analyze.units.partial_aggregates`) are added up to nested segments, those to top-level segments,
and those to the table. The order does not matter, so an incremental run has the same result as a full one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from metastore.analyze.changes import WantedMetadata
from metastore.analyze.levels import reaches
from metastore.analyze.states import StoredTableState, stored_state, table_fingerprint
from metastore.analyze.units.constants import constant_values
from metastore.analyze.units.decided_columns import decide_columns, without_values
from metastore.analyze.units.gathering import side_by_side
from metastore.analyze.units.partial_aggregates import (
    Directories,
    Part,
    column_statistics,
    file_statistics,
    row_counts,
    schema_of,
    without_statistics,
)
from metastore.analyze.units.total import Total
from metastore.analyze.units.unit_rows import UnitRow, modified_times, to_batch, values
from metastore.errors import InvalidRequestError
from metastore.lake.formats.bounds_from_data import AUTO
from metastore.model.column_path import ColumnPath, is_among, parse, quote
from metastore.model.drill_types import DrillType, parse_type, spelled_for_drill
from metastore.model.elements import is_element
from metastore.model.identity import metadata_key, partition_identifier, segment_identifier
from metastore.model.sketches.description import descriptions_text
from metastore.model.statistics import ColumnStatistics, merge
from metastore.model.statistics_json import holder_json, level_holder
from metastore.model.tuple_schema import CASE_SENSITIVE, KEPT, TupleSchema, directory_column
from metastore.model.vocabulary import GENERAL_INFO, MetadataType, Statistic
from metastore.sources.directories import DirectoryColumns, column_of, directories_of, key_of, named_values
from metastore.sources.source_table import SourceTable


def segment_units(
    source: SourceTable,
    schema: pa.Schema,
    parts: Sequence[Part],
    details: pa.Table,
    *,
    level: MetadataType,
    states: Mapping[str, str],
    is_flat: bool,
) -> tuple[pa.Table, list[Part]]:
    """The stored units of whole top-level segments, and each segment's part for the table's roll-up.

    ``parts`` and ``details`` (FILE and ROW_GROUP rows) cover every file of these segments. ``states`` has the state of
    each segment's files by key (:mod:`metastore.analyze.changes`); the state is stored with the segment. ``is_flat``
    means that the table has no directories.
    """
    own = _by_directory(parts)
    segments = _sum_segments(own)
    tops = [segment for segment in segments if len(segment.directories) <= 1]
    rows: list[UnitRow] = []
    if reaches(level, MetadataType.SEGMENT):
        rows.extend(segment_row(source, segment, states) for segment in segments)
    if reaches(level, MetadataType.PARTITION):
        for top, files in _files_of(tops, details):
            partitions = list(_partition_rows(source, top, files))
            if not partitions and not is_flat:
                inside = [part for part in own.values() if part.directories[:1] == top.directories]
                partitions = [_directory_row(part) for part in inside]
            rows.extend(partitions)
    kept = details if reaches(level, MetadataType.FILE) else details.slice(0, 0)
    return side_by_side(schema, pa.Table.from_batches([to_batch(schema, source.table, rows)]), kept), tops


def _by_directory(parts: Sequence[Part]) -> dict[Directories, Part]:
    """The sum of the files directly in each directory, however tasks divided them."""
    own: dict[Directories, list[Part]] = {}
    for part in parts:
        own.setdefault(part.directories, []).append(part)
    return {directories: Part.sum_of(directories, several) for directories, several in own.items()}


def _sum_segments(own: Mapping[Directories, Part]) -> list[Part]:
    """Every segment that contains files, top-level and nested, sorted by directories."""
    levels = {directories[:depth] for directories in own for depth in range(1, len(directories) + 1)}
    below: dict[Directories, list[Part]] = {}
    segments = []
    for directories in sorted(levels | own.keys(), key=lambda path: (-len(path), path)):
        joined = [*below.pop(directories, ())]
        if directories in own:
            joined.append(own[directories])
        segment = Part.sum_of(directories, joined) if len(joined) > 1 or directories not in own else joined[0]
        segments.append(segment)
        if len(directories) > 1:
            below.setdefault(directories[:-1], []).append(segment)
    return sorted(segments, key=lambda segment: segment.directories)


def table_unit(
    source: SourceTable,
    schema: pa.Schema,
    total: Total,
    directories: Collection[Directories],
    *,
    owner: str,
    request: WantedMetadata,
    states: Mapping[str, str],
) -> pa.Table:
    """The one TABLE unit, from the ``total`` of all segments and the ``directories`` of the table's files.

    ``states`` are those of the segments by key. Raises InvalidRequestError if the files' values do not fit the declared
    schema, or if it lacks a requested column.
    """
    whole = total.part
    of_files = whole.schema
    whole = decide_columns(whole, source, request)
    if states:
        refuse_unknown_columns(request.named, whole.schema)
    known: dict[str, DrillType | None]
    if source.partition_columns is None:
        known = dict.fromkeys(whole.schema.by_name)
    else:
        known = {name: parse_type(type_) for name, type_ in source.partition_columns.items()}
    found = DirectoryColumns(directories, known=known, case_sensitive=request.case_sensitive)
    if source.partition_columns is None:
        columns = {column.path[0]: str(column.type) for column in found.columns}
        keys = _partition_keys(directories, columns, case_sensitive=request.case_sensitive)
    else:
        keys = {name: f"dir{level}" for level, name in enumerate(source.partition_columns)}
        columns = dict(source.partition_columns)
    names = {column.name for column in whole.schema.columns}
    bounds = {
        column.key: one.to_json()
        for column in found.columns
        if column.path[0] not in names and (one := found.bounds(column.key, whole.rows if whole.whole else None))
    }
    # Plain directories (dir0, …) come first; a directory level adds a column only if its name is free.
    in_order = sorted(keys, key=lambda name: keys[name] != name)
    added = [
        directory_column(name, columns[name], keys[name], None if name == keys[name] else bounds.get(quote((name,))))
        for name in in_order
        if name in columns and name not in names
    ]
    # A directory's column hides a file's column of that name, whose statistics would be taken for the visible column's.
    whole = without_values(whole, keys.keys() & names)
    plain = {key: bounds[key] for name in keys if name == keys[name] and (key := quote((name,))) in bounds}
    # The next run can subtract from this unit only if it can tell which columns come from the files.
    is_alike = request.declared is not None or whole.schema.columns == of_files.columns
    is_separable = request.level is not MetadataType.TABLE and names.isdisjoint(keys) and is_alike
    state = StoredTableState(
        table_fingerprint(states),
        request.describing,
        request.declared,
        total.segment_states(states) if is_separable else None,
        request.text_options,
        request.text_is_own,
        request.bounds or AUTO,
        request.bounds_are_own,
    )
    properties = (
        {KEPT: "true"} if source.columns is not None else {CASE_SENSITIVE: "true"} if request.case_sensitive else {}
    )
    row = UnitRow(
        metadataType=MetadataType.TABLE,
        metadataKey=GENERAL_INFO,
        metadataIdentifier=GENERAL_INFO,
        schema=TupleSchema((*whole.schema.columns, *added), {**whole.schema.properties, **properties}).to_json(),
        statistics_keys=(*whole.statistics, *plain),
        statistics_texts=(*whole.texts, *plain.values()),
        metadataStatistics=(
            whole.row_count,
            level_holder(request.level),
            *(() if request.describing is None else (holder_json(Statistic.HAS_DESCRIPTIVE, True, exact=False),)),
        ),
        lastModifiedTime=whole.modified,
        location=source.location,
        additionalMetadata=descriptions_text(whole.descriptions, state.to_text()),
        owner=owner,
        tableType=request.format,
        interestingColumns=None if request.columns is None else [quote(path) for path in request.columns],
        partitionKeys=keys,
    )
    return pa.Table.from_batches([to_batch(schema, source.table, [row])])


def refuse_unknown_columns(columns: Iterable[ColumnPath], schema: TupleSchema) -> None:
    """Raises InvalidRequestError for a column that the table does not have; names are case-sensitive."""
    leaves = [path for path, _ in schema.leaves()]
    for column in columns:
        if not any(is_among(leaf, (column,)) for leaf in leaves):
            known = ", ".join(quote(leaf) for leaf in leaves)
            raise InvalidRequestError(f"there is no column {quote(column)} to analyze; the table has {known}")


def segment_row(source: SourceTable, part: Part, states: Mapping[str, str]) -> UnitRow:
    """The SEGMENT unit of one segment, top-level or nested; only a top-level segment has a state among ``states``."""
    key = metadata_key(part.directories)
    place = "/".join((source.location, *part.directories))
    depth = len(part.directories)
    state = stored_state(source.table, key, states[key]) if depth <= 1 else None
    return UnitRow(
        metadataType=MetadataType.SEGMENT,
        metadataKey=key,
        metadataIdentifier=segment_identifier(part.directories),
        schema=part.schema.to_json(),
        statistics_keys=tuple(part.statistics),
        statistics_texts=part.texts,
        metadataStatistics=(part.row_count,),
        lastModifiedTime=part.modified,
        location=place,
        path=place,
        column=quote((f"dir{depth - 1}",)) if depth else None,
        locations=part.files,
        partitionValues=part.directories or None,
        additionalMetadata=descriptions_text(part.descriptions, state),
    )


def _files_of(tops: Sequence[Part], details: pa.Table) -> Iterator[tuple[Part, _Files]]:
    """The FILE rows of every top-level segment. They are found by two short columns; the long ones are not copied."""
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
        """The columns that are constant in the first file with rows: only these can be constant in all files."""
        for position in self.positions:
            file = self.columns.slice(position, 1)
            [rows] = row_counts(file)
            if rows:
                [known], [schema] = file_statistics(file), values(file, "schema")
                return [
                    key
                    for key in keys
                    if constant_values([known.get(key) or without_statistics(schema_of(schema), parse(key), rows)])
                ]
        return []

    def sort_by_path(self) -> pa.Table:
        """All rows, by path."""
        return self.columns.take(pa.array(self.positions, pa.int64())).sort_by("path")


def _partition_rows(source: SourceTable, top: Part, chosen: _Files) -> Iterator[UnitRow]:
    """PARTITION units of one top-level segment: one for each directory and value of each constant column."""
    hidden = {name for path in top.files for name in named_values(directories_of(path, source.location))}
    own = [key for key in top.statistics if not is_element(parse(key))]
    keys = [key for key in chosen.constant_in_one(own) if parse(key)[0].lower() not in hidden]
    if not keys:
        return
    files = chosen.sort_by_path()
    rows = row_counts(files)
    paths, places, modified = values(files, "path"), values(files, "location"), modified_times(files)
    schema = top.schema.to_json()
    for key in keys:
        statistics = _of_files(files, key)
        constants = constant_values(statistics)
        groups: dict[tuple[str, str | None], list[int]] = {}
        for position, value in enumerate(constants or ()):
            if rows[position]:
                groups.setdefault((places[position], value), []).append(position)
        for (place, value), positions in groups.items():
            directories = directories_of(f"{place}/", source.location)
            known = _with_unknown(top.schema, key, merge(statistics[position] for position in positions))
            yield UnitRow(
                metadataType=MetadataType.PARTITION,
                metadataKey=metadata_key(directories),
                metadataIdentifier=partition_identifier(directories, value),
                schema=schema,
                statistics_keys=tuple(known),
                statistics_texts=tuple(known.values()),
                metadataStatistics=(holder_json(Statistic.ROW_COUNT, sum(rows[position] for position in positions)),),
                lastModifiedTime=max(modified[position] for position in positions),
                column=key,
                locations=[paths[position] for position in positions],
                partitionValues=(value,),
            )


def _directory_row(part: Part) -> UnitRow:
    """A PARTITION unit of one directory's files, with the directory itself as their common value.

    Written if no column of the data is constant. Once Drill has pruned a partition, it also skips all files that are in
    no partition.
    """
    value = part.directories[-1] if part.directories else None
    column = quote((f"dir{max(0, len(part.directories) - 1)}",))
    nulls, non_nulls = (part.rows, 0) if value is None else (0, part.rows)
    known = _with_unknown(part.schema, column, ColumnStatistics("VARCHAR", value, value, True, True, nulls, non_nulls))
    return UnitRow(
        metadataType=MetadataType.PARTITION,
        metadataKey=metadata_key(part.directories),
        metadataIdentifier=partition_identifier(part.directories, value),
        schema=part.schema.to_json(),
        statistics_keys=tuple(known),
        statistics_texts=tuple(known.values()),
        metadataStatistics=(part.row_count,),
        lastModifiedTime=part.modified,
        column=column,
        locations=part.files,
        partitionValues=(value,),
    )


def _with_unknown(schema: TupleSchema, key: str, statistics: ColumnStatistics) -> dict[str, str]:
    """Statistics of a partition's column, and "unknown" for columns that Drill would otherwise take for null.

    Drill does so for columns that it reads as INT: it has no other sign that files lack a column.
    """
    unknown = {quote(path): _UNKNOWN for path, type_ in schema.leaves() if spelled_for_drill(type_) == "INT"}
    return {**unknown, key: statistics.to_json()}


_UNKNOWN: Final = ColumnStatistics("INT").to_json()


def _of_files(files: pa.Table, key: str) -> list[ColumnStatistics]:
    """Each file's statistics of one column."""
    path = parse(key)
    return [
        found if found is not None else without_statistics(schema_of(schema), path, rows)
        for found, schema, rows in zip(
            column_statistics(files, key), values(files, "schema"), row_counts(files), strict=True
        )
    ]


def _partition_keys(
    directories: Iterable[Directories], columns: Iterable[str], *, case_sensitive: bool
) -> dict[str, str]:
    """Column name to directory level: ``k`` for a directory ``k=v``, ``dirN`` for a plain one.

    Names are spelled as in ``columns``.
    """
    called = {key_of(name, case_sensitive=case_sensitive): name for name in columns}
    keys: dict[str, Any] = {}
    for levels in sorted(directories):
        for level, directory in enumerate(levels):
            named = column_of(directory)
            name = f"dir{level}" if named is None else named[0]
            keys.setdefault(called.get(key_of(name, case_sensitive=case_sensitive), name), f"dir{level}")
    return dict(sorted(keys.items(), key=lambda item: (item[1], item[0])))
