"""Statistics of segments, files and row groups for evaluation, from units and from directory names.

Values in directory names need no statistics and take precedence over units. A column that a unit's schema lacks is null
in all of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from metastore.model.bounds.bound_arrays import Mask
from metastore.model.bounds.statistics_columns import KNOWN, StatisticsColumns, together
from metastore.model.bounds.unit_columns import CodedTexts, UnitColumns
from metastore.model.column_path import ColumnPath, lower_path
from metastore.model.column_path import parse as parse_path
from metastore.model.column_path import quote as quote_path
from metastore.model.elements import with_elements
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR
from metastore.sources.directories import DirectoryColumns

_NO_SPELLINGS: Mapping[str, Sequence[ColumnPath]] = {}


class FolderStatistics:
    """Statistics from the names of folders alone: nothing else is known of files that were never analyzed."""

    def __init__(self, folders: CodedTexts, directory_columns: DirectoryColumns) -> None:
        self._folders = folders
        self._directory_columns = directory_columns

    def of(self, column: str, among: Mask) -> StatisticsColumns:
        """See :class:`metastore.scan.pruning.evaluate.Statistics`."""
        if column not in self._directory_columns:
            return StatisticsColumns.nothing(len(among))
        by_folder = [
            self._directory_columns.statistics(column, tuple(folder.split(IDENTIFIER_SEPARATOR)) if folder else ())
            for folder in self._folders.names
        ]
        return StatisticsColumns.of(by_folder).take(self._folders.codes.astype(np.int64))


class UnitStatistics:
    """Statistics from the units of one level; values from folder names take precedence."""

    def __init__(
        self,
        units: UnitColumns,
        folders: CodedTexts,
        directory_columns: DirectoryColumns,
        spellings: Mapping[str, Sequence[ColumnPath]] = _NO_SPELLINGS,
    ) -> None:
        """``spellings``: a leaf's paths in files, by its quoted path, for leaves that files spell in several ways."""
        self._units = units
        self._spellings = spellings
        self._directory_columns = directory_columns
        self._by_folder = FolderStatistics(folders, directory_columns)
        self._found: dict[str, StatisticsColumns] = {}
        self._lacking: dict[str, Mask] = {}

    def of(self, column: str, among: Mask) -> StatisticsColumns:
        """See :class:`metastore.scan.pruning.evaluate.Statistics`; a column that a unit's schema lacks is all null."""
        found = self._found.get(column)
        if found is None:
            found = self._found[column] = self._told_by_units(column)
        if column not in self._directory_columns:
            lacking = among & ~found.has(KNOWN)
            self._lacking[column] = lacking | self._lacking.get(column, np.bool_(False))
        return found

    def lacking(self) -> Mapping[str, Mask]:
        """For each requested column, in order of request, the containers without any statistics."""
        return self._lacking

    def _told_by_units(self, column: str) -> StatisticsColumns:
        if column in self._directory_columns:
            return self._by_folder.of(column, np.ones(len(self._units), np.bool_))
        several = self._spellings.get(column)
        found = self._statistics_of(column) if several is None else self._statistics_of_spellings(several)
        return found.all_null_where(self._absent(column) & ~found.has(KNOWN))

    def _statistics_of(self, column: str) -> StatisticsColumns:
        found = self._units.by_column.get(column)
        return StatisticsColumns.nothing(len(self._units)) if found is None else found

    def _statistics_of_spellings(self, several: Sequence[ColumnPath]) -> StatisticsColumns:
        """Statistics of containers whose files spell the column in one way; with several ways, nothing is known."""
        spelled: dict[str, list[int]] = {}
        for code, schema in enumerate(self._units.schemas.names):
            leaves = _leaves_and_elements(schema)
            own = [path for path in several if path in leaves]
            if len(own) == 1:
                spelled.setdefault(quote_path(own[0]), []).append(code)
        codes = self._units.schemas.codes
        positions = np.arange(len(codes))
        parts = [
            self._statistics_of(key).take(np.where(np.isin(codes, of_schemas), positions, -1))
            for key, of_schemas in spelled.items()
        ]
        return together(parts) if parts else StatisticsColumns.nothing(len(codes))

    def _absent(self, column: str) -> Mask:
        """The containers whose schema has no such column, or no such field in its struct."""
        path = lower_path(parse_path(column))
        lacking = [code for code, schema in enumerate(self._units.schemas.names) if _lacks(schema, path)]
        return np.isin(self._units.schemas.codes, lacking)


@lru_cache(maxsize=64)
def _leaves_and_elements(schema: str) -> frozenset[ColumnPath]:
    return frozenset(path for path, _ in with_elements(TupleSchema.from_json(schema).leaves()))


def _lacks(schema: str, path: ColumnPath) -> bool:
    structs, leaves = _lowered_paths(schema)
    for depth in range(1, len(path) + 1):
        if path[:depth] in leaves:
            return False  # a leaf, or something inside a leaf, which the schema does not describe
        if path[:depth] not in structs:
            return True
    return False


@lru_cache(maxsize=64)
def _lowered_paths(schema: str) -> tuple[frozenset[ColumnPath], frozenset[ColumnPath]]:
    """The paths of structs and of leaves in lower case: files may differ in case, and engines ignore it."""
    leaves = frozenset(lower_path(path) for path, _ in TupleSchema.from_json(schema).leaves())
    return frozenset(leaf[:depth] for leaf in leaves for depth in range(1, len(leaf))), leaves
