"""Manifest lists and manifests of a component: read, written, and cached in decoded form.

A decoded manifest has its live entries and their partition keys, as tuples for look-ups and as an Arrow table for
filters. A commit puts the manifests it wrote into the cache, so the next commit and the next read decode nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table.snapshots import Snapshot

from metastore.errors import FormatError, MetastoreError
from metastore.ground.threads import Threads
from metastore.lake.iceberg.catalogs.open_tables import FileCache
from metastore.lake.iceberg.columns.version_3_fields import (
    first_row_id,
    first_row_id_of_manifest,
    set_first_row_id,
    set_first_row_id_of_manifest,
)
from metastore.lake.iceberg.manifests.compact_entries import CompactEntry, compact_entries
from metastore.lake.iceberg.manifests.manifest_reader import content_of, most_of, read_list, read_live_entries
from metastore.lake.iceberg.manifests.manifest_writer import ListedManifest, is_settled, write_manifest_list_file
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.new_files import NewFiles
from metastore.model.mapping.rows import PartitionKey

V = TypeVar("V")

_ENTRY_BYTES: Final = 4_000
_COMPACT_BYTES: Final = 1_300
_MANIFEST_BYTES: Final = 2_000
_READ_AT_ONCE: Final = 8


def key_of(data_file: DataFile) -> PartitionKey:
    """Return the partition values of a data file, in the order of the partition spec."""
    partition = data_file.partition
    return tuple(map(partition.__getitem__, range(len(partition))))


@dataclass(frozen=True)
class DecodedManifest:
    """The live entries of one manifest, and their partition keys in the same order."""

    file: ManifestFile
    entries: tuple[ManifestEntry, ...]
    keys: tuple[PartitionKey, ...]

    @cached_property
    def positions(self) -> dict[PartitionKey, list[int]]:
        """Positions of the entries of each key; more than one only if another writer wrote several files."""
        found: dict[PartitionKey, list[int]] = {}
        for position, key in enumerate(self.keys):
            found.setdefault(key, []).append(position)
        return found

    @cached_property
    def _key_columns(self) -> list[pa.Array[Any]]:
        return [pa.array(column, pa.string()) for column in zip(*self.keys, strict=True)]

    def key_table(self, names: Sequence[str]) -> pa.Table:
        """Return the keys as Arrow columns named ``names``, one row for each entry; there is at least one."""
        return pa.table(self._key_columns, names=list(names))


def live_count(manifest: ManifestFile) -> int:
    """Return the number of live entries of a manifest, by its own counts."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


class Manifests:
    """Manifests of one component's table, read through ``io`` and cached in ``cache``."""

    def __init__(self, io: FileIO, cache: FileCache) -> None:
        self._io = io
        self._cache = cache

    def all_of(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """Return the snapshot's manifests, in the order of its list.

        Raises FormatError for delete manifests: only whole files are removed from a component.
        """
        path = snapshot.manifest_list
        return self._cache.get(path, lambda: self._read_list(path), lambda found: _MANIFEST_BYTES * len(found))

    def of(self, snapshot: Snapshot | None) -> tuple[ManifestFile, ...]:
        """Return the snapshot's manifests with live entries; none for no snapshot. Raises as :meth:`all_of`."""
        if snapshot is None:
            return ()
        return tuple(manifest for manifest in self.all_of(snapshot) if live_count(manifest))

    def _read_list(self, path: str) -> tuple[ManifestFile, ...]:
        manifests = decode_file(path, lambda: read_list(self._io, path))
        if any(manifest.content != ManifestContent.DATA for manifest in manifests):
            raise FormatError(
                f"{path} lists delete manifests; a component's table has none: was it written by another tool?"
            )
        return manifests

    def decode(self, manifest: ManifestFile) -> DecodedManifest:
        """Return the manifest's live entries."""
        path = manifest.manifest_path

        def load() -> DecodedManifest:
            return decode_file(path, lambda: decoded_manifest(self._io, manifest))

        return self._cache.get(path, load, _size_of)

    def each_decoded(self, manifests: Sequence[ManifestFile]) -> Iterator[DecodedManifest]:
        """Yield the live entries of each of ``manifests``, in order; a store with latency is read ahead concurrently.

        Only those are in memory, besides the cache: an entry takes kilobytes, and there may be a million of them.
        """
        for start in range(0, len(manifests), _READ_AT_ONCE):
            some = manifests[start : start + _READ_AT_ONCE]
            paths = [manifest.manifest_path for manifest in some]
            if len(some) == 1 or is_local(paths[0]) or self._cache.holds(paths):
                yield from map(self.decode, some)
            else:
                with Threads(len(some)) as threads:
                    found = list(threads.map(self.decode, some))
                yield from found

    def fetch(self, manifests: Sequence[ManifestFile]) -> None:
        """Read as many of ``manifests`` at once as :meth:`each_decoded` does, so that the next questions find them."""
        deque(self.each_decoded(manifests[:_READ_AT_ONCE]), maxlen=0)

    def remember(
        self, snapshot: Snapshot, listed: Sequence[ListedManifest], written: Iterable[DecodedManifest]
    ) -> None:
        """Cache what a published commit wrote: its list, and its manifests as the list names them."""
        number = snapshot.sequence_number or 0
        self._cache.put(snapshot.manifest_list, tuple(listed), _MANIFEST_BYTES * len(listed))
        by_path = {manifest.manifest_path: manifest for manifest in listed}
        for decoded in written:
            file = by_path[decoded.file.manifest_path]
            kept = replace(
                decoded, file=file, entries=tuple(_with_sequence_number(entry, number) for entry in decoded.entries)
            )
            self._cache.put(file.manifest_path, kept, _size_of(kept))


def decoded_manifest(io: FileIO, manifest: ManifestFile) -> DecodedManifest:
    """Return the live entries of a manifest, read anew. Raises OSError, and the decoder's errors for a bad file."""
    compact = compact_entries(content_of(io, manifest.manifest_path), manifest, most_of(io))
    if compact is not None:
        return DecodedManifest(manifest, compact, tuple(entry.key for entry in compact))
    entries = read_live_entries(io, manifest)
    return DecodedManifest(manifest, entries, tuple(key_of(entry.data_file) for entry in entries))


def _size_of(decoded: DecodedManifest) -> int:
    compact = sum(isinstance(entry, CompactEntry) for entry in decoded.entries)
    return _COMPACT_BYTES * compact + _ENTRY_BYTES * (len(decoded.entries) - compact)


def decode_file(path: str, read: Callable[[], V]) -> V:
    """Return the result of ``read`` for the file at ``path``; FormatError names the file if it is malformed."""
    try:
        return read()
    except (OSError, MetastoreError):
        raise
    except Exception as error:
        # The decoder has no error class of its own: a broken file may raise anything.
        raise FormatError(f"{path} cannot be decoded as an Iceberg manifest or list: {error!r}") from error


def write_list(
    files: NewFiles, snapshot: Snapshot, format_version: int, manifests: Sequence[ManifestFile]
) -> list[ListedManifest]:
    """Write the snapshot's manifest list to the location it names; returns the manifests as listed."""
    listed = [_with_numbers(manifest, snapshot.sequence_number or 0) for manifest in manifests]
    write_manifest_list_file(files, format_version, snapshot, listed)
    return listed


def with_row_ids(manifests: Iterable[ManifestFile], next_row_id: int) -> tuple[list[ManifestFile], int]:
    """Return the manifests of a list of format version 3, and how many row ids from ``next_row_id`` on they take.

    A data manifest without ids gets the next ones, one for each of its live rows. The first snapshot after an upgrade
    so gives ids to all rows of the table.
    """
    taken = 0
    given = []
    for manifest in manifests:
        if manifest.content == ManifestContent.DATA and first_row_id_of_manifest(manifest) is None:
            manifest = type(manifest)(*(manifest[position] for position in range(len(manifest))))  # noqa: PLW2901 - a copy: others share the original
            set_first_row_id_of_manifest(manifest, next_row_id + taken)
            taken += (manifest.existing_rows_count or 0) + (manifest.added_rows_count or 0)
        given.append(manifest)
    return given, taken


def added_entry(data_file: DataFile, snapshot_id: int) -> ManifestEntry:
    """Return an entry for a file that snapshot ``snapshot_id`` adds; the commit sets its sequence number and row ids.

    A file of another snapshot, as a cherry-pick adds it, does not bring that one's row ids.
    """
    if first_row_id(data_file) is not None:
        spec_id = data_file.spec_id
        data_file = DataFile(*(data_file[position] for position in range(len(data_file))))
        data_file.spec_id = spec_id
        set_first_row_id(data_file, None)
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED,
        snapshot_id=snapshot_id,
        sequence_number=None,
        file_sequence_number=None,
        data_file=data_file,
    )


def existing(entry: ManifestEntry) -> ManifestEntry:
    """Return the entry as carried over from an older snapshot."""
    if is_settled(entry):
        return entry
    return _with_status(entry, ManifestEntryStatus.EXISTING, entry.snapshot_id)


def deleted_entry(entry: ManifestEntry, snapshot_id: int) -> ManifestEntry:
    """Return the entry as removed by snapshot ``snapshot_id``."""
    return _with_status(entry, ManifestEntryStatus.DELETED, snapshot_id)


def _with_status(entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def _with_sequence_number(entry: ManifestEntry, number: int) -> ManifestEntry:
    if entry.sequence_number is not None:
        return entry
    landed = _with_status(entry, entry.status, entry.snapshot_id)
    landed.sequence_number = number
    landed.file_sequence_number = number
    return landed


def _with_numbers(manifest: ManifestFile, number: int) -> ListedManifest:
    """Return the manifest as readers of the new list see it: unset numbers are the commit's."""
    if isinstance(manifest, ListedManifest):
        return manifest
    numbered = ListedManifest(*(manifest[position] for position in range(len(manifest))))
    numbered.sequence_number = number if manifest.sequence_number < 0 else manifest.sequence_number
    numbered.min_sequence_number = number if manifest.min_sequence_number < 0 else manifest.min_sequence_number
    return numbered
