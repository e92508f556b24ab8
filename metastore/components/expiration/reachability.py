"""Lists the files that snapshots of a component's table reach, for the sweep, from cached manifests.

A kept manifest is decoded only if its range of partition keys overlaps that of an expiring one, so the cost depends on
what expires, not on the size of the metastore. Files of writers that have not committed are in no snapshot, so they are
never deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from metastore.components.storage.key_range import KeyRange, range_of
from metastore.errors import FormatError
from metastore.lake.iceberg.manifests.manifests import Manifests
from metastore.lake.iceberg.snapshots.sweep import FileKind, TableFile


class ComponentLister:
    """The lister of one component's table; remembers the manifests that it listed."""

    def __init__(self, manifests: Manifests) -> None:
        self._manifests = manifests
        self._listed: dict[str, ManifestFile] = {}

    def lists(self, snapshots: Iterable[Snapshot], *, must_stand: bool) -> dict[str, TableFile]:
        """Implements the protocol; a version of another writer may have no readable list."""
        found: dict[str, TableFile] = {}
        for snapshot in snapshots:
            manifests = self._of(snapshot, must_stand=must_stand)
            if manifests is not None:
                found[snapshot.manifest_list] = TableFile(snapshot.manifest_list, FileKind.MANIFEST_LIST)
                self._listed.update((manifest.manifest_path, manifest) for manifest in manifests)
                found.update((m.manifest_path, TableFile(m.manifest_path, FileKind.MANIFEST)) for m in manifests)
        return found

    def live_files(self, manifests: Iterable[TableFile], *, must_stand: bool) -> Iterator[tuple[str, TableFile]]:
        """Implements the protocol."""
        for manifest in manifests:
            for entry in self._entries(self._listed[manifest.location], must_stand=must_stand):
                yield entry.data_file.file_path, TableFile(entry.data_file.file_path, FileKind.DATA)

    def sharing(
        self, kept_files: Sequence[TableFile], doomed: Sequence[TableFile], contents: Collection[TableFile]
    ) -> list[TableFile]:
        """Compares ranges of keys, because a data file belongs to one partition."""
        ranges = [self._range(manifest) for manifest in doomed] if contents else []
        return [manifest for manifest in kept_files if any(_overlap(self._range(manifest), other) for other in ranges)]

    def path(self, location: str) -> str:
        """Returns the location unchanged, because only this package writes these locations."""
        return location

    def paths_to_keep(self, location: str) -> tuple[str]:
        """Returns the location: a component's files are no links."""
        return (location,)

    def _range(self, manifest: TableFile) -> KeyRange | None:
        return range_of(self._listed[manifest.location])

    def _of(self, snapshot: Snapshot, *, must_stand: bool) -> Sequence[ManifestFile] | None:
        try:
            return self._manifests.all_of(snapshot)
        except FileNotFoundError as error:
            if must_stand:
                raise FormatError(
                    f"the manifest list of kept version {snapshot.snapshot_id} is missing: {error}"
                ) from error
            return None

    def _entries(self, manifest: ManifestFile, *, must_stand: bool) -> Sequence[ManifestEntry]:
        try:
            return self._manifests.decode(manifest).entries
        except FileNotFoundError as error:
            if must_stand:
                raise FormatError(f"a manifest of a kept version is missing: {error}") from error
            return ()


def _overlap(key_range: KeyRange | None, other: KeyRange | None) -> bool:
    if key_range is None or other is None:
        return True
    bounds = zip(key_range.lower, key_range.upper, other.lower, other.upper, strict=True)
    return all(low <= other_high and other_low <= high for low, high, other_low, other_high in bounds)
