"""Finds the files that versions of a component's table reach, and those that are missing or damaged.

Place in the flow: ``check`` and ``repair`` use it to decide whether a version is intact. The component's folder is
listed once, so most files need no request of their own; only files outside of the folder are queried one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from metastore.engines.engine import LocalEngine
from metastore.errors import FormatError, MetastoreError, StorageError
from metastore.lake.iceberg.manifests.manifest_reader import read_list, read_live_entries
from metastore.lake.iceberg.manifests.manifests import decode_file
from metastore.lake.stores.spelling import Spelling
from metastore.lake.stores.trees import Folder, stored_files

Kind = Literal["manifest list", "manifest", "data file", "statistics file"]


@dataclass(frozen=True)
class LostFile:
    """A file that snapshot ``version`` reaches, and its damage."""

    version: int
    kind: Kind
    location: str
    what: str


@dataclass
class WalkTotals:
    """Totals of the walked snapshots; a file that several of them share counts once."""

    files: int = 0
    bytes: int = 0


@dataclass
class StoredFiles:
    """The files on the store below ``folder``, by canonical path; ``io`` opens files outside of it."""

    io: FileIO
    folder: str
    _spelling: Spelling = field(default_factory=Spelling)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        with LocalEngine(1) as engine:
            listed = stored_files([Folder(self.io, self.folder, ("_", "."))], lambda _: engine)
            return {self._spelling.path(file.location): file.size for file in listed}

    def size(self, location: str) -> int | None:
        """Returns the size of the file in bytes, or None if it does not exist. Raises StorageError."""
        found = self._sizes.get(self._spelling.path(location))
        if found is not None:
            return found
        try:
            return len(self.io.new_input(location))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot look for {location}: {error}") from error


class Walk:
    """Walks through snapshots of one table; ``reach`` adds up the intact files."""

    def __init__(self, io: FileIO, stored: StoredFiles) -> None:
        self._io = io
        self._stored = stored
        self._seen: set[str] = set()
        self.reach = WalkTotals()

    def find_lost_files(self, metadata: TableMetadata, snapshots: Iterable[Snapshot]) -> Iterator[LostFile]:
        """Yields every file of ``snapshots`` that is missing, truncated or unreadable.

        Raises StorageError if the store fails.
        """
        for snapshot in snapshots:
            version = snapshot.snapshot_id
            yield from self._looked_at(version, "manifest list", snapshot.manifest_list, None)
            try:
                manifests = self._list_manifests(snapshot)
            except FileNotFoundError:
                continue
            except FormatError as error:
                yield LostFile(version, "manifest list", snapshot.manifest_list, str(error))
                continue
            for manifest in manifests:
                yield from self._manifest(version, manifest)
        ids = {snapshot.snapshot_id for snapshot in metadata.snapshots}
        for statistics in (*metadata.statistics, *metadata.partition_statistics):
            if statistics.snapshot_id in ids:
                place, size = statistics.statistics_path, statistics.file_size_in_bytes
                yield from self._looked_at(statistics.snapshot_id, "statistics file", place, size)

    def _manifest(self, version: int, manifest: ManifestFile) -> Iterator[LostFile]:
        """What is lost of a manifest and its data files; a manifest that several versions share is looked at once."""
        place = manifest.manifest_path
        if place in self._seen:
            return
        found = list(self._looked_at(version, "manifest", place, manifest.manifest_length))
        yield from found
        if found:
            return
        try:
            entries = decode_file(place, lambda: read_live_entries(self._io, manifest))
        except FormatError as error:
            yield LostFile(version, "manifest", place, str(error))
            return
        except OSError as error:
            raise StorageError(f"cannot read {place}: {error}") from error
        for entry in entries:
            file = entry.data_file
            yield from self._looked_at(version, "data file", file.file_path, file.file_size_in_bytes)

    def _list_manifests(self, snapshot: Snapshot) -> Iterable[ManifestFile]:
        try:
            return decode_file(snapshot.manifest_list, lambda: read_list(self._io, snapshot.manifest_list))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StorageError(f"cannot read {snapshot.manifest_list}: {error}") from error

    def _looked_at(self, version: int, kind: Kind, location: str, size: int | None) -> Iterator[LostFile]:
        if location in self._seen:
            return
        self._seen.add(location)
        found = self._stored.size(location)
        if found is None:
            yield LostFile(version, kind, location, "it is missing")
        elif size is not None and found != size:
            yield LostFile(version, kind, location, f"it has {found:,} bytes, and {size:,} were written")
        else:
            self.reach.files += 1
            self.reach.bytes += found


def first_lost(io: FileIO, stored: StoredFiles, metadata: TableMetadata) -> str | None:
    """Returns the damage of the current snapshot of ``metadata`` as a clause, or None if all its files are intact."""
    current = metadata.current_snapshot()
    if current is None:
        return None
    try:
        lost = next(iter(Walk(io, stored).find_lost_files(metadata, [current])), None)
    except MetastoreError as error:
        return str(error)
    return None if lost is None else f"{lost.kind} {lost.location}: {lost.what}"
