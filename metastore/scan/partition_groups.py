"""Numbers the row groups of a partition, for row ids: from row groups to ids and back.

A partition is a top-level segment in the state that its partition component identifies. Its row groups are its
ROW_GROUP units, sorted by file path and position in the file. The position of a row group in this order is its id.
Units change only together with the component, so a valid id always means the same row group.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from metastore.errors import InvalidRequestError, StaleRowIdError
from metastore.model.identity import TableInfo
from metastore.model.partition_component import component_in
from metastore.model.statistics_json import read_holders
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR, MetadataType, Statistic

GROUP_COLUMNS: Final = (
    "metadataType",
    "metadataKey",
    "metadataIdentifier",
    "additionalMetadata",
    "path",
    "rowGroupIndex",
    "metadataStatistics",
)
"""The columns (on-disk names) of SEGMENT and ROW_GROUP units that row ids need."""


@dataclass(frozen=True)
class RowGroup:
    """One row group of a file: its position in the file, and its number of rows."""

    path: str
    index: int
    rows: int


class PartitionGroups:
    """One partition: its component, and its row groups by id."""

    def __init__(self, key: str, component: bytes, paths: Sequence[str], counts: Sequence[Sequence[int]]) -> None:
        """Take sorted ``paths``; ``counts`` has for each path the row counts of its row groups."""
        self.key = key
        self.component = component
        self._paths = paths
        self._counts = counts
        self._starts = list(accumulate(map(len, counts), initial=0))
        self._first = dict(zip(paths, self._starts, strict=False))

    def first_group(self, path: str) -> int:
        """Return the id of the file's first row group; the others follow. If it has none, any id is returned."""
        return self._first.get(path, 0)

    def locate(self, group: int) -> RowGroup | None:
        """Return the row group with an id, or None if the partition does not have it."""
        file = bisect_right(self._starts, group) - 1
        if group < 0 or file >= len(self._paths):
            return None
        index = group - self._starts[file]
        return RowGroup(self._paths[file], index, self._counts[file][index])


def partitions_of(table: TableInfo, units: pa.Table) -> dict[str, PartitionGroups]:
    """Return the partitions of ``table`` by metadata key, from its SEGMENT and ROW_GROUP units.

    The units have the columns :data:`GROUP_COLUMNS`. Raises InvalidRequestError if they cannot number row groups:
    another program wrote them, or the table was analyzed at a level without row groups.
    """
    components = components_of(table, units)
    groups = _of_kind(units, MetadataType.ROW_GROUP).sort_by([("path", "ascending"), ("rowGroupIndex", "ascending")])
    by_key: dict[str, dict[str, list[int]]] = {key: {} for key in components}
    for key, path, holders in zip(
        *(_values(groups, name) for name in ("metadataKey", "path", "metadataStatistics")), strict=True
    ):
        by_key[key].setdefault(path, []).append(int(read_holders(holders)[Statistic.ROW_COUNT]))
    return {
        key: PartitionGroups(key, components[key], list(files), list(files.values())) for key, files in by_key.items()
    }


def components_of(table: TableInfo, units: pa.Table) -> dict[str, bytes]:
    """Return the partition component of each top-level segment among ``units``, by metadata key.

    Raises InvalidRequestError for a segment without one.
    """
    segments = _of_kind(units, MetadataType.SEGMENT)
    tops = segments.filter(pc.equal(segments["metadataKey"], segments["metadataIdentifier"]))
    found: dict[str, bytes] = {}
    for key, text in zip(_values(tops, "metadataKey"), _values(tops, "additionalMetadata"), strict=True):
        component = component_in(text)
        if component is None:
            raise InvalidRequestError(
                f"segment {key} of {table} has no partition component, which row ids end with: "
                "another program or an older version wrote its metadata; run ANALYZE"
            )
        found[key] = component
    return found


def segment_keys(units: pa.Table) -> list[str]:
    """Return the metadata keys of the top-level segments among ``units``, by their identifiers."""
    identifiers = _values(_of_kind(units, MetadataType.SEGMENT), "metadataIdentifier")
    return [identifier for identifier in identifiers if IDENTIFIER_SEPARATOR not in identifier]


def require_row_groups(table: TableInfo, level: str | None) -> None:
    """Raise InvalidRequestError unless ``table`` was analyzed down to its row groups."""
    if level != MetadataType.ROW_GROUP.value:
        raise InvalidRequestError(
            f"row ids number row groups, and {table} was analyzed at level {level}: run ANALYZE at level ROW_GROUP"
        )


def refuse_mutated(table: TableInfo, keys: Iterable[str], mutated: Mapping[str, str]) -> None:
    """Raise StaleRowIdError if one of the partitions ``keys`` changed since ANALYZE; ``mutated`` has changes by key."""
    for key in keys:
        if key in mutated:
            raise StaleRowIdError(
                f"partition {key} of {table} has changed since ANALYZE: {mutated[key]}; "
                "its row ids are no longer valid. Run ANALYZE, then ask for new ones"
            )


def _of_kind(units: pa.Table, kind: MetadataType) -> pa.Table:
    return units.filter(pc.equal(units["metadataType"], pa.scalar(kind.value)))


def _values(units: pa.Table, column: str) -> list[Any]:
    return units[column].to_pylist()
