"""Segments, files and row groups as evaluation sees them: statistics by column, of units and names of directories.

What a directory's name says needs no statistics at all, and comes before what units say. A column that a unit's schema
lacks is null in all of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from metastore.model.column_path import parse as parse_path
from metastore.model.column_path import quote as quote_path
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR
from metastore.pruning.bound_arrays import Mask
from metastore.pruning.statistics_columns import KNOWN, StatisticsColumns, together
from metastore.pruning.unit_columns import Coded, UnitColumns
from metastore.sources.directories import DirectoryColumns

_NO_SPELLINGS: Mapping[str, Sequence[str]] = {}


class FolderStatistics:
    """What the folders of containers say, and nothing else: all that is known of files that were never analyzed."""

    def __init__(self, folders: Coded, directory_columns: DirectoryColumns) -> None:
        self._folders = folders
        self._directory_columns = directory_columns

    def of(self, column: str, among: Mask) -> StatisticsColumns:
        """See :class:`metastore.pruning.evaluate.Statistics`."""
        if column not in self._directory_columns:
            return StatisticsColumns.nothing(len(among))
        by_folder = [
            self._directory_columns.statistics(column, tuple(folder.split(IDENTIFIER_SEPARATOR)) if folder else ())
            for folder in self._folders.names
        ]
        return StatisticsColumns.of(by_folder).take(self._folders.codes.astype(np.int64))


class UnitStatistics:
    """What the units of one level say, with their folders' values before their own."""

    def __init__(
        self,
        units: UnitColumns,
        folders: Coded,
        directory_columns: DirectoryColumns,
        spellings: Mapping[str, Sequence[str]] = _NO_SPELLINGS,
    ) -> None:
        """``spellings``: the names of a column in files, by its own, where files spell it in several ways."""
        self._units = units
        self._spellings = spellings
        self._directory_columns = directory_columns
        self._by_folder = FolderStatistics(folders, directory_columns)
        self._found: dict[str, StatisticsColumns] = {}
        self._lacking: dict[str, Mask] = {}

    def of(self, column: str, among: Mask) -> StatisticsColumns:
        """See :class:`metastore.pruning.evaluate.Statistics`; a column that a unit's schema lacks is all null."""
        found = self._found.get(column)
        if found is None:
            found = self._found[column] = self._told_by_units(column)
        if column not in self._directory_columns:
            lacking = among & ~found.has(KNOWN)
            self._lacking[column] = lacking | self._lacking.get(column, np.bool_(False))
        return found

    def lacking(self) -> Mapping[str, Mask]:
        """By column that was asked about, in the order of asking, the containers of which nothing is known."""
        return self._lacking

    def _told_by_units(self, column: str) -> StatisticsColumns:
        if column in self._directory_columns:
            return self._by_folder.of(column, np.ones(len(self._units), np.bool_))
        several = self._spellings.get(parse_path(column)[0])
        found = self._stored(column) if several is None else self._spelled(column, several)
        return found.all_null_where(self._absent(column) & ~found.has(KNOWN))

    def _stored(self, column: str) -> StatisticsColumns:
        found = self._units.by_column.get(column)
        return StatisticsColumns.nothing(len(self._units)) if found is None else found

    def _spelled(self, column: str, several: Sequence[str]) -> StatisticsColumns:
        """Of containers whose files spell the column in one way; of several ways nothing is known."""
        spelled: dict[str, list[int]] = {}
        for code, schema in enumerate(self._units.schemas.names):
            names = [name for name in several if name in TupleSchema.from_json(schema).by_name]
            if len(names) == 1:
                spelled.setdefault(quote_path((names[0], *parse_path(column)[1:])), []).append(code)
        codes = self._units.schemas.codes
        positions = np.arange(len(codes))
        parts = [
            self._stored(key).take(np.where(np.isin(codes, of_schemas), positions, -1))
            for key, of_schemas in spelled.items()
        ]
        return together(parts) if parts else StatisticsColumns.nothing(len(codes))

    def _absent(self, column: str) -> Mask:
        """The containers whose schema has no such column."""
        name = parse_path(column)[0].lower()
        lacking = [code for code, schema in enumerate(self._units.schemas.names) if name not in _lowered_names(schema)]
        return np.isin(self._units.schemas.codes, lacking)


@lru_cache(maxsize=64)
def _lowered_names(schema: str) -> frozenset[str]:
    """Names of the columns of a schema in lower case: files may spell a column differently, and engines overlook it."""
    return frozenset(column.name.lower() for column in TupleSchema.from_json(schema).columns)
