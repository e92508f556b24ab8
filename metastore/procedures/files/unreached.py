"""Mark: which files only expired snapshots reach, at a cost that follows what expires.

A file is of no use when no kept snapshot reaches it, under any spelling of its location. Kept manifests are read only
as far as they could name a doomed file: of the same kind and partition spec, and until no doomed file is left to save.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from metastore.procedures.files.inventory import (
    MANIFESTS,
    FileKind,
    Inventory,
    TableFile,
    statistics_files,
)
from metastore.procedures.files.spelling import Spelling


@dataclass(frozen=True)
class Mark:
    """``expired`` snapshots of the table as it is in ``before``, what is ``kept`` of it, and further candidates.

    ``candidates`` are files that an earlier run found to be of no use, and did not get to delete.
    """

    expired: Sequence[Snapshot]
    before: TableMetadata
    kept: TableMetadata
    candidates: Sequence[TableFile] = ()


def only_reached_by(mark: Mark, inventory: Inventory) -> list[TableFile]:
    """Files that nothing kept reaches: data and delete files, then manifests, lists and statistics.

    Lists and manifests of expired snapshots that are missing were swept by an earlier run. Raises FormatError when one
    of a kept snapshot is: then nothing is proven.
    """
    key = Spelling().path
    kept = inventory.lists(mark.kept.snapshots, must_stand=True)
    kept_statistics = statistics_files(mark.kept)
    saved = {key(location) for location in (*kept, *kept_statistics)}

    doomed: dict[str, TableFile] = {}
    for found in (inventory.lists(mark.expired, must_stand=False), statistics_files(mark.before)):
        doomed.update((key(location), file) for location, file in found.items())
    manifests = [file for path, file in doomed.items() if file.kind in MANIFESTS and path not in saved]
    contents = {key(location): file for location, file in inventory.live_files(manifests, must_stand=False)}
    for file in mark.candidates:
        (doomed if file.kind in _OF_METADATA else contents).setdefault(key(file.location), file)

    _save(contents, kept.values(), inventory)
    of_metadata = [file for path, file in doomed.items() if path not in saved]
    return [*contents.values(), *sorted(of_metadata, key=lambda file: _OF_METADATA.index(file.kind))]


_OF_METADATA = (*MANIFESTS, FileKind.MANIFEST_LIST, FileKind.STATISTICS)


def _save(contents: dict[str, TableFile], kept: Iterable[TableFile], inventory: Inventory) -> None:
    """Take from ``contents`` what live entries of ``kept`` manifests name."""
    wanted = {_held_by(file) for file in contents.values()}
    any_spec = {kind for kind, spec in wanted if spec is None}
    overlapping = [
        file for file in kept if file.kind in MANIFESTS and (file.kind in any_spec or (file.kind, file.spec) in wanted)
    ]
    key = Spelling().path
    found = inventory.live_files(overlapping, must_stand=True)
    while contents and (named := next(found, None)) is not None:
        contents.pop(key(named[0]), None)


def _held_by(file: TableFile) -> tuple[FileKind, int | None]:
    return (FileKind.MANIFEST if file.kind == FileKind.DATA else FileKind.DELETE_MANIFEST), file.spec
