"""Segments, files and row groups as evaluation sees them: statistics by column, read only when asked for.

Units come as Arrow columns. A column's JSON is looked up in the map column and parsed for the containers in question
and no others; what a directory's name says needs no statistics at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.column_path import parse as parse_path
from metastore.model.column_path import quote as quote_path
from metastore.model.drill_types import NO_TYPE
from metastore.model.statistics import ColumnStatistics, parse_many
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR
from metastore.sources.directories import DirectoryColumns

_ABSENT = ColumnStatistics(NO_TYPE, non_nulls=0)
"""A column that a file does not have reads as null."""


class FolderStatistics:
    """What the folders of containers say, and nothing else: all that is known of files that were never analyzed."""

    def __init__(self, folders: Sequence[str], directory_columns: DirectoryColumns) -> None:
        self._folders = folders
        self._directory_columns = directory_columns

    def of(self, column: str, containers: Sequence[int]) -> Sequence[ColumnStatistics | None]:
        """See :class:`metastore.pruning.evaluate.Statistics`."""
        if column not in self._directory_columns:
            return [None] * len(containers)
        by_folder = {
            folder: self._directory_columns.statistics(
                column, tuple(folder.split(IDENTIFIER_SEPARATOR)) if folder else ()
            )
            for folder in {self._folders[i] for i in containers}
        }
        return [by_folder[self._folders[i]] for i in containers]


class UnitStatistics:
    """What the units of one level say, with their folders' values before their own."""

    def __init__(
        self,
        units: pa.Table,
        folders: Sequence[str],
        directory_columns: DirectoryColumns,
        spellings: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """``spellings``: the names of a column in files, by its own, where files spell it in several ways."""
        self._spellings = spellings or {}
        column = units["columnsStatistics"]
        # combine_chunks copies even a single chunk, and the map column is by far the largest.
        self._statistics = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        self._schemas = units["schema"]
        self._directory_columns = directory_columns
        self._by_folder = FolderStatistics(folders, directory_columns)
        self._lacking: dict[int, list[str]] = {}

    def of(self, column: str, containers: Sequence[int]) -> Sequence[ColumnStatistics | None]:
        """See :class:`metastore.pruning.evaluate.Statistics`; a column that a unit's schema lacks is all null."""
        if column in self._directory_columns:
            return self._by_folder.of(column, containers)
        everything = list(containers) == list(range(len(self._statistics)))
        maps = self._statistics if everything else self._statistics.take(pa.array(containers, pa.int64()))
        if self._spellings and (several := self._spellings.get(parse_path(column)[0])):
            return [self._spelled(column, several, container) for container in containers]
        found = parse_many(pc.map_lookup(maps, pa.scalar(column), "first").to_pylist())
        for position, statistics in enumerate(found):
            if statistics is None:
                found[position] = self._without(column, containers[position])
        return found

    def lacking(self, container: int) -> Sequence[str]:
        """Columns that were asked for and that nothing is known of in ``container``."""
        return self._lacking.get(container, ())

    def _spelled(self, column: str, several: Sequence[str], container: int) -> ColumnStatistics | None:
        """Of a container whose files spell the column in one way; of several ways nothing is known."""
        schema = self._schemas[container].as_py()
        names = [name for name in several if schema is not None and name in TupleSchema.from_json(schema).by_name]
        if len(names) == 1:
            key = quote_path((names[0], *parse_path(column)[1:]))
            one = self._statistics.slice(container, 1)
            [known] = parse_many(pc.map_lookup(one, pa.scalar(key), "first").to_pylist())
            if known is not None:
                return known
        return self._without(column, container)

    def _without(self, column: str, container: int) -> ColumnStatistics | None:
        name = parse_path(column)[0].lower()
        if (names := _lowered_names(self._schemas[container].as_py())) is not None and name not in names:
            return _ABSENT
        columns = self._lacking.setdefault(container, [])
        if column not in columns:
            columns.append(column)
        return None


@lru_cache(maxsize=64)
def _lowered_names(schema: str | None) -> frozenset[str] | None:
    """Names of the columns of a schema in lower case: files may spell a column differently, and engines overlook it."""
    return (
        None if schema is None else frozenset(column.name.lower() for column in TupleSchema.from_json(schema).columns)
    )
