"""The places of several partitions' units in one table: files first, then row groups, then others in each partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from metastore.model.bounds.bound_arrays import Mask
from metastore.model.bounds.unit_columns import Longs
from metastore.model.vocabulary import MetadataType

_RANKS = {MetadataType.FILE.value: 0, MetadataType.ROW_GROUP.value: 1}
_OTHER = 2


@dataclass(frozen=True, eq=False)
class UnitPlaces:
    """Where units are after they are put in ``order``; all other arrays are in that order."""

    order: Longs
    starts: Longs
    """The first unit of each partition, and the number of all units."""
    is_file: Mask
    is_other: Mask
    """Units that are neither files nor row groups."""
    owners: Longs
    """For each row group the unit of its file, the first with its path in the partition; -1 for others."""

    @classmethod
    def of(cls, units: pa.Table, lengths: Sequence[int]) -> UnitPlaces:
        """The places of ``units``, which are partitions of ``lengths`` units (at least one) after each other."""
        starts: Longs = np.concatenate([[0], np.cumsum(lengths)])
        partitions = np.repeat(np.arange(len(lengths)), lengths)
        kinds: list[Any] = units["metadataType"].to_pylist()
        unordered = np.array([_RANKS.get(kind, _OTHER) for kind in kinds])
        order = np.lexsort((unordered, partitions))
        ranks = unordered[order]
        paths: list[Any] = units["path"].to_pylist()
        owners = np.full(len(paths), -1, np.int64)
        files: dict[tuple[int, str], int] = {}
        for place, (old, rank, partition) in enumerate(
            zip(order.tolist(), ranks.tolist(), partitions.tolist(), strict=True)
        ):
            if rank == _RANKS[MetadataType.FILE]:
                files.setdefault((partition, paths[old]), place)
            elif rank != _OTHER:
                owners[place] = files.get((partition, paths[old]), -1)
        return cls(order, starts, ranks == _RANKS[MetadataType.FILE], ranks == _OTHER, owners)

    @property
    def lengths(self) -> Longs:
        """The number of units of each partition."""
        found: Longs = np.diff(self.starts)
        return found

    @property
    def owners_in_partition(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        """For each row group the place of its file within the partition; meaningless where there is none."""
        return (self.owners - np.repeat(self.starts[:-1], self.lengths)).astype(np.int32)

    def any_in_partition(self, units: Mask) -> Mask:
        """Which partitions have at least one of ``units``."""
        found: Mask = np.logical_or.reduceat(units, self.starts[:-1])
        return found

    def count_in_partition(self, units: Mask) -> Longs:
        """How many of ``units`` each partition has."""
        found: Longs = np.add.reduceat(units.astype(np.int64), self.starts[:-1])
        return found
