"""Rows that a statement deletes from data files that stay: their positions, for merge-on-read.

Place in the flow: addresses (:mod:`metastore.lake.writes.row_changes`) count the live rows of a file, deletes all rows.
A file that loses its last row gets no deletes; it is removed. In format version 3, the new vector of a file has all
positions that older vectors and position delete files have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from metastore.lake.iceberg.rows.position_deletes import Positions
from metastore.lake.writes.delete_writing import NewDeletes
from metastore.lake.writes.deleted_rows import deleted_rows
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.row_changes import LiveRows

_FILES_A_VECTOR_FILE: Final = 4_096
"""The most data files whose vectors are in one Puffin file; its content is in memory."""


@dataclass(frozen=True)
class MarkedRows:
    """The deletes to write, and the numbers of data files that have no row left."""

    deletes: tuple[NewDeletes, ...]
    emptied: tuple[int, ...]


def markable(live: LiveRows, numbers: Sequence[int]) -> list[int]:
    """Returns the files in which a position means one row: those that are in the table once."""
    return [number for number in numbers if live.files[number].path not in live.repeated]


def marked_rows(job: RewriteJob, live: LiveRows, going: Mapping[int, Positions], *, vectors: bool) -> MarkedRows:
    """Returns the deletes of the live rows ``going``, sorted numbers by file. ``vectors`` include older positions.

    Raises FormatError and StorageError, which name the file.
    """
    deletes, emptied = [], []
    numbers = list(going)
    for number, old in zip(numbers, deleted_rows(job, [live.slice(number) for number in numbers]), strict=True):
        gone = old.every
        new = positions_of_live(going[number], gone)
        rows = live.files[number].file.record_count
        # A delete file may name positions behind the end of the data file.
        if len(new) + np.searchsorted(gone, rows) == rows:
            emptied.append(number)
        else:
            deletes.append(NewDeletes(old.cut, np.union1d(new, old.by_position) if vectors else new))
    return MarkedRows(tuple(deletes), tuple(emptied))


def positions_of_live(rows: Positions, gone: Positions) -> Positions:
    """Returns the positions in the file of live ``rows``, which are counted without those ``gone``; both sorted."""
    return rows + np.searchsorted(gone - np.arange(len(gone)), rows, side="right")


def delete_files_of(deletes: Sequence[NewDeletes], *, vectors: bool, by_file: bool) -> Iterator[tuple[NewDeletes, ...]]:
    """Yields the deletes of each new delete file: vectors in large files, position deletes by partition or by file."""

    def place(each: NewDeletes) -> tuple[str, ...]:
        if vectors:
            return ()
        return (str(each.cut.spec_id), str(each.cut.partition), each.cut.path if by_file else "")

    for _, members in groupby(sorted(deletes, key=lambda each: (place(each), each.cut.path)), key=place):
        group = tuple(members)
        most = _FILES_A_VECTOR_FILE if vectors else len(group)
        for first in range(0, len(group), most):
            yield group[first : first + most]
