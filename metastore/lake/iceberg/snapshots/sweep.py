"""Mark, commit, sweep: removes snapshots of a table, and then the files that only they reach.

Both the expiration of a component and the procedures on tables of any catalog use it. Each passes its own
:class:`Lister` and its own deletion. This module decides which files are useless without the snapshots, what must be
unchanged when the removal is committed, and in which order files are deleted.

Guarantees: a file that a kept snapshot reaches is not marked, under any spelling that the lister knows. If a file of a
kept snapshot is missing, nothing is marked. A manifest or list is deleted after all files that it names, so an
interrupted run can be marked again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, Protocol, cast

from pydantic import Field
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
    ValidatableTableRequirement,
)

from metastore.lake.iceberg.catalogs.own_properties import OWN_PROPERTIES

UNSWEPT: Final = f"{OWN_PROPERTIES}expiration.unswept"
"""Property of a component's table: version files, one per line, whose expired snapshots may still have files."""

GC_ENABLED: Final = "gc.enabled"


class FileKind(str, Enum):
    """The role of a file in its table."""

    DATA = "data"
    POSITION_DELETES = "position deletes"
    EQUALITY_DELETES = "equality deletes"
    MANIFEST = "manifest"
    DELETE_MANIFEST = "delete manifest"
    MANIFEST_LIST = "manifest list"
    STATISTICS = "statistics"
    METADATA = "metadata"
    ORPHAN = "orphan"


MANIFESTS: Final = (FileKind.MANIFEST, FileKind.DELETE_MANIFEST)
_OF_METADATA: Final = (*MANIFESTS, FileKind.MANIFEST_LIST, FileKind.STATISTICS)
_STAGES: Final[tuple[Collection[FileKind], ...]] = (
    (FileKind.DATA, FileKind.POSITION_DELETES, FileKind.EQUALITY_DELETES),
    MANIFESTS,
    (FileKind.MANIFEST_LIST,),
    (FileKind.STATISTICS, FileKind.METADATA, FileKind.ORPHAN),
)


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a table; ``size`` in bytes, None if not recorded; ``spec`` of manifests and data files."""

    location: str
    kind: FileKind
    size: int | None = None
    spec: int | None = None


class Lister(Protocol):
    """Reads the files that snapshots of one table reach.

    Missing files are skipped. With ``must_stand``, FormatError names the missing file.
    """

    def lists(self, snapshots: Iterable[Snapshot], *, must_stand: bool) -> Mapping[str, TableFile]:
        """Return manifest lists of ``snapshots`` and the manifests they name, by location."""

    def live_files(self, manifests: Iterable[TableFile], *, must_stand: bool) -> Iterable[tuple[str, TableFile]]:
        """Yield location and description of the files that ``manifests`` hold; a file may come twice."""

    def sharing(
        self, kept_lists: Sequence[TableFile], doomed: Sequence[TableFile], contents: Collection[TableFile]
    ) -> Sequence[TableFile]:
        """Return the manifests of ``kept_lists`` that could name one of ``contents``, files of ``doomed``."""

    def path(self, location: str) -> str:
        """Return a canonical path, the same for all spellings of one file."""

    def paths_to_keep(self, location: str) -> Collection[str]:
        """Return the canonical paths that must stay for a kept file: its own, and what it leads to if it is a link."""


@dataclass(frozen=True)
class Mark:
    """``expired`` snapshots, ``statistics`` that may be theirs, and what the table has ``kept``.

    ``candidates`` are files that an earlier run found useless but did not delete.
    """

    expired: Sequence[Snapshot]
    statistics: Mapping[str, TableFile]
    kept: TableMetadata
    candidates: Sequence[TableFile] = ()


def mark(what: Mark, lister: Lister) -> list[TableFile]:
    """Return the files that nothing kept reaches, in the order of their deletion.

    Kept manifests are read only if they could name such a file, and only until no candidate is left. Missing lists and
    manifests of expired snapshots were deleted by an earlier run. Raises FormatError if one of a kept snapshot is
    missing: then nothing is proven.
    """
    path = lister.path
    kept = lister.lists(what.kept.snapshots, must_stand=True)
    saved = {name for location in (*kept, *statistics_files(what.kept)) for name in lister.paths_to_keep(location)}
    found: dict[str, TableFile] = {}
    for files in (lister.lists(what.expired, must_stand=False), what.statistics):
        found.update((path(location), file) for location, file in files.items())
    doomed = [file for key, file in found.items() if file.kind in MANIFESTS and key not in saved]
    contents = {path(location): file for location, file in lister.live_files(doomed, must_stand=False)}
    for file in what.candidates:
        (found if file.kind in _OF_METADATA else contents).setdefault(path(file.location), file)
    if contents:
        manifests = [file for file in kept.values() if file.kind in MANIFESTS]
        for location, _ in lister.live_files(lister.sharing(manifests, doomed, contents.values()), must_stand=True):
            for name in lister.paths_to_keep(location):
                contents.pop(name, None)
            if not contents:
                break
    return [*contents.values(), *in_order(file for key, file in found.items() if key not in saved)]


@dataclass(frozen=True)
class Swept:
    """Deleted files, and files that could not be deleted, with the reason; the rest was held back because of these."""

    gone: tuple[TableFile, ...]
    failed: Mapping[str, str]


def sweep(files: Sequence[TableFile], delete: Callable[[Sequence[str]], Mapping[str, str]]) -> Swept:
    """Delete ``files`` by ``delete``, which returns the files that failed, each with the reason.

    Files that name others are deleted after them, and kept if one of them stays.
    """
    gone: list[TableFile] = []
    for kinds in _STAGES:
        wanted = [file for file in files if file.kind in kinds]
        failed = delete([file.location for file in wanted]) if wanted else {}
        gone += [file for file in wanted if file.location not in failed]
        if failed:
            return Swept(tuple(gone), failed)
    return Swept(tuple(gone), {})


def in_order(files: Iterable[TableFile]) -> list[TableFile]:
    """Return metadata files in the order of their deletion."""
    return sorted(files, key=lambda file: _OF_METADATA.index(file.kind))


def statistics_files(metadata: TableMetadata) -> dict[str, TableFile]:
    """Return Puffin and partition statistics that the metadata names, by location."""
    return {
        file.statistics_path: TableFile(file.statistics_path, FileKind.STATISTICS, file.file_size_in_bytes)
        for file in (*metadata.statistics, *metadata.partition_statistics)
    }


def snapshot_ids(metadata: TableMetadata) -> set[int]:
    """Return the ids of all snapshots; comparing ids also works if a parent expired, which changes the snapshot."""
    return {snapshot.snapshot_id for snapshot in metadata.snapshots}


def without(metadata: TableMetadata, snapshots: Collection[int], refs: Collection[str] = ()) -> TableMetadata:
    """Return the metadata without snapshots and refs, for reach only. PyIceberg's own takes quadratic time."""
    gone = set(snapshots)
    return metadata.model_copy(
        update={
            "refs": {name: ref for name, ref in metadata.refs.items() if name not in refs},
            "snapshots": [each for each in metadata.snapshots if each.snapshot_id not in gone],
            "statistics": [each for each in metadata.statistics if each.snapshot_id not in gone],
            "partition_statistics": [each for each in metadata.partition_statistics if each.snapshot_id not in gone],
        }
    )


def owns_its_files(metadata: TableMetadata) -> bool:
    """Return False if ``gc.enabled`` says that the table's files may also belong to others."""
    return metadata.properties.get(GC_ENABLED, "true").strip().lower() != "false"


class AssertHistory(ValidatableTableRequirement):
    """Requires that snapshots, branches, tags, and the files left to sweep are as they were when marked."""

    type: Literal["assert-history"] = Field(default="assert-history")
    snapshots: list[int]
    refs: dict[str, int]
    unswept: str

    @classmethod
    def of(cls, metadata: TableMetadata) -> AssertHistory:
        """Create it from the history in ``metadata``."""
        heads = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
        return cls(snapshots=sorted(snapshot_ids(metadata)), refs=heads, unswept=metadata.properties.get(UNSWEPT, ""))

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override] # as PyIceberg's own
        """Raise CommitFailedException if the history differs."""
        if base_metadata is None or AssertHistory.of(base_metadata) != self:
            raise CommitFailedException("Requirement failed: the history changed since the expired files were marked")


def unchanged_history(metadata: TableMetadata, *, validates_here: bool) -> list[TableRequirement]:
    """Return requirements: the same table, with unchanged branches, tags and, if checkable, snapshots.

    A server that checks requirements itself knows only the standard ones: the heads of the existing branches and tags.
    PyIceberg leaves these out. Without them, an expiration planned before somebody tags a snapshot would remove that
    snapshot. Snapshots that others add meanwhile, on no branch or tag, are seen in the server's answer to the commit,
    before anything is deleted.
    """
    same_table: TableRequirement = AssertTableUUID(uuid=metadata.table_uuid)
    if validates_here:
        return [same_table, cast("TableRequirement", AssertHistory.of(metadata))]
    heads = {MAIN_BRANCH: None, **{name: ref.snapshot_id for name, ref in metadata.refs.items()}}
    return [same_table, *(AssertRefSnapshotId(ref=name, snapshot_id=head) for name, head in heads.items())]
