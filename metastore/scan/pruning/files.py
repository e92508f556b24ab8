"""Decides over files and their row groups, portion by portion, after their segments are decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from metastore.model.bounds.bound_arrays import Mask
from metastore.model.bounds.portion_columns import PortionColumns, RowGroupUnits
from metastore.model.bounds.unit_columns import CodedTexts, FileUnits, Longs
from metastore.model.column_path import ColumnPath
from metastore.model.column_path import parse as parse_path
from metastore.model.mapping.recorded_numbers import UNKNOWN
from metastore.scan.pruning.containers import UnitStatistics
from metastore.scan.pruning.decided_files import KEPT_COLUMNS, KeptFiles, SkippedFiles, kept_columns
from metastore.scan.pruning.evaluate import Evaluation, Exclusion, Exclusions, tests_text
from metastore.scan.pruning.file_columns import FileColumns
from metastore.scan.pruning.known_files import KnownFiles
from metastore.sources.directories import DirectoryColumns

_MAY_MATCH = "may match"


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Files that their own statistics do not exclude: a mask over all files, kept-file columns, and folders."""

    left: Mask
    columns: pa.Table
    folders: CodedTexts


@dataclass(frozen=True, eq=False)
class _RowGroups:
    """Row groups of candidates: the place of each one's file, its number in the file, and the tests that exclude it."""

    files: Longs
    numbers: Longs
    excluded: Exclusions


@dataclass
class FileDecisions:
    """The decisions over unchanged files so far; ``why_not`` gives the tests that excluded a folder's segment.

    Without a listing, ``known`` learns of the files here.
    """

    known: KnownFiles
    directories: DirectoryColumns
    evaluation: Evaluation
    why_not: Callable[[str], str | None]
    spellings: Mapping[str, Sequence[ColumnPath]] = field(default_factory=dict)
    pseudo: FileColumns = field(default_factory=FileColumns)
    kept: KeptFiles = field(default_factory=KeptFiles)
    skipped: SkippedFiles = field(default_factory=SkippedFiles)
    row_groups_skipped_by: Counter[str] = field(default_factory=Counter)
    row_groups_kept: int = 0
    judged: bool = False
    """Whether statistics of any file were tested."""

    def decide(self, portion: PortionColumns) -> None:
        """Decides the files of ``portion``; call it once for each file."""
        if self.known.listing is None:
            self.known.meet_portion(portion)
        found = [self._files(files) for files in portion.files]
        together = pa.concat_tables([one.columns for one in found] or [KEPT_COLUMNS.empty_table()])
        columns = together.unify_dictionaries().combine_chunks()
        paths: Any = columns["path"].combine_chunks()
        folders = CodedTexts.join(one.folders for one in found)
        places = _places([one.left for one in found])
        parts = [self._row_groups(units, places, paths, folders) for units in portion.row_groups]
        groups = _Groups(len(paths), parts)
        self.row_groups_kept += int((~groups.excluded).sum())
        if not groups.excluded.any():
            self.kept.add(columns)
            return
        nothing_left, kept = np.flatnonzero(groups.nothing_left), np.flatnonzero(~groups.nothing_left)
        place = columns.schema.get_field_index("row_groups")
        narrowed = columns.set_column(place, columns.schema.field(place), groups.left())
        self.kept.add(narrowed.take(kept), lambda row: groups.why(int(kept[row])))
        self.row_groups_skipped_by.update(groups.count_by_tests(kept))
        self.skipped.by_tests.update(groups.count_files_by_tests(nothing_left))
        self.skipped.add_each(paths.take(nothing_left), lambda row: groups.why_nothing_is_left(int(nothing_left[row])))

    def _files(self, files: FileUnits) -> _Candidates:
        """The files that their own statistics do not exclude."""
        is_open = np.array([self.why_not(folder) is None for folder in files.folders.names], np.bool_)
        in_doubt = self.known.are_unchanged(files) & is_open[files.folders.codes]
        self.judged = self.judged or bool(in_doubt.any())
        statistics = UnitStatistics(files.columns, files.folders, self.directories, self.spellings)
        excluded = self.evaluation.exclude(in_doubt, self.pseudo.beside(statistics, files.paths))
        self.skipped.add(files.paths, excluded)
        is_left = in_doubt & ~excluded.mask
        left = np.flatnonzero(is_left)
        paths, sizes = files.paths.take(left), files.sizes[left]
        known_sizes = pa.array(sizes, mask=sizes == UNKNOWN)
        reasons, schemas = _reasons(statistics.lacking(), left), files.columns.schemas.take(left)
        return _Candidates(is_left, kept_columns(paths, reasons, known_sizes, schemas), files.folders.take(left))

    def _row_groups(self, units: RowGroupUnits, places: Longs, paths: pa.Array[Any], folders: CodedTexts) -> _RowGroups:
        """The row groups among ``units`` that belong to candidates, and the tests that exclude them.

        ``paths`` and ``folders`` are those of the candidates; ``places`` maps a file of the portion to its candidate.
        """
        files = np.where(units.files < 0, -1, places[units.files]) if len(places) else np.full(len(units), -1)
        mine = np.flatnonzero(files >= 0)
        files = files[mine]
        columns = units.columns if len(mine) == len(units) else units.columns.take(mine)
        statistics = UnitStatistics(columns, folders.take(files), self.directories, self.spellings)
        beside = self.pseudo.beside(statistics, paths.take(files))
        excluded = self.evaluation.exclude(np.ones(len(mine), np.bool_), beside)
        return _RowGroups(files, units.numbers[mine], excluded)


class _Groups:
    """All row groups of ``count`` files of a portion."""

    def __init__(self, count: int, parts: Sequence[_RowGroups]) -> None:
        self._count = count
        self._parts = parts
        none = np.zeros(0, np.int64)
        self._files = np.concatenate([none, *(part.files for part in parts)])
        self._numbers = np.concatenate([none, *(part.numbers for part in parts)])
        self.excluded: Mask = np.concatenate([none.astype(np.bool_), *(part.excluded.mask for part in parts)])
        """For each row group, whether none of its rows matches."""

    @cached_property
    def _counts(self) -> tuple[Longs, Longs]:
        """For each file, the numbers of excluded and of remaining row groups."""
        excluded, left = (
            np.bincount(self._files[which], minlength=self._count) for which in (self.excluded, ~self.excluded)
        )
        return excluded, left

    @property
    def nothing_left(self) -> Mask:
        """For each file, whether all of its row groups are excluded."""
        excluded, left = self._counts
        found: Mask = (excluded > 0) & (left == 0)
        return found

    def left(self) -> pa.Array[Any]:
        """For each file, its remaining row groups in ascending order; null if none is excluded."""
        excluded, left = self._counts
        is_whole = excluded == 0
        mine = np.flatnonzero(~self.excluded & ~is_whole[self._files])
        in_order = mine[np.lexsort((self._numbers[mine], self._files[mine]))]
        lengths = np.where(is_whole, 0, left)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        values = pa.array(self._numbers[in_order].astype(np.int32))
        found: Any = pa.ListArray
        lists: pa.Array[Any] = found.from_arrays(pa.array(offsets), values, mask=pa.array(is_whole))
        return lists

    def why(self, file: int) -> dict[int, Exclusion]:
        """Why row groups of one file are excluded: reasons by row group number, in order."""
        first, last = np.searchsorted(self._files[self._by_file], [file, file + 1])
        return {
            int(self._numbers[group]): self._why(int(group))
            for group in np.sort(self._by_file[first:last])
            if self.excluded[group]
        }

    def why_nothing_is_left(self, file: int) -> Exclusion:
        """Why all row groups of one file are excluded: the causes of each, in order."""
        return Exclusion(cause for why in self.why(file).values() for cause in why)

    def count_files_by_tests(self, files: Longs) -> Counter[str]:
        """Counts ``files`` without remaining row groups by the tests that excluded these."""
        found: Counter[str] = Counter()
        if not len(files):
            return found
        codes = np.concatenate([part.excluded.codes for part in self._parts])[self._by_file]
        starts = np.searchsorted(self._files[self._by_file], np.arange(self._count))
        counts = np.diff(np.append(starts, len(codes)))
        mine = np.repeat(np.isin(np.arange(self._count), files), counts)
        own, firsts = codes[mine], np.append(0, np.cumsum(counts[files]))[:-1]
        same = np.minimum.reduceat(own, firsts) == np.maximum.reduceat(own, firsts)
        combinations = self._parts[0].excluded.combinations
        for code, count in enumerate(np.bincount(own[firsts[same]]).tolist()):
            if count:
                found[tests_text(combinations[code])] += count
        found.update(self.why_nothing_is_left(int(file)).tests for file in files[~same])
        return found

    def count_by_tests(self, kept: Longs) -> Counter[str]:
        """Counts the excluded row groups of the files ``kept`` by the tests that excluded them."""
        is_kept = np.zeros(self._count, np.bool_)
        is_kept[kept] = True
        found: Counter[str] = Counter()
        for part in self._parts:
            found.update(part.excluded.count_by_tests(is_kept[part.files]))
        return found

    @cached_property
    def _by_file(self) -> Longs:
        """Positions of the row groups, sorted by file."""
        return np.argsort(self._files, kind="stable")

    def _why(self, group: int) -> Exclusion:
        for part in self._parts:
            if group < len(part.files):
                return part.excluded.why(group)
            group -= len(part.files)
        raise IndexError(group)


def _places(left: Sequence[Mask]) -> Longs:
    """For each file of a portion, its place among the candidates, -1 for excluded files."""
    is_left = np.concatenate([np.zeros(0, np.bool_), *left])
    return np.where(is_left, np.cumsum(is_left) - 1, -1)


def _reasons(lacking: Mapping[str, Mask], left: Longs) -> CodedTexts:
    """Why the files ``left`` are kept: they may match, or statistics of some columns are missing."""
    codes = np.zeros(len(left), np.int64)
    found: list[tuple[str, ...]] = [()]
    for column, mask in lacking.items():
        distinct, codes = np.unique(codes * 2 + mask[left], return_inverse=True)
        found = [found[code // 2] + ((column,) if code % 2 else ()) for code in distinct.tolist()]
    return CodedTexts(codes.astype(np.int32), [_reason(columns) for columns in found])


def _reason(lacking: Iterable[str]) -> str:
    names = ", ".join(".".join(parse_path(column)) for column in lacking)
    return f"{_MAY_MATCH}; no statistics for {names}" if names else _MAY_MATCH
