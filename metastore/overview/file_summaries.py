"""The files of a table as a list for people. It is kept in columns, because there may be a million files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.ground.epoch import moment_of_millis
from metastore.model.bounds.units import LENGTH, ROW_COUNT
from metastore.model.vocabulary import MetadataType
from metastore.overview.natural_order import naturally_sorted

SUMMARY_FACTS: Final = ("metadataType", "metadataIdentifier", "path", "lastModifiedTime", ROW_COUNT, LENGTH)
"""The facts of FILE and ROW_GROUP units from which summaries are made."""

_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("file", pa.string()),
    ("path", pa.string()),
    ("rows", pa.int64()),
    ("bytes", pa.int64()),
    ("row_groups", pa.int64()),
    ("modified", pa.int64()),
]
_AT_ONCE: Final = 1_000


@dataclass(frozen=True)
class FileSummary:
    """One data file at the time of its ANALYZE."""

    file: str
    path: str | None
    rows: int | None
    bytes: int | None
    row_groups: int
    modified: datetime | None


class FileSummaries(Sequence[FileSummary]):
    """Summaries in the order of their positions in ``columns``. Each is created on access."""

    def __init__(self, columns: pa.Table, order: pa.Array[Any]) -> None:
        self._columns = columns
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[FileSummary]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self._summaries_at(self._order.slice(start, _AT_ONCE))

    @overload
    def __getitem__(self, which: int) -> FileSummary: ...
    @overload
    def __getitem__(self, which: slice) -> list[FileSummary]: ...
    def __getitem__(self, which: int | slice) -> FileSummary | list[FileSummary]:
        if isinstance(which, slice):
            return self._summaries_at(self._order.take(pa.array(range(*which.indices(len(self))), pa.int64())))
        return self._summaries_at(self._order.slice(range(len(self))[which], 1))[0]

    def _summaries_at(self, positions: pa.Array[Any]) -> list[FileSummary]:
        return list(map(_summary, self._columns.take(positions).to_pylist()))

    @property
    def bytes(self) -> int:
        """Total size of all files whose size is known."""
        return pc.sum(self._columns["bytes"]).as_py() or 0

    @property
    def size_counts(self) -> dict[int, int]:
        """Number of files of known size, by the largest power of two up to the size; 0 for empty files."""
        sizes = self._columns["bytes"].drop_null().to_numpy()
        powers, counts = np.unique(np.where(sizes > 0, np.frexp(sizes)[1] - 1, -1), return_counts=True)
        return {2 ** int(power) if power >= 0 else 0: int(count) for power, count in zip(powers, counts, strict=True)}


def summaries(facts: Iterable[pa.Table], are_wanted: Callable[[pa.ChunkedArray[Any]], Any]) -> FileSummaries:
    """Returns the files in ``facts`` (in :data:`SUMMARY_FACTS`, each file with its row groups) by name.

    ``are_wanted`` says for each of some identifiers whether the file is listed.
    """
    files: list[pa.Table] = [pa.schema(_FIELDS).empty_table()]
    for each in facts:
        kinds = each["metadataType"]
        own = each.filter(pc.equal(kinds, pa.scalar(str(MetadataType.FILE))))
        of_row_groups = each["path"].filter(pc.equal(kinds, pa.scalar(str(MetadataType.ROW_GROUP))))
        columns: dict[str, Any] = {
            "file": own["metadataIdentifier"],
            "path": own["path"],
            "rows": own[ROW_COUNT],
            "bytes": own[LENGTH],
            "row_groups": _counts(own["path"], of_row_groups),
            "modified": own["lastModifiedTime"],
        }
        files.append(pa.table(columns).filter(are_wanted(own["metadataIdentifier"])))
    every = pa.concat_tables(files).combine_chunks()
    names: Any = every["file"]
    return FileSummaries(every, naturally_sorted(names.fill_null("None")))


def _counts(paths: Any, of_row_groups: Any) -> Any:
    """Returns the number of row groups at each path; every unit of a file with several units has them all."""
    first: Any = pc.index_in(paths, paths)
    found: Any = pc.index_in(of_row_groups, paths)
    counts = np.bincount(found.drop_null().to_numpy(), minlength=len(paths))
    return pa.array(counts[first.to_numpy()], pa.int64())


def _summary(row: dict[str, Any]) -> FileSummary:
    epoch_ms = row.pop("modified")
    modified = None if epoch_ms is None else moment_of_millis(epoch_ms)
    return FileSummary(**row, modified=modified)
