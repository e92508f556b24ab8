"""The files of a table as a list for people. It is kept in columns, because there may be a million files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final, overload

import pyarrow as pa
import pyarrow.compute as pc

from metastore.bounds.units import Portion
from metastore.mapping.recorded_numbers import exact_row_counts, recorded_numbers, with_nulls
from metastore.model.vocabulary import Statistic

SUMMARY_COLUMNS: Final = ("metadataType", "metadataIdentifier", "path", "lastModifiedTime", "metadataStatistics")
"""The columns of FILE and ROW_GROUP units from which summaries are made, by their on-disk names."""

_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("file", pa.string()),
    ("path", pa.string()),
    ("rows", pa.int64()),
    ("bytes", pa.int64()),
    ("row_groups", pa.int64()),
    ("modified", pa.int64()),
]
_NUMBER: Final = re.compile(r"[0-9]+")
_DIGITS: Final = 20
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
            yield from self._taken(self._order.slice(start, _AT_ONCE))

    @overload
    def __getitem__(self, which: int) -> FileSummary: ...
    @overload
    def __getitem__(self, which: slice) -> list[FileSummary]: ...
    def __getitem__(self, which: int | slice) -> FileSummary | list[FileSummary]:
        if isinstance(which, slice):
            return self._taken(self._order.take(pa.array(range(*which.indices(len(self))), pa.int64())))
        return self._taken(self._order.slice(range(len(self))[which], 1))[0]

    def _taken(self, positions: pa.Array[Any]) -> list[FileSummary]:
        return list(map(_summary, self._columns.take(positions).to_pylist()))

    @property
    def bytes(self) -> int:
        """Total size of all files whose size is known."""
        return pc.sum(self._columns["bytes"]).as_py() or 0


def summaries(portions: Iterable[Portion], is_wanted: Callable[[str], bool]) -> FileSummaries:
    """Returns the files in ``portions`` (in :data:`SUMMARY_COLUMNS`) whose identifier ``is_wanted``, by name."""
    found: list[pa.Table] = [pa.schema(_FIELDS).empty_table()]
    for portion in portions:
        row_groups: Counter[str | None] = Counter()
        for units in portion.row_groups():
            row_groups.update(units["path"].to_pylist())
        found += [_columns(units, row_groups, is_wanted) for units in portion.files()]
    every = pa.concat_tables(found).combine_chunks()
    found.clear()
    names = [
        pa.array([natural_order(str(name)) for name in chunk.to_pylist()], pa.string())
        for batch in every.select(["file"]).to_batches(max_chunksize=_AT_ONCE)
        for chunk in batch.columns
    ]
    return FileSummaries(every, pc.sort_indices(pa.chunked_array(names, pa.string())))


def natural_order(name: str) -> str:
    """A sort key that puts ``month=2`` before ``month=10``: numbers get zeros in front, and come before letters."""
    return _NUMBER.sub(lambda found: f"\0{found.group().lstrip('0'):0>{_DIGITS}}", name)


def _columns(units: pa.Table, row_groups: Counter[str | None], is_wanted: Callable[[str], bool]) -> pa.Table:
    names: list[Any] = units["metadataIdentifier"].to_pylist()
    chosen = [position for position, name in enumerate(names) if is_wanted(name)]
    if len(chosen) < len(names):
        units = units.take(pa.array(chosen, pa.int64()))
    holders: Any = units["metadataStatistics"].combine_chunks()
    paths: list[Any] = units["path"].to_pylist()
    columns: dict[str, Any] = {
        "file": units["metadataIdentifier"],
        "path": units["path"],
        "rows": exact_row_counts(holders),
        "bytes": with_nulls(recorded_numbers(holders, Statistic.LENGTH)),
        "row_groups": pa.array([row_groups[path] for path in paths], pa.int64()),
        "modified": units["lastModifiedTime"],
    }
    return pa.table(columns, pa.schema(_FIELDS))


def _summary(row: dict[str, Any]) -> FileSummary:
    epoch_ms = row.pop("modified")
    modified = None if epoch_ms is None else datetime.fromtimestamp(epoch_ms / 1000, timezone.utc)
    return FileSummary(**row, modified=modified)
