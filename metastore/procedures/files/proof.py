"""The proof that files may be deleted: nothing in the configuration needs them.

Place in the flow: a procedure has candidates, files that its own table does not need. The proof compares them with
everything else, cheapest first. First comes what the deployment itself needs (:mod:`kept_folders`), then the tables of
all catalogs. Their pointers are listed once (:mod:`known_tables`). Only tables that changed since they were last read,
or that have files where candidates lie by the index
(:class:`~metastore.lake.iceberg.rows.reach_index.ReachIndex`), are read: JSON, manifest lists, manifests.

Promises: a file that any of these names, in any spelling, is not free. If the files that a table needs cannot be
determined, no file is free, except below folders that the operator declared as the table's own (``owned``). Memory
holds the candidates; of the files that other tables name, tasks return only those in the folder of a candidate.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa
from pyiceberg.manifest import ManifestEntryStatus

from metastore.components.catalogs import Catalogs
from metastore.engines.engine import EngineFor
from metastore.errors import MetastoreError
from metastore.lake.iceberg.catalogs.metadata_document import MetadataDocument
from metastore.lake.iceberg.catalogs.pointers import Pointer
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.rows.reach_index import NamedFolders, Reach, ReachIndex, Sought, TableKey, TableReach
from metastore.lake.iceberg.snapshots.sweep import MANIFESTS, TableFile
from metastore.lake.stores.local import local_path
from metastore.lake.stores.local_folders import with_link_target
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.spelling import Place, Spelling, is_inside
from metastore.procedures.files.avro_columns import read_columns
from metastore.procedures.files.candidates import Candidates
from metastore.procedures.files.inventory import Inventory, MetadataChunk, contents
from metastore.procedures.files.kept_folders import KeptFolders, kept_files, workspaces
from metastore.procedures.files.known_tables import (
    CatalogListing,
    Unknown,
    claimed_folders,
    inline_manifests,
    listing,
    manifest_lists,
    named_files,
)

_log: Final = logging.getLogger(__name__)

_MANIFESTS_A_CHUNK: Final = 64
_FEW: Final = 16
"""Reading this number of tables takes no longer than a listing; after more, their pointers are listed once more."""
_LOOKS: Final = 4
_ENTRY_FIELDS: Final = (0, 100)  # status, file_path
_SHOWN: Final = 3
_METASTORE: Final = "the metastore itself"

_REACHED_COLUMNS: Final[dict[str, pa.DataType]] = {
    "manifest": pa.string(),
    "folders": pa.list_(pa.string()),
    "local_folders": pa.list_(pa.string()),
    "location": pa.string(),
}
_REACHED: Final = pa.schema(_REACHED_COLUMNS)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Where:
    """The listed folders (``roots``) in which candidates were found, and the table's location (``home``)."""

    home: str
    roots: Sequence[str]


@dataclass(frozen=True)
class Judgement:
    """``free``: locations that nothing known needs. ``needed``: the number of other files, by their owner.

    ``unknown``: tables, schemas and catalogs whose files cannot be determined. If there are any, only ``owned`` files
    are free; if the metastore itself is among them, no file is.
    """

    free: frozenset[str]
    needed: Mapping[str, int] = field(default_factory=dict)
    unknown: tuple[Unknown, ...] = ()

    @property
    def why_unknown(self) -> str | None:
        """The unknown owners as a sentence for the user; None if there are none."""
        if not self.unknown:
            return None
        shown = "; ".join(map(str, self.unknown[:_SHOWN]))
        more = f"; and {len(self.unknown) - _SHOWN} more" if len(self.unknown) > _SHOWN else ""
        return (
            f"it cannot be known which files are needed by {shown}{more}. Repair or drop what is named, or declare the "
            "table's folders its own by the argument owned"
        )


class Proof:
    """The proof for one call on ``target``. A second check of files that were free reads only what has changed since.

    ``owned`` are folders that the operator declared as the table's own: other tables are not checked for files in them.
    ``progress`` is called with the number of read tables and the number of those to read. With ``of_target_too``, files
    that ``target`` needs are not free either: the caller has not looked.
    """

    def __init__(
        self,
        catalogs: Catalogs,
        target: TargetTable,
        engine: EngineFor,
        *,
        spelling: Spelling | None = None,
        owned: Sequence[str] = (),
        progress: Progress | None = None,
        of_target_too: bool = False,
    ) -> None:
        self._of_target_too = of_target_too
        self._catalogs = catalogs
        self._target = target
        self._engine = engine
        self._spelling = spelling or Spelling()
        self._owned = [self._spelling.place(f"{folder.rstrip('/')}/") for folder in owned]
        self._progress = progress
        self._kept_folders = KeptFolders(catalogs.metastore, target)
        self._free: frozenset[str] = frozenset()
        self._seen: dict[TableKey, Pointer] = {}

    def judge(self, locations: Iterable[str], where: Where | None = None) -> Judgement:
        """Returns which of ``locations`` may be deleted. ``where`` has the folders that were listed to find them.

        Errors of other tables are not raised: they are part of the judgement.
        """
        candidates = Candidates(locations, self._spelling)
        if not len(candidates):
            return Judgement(frozenset())
        if not (self._free and self._free.issuperset(candidates)):
            self._seen.clear()  # a table that was checked may need a new candidate
        inner = _InnerFolders.of(where, self._spelling)
        needed: Counter[str] = Counter()
        unknown: list[Unknown] = []
        self._strike_kept(candidates, inner, needed, unknown)
        asked, owned = self._split_candidates(candidates)
        if len(asked):
            self._strike_known(asked, inner, needed, unknown)
        for whose, count in needed.items():
            _log.info("%d files that %s does not reach are kept: they belong to %s", count, self._target, whose)
        free = frozenset(owned) if unknown else frozenset((*asked, *owned))
        if any(each.name == _METASTORE for each in unknown):
            free = frozenset()
        self._free = free
        return Judgement(free, dict(needed), tuple(unknown))

    def _split_candidates(self, candidates: Candidates) -> tuple[Candidates, list[str]]:
        """Returns the candidates to compare with other tables, and those in folders that the table owns."""
        if not self._owned:
            return candidates, []
        place = self._spelling.place
        own = [location for location in candidates if any(is_inside(place(location), each) for each in self._owned)]
        taken = set(own)
        return Candidates((each for each in candidates if each not in taken), self._spelling), own

    def _strike_kept(
        self, candidates: Candidates, inner: _InnerFolders, needed: Counter[str], unknown: list[Unknown]
    ) -> None:
        """Strike what the deployment itself needs: folders, files, workspaces. Unreadable ones leave that unknown."""
        try:
            folders = self._kept_folders.now()
        except MetastoreError as error:
            unknown.append(Unknown(_METASTORE, str(error)))
            return
        for folder in folders:
            struck = candidates.strike_below(self._spelling.place(f"{folder.location.rstrip('/')}/"))
            needed.update({folder.whose: struck} if struck else {})
        for file in kept_files(self._catalogs.metastore.settings):
            struck = candidates.strike(file.location)
            needed.update({file.whose: struck} if struck else {})
        for workspace in workspaces(self._catalogs.metastore.settings):
            struck = sum(map(candidates.strike_below, inner.among([workspace.location])))
            needed.update({workspace.whose: struck} if struck else {})

    def _strike_known(
        self, candidates: Candidates, inner: _InnerFolders, needed: Counter[str], unknown: list[Unknown]
    ) -> None:
        reach = self._catalogs.reach
        for look in range(_LOOKS):
            listed, changed = self._list_tables()
            with reach.reading_many() if len(changed) > _FEW else nullcontext(False) as waited:
                if waited:
                    listed, changed = self._list_tables()
                failed, read = self._strike_listed(candidates, listed, changed, inner, needed)
            if failed or read <= _FEW or look == _LOOKS - 1:
                unknown += failed
                return

    def _list_tables(self) -> tuple[CatalogListing, list[TableKey]]:
        """Returns all tables, and those that changed since they were last read."""
        listed = listing(self._catalogs, self._target if self._of_target_too else None)
        return listed, self._catalogs.reach.find_outdated(listed.pointers, listed.catalogs)

    def _strike_listed(
        self,
        candidates: Candidates,
        listed: CatalogListing,
        changed: Sequence[TableKey],
        inner: _InnerFolders,
        needed: Counter[str],
    ) -> tuple[list[Unknown], int]:
        """Strike what tables need that changed or have files near. Returns what is unknown, and how many were read."""
        target = self._target
        own: TableKey = (target.catalog_name, target.schema_name, target.name)
        failed = [each for each in listed.unknown if self._of_target_too or each.name != str(target)]
        sought = candidates.sought(claimed=bool(inner.roots))
        near = self._catalogs.reach.near(sought).difference(changed)
        pointers = {key: listed.pointers[key] for key in (*changed, *near) if key in listed.pointers}
        unread = set(changed)
        read = [key for key, pointer in pointers.items() if key in unread or pointer != self._seen.get(key)]
        read = [key for key in read if self._of_target_too or key != own]
        for done, key in enumerate(read, 1):
            struck = self._strike_table(candidates, key, pointers[key], inner, sought)
            if isinstance(struck, Unknown):
                failed.append(struck)
            elif struck:
                needed[".".join(key)] += struck
            if self._progress is not None:
                self._progress(done, len(read))
        return failed, len(read)

    def _strike_table(
        self, candidates: Candidates, key: TableKey, pointer: Pointer, inner: _InnerFolders, sought: Sought
    ) -> int | Unknown:
        """Strike the candidates that the table needs. Returns their number."""
        try:
            document = self._catalogs.target(*key).newest_document(pointer)
            if document is None:
                return 0  # Dropped since it was listed.
            search = _TableSearch(candidates, document, self._catalogs.reach, self._engine, sought)
            struck = search.strike(inner)
        except MetastoreError as error:
            return Unknown(".".join(key), str(error))
        self._catalogs.reach.add_table(key, search.reach)
        self._seen[key] = document.pointer
        return struck


@dataclass(frozen=True)
class _InnerFolders:
    """Finds folders inside of listed folders. Files in these are left to the owners of the inner folders.

    A folder that contains the table's own location does not count: then the table lies inside of another table.
    """

    roots: tuple[Place, ...]
    home: Place | None
    spelling: Spelling

    @classmethod
    def of(cls, where: Where | None, spelling: Spelling) -> _InnerFolders:
        if where is None:
            return cls((), None, spelling)
        home, *roots = (spelling.place(f"{each.rstrip('/')}/") for each in (where.home, *where.roots))
        return cls(tuple(roots), home, spelling)

    def among(self, folders: Iterable[str]) -> Iterator[Place]:
        """Yields the places of those ``folders`` that lie inside of a listed folder."""
        for folder in folders if self.roots else ():
            place = self.spelling.place(f"{folder.rstrip('/')}/")
            inside = any(is_inside(place, root) and place.path != root.path for root in self.roots)
            if inside and not (self.home is not None and is_inside(self.home, place)):
                yield place


class _TableSearch:
    """Searches one table for candidates: its metadata JSON, its manifest lists, its manifests."""

    def __init__(
        self, candidates: Candidates, document: MetadataDocument, index: ReachIndex, engine: EngineFor, sought: Sought
    ) -> None:
        self._candidates = candidates
        self._document = document
        self._known = index
        self._engine = engine
        self._sought = sought
        self._spelling = candidates.spelling
        self._parts: list[Reach] = []
        self._named = NamedFolders(self._spelling)

    def strike(self, inner: _InnerFolders) -> int:
        """Strike all files that the table names, and all files in its folders that lie inside of listed folders.

        Returns their number. Raises FormatError or StorageError if one of its metadata files cannot be read.
        """
        struck = sum(map(self._candidates.strike_below, inner.among(claimed_folders(self._document))))
        struck += sum(map(self._strike, named_files(self._document)))
        manifests = inline_manifests(self._document)
        lists = Inventory(self._document.io, self._engine).list_manifests(
            manifest_lists(self._document), must_stand=True
        )
        for location, file in lists:
            struck += self._strike(location)
            if file.kind in MANIFESTS:
                manifests.append(file)
        return struck + self._strike_live_files(manifests)

    @property
    def reach(self) -> TableReach:
        """The reach of the table that was searched."""
        claimed = claimed_folders(self._document)
        paths = frozenset(self._spelling.path(f"{folder.rstrip('/')}/_").rpartition("/")[0] for folder in claimed)
        local = frozenset(local_path(folder) for folder in claimed if is_local(folder))
        return TableReach(self._document.pointer, Reach.of([self._named.reach, *self._parts]), Reach(paths, local))

    def _strike(self, location: str) -> int:
        self._named.add(location)
        return sum(map(self._candidates.strike, with_link_target(location)))

    def _strike_live_files(self, manifests: Sequence[TableFile]) -> int:
        """Strike candidates that manifests name; returns how many. What an earlier proof has read is not read again."""
        unread: list[TableFile] = []
        for manifest in {each.location: each for each in manifests}.values():
            known = self._known.file(manifest.location)
            if known is None or self._known.may_touch(known, self._sought):
                unread.append(manifest)
            else:
                self._parts.append(known)
        chunks = [
            MetadataChunk(self._document.io, unread[start : start + _MANIFESTS_A_CHUNK], must_stand=True)
            for start in range(0, len(unread), _MANIFESTS_A_CHUNK)
        ]
        if not chunks:
            return 0
        task = partial(reached_in, spelling=self._spelling, folders=self._candidates.folders)
        struck = 0
        for batch in self._engine(len(unread)).run(chunks, task, _REACHED):
            for manifest, folders, local_folders, location in zip(
                *(column.to_pylist() for column in batch.columns), strict=True
            ):
                if location is not None:
                    struck += self._candidates.strike(location)
                else:
                    reach = Reach(frozenset(folders), frozenset(local_folders))
                    self._known.add_file(manifest, reach)
                    self._parts.append(reach)
        return struck


def reached_in(chunk: MetadataChunk, *, spelling: Spelling, folders: Collection[str]) -> Iterator[pa.RecordBatch]:
    """The task: yields a row with the reach of each manifest, and a row for each of its live files in ``folders``."""
    rows: list[tuple[str, list[str] | None, list[str] | None, str | None]] = []
    for manifest, content in contents(chunk):
        named = NamedFolders(spelling)
        for status, location in read_columns(manifest.location, content, _ENTRY_FIELDS):
            if status == ManifestEntryStatus.DELETED:
                continue
            named.add(location)
            for name in with_link_target(location):
                if spelling.path(name).rpartition("/")[0] in folders:
                    rows.append((manifest.location, None, None, name))  # noqa: PERF401 - mostly there is no such file
        reach = named.reach
        rows.append((manifest.location, sorted(reach.folders), sorted(reach.local_folders), None))
    columns_ = zip(*rows, strict=True) if rows else ((),) * len(_REACHED)
    arrays = [pa.array(column, kind) for column, kind in zip(columns_, _REACHED.types, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=_REACHED)
