"""Compares the files of the last ANALYZE with the present ones: which files the metadata is still valid for.

A listing is compared by one join of columns over all files; unchanged files are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.bounds.bound_arrays import Mask, mask_of
from metastore.model.bounds.portion_columns import PortionColumns
from metastore.model.bounds.unit_columns import CodedTexts, FileUnits, Longs
from metastore.model.mapping.recorded_numbers import UNKNOWN
from metastore.scan.pruning.listed_files import ListedFiles

_NOWHERE: Final[Longs] = np.zeros(0, np.int64)
_NO_FOLDERS: Final = CodedTexts(np.zeros(0, np.int32), ())


@dataclass(eq=False)
class KnownFiles:
    """The analyzed files of a table, compared with a ``listing``; without one, all count as unchanged.

    * ``unchanged`` counts the unchanged files by folder, ``row_groups`` their row groups.
    * ``changed`` and ``unknown`` are positions in the listing, each with folders. A file with several units counts as
      unknown, because its units may contradict each other. A file without a recorded fingerprint counts as changed.
    * ``missing`` has the paths of units whose files are not listed.
    """

    listing: ListedFiles | None = None
    unchanged: Counter[str] = field(default_factory=Counter)
    row_groups: int = 0
    changed: Longs = field(default_factory=lambda: _NOWHERE)
    changed_folders: CodedTexts = _NO_FOLDERS
    unknown: Longs = field(default_factory=lambda: _NOWHERE)
    unknown_folders: CodedTexts = _NO_FOLDERS
    missing: Sequence[str] = ()
    _gone: dict[str, list[pa.Array[Any]]] = field(default_factory=dict)
    """By folder, the paths whose units are not valid."""
    _recorded_size: int | None = 0

    @classmethod
    def compare(cls, listing: ListedFiles, portions: Iterable[PortionColumns], root: str) -> KnownFiles:
        """Compares all files of ``portions`` with the ``listing`` of the table at ``root``."""
        recorded = _RecordedFiles.of(portions)
        places = listing.places_of(recorded.paths)
        is_listed = places >= 0
        units = np.bincount(places[is_listed], minlength=len(listing))
        listed = np.flatnonzero(is_listed)
        alone = listed[units[places[listed]] == 1]
        is_same = recorded.are_as_listed(alone, listing, places[alone])
        is_unchanged = np.zeros(len(places), np.bool_)
        is_unchanged[alone] = is_same
        changed, unknown = alone[~is_same], np.flatnonzero(units != 1)
        missing: list[Any] = recorded.paths.take(np.flatnonzero(~is_listed)).to_pylist()
        return cls(
            listing,
            _count_by_folder(recorded.folders, is_unchanged),
            int(recorded.row_groups[is_unchanged].sum()) + recorded.orphans,
            places[changed],
            recorded.folders.take(changed),
            unknown,
            listing.folders(unknown, root),
            missing,
            recorded.paths_by_folder(np.flatnonzero(~is_unchanged)),
        )

    def meet_portion(self, portion: PortionColumns) -> None:
        """Counts all files of ``portion`` and their row groups as unchanged; only without a listing."""
        for files in portion.files:
            self.unchanged.update(_count_by_folder(files.folders, np.ones(len(files), np.bool_)))
            is_known = bool((files.sizes != UNKNOWN).all())
            self._add_size(int(files.sizes.sum()) if is_known else None)
        for each in portion.counted:
            self.unchanged[each.folder] += each.files
            self.row_groups += each.row_groups
            self._add_size(each.size)
        self.row_groups += sum(map(len, portion.row_groups))

    def _add_size(self, size: int | None) -> None:
        known = self._recorded_size
        self._recorded_size = None if known is None or size is None else known + size

    def are_unchanged(self, files: FileUnits) -> Mask:
        """Which of the analyzed ``files`` are unchanged."""
        gone = [paths for name in files.folders.names for paths in self._gone.get(name, ())]
        if not gone:
            return np.ones(len(files), np.bool_)
        return ~mask_of(pc.is_in(files.paths, pa.chunked_array(gone, pa.string())))

    @property
    def folders(self) -> set[str]:
        """Folders of the files that exist now."""
        named = (of.names[code] for of in (self.changed_folders, self.unknown_folders) for code in np.unique(of.codes))
        return {*self.unchanged, *named}

    @property
    def count(self) -> int:
        """Number of files that exist now, as far as known."""
        return self.unchanged.total() + len(self.changed) + len(self.unknown)

    def listed_paths(self, places: Longs) -> list[str]:
        """The paths of listed files at ``places``."""
        if self.listing is None:
            return []
        found: list[Any] = self.listing.paths.take(places).to_pylist()
        return found

    def total_size(self) -> int | None:
        """Total size of all files that exist now, None if one size is unknown."""
        return self._recorded_size if self.listing is None else int(self.listing.sizes.sum())


@dataclass(frozen=True, eq=False)
class _RecordedFiles:
    """All analyzed files as columns, with their numbers of row groups; ``orphans`` are row groups without a file."""

    paths: pa.ChunkedArray[Any]
    folders: CodedTexts
    sizes: Longs
    times: Longs
    row_groups: Longs
    orphans: int

    @classmethod
    def of(cls, portions: Iterable[PortionColumns]) -> _RecordedFiles:
        """The files of all portions in one table of columns; a portion numbers its files on its own."""
        files: list[FileUnits] = []
        row_groups: list[Longs] = [_NOWHERE]
        orphans = 0
        for portion in portions:
            files += portion.files
            owners = np.concatenate([_NOWHERE, *(each.files for each in portion.row_groups)])
            owned = owners[owners >= 0]
            orphans += len(owners) - len(owned)
            row_groups.append(np.bincount(owned, minlength=sum(map(len, portion.files))))
        return cls(
            pa.chunked_array([each.paths for each in files], pa.string()),
            CodedTexts.join([each.folders for each in files]),
            np.concatenate([_NOWHERE, *(each.sizes for each in files)]),
            np.concatenate([_NOWHERE, *(each.times for each in files)]),
            np.concatenate(row_groups),
            orphans,
        )

    def are_as_listed(self, which: Longs, listing: ListedFiles, places: Longs) -> Mask:
        """Which of the files at ``which`` have the size and time of the listed files at ``places``."""
        sizes, times = self.sizes[which], self.times[which]
        is_known = (sizes != UNKNOWN) & (times != UNKNOWN)
        found: Mask = is_known & (sizes == listing.sizes[places]) & (times == listing.times[places])
        return found

    def paths_by_folder(self, which: Longs) -> dict[str, list[pa.Array[Any]]]:
        """The paths of the files at ``which`` by folder."""
        by_folder = which[np.argsort(self.folders.codes[which], kind="stable")]
        paths: Any = self.paths.take(by_folder).combine_chunks()
        codes, starts = np.unique(self.folders.codes[by_folder], return_index=True)
        found: dict[str, list[pa.Array[Any]]] = {}
        for code, start, length in zip(codes, starts, np.diff(starts, append=len(by_folder)), strict=True):
            found.setdefault(self.folders.names[code], []).append(paths.slice(start, length))
        return found


def _count_by_folder(folders: CodedTexts, which: Mask) -> Counter[str]:
    """Counts the files ``which`` by folder."""
    counts = np.bincount(folders.codes[which], minlength=len(folders.names)).tolist()
    found: Counter[str] = Counter()
    for name, count in zip(folders.names, counts, strict=True):
        if count:
            found[name] += count
    return found
