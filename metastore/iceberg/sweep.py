"""Mark, commit, sweep: how snapshots of a table go, and then the files that only they reach.

Place in the flow: the expiration of a component and the procedures on tables of any catalog go this way. Each hands in
who lists (:class:`Lister`) and who deletes. What is decided here is the same for all: which files are of no use without
the snapshots, what must not have changed when their removal is committed, and in which order files go.

Promises: a file that a kept snapshot reaches is not marked, under any spelling that the lister knows. Where a file of a
kept snapshot is missing, nothing is marked. What names other files stays as long as one of them does, so that a run
that is cut short can be marked again.
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

from metastore.iceberg.own_properties import OWN_PROPERTIES

UNSWEPT: Final = f"{OWN_PROPERTIES}expiration.unswept"
"""Property of a component's table: version files, one a line, whose expired snapshots may still have files."""

GC_ENABLED: Final = "gc.enabled"


class FileKind(str, Enum):
    """What a file is to its table."""

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
    """One file of a table; ``size`` in bytes, None where nobody wrote it down; ``spec`` of manifests and data files."""

    location: str
    kind: FileKind
    size: int | None = None
    spec: int | None = None


class Lister(Protocol):
    """Reads what snapshots of one table reach.

    Files that are missing are left out, unless they ``must_stand``: then FormatError names the file.
    """

    def lists(self, snapshots: Iterable[Snapshot], *, must_stand: bool) -> Mapping[str, TableFile]:
        """Manifest lists of ``snapshots`` and the manifests that they name, by location."""

    def live_files(self, manifests: Iterable[TableFile], *, must_stand: bool) -> Iterable[tuple[str, TableFile]]:
        """Location and description of the files that ``manifests`` hold, as they come; a file may come twice."""

    def sharing(
        self, kept: Sequence[TableFile], doomed: Sequence[TableFile], contents: Collection[TableFile]
    ) -> Sequence[TableFile]:
        """Those of the ``kept`` manifests that could name one of ``contents``, files that ``doomed`` manifests name."""

    def path(self, location: str) -> str:
        """What all spellings of one file have in common."""


@dataclass(frozen=True)
class Mark:
    """``expired`` snapshots with the ``statistics`` that may be theirs, and what is ``kept`` of the table.

    ``candidates`` are files that an earlier run found to be of no use, and did not get to delete.
    """

    expired: Sequence[Snapshot]
    statistics: Mapping[str, TableFile]
    kept: TableMetadata
    candidates: Sequence[TableFile] = ()


def mark(what: Mark, lister: Lister) -> list[TableFile]:
    """Files that nothing kept reaches, in the order in which they may go.

    Kept manifests are read only as far as they could name such a file, and until none is left to save. Lists and
    manifests of expired snapshots that are missing were swept by an earlier run. Raises FormatError when one of a kept
    snapshot is: then nothing is proven.
    """
    path = lister.path
    kept = lister.lists(what.kept.snapshots, must_stand=True)
    saved = {path(location) for location in (*kept, *statistics_files(what.kept))}
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
            contents.pop(path(location), None)
            if not contents:
                break
    return [*contents.values(), *in_order(file for key, file in found.items() if key not in saved)]


@dataclass(frozen=True)
class Swept:
    """The files that are gone, and those that would not go, each with the reason; the rest was held back for these."""

    gone: tuple[TableFile, ...]
    failed: Mapping[str, str]


def sweep(files: Sequence[TableFile], delete: Callable[[Sequence[str]], Mapping[str, str]]) -> Swept:
    """Delete ``files`` by ``delete``, which returns those that would not go, each with the reason.

    What names other files goes after them, and is held back when one of them stays.
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
    """Files of metadata in the order in which they go."""
    return sorted(files, key=lambda file: _OF_METADATA.index(file.kind))


def statistics_files(metadata: TableMetadata) -> dict[str, TableFile]:
    """Puffin and partition statistics that the metadata names, by location."""
    return {
        file.statistics_path: TableFile(file.statistics_path, FileKind.STATISTICS, file.file_size_in_bytes)
        for file in (*metadata.statistics, *metadata.partition_statistics)
    }


def snapshot_ids(metadata: TableMetadata) -> set[int]:
    """Ids of all snapshots; a snapshot whose parent expired is another object, without a parent."""
    return {snapshot.snapshot_id for snapshot in metadata.snapshots}


def without(metadata: TableMetadata, snapshots: Collection[int], refs: Collection[str] = ()) -> TableMetadata:
    """The metadata as far as files are reached by it. PyIceberg's own takes the square of the number of snapshots."""
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
    """False where the table's owner says by ``gc.enabled`` that its files may be others' too."""
    return metadata.properties.get(GC_ENABLED, "true").strip().lower() != "false"


class AssertHistory(ValidatableTableRequirement):
    """Snapshots, branches and tags, and what is left to sweep, must be as they were when files were marked."""

    type: Literal["assert-history"] = Field(default="assert-history")
    snapshots: list[int]
    refs: dict[str, int]
    unswept: str

    @classmethod
    def of(cls, metadata: TableMetadata) -> AssertHistory:
        """The history as ``metadata`` has it."""
        heads = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
        return cls(snapshots=sorted(snapshot_ids(metadata)), refs=heads, unswept=metadata.properties.get(UNSWEPT, ""))

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override] # as PyIceberg's own
        """Raises CommitFailedException when the history differs."""
        if base_metadata is None or AssertHistory.of(base_metadata) != self:
            raise CommitFailedException("Requirement failed: the history changed since the expired files were marked")


def unchanged_history(metadata: TableMetadata, *, validates_here: bool) -> list[TableRequirement]:
    """That the table is the same one, with the branches, tags and, where it can be checked, snapshots of ``metadata``.

    A server that checks requirements itself knows only the standard's: the heads of the branches and tags there were.
    The requirement on each of them is the one that PyIceberg leaves out: without it, an expiration that was planned
    before somebody tagged a snapshot would take the snapshot. Snapshots that others add there meanwhile, on no branch
    or tag, are seen in its answer to the commit, before anything is deleted.
    """
    same_table: TableRequirement = AssertTableUUID(uuid=metadata.table_uuid)
    if validates_here:
        return [same_table, cast("TableRequirement", AssertHistory.of(metadata))]
    heads = {MAIN_BRANCH: None, **{name: ref.snapshot_id for name, ref in metadata.refs.items()}}
    return [same_table, *(AssertRefSnapshotId(ref=name, snapshot_id=head) for name, head in heads.items())]
