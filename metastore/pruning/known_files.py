"""Which files the metadata still speaks for: the files of ANALYZE beside those that exist now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from metastore.model.statistics import holder_json, read_holders
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR, Statistic

Fingerprint = tuple[int, int]
"""Size in bytes and modification time in epoch nanoseconds."""


class KnownFiles:
    """The FILE units of a table, split by what stands in ``listing`` (path -> fingerprint; None trusts the units).

    ``unchanged``, ``changed`` and ``missing`` are indices of units, ``unknown`` the paths without one. A file without a
    recorded fingerprint counts as changed.
    """

    def __init__(self, files: pa.Table, listing: Mapping[str, Fingerprint] | None) -> None:
        self.paths: list[Any] = files["path"].to_pylist()
        identifiers: list[Any] = files["metadataIdentifier"].to_pylist()
        self.folders: list[str] = [identifier.rpartition(IDENTIFIER_SEPARATOR)[0] for identifier in identifiers]
        self._holders: list[Any] = files["metadataStatistics"].to_pylist()
        self._listing = listing
        self.unchanged: Sequence[int] = range(len(self.paths))
        self.changed: Sequence[int] = ()
        self.missing: Sequence[int] = ()
        self.unknown: Sequence[str] = ()
        if listing is not None:
            self._compare(listing)

    @property
    def count(self) -> int:
        """Number of files that exist now, as far as is known."""
        return len(self.unchanged) + len(self.changed) + len(self.unknown)

    def size(self, path: str) -> int | None:
        """Size of a file now, or as it was recorded where there is no listing; None if neither is known."""
        return self._listing[path][0] if self._listing is not None else self._recorded_sizes.get(path)

    def total_size(self) -> int | None:
        """Size of all files that exist now, None if one is not known."""
        if self._listing is not None:
            return sum(size for size, _ in self._listing.values())
        sizes = self._recorded_sizes.values()
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @cached_property
    def _recorded_sizes(self) -> Mapping[str, int | None]:
        lengths = ([h for h in holders or () if Statistic.LENGTH in h] for holders in self._holders)
        return {
            path: read_holders(found).get(Statistic.LENGTH) for path, found in zip(self.paths, lengths, strict=True)
        }

    def _compare(self, listing: Mapping[str, Fingerprint]) -> None:
        unchanged, changed, missing = [], [], []
        for i, path in enumerate(self.paths):
            now = listing.get(path)
            if now is None:
                missing.append(i)
            elif _is_recorded(now, self._holders[i] or ()):
                unchanged.append(i)
            else:
                changed.append(i)
        known = set(self.paths)
        self.unchanged, self.changed, self.missing = unchanged, changed, missing
        self.unknown = [path for path in listing if path not in known]


def _is_recorded(now: Fingerprint, holders: Sequence[str]) -> bool:
    size, time = now
    # Our own holders are found as they were written; reading their JSON costs ten times as much.
    if (
        holder_json(Statistic.LENGTH, size) in holders
        and holder_json(Statistic.MODIFICATION_TIME_NANOS, time) in holders
    ):
        return True
    recorded = read_holders(holders)
    return (recorded.get(Statistic.LENGTH), recorded.get(Statistic.MODIFICATION_TIME_NANOS)) == now
