"""Which files the metadata still speaks for: the files of ANALYZE beside those that exist now.

The files of ANALYZE are met portion by portion; of those that are as they were only numbers are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from metastore.model.recorded_file import is_as_recorded
from metastore.model.statistics_json import read_holders
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR, Statistic
from metastore.pruning.units import Portion

Fingerprint = tuple[int, int]
"""Size in bytes and modification time in epoch nanoseconds."""


class FileUnits:
    """Some FILE units of a table: their paths, and the folders they lie in by their identifiers."""

    def __init__(self, units: pa.Table) -> None:
        self.units = units
        self.paths: list[Any] = units["path"].to_pylist()
        identifiers: list[Any] = units["metadataIdentifier"].to_pylist()
        # One text for each folder, however many files there are in it.
        folders = (identifier.rpartition(IDENTIFIER_SEPARATOR)[0] for identifier in identifiers)
        one: dict[str, str] = {}
        self.folders: list[str] = [one.setdefault(folder, folder) for folder in folders]

    @cached_property
    def holders(self) -> list[Any]:
        """The statistics of each as they are stored."""
        found: list[Any] = self.units["metadataStatistics"].to_pylist()
        return found

    @cached_property
    def sizes(self) -> list[int | None]:
        """The recorded size of each, None where there is none."""
        lengths = ([h for h in holders or () if Statistic.LENGTH in h] for holders in self.holders)
        return [read_holders(found).get(Statistic.LENGTH) for found in lengths]


class KnownFiles:
    """The files of a table, met by :meth:`meet`, beside ``listing`` (path -> fingerprint; None trusts the units).

    ``unchanged`` counts, by folder, the files that are as they were. A file without a recorded fingerprint counts as
    ``changed`` (path and folder). Once all files were met, ``unknown`` are the paths that have no unit.
    """

    def __init__(self, listing: Mapping[str, Fingerprint] | None) -> None:
        self.listing = listing
        self.unchanged: Counter[str] = Counter()
        self.changed: list[tuple[str, str]] = []
        self.missing: list[str] = []
        self._gone: set[str] = set()
        self._unmet = None if listing is None else dict(listing)
        self._recorded_size: int | None = 0
        self.row_groups = 0
        """Number of row groups of unchanged files."""

    def meet_portion(self, portion: Portion) -> None:
        """Take note of all files of ``portion``, and of their row groups."""
        for units in portion.files():
            self.meet(FileUnits(units))
        for units in portion.row_groups():
            paths: list[Any] = units["path"].to_pylist() if self._gone else [None] * units.num_rows
            self.meet_row_groups(paths)

    def meet_row_groups(self, paths: Sequence[str | None]) -> None:
        """Take note of the row groups of files that were met, by the paths of their files."""
        gone = sum(path in self._gone for path in paths) if self._gone else 0
        self.row_groups += len(paths) - gone

    def meet(self, files: FileUnits) -> None:
        """Take note of ``files``; each file once."""
        if self._unmet is None:
            self.unchanged.update(files.folders)
            if self._recorded_size is not None:
                sizes = files.sizes
                self._recorded_size = (
                    None if None in sizes else self._recorded_size + sum(map(int, filter(None, sizes)))
                )
            return
        for path, folder, holders in zip(files.paths, files.folders, files.holders, strict=True):
            now = self._unmet.pop(path, None)
            if now is not None and is_as_recorded(*now, holders or ()):
                self.unchanged[folder] += 1
                continue
            self._gone.add(path)
            if now is None:
                self.missing.append(path)
            else:
                self.changed.append((path, folder))

    def is_unchanged(self, path: str) -> bool:
        """Whether a file that was met is as it was."""
        return path not in self._gone

    def size_now(self, path: str) -> int | None:
        """Size of a file by the listing; None without one."""
        return None if self.listing is None else self.listing[path][0]

    @property
    def folders(self) -> set[str]:
        """Folders of the files that were met and exist."""
        return {*self.unchanged, *(folder for _, folder in self.changed)}

    @property
    def unknown(self) -> Sequence[str]:
        """Paths of files that have no unit."""
        return list(self._unmet or ())

    @property
    def count(self) -> int:
        """Number of files that exist now, as far as is known."""
        return self.unchanged.total() + len(self.changed) + len(self._unmet or ())

    def total_size(self) -> int | None:
        """Size of all files that exist now, None if one is not known."""
        if self.listing is not None:
            return sum(size for size, _ in self.listing.values())
        return self._recorded_size
