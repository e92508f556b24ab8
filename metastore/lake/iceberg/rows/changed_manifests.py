"""The manifests of a snapshot that adds files and removes others; manifests without a removed file stay as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile

from metastore.errors import FormatError
from metastore.lake.iceberg.manifests.manifests import added_entry, deleted_entry, existing
from metastore.lake.iceberg.rows.live_files import Place, live_file
from metastore.lake.iceberg.snapshots.snapshot import NewSnapshot

_ENTRIES: Final = 10_000
"""The most entries of one manifest."""


def changed_manifests(
    snapshot: NewSnapshot,
    manifests: Sequence[ManifestFile],
    read: Callable[[ManifestFile], Sequence[ManifestEntry]],
    new: Sequence[DataFile],
    going: Mapping[Place, int],
    number: int | None = None,
) -> tuple[list[ManifestFile], list[DataFile]]:
    """Return the manifests with ``new`` and without the entries that ``going`` counts, and the files of these.

    New files get the data sequence number ``number``; None: that of the commit. ``read`` returns the live entries of a
    manifest. Raises FormatError for a partition value that cannot be written, and the errors of ``read``.
    """
    made: list[ManifestFile] = []

    def write(entries: Sequence[ManifestEntry], spec_id: int, content: ManifestContent) -> None:
        parts = (entries[first : first + _ENTRIES] for first in range(0, len(entries), _ENTRIES))
        try:
            made.extend(snapshot.write_manifest(part, spec_id, content) for part in parts)
        except ValueError as error:
            raise FormatError(f"a partition value of {snapshot.table.name()} cannot be written: {error}") from error

    adding: dict[tuple[ManifestContent, int], list[ManifestEntry]] = {}
    for file in new:
        entry = added_entry(file, snapshot.id)
        if number is not None:
            entry.sequence_number = number
        adding.setdefault((_kind(file), file.spec_id), []).append(entry)
    for (content, spec_id), entries in adding.items():
        write(entries, spec_id, content)
    changed = {path for path, _ in going}
    gone: list[DataFile] = []
    left = Counter(going)
    kept: dict[tuple[ManifestContent, int], list[ManifestEntry]] = {}
    for manifest in manifests:
        if manifest.manifest_path not in changed:
            continue
        of_kind = kept.setdefault((ManifestContent(manifest.content), manifest.partition_spec_id), [])
        for entry in read(manifest):
            place = live_file(entry, manifest).place
            if left[place]:
                left[place] -= 1
                gone.append(entry.data_file)
                of_kind.append(deleted_entry(entry, snapshot.id))
            else:
                of_kind.append(existing(entry))
    for (content, spec_id), entries in kept.items():
        write(entries, spec_id, content)
    return [*made, *(each for each in manifests if each.manifest_path not in changed)], gone


def _kind(file: DataFile) -> ManifestContent:
    return ManifestContent.DATA if file.content == DataFileContent.DATA else ManifestContent.DELETES
