"""The proof that files may be deleted: nothing in the configuration needs them.

Place in the flow: a procedure has candidates, files that its own table does not need. The proof compares them with
everything else, cheapest first. First comes what the deployment itself needs (:mod:`kept_folders`), then the tables of
all catalogs (:mod:`known_tables`): the JSON of their metadata, their manifest lists, their manifests.

Promises: a file that any of these names, in any spelling, is not free. If the files that a table needs cannot be
determined, no file is free, except below folders that the operator declared as the table's own (``owned``). Memory
holds the candidates; of the files that other tables name, tasks return only those in the folder of a candidate.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa
from pyiceberg.manifest import ManifestEntryStatus

from metastore.components.catalogs import Catalogs
from metastore.engines.engine import EngineFor
from metastore.errors import MetastoreError
from metastore.lake.iceberg.catalogs.metadata_document import MetadataDocument
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.rows.known_reach import KnownReach, Reach, common
from metastore.lake.iceberg.snapshots.sweep import MANIFESTS, TableFile
from metastore.lake.stores.local import local_path
from metastore.lake.stores.local_folders import FolderLinks, with_link_target
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.spelling import Place, Spelling, is_inside
from metastore.procedures.files.avro_columns import columns
from metastore.procedures.files.candidates import Candidates
from metastore.procedures.files.inventory import Inventory, MetadataChunk, contents
from metastore.procedures.files.kept_folders import KeptFolders, kept_files, workspaces
from metastore.procedures.files.known_tables import (
    Unknown,
    claimed_folders,
    document_of,
    inline_manifests,
    manifest_lists,
    named_files,
    other_tables,
    pointer_of,
)

_log: Final = logging.getLogger(__name__)

_MANIFESTS_A_CHUNK: Final = 64
_ENTRY_FIELDS: Final = (0, 100)  # status, file_path
_SHOWN: Final = 3
_METASTORE: Final = "the metastore itself"

_REACHED_COLUMNS: Final[dict[str, pa.DataType]] = {
    "manifest": pa.string(),
    "extent": pa.string(),
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
    ``progress`` is called with the number of checked tables and the total. With ``of_target_too``, files that
    ``target`` needs are not free either: the caller has not looked.
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
        self._seen: dict[str, str] = {}

    def judge(self, locations: Iterable[str], where: Where | None = None) -> Judgement:
        """Returns which of ``locations`` may be deleted. ``where`` has the folders that were listed to find them.

        Errors of other tables are not raised: they are part of the judgement.
        """
        candidates = Candidates(locations, self._spelling)
        if not (self._free and self._free.issuperset(candidates)):
            self._seen.clear()  # a table that was checked may need a new candidate
        inner = _InnerFolders.of(where, self._spelling)
        needed: Counter[str] = Counter()
        unknown: list[Unknown] = []
        self._strike_kept(candidates, inner, needed, unknown)
        asked, owned = self._divided(candidates)
        if len(asked):
            self._strike_known(asked, inner, needed, unknown)
        for whose, count in needed.items():
            _log.info("%d files that %s does not reach are kept: they belong to %s", count, self._target, whose)
        free = frozenset(owned) if unknown else frozenset((*asked, *owned))
        if any(each.name == _METASTORE for each in unknown):
            free = frozenset()
        self._free = free
        return Judgement(free, dict(needed), tuple(unknown))

    def _divided(self, candidates: Candidates) -> tuple[Candidates, list[str]]:
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
        found = list(other_tables(self._catalogs, self._target))
        if self._of_target_too:
            found.append(self._target)
        for done, table in enumerate(found, 1):
            if isinstance(table, Unknown):
                unknown.append(table)
            elif len(candidates):
                struck = self._strike_table(candidates, table, inner)
                if isinstance(struck, Unknown):
                    unknown.append(struck)
                elif struck:
                    needed[str(table)] += struck
            if self._progress is not None:
                self._progress(done, len(found))

    def _strike_table(self, candidates: Candidates, table: TargetTable, inner: _InnerFolders) -> int | Unknown:
        """Strike the candidates that ``table`` needs. Returns their number."""
        pointer = pointer_of(table)
        if pointer is None or isinstance(pointer, Unknown) or pointer == self._seen.get(str(table)):
            return pointer if isinstance(pointer, Unknown) else 0
        known = self._catalogs.known_reach.get(pointer)
        if known is not None and not _may_touch(candidates, known, self._catalogs.known_reach.folder_links):
            self._seen[str(table)] = pointer
            return 0
        document = document_of(table)
        if document is None or isinstance(document, Unknown):
            return document or 0
        search = _TableSearch(candidates, document, self._catalogs.known_reach, self._engine)
        try:
            struck = search.strike(inner)
        except MetastoreError as error:
            return Unknown(str(table), str(error))
        self._seen[str(table)] = document.location
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
        self, candidates: Candidates, document: MetadataDocument, remembered: KnownReach, engine: EngineFor
    ) -> None:
        self._candidates = candidates
        self._document = document
        self._remembered = remembered
        self._engine = engine
        self._spelling = candidates.spelling
        self._extent: str | None = None
        self._local_folders: set[str] = set()

    def strike(self, inner: _InnerFolders) -> int:
        """Strike all files that the table names, and all files in its folders that lie inside of listed folders.

        Returns their number. Raises FormatError or StorageError if one of its metadata files cannot be read.
        """
        folders = claimed_folders(self._document)
        struck = sum(map(self._candidates.strike_below, inner.among(folders)))
        struck += sum(map(self._strike, named_files(self._document)))
        manifests = inline_manifests(self._document)
        lists = Inventory(self._document.io, self._engine).listed(manifest_lists(self._document), must_stand=True)
        for location, file in lists:
            struck += self._strike(location)
            if file.kind in MANIFESTS:
                manifests.append(file)
        struck += self._strike_live_files(manifests)
        reach = Reach(self._extent, frozenset(self._local_folders), folders)
        self._remembered.remember(self._document.location, reach)
        return struck

    def _strike(self, location: str) -> int:
        if is_local(location):
            self._local_folders.add(local_path(location).rpartition("/")[0])
        else:
            self._extent = common(self._extent, self._spelling.path(location).rpartition("/")[0])
        return sum(map(self._candidates.strike, with_link_target(location)))

    def _include(self, reach: Reach) -> None:
        self._extent = common(self._extent, reach.extent)
        self._local_folders |= reach.local_folders

    def _strike_live_files(self, manifests: Sequence[TableFile]) -> int:
        unread: list[TableFile] = []
        for manifest in {each.location: each for each in manifests}.values():
            known = self._remembered.get(manifest.location)
            if known is None or _may_touch(self._candidates, known, self._remembered.folder_links):
                unread.append(manifest)
            else:
                self._include(known)
        chunks = [
            MetadataChunk(self._document.io, unread[start : start + _MANIFESTS_A_CHUNK], must_stand=True)
            for start in range(0, len(unread), _MANIFESTS_A_CHUNK)
        ]
        if not chunks:
            return 0
        task = partial(reached_in, spelling=self._spelling, folders=self._candidates.folders)
        struck = 0
        for batch in self._engine(len(unread)).run(chunks, task, _REACHED):
            for manifest, extent, local_folders, location in zip(
                *(column.to_pylist() for column in batch.columns), strict=True
            ):
                if location is not None:
                    struck += self._candidates.strike(location)
                else:
                    reach = Reach(extent, frozenset(local_folders))
                    self._remembered.remember(manifest, reach)
                    self._include(reach)
        return struck


def reached_in(chunk: MetadataChunk, *, spelling: Spelling, folders: Collection[str]) -> Iterator[pa.RecordBatch]:
    """The task: yields a row with the reach of each manifest, and a row for each of its live files in ``folders``."""
    rows: list[tuple[str, str | None, list[str] | None, str | None]] = []
    for manifest, content in contents(chunk):
        extent: str | None = None
        local_folders: set[str] = set()
        for status, location in columns(manifest.location, content, _ENTRY_FIELDS):
            if status == ManifestEntryStatus.DELETED:
                continue
            if is_local(location):
                local_folders.add(local_path(location).rpartition("/")[0])
            for name in with_link_target(location):
                folder = spelling.path(name).rpartition("/")[0]
                if not is_local(name):
                    extent = common(extent, folder)
                if folder in folders:
                    rows.append((manifest.location, None, None, name))
        rows.append((manifest.location, extent, sorted(local_folders), None))
    columns_ = zip(*rows, strict=True) if rows else ((),) * len(_REACHED)
    arrays = [pa.array(column, kind) for column, kind in zip(columns_, _REACHED.types, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=_REACHED)


def _may_touch(candidates: Candidates, reach: Reach, links: FolderLinks) -> bool:
    """Returns whether a candidate may lie within the extent, in a local folder, or in a claimed folder."""
    claimed = (candidates.spelling.path(f"{folder.rstrip('/')}/") for folder in reach.folders)
    is_near = any(candidates.may_be_below(each) for each in (reach.extent, *claimed) if each is not None)
    return is_near or links.may_lead_to(reach.local_folders, candidates.local_folders)
