"""Reads what one version of the metastore holds of one table, as an ANALYZE needs it.

Place in the flow: a run reads the table's unit first. If files have changed, it reads the units of their segments. It
reads the units of all other segments only if the table's unit does not hold the required information.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import In

from metastore.analyze.changes import KnownTable
from metastore.analyze.levels import level_named, reaches
from metastore.analyze.states import SegmentStates, StoredTableState
from metastore.analyze.tasks.chunks import UNIT_SCHEMA
from metastore.analyze.units.stored_segments import OF_PARTS, OF_SEGMENTS, states_by_key, top_level
from metastore.analyze.units.total import Total
from metastore.components.operations.read import Read
from metastore.components.requests import of_table
from metastore.components.storage.file_groups import FileGroup
from metastore.components.tables import Tables
from metastore.lake.formats.bounds_from_data import BoundsFrom
from metastore.lake.formats.names import PARQUET
from metastore.lake.formats.source_file import SourceFile
from metastore.model.column_path import is_among, parse
from metastore.model.drill_types import FLOAT_TYPES
from metastore.model.elements import is_element
from metastore.model.identity import TableInfo, segment_identifier
from metastore.model.statistics import ColumnStatistics
from metastore.model.statistics_json import read_holders, read_level
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import DEFAULT_SEGMENT, MetadataType, Statistic
from metastore.sources.directories import Directories, directories_of

_OF_TABLE: Final = ("location", "interestingColumns", "tableType", "partitionKeys", *OF_PARTS)

_KEY: Final = TableMetadataUnit.partition_columns.index("metadataKey")


class StoredMetadata:
    """The units of one table in one version. Each property is read on first use."""

    def __init__(self, tables: Tables, table: TableInfo, version: int) -> None:
        self._tables = tables
        self.table = table
        self._version = version

    @cached_property
    def known_table(self) -> KnownTable | None:
        """What is known of the table as a whole; None if it has not been analyzed."""
        if not self._unit.num_rows:
            return None
        columns = ("location", "interestingColumns", "metadataStatistics", "additionalMetadata", "tableType")
        row: dict[str, Any] = self._unit.select(columns).to_pylist()[0]
        level = read_level(row["metadataStatistics"] or ())
        interesting = row["interestingColumns"]
        return KnownTable(
            row["location"],
            None if level is None else level_named(level),
            None if interesting is None else tuple(parse(column) for column in interesting),
            StoredTableState.of(row["additionalMetadata"]),
            row["tableType"] or PARQUET,
        )

    @cached_property
    def schema(self) -> TupleSchema:
        """The table's columns, including those that its directories give."""
        text = self._unit["schema"][0].as_py()
        return TupleSchema.from_json(text) if text else TupleSchema()

    def lacks_bounds(self, bounds: BoundsFrom) -> bool:
        """Whether a column whose data ``bounds`` would read has values, but lacks a bound or a count."""
        for key, text in self._unit["columnsStatistics"][0].as_py() or ():
            path = parse(key)
            if bounds.source == "data" or is_among(path, bounds.columns):
                known = ColumnStatistics.from_json(text)
                lacks_counts = known.nulls is None and not is_element(path)
                lacks_counts |= known.nans is None and known.type in FLOAT_TYPES
                if not known.all_null and (lacks_counts or known.min is None or known.max is None):
                    return True
        return False

    @cached_property
    def states(self) -> Mapping[str, str]:
        """The states of all top-level segments by key, in the form of :func:`short_states`."""
        return states_by_key(self.segments) if self._said_of_segments is None else self._said_of_segments.states

    @cached_property
    def segments(self) -> pa.Table:
        """The SEGMENT rows of all top-level segments; opens one file for each segment."""
        parts = self._read_kinds(MetadataType.SEGMENT).columns(*OF_SEGMENTS).parts()
        return top_level(pa.Table.from_batches(parts.batches(), parts.answered.schema))

    def partitions(self, keys: Collection[str]) -> dict[str, FileGroup]:
        """The data files that hold all units of the top-level segments ``keys``.

        Segments without units are left out.
        """
        if not keys:
            return {}
        found = self._read_kinds(MetadataType.ALL).filter(In(term="metadataKey", literals=set(keys))).partitions()
        return {key[_KEY]: group for key, group in found.items()}

    @cached_property
    def size(self) -> tuple[int, int]:
        """The number of partitions and of units, by the manifests; opens no data file."""
        groups = self._read_kinds(MetadataType.ALL).partitions().values()
        return len(groups), sum(group.files.rows for group in groups)

    def tops(self, keys: Collection[str]) -> pa.Table:
        """The SEGMENT rows of the top-level segments ``keys``, in the columns :data:`OF_SEGMENTS`."""
        of_keys = self._read_kinds(MetadataType.SEGMENT).filter(In(term="metadataKey", literals=set(keys)))
        schema = pa.schema([UNIT_SCHEMA.field(name) for name in OF_SEGMENTS])
        return top_level(of_keys.columns(*OF_SEGMENTS).to_arrow().cast(schema)) if keys else schema.empty_table()

    def files(self, keys: Collection[str]) -> list[SourceFile] | None:
        """The files of the top-level segments ``keys`` as the last run found them, sorted.

        None if their units do not tell: the table's level is above FILE, or another program wrote them.
        """
        if not self.keeps_files:
            return None
        if not keys:
            return []
        of_keys = self._read_kinds(MetadataType.FILE).filter(In(term="metadataKey", literals=set(keys)))
        rows = of_keys.columns("path", "metadataStatistics").to_arrow().to_pylist()
        root = (
            self.known_table.location if self.known_table is not None and self.known_table.location is not None else ""
        )
        files = [_source_file_of(row["path"], row["metadataStatistics"] or (), root) for row in rows]
        known = [file for file in files if file is not None]
        return sorted(known) if len(known) == len(files) else None

    def directories(self, keys: Collection[str]) -> set[Directories]:
        """The directories that hold files of the top-level segments ``keys``.

        Opens files of segments only if the table has directories below directories.
        """
        if all(level == "dir0" for _, level in self._unit["partitionKeys"][0].as_py() or ()):
            return {() if key == DEFAULT_SEGMENT else (key,) for key in keys}
        if not keys:
            return set()
        of_keys = self._read_kinds(MetadataType.SEGMENT).filter(In(term="metadataKey", literals=set(keys)))
        values: list[Any] = of_keys.columns("partitionValues").to_arrow()["partitionValues"].to_pylist()
        directories = {tuple(each or ()) for each in values}
        above = {path[:depth] for path in directories for depth in range(1, len(path))} & directories
        return directories - above | self._with_own_files(above)

    def _with_own_files(self, directories: Collection[Directories]) -> set[Directories]:
        """Those of ``directories`` that hold files themselves, and not only in directories below them."""
        if not directories:
            return set()
        keys, identifiers = {path[0] for path in directories}, {segment_identifier(path) for path in directories}
        of_keys = self._read_kinds(MetadataType.SEGMENT).filter(In(term="metadataKey", literals=keys))
        rows = of_keys.filter(In(term="metadataIdentifier", literals=identifiers))
        return {
            tuple(row["partitionValues"])
            for row in rows.columns("partitionValues", "location", "locations").to_arrow().to_pylist()
            if any(path.rpartition("/")[0] == row["location"] for path in row["locations"])
        }

    @cached_property
    def last_modified_ms(self) -> int:
        """When the table's latest file was modified, in epoch ms."""
        return int(self._unit["lastModifiedTime"][0].as_py() or 0)

    @property
    def keeps_files(self) -> bool:
        """Whether units of files are stored."""
        return (
            self.known_table is not None
            and self.known_table.level is not None
            and reaches(self.known_table.level, MetadataType.FILE)
        )

    def total(self, keys: Collection[str], found: Mapping[str, str]) -> Total | None:
        """The sum of all segments of the table; None if its unit does not hold it.

        The unit holds it if it was made from the segments ``keys`` in the states ``found``.
        """
        if self._said_of_segments is None or self.known_table is None or self.known_table.state.declared is not None:
            return None
        if found != {key: state for key, state in self._said_of_segments.states.items() if key in keys}:
            return None
        return Total.from_unit(self._unit, self._said_of_segments)

    @cached_property
    def _unit(self) -> pa.Table:
        """The TABLE row; no row if the table was not analyzed."""
        return self._read_kinds(MetadataType.TABLE).columns(*_OF_TABLE).to_arrow()

    @cached_property
    def _said_of_segments(self) -> SegmentStates | None:
        """What the table's unit says of its segments; None if another program has since removed or added one."""
        segments = None if self.known_table is None else self.known_table.state.segments
        if segments is None:
            return None
        found = self._read_kinds(MetadataType.ALL).columns("metadataKey").parts()
        partitions = found.answered.num_rows + sum(len(group.files.paths) for group in found.groups)
        return segments if partitions == len(segments.states) + 1 else None

    def _read_kinds(self, *kinds: MetadataType) -> Read[TableMetadataUnit]:
        return self._tables.read().metadata_types(*kinds).filter(of_table(self.table)).at_seen(self._version)


def _source_file_of(path: str, holders: Sequence[str], root: str) -> SourceFile | None:
    known = read_holders(holders)
    size, mtime_ns = known.get(Statistic.LENGTH), known.get(Statistic.MODIFICATION_TIME_NANOS)
    if not isinstance(size, int) or not isinstance(mtime_ns, int):
        return None
    return SourceFile(directories_of(path, root), path.rpartition("/")[2], path, size, mtime_ns)
