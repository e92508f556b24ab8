"""A portion of a table's files with their row groups as columns: the form in which units are kept after reading.

JSON is not kept; of a million files, the paths take most of the memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.bounds.unit_columns import FileUnits, Longs, UnitColumns
from metastore.model.bounds.units import Portion


@dataclass(frozen=True, eq=False)
class RowGroupUnits:
    """ROW_GROUP units: each one's number in its file, and the file's place in the portion (-1 if it is not there)."""

    files: Longs
    numbers: Longs
    columns: UnitColumns

    def __len__(self) -> int:
        return len(self.files)


@dataclass(frozen=True)
class CountedFiles:
    """The files of one folder as counts: number of files and row groups, and total bytes (None if one is unknown)."""

    folder: str
    files: int
    row_groups: int
    size: int | None


@dataclass(frozen=True, eq=False)
class PortionColumns:
    """Units of some files in the batches in which they were read, each file with all of its row groups.

    ``asked`` are the columns (quoted paths) whose statistics are included.
    """

    files: tuple[FileUnits, ...]
    row_groups: tuple[RowGroupUnits, ...]
    asked: frozenset[str]
    counted: tuple[CountedFiles, ...] = ()
    """Files that are only counted, not listed."""

    @classmethod
    def of(cls, portion: Portion, columns: Collection[str]) -> PortionColumns:
        """The units of ``portion``, with statistics of ``columns``."""
        files = tuple(FileUnits.of(units, columns) for units in portion.files())
        paths = pa.chunked_array([each.paths for each in files], pa.string())
        row_groups = tuple(_row_groups(units, paths, columns) for units in portion.row_groups())
        return cls(files, row_groups, frozenset(columns))

    @property
    def paths(self) -> pa.ChunkedArray[Any]:
        """The paths of all files."""
        return pa.chunked_array([each.paths for each in self.files], pa.string())

    def beside(self, other: PortionColumns) -> PortionColumns:
        """These units with the additional statistics of ``other``, if it has the same units in the same order."""
        if not self._is_like(other):
            return self
        files = zip(self.files, other.files, strict=True)
        row_groups = zip(self.row_groups, other.row_groups, strict=True)
        return PortionColumns(
            tuple(replace(one, columns=one.columns.beside(two.columns)) for one, two in files),
            tuple(replace(one, columns=one.columns.beside(two.columns)) for one, two in row_groups),
            self.asked | other.asked,
        )

    @classmethod
    def join(cls, parts: Sequence[PortionColumns]) -> PortionColumns:
        """Joins several portions of different files: at least one, all with the same columns."""
        before = 0
        row_groups: list[RowGroupUnits] = []
        for part in parts:
            for each in part.row_groups:
                moved: Any = np.where(each.files < 0, -1, each.files + before).astype(np.int32)
                row_groups.append(replace(each, files=moved))
            before += sum(map(len, part.files))
        files = tuple(each for part in parts for each in part.files)
        return cls(files, tuple(row_groups), parts[0].asked)

    def _is_like(self, other: PortionColumns) -> bool:
        mine, others = (
            ([len(files) for files in one.files], [len(row_groups) for row_groups in one.row_groups])
            for one in (self, other)
        )
        if mine != others or self.paths != other.paths:
            return False
        pairs = zip(self.row_groups, other.row_groups, strict=True)
        return all(
            np.array_equal(one.files, two.files) and np.array_equal(one.numbers, two.numbers) for one, two in pairs
        )

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        own = sum(each.nbytes for each in self.files)
        return own + sum(each.files.nbytes + each.numbers.nbytes + each.columns.nbytes for each in self.row_groups)


def _row_groups(units: pa.Table, paths: pa.ChunkedArray[Any], columns: Collection[str]) -> RowGroupUnits:
    found: Any = pc.index_in(units["path"], paths)
    numbers: Any = units["rowGroupIndex"]
    places, own = (pc.fill_null(column, -1).to_numpy().astype(np.int32) for column in (found, numbers))
    return RowGroupUnits(places, own, UnitColumns.of(units, columns))
