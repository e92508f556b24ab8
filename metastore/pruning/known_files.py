"""Compares the files of the last ANALYZE with the present ones: which files the metadata is still valid for.

The analyzed files arrive portion by portion; unchanged files are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from metastore.bounds.bound_arrays import Mask
from metastore.bounds.portion_columns import PortionColumns
from metastore.bounds.unit_columns import FileUnits, Longs
from metastore.mapping.recorded_numbers import UNKNOWN

Fingerprint = tuple[int, int]
"""Size in bytes and modification time in epoch nanoseconds."""


class KnownFiles:
    """The files of a table, passed to :meth:`meet`, compared with ``listing`` (path -> fingerprint.

    None trusts the units).

    ``unchanged`` counts the unchanged files by folder. A file without a recorded fingerprint counts as ``changed``
    (path and folder). After all files were met, ``unknown`` has the paths without a unit.
    """

    def __init__(self, listing: Mapping[str, Fingerprint] | None) -> None:
        self.listing = listing
        self.unchanged: Counter[str] = Counter()
        self.changed: list[tuple[str, str]] = []
        self.missing: list[str] = []
        self._gone: set[str] = set()
        self._listed = None if listing is None else _Listed(listing)
        self._recorded_size: int | None = 0
        self.row_groups = 0
        """Number of row groups of unchanged files."""

    def meet_portion(self, portion: PortionColumns) -> None:
        """Records all files of ``portion``, and their row groups."""
        for files in portion.files:
            self.meet(files)
        for each in portion.counted:
            self.unchanged[each.folder] += each.files
            self.row_groups += each.row_groups
            if self._recorded_size is not None:
                self._recorded_size = None if each.size is None else self._recorded_size + each.size
        is_here = self.are_unchanged(portion.paths) if self._gone else None
        for row_groups in portion.row_groups:
            self.row_groups += len(row_groups)
            if is_here is not None:
                self.row_groups -= int((~is_here[row_groups.files[row_groups.files >= 0]]).sum())

    def meet(self, files: FileUnits) -> None:
        """Records ``files``; call it once for each file."""
        if self._listed is None:
            self._count(files, np.ones(len(files), np.bool_))
            if self._recorded_size is not None:
                is_known = bool((files.sizes != UNKNOWN).all())
                self._recorded_size = self._recorded_size + int(files.sizes.sum()) if is_known else None
            return
        places = self._listed.meet(files.paths)
        unchanged = self._listed.as_recorded(places, files)
        self._count(files, unchanged)
        for position in np.flatnonzero(~unchanged).tolist():
            path = files.paths[position].as_py()
            self._gone.add(path)
            if places[position] < 0:
                self.missing.append(path)
            else:
                self.changed.append((path, files.folders.names[files.folders.codes[position]]))

    def _count(self, files: FileUnits, which: Mask) -> None:
        counts = np.bincount(files.folders.codes[which], minlength=len(files.folders.names)).tolist()
        self.unchanged.update({folder: n for folder, n in zip(files.folders.names, counts, strict=True) if n})

    def are_unchanged(self, paths: pa.ChunkedArray[Any] | pa.Array[Any]) -> Mask:
        """Which of the recorded files at ``paths`` are unchanged."""
        if not self._gone:
            return np.ones(len(paths), np.bool_)
        return np.array([path not in self._gone for path in paths.to_pylist()], np.bool_)

    def sizes_now(self, files: FileUnits) -> Longs:
        """Sizes of files by the listing; without a listing, the recorded sizes."""
        return files.sizes if self._listed is None else self._listed.sizes_of(files.paths)

    def size_now(self, path: str) -> int | None:
        """Size of a file by the listing; None without a listing."""
        return None if self.listing is None else self.listing[path][0]

    @property
    def folders(self) -> set[str]:
        """Folders of the recorded files that still exist."""
        return {*self.unchanged, *(folder for _, folder in self.changed)}

    @property
    def unknown(self) -> Sequence[str]:
        """Paths of files that have no unit."""
        return [] if self._listed is None else self._listed.unmet

    @property
    def count(self) -> int:
        """Number of files that exist now, as far as known."""
        return self.unchanged.total() + len(self.changed) + len(self.unknown)

    def total_size(self) -> int | None:
        """Total size of all files that exist now, None if one size is unknown."""
        if self._listed is not None:
            return int(self._listed.sizes.sum())
        return self._recorded_size


class _Listed:
    """A listing as columns, with a mark at the files that were met."""

    def __init__(self, listing: Mapping[str, Fingerprint]) -> None:
        self._paths = list(listing)
        self._places = {path: place for place, path in enumerate(self._paths)}
        fingerprints = np.array(list(listing.values()), np.int64).reshape(-1, 2)
        self.sizes, self._times = fingerprints[:, 0], fingerprints[:, 1]
        self._met = np.zeros(len(self._paths), np.bool_)

    def meet(self, paths: pa.Array[Any]) -> Longs:
        """The place of each path in the listing; -1 if the path is not listed or was met before."""
        places = self._found(paths)
        listed = np.flatnonzero(places >= 0)
        _, first = np.unique(places[listed], return_index=True)
        again = np.ones(len(places), np.bool_)
        again[listed[first]] = self._met[places[listed[first]]]
        places[again] = -1
        self._met[places[places >= 0]] = True
        return places

    def as_recorded(self, places: Longs, files: FileUnits) -> Mask:
        """Which files have the size and time of the listed file at their ``places``."""
        if not len(self._paths):
            return np.zeros(len(places), np.bool_)
        same = (self.sizes[places] == files.sizes) & (self._times[places] == files.times)
        found: Mask = (places >= 0) & (files.sizes != UNKNOWN) & (files.times != UNKNOWN) & same
        return found

    def sizes_of(self, paths: pa.Array[Any]) -> Longs:
        """Sizes by the listing; UNKNOWN for files that are not listed."""
        places = self._found(paths)
        if not len(self._paths):
            return np.full(len(places), UNKNOWN, np.int64)
        return np.where(places < 0, UNKNOWN, self.sizes[places])

    @property
    def unmet(self) -> list[str]:
        """The listed paths that were not met."""
        return [self._paths[place] for place in np.flatnonzero(~self._met)]

    def _found(self, paths: pa.Array[Any]) -> Longs:
        of = self._places.get
        texts: list[Any] = paths.to_pylist()
        return np.fromiter((of(path, -1) for path in texts), np.int64, len(paths))
