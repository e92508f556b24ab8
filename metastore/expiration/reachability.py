"""Mark: which files only expired snapshots reach. Reads metadata, deletes nothing.

A file goes when no kept snapshot reaches it. Kept manifests are decoded only where they could hold an entry of a
doomed one, so the cost follows what expires, not the size of the metastore. Files of writers that have not committed
are in no snapshot, so they are out of reach by construction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from metastore.errors import FormatError
from metastore.storage.key_range import KeyRange, range_of
from metastore.storage.manifests import Manifests

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Doomed:
    """Files to delete, by kind, in the order of deletion; a manifest goes only after the files it alone names."""

    data_files: Sequence[str] = ()
    manifests: Sequence[str] = ()
    manifest_lists: Sequence[str] = ()
    statistics: Sequence[str] = ()

    @property
    def paths(self) -> list[str]:
        """All of them, in order."""
        return [*self.data_files, *self.manifests, *self.manifest_lists, *self.statistics]

    def only(self, holds: Callable[[str], bool]) -> Doomed:
        """Without the files that ``holds`` denies: metadata may name what is not its table's to delete."""
        for path in self.paths:
            if not holds(path):
                logger.warning("%s is not below the table that names it; it is left alone", path)
        kinds = (self.data_files, self.manifests, self.manifest_lists, self.statistics)
        return Doomed(*([path for path in paths if holds(path)] for paths in kinds))


def only_reached_by(
    expired: Sequence[Snapshot], statistics: Iterable[str], kept: TableMetadata, manifests: Manifests
) -> Doomed:
    """Files that the ``expired`` snapshots (with their ``statistics`` files) reach and no snapshot of ``kept`` does.

    A manifest or list of an expired snapshot that is gone already was swept by an earlier run. Raises FormatError when
    one of a kept snapshot is gone: then nothing is proven, and nothing may be deleted.
    """
    kept_manifests = {
        m.manifest_path: m for snapshot in kept.snapshots for m in _listed(snapshot, manifests, kept=True) or ()
    }
    listed = {s.manifest_list: found for s in expired if (found := _listed(s, manifests)) is not None}
    doomed = {m.manifest_path: m for found in listed.values() for m in found if m.manifest_path not in kept_manifests}
    candidates = _files(doomed.values(), manifests)
    ranges = [range_of(manifest) for manifest in doomed.values()]
    overlapping = [m for m in kept_manifests.values() if any(_overlap(range_of(m), other) for other in ranges)]
    live = set(_files(overlapping, manifests, kept=True)) if candidates else set()
    kept_lists = {snapshot.manifest_list for snapshot in kept.snapshots}
    kept_statistics = set(statistics_files(kept))
    return Doomed(
        [path for path in candidates if path not in live],
        list(doomed),
        [path for path in listed if path not in kept_lists],
        [path for path in statistics if path not in kept_statistics],
    )


def statistics_files(metadata: TableMetadata) -> list[str]:
    """Puffin files that the metadata names."""
    return [file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)]


def _files(wanted: Iterable[ManifestFile], manifests: Manifests, *, kept: bool = False) -> dict[str, None]:
    entries = (entry for manifest in wanted for entry in _entries(manifest, manifests, kept=kept))
    return {entry.data_file.file_path: None for entry in entries}


def _listed(snapshot: Snapshot, manifests: Manifests, *, kept: bool = False) -> Sequence[ManifestFile] | None:
    """The snapshot's manifests, of which another writer may list none; None when the list is gone."""
    try:
        return manifests.all_of(snapshot)
    except FileNotFoundError as error:
        if kept:
            raise FormatError(
                f"the manifest list of kept version {snapshot.snapshot_id} is missing: {error}"
            ) from error
        return None


def _entries(manifest: ManifestFile, manifests: Manifests, *, kept: bool) -> Sequence[ManifestEntry]:
    try:
        return manifests.decode(manifest).entries
    except FileNotFoundError as error:
        if kept:
            raise FormatError(f"a manifest of a kept version is missing: {error}") from error
        return ()


def _overlap(one: KeyRange | None, other: KeyRange | None) -> bool:
    if one is None or other is None:
        return True
    bounds = zip(one.lower, one.upper, other.lower, other.upper, strict=True)
    return all(low <= other_high and other_low <= high for low, high, other_low, other_high in bounds)
