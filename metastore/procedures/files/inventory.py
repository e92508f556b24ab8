"""All files that snapshots of an Iceberg table reach: manifest lists, manifests, data and delete files, metadata files.

An engine distributes the reading of manifest lists and manifests. :func:`read_lists` and :func:`read_manifests` are its
tasks; :class:`Inventory` runs them. It reads any format version, and data and delete manifests of all specs.

Promise: the files of a snapshot that must exist are returned completely, or the call fails. A missing or broken file of
such a snapshot raises a FormatError that names it, because then nothing is proven about any other file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from metastore.engines.engine import EngineFor
from metastore.errors import FormatError, StorageError
from metastore.ground.threads import Threads
from metastore.lake.iceberg.snapshots.sweep import FileKind, TableFile
from metastore.lake.stores.bounded_reading import ReadLimits, whole
from metastore.lake.stores.local_folders import with_link_target
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.spelling import Spelling
from metastore.procedures.files.avro_columns import read_columns

FILE_ROW: Final = pa.struct([("location", pa.string()), ("kind", pa.string()), ("bytes", pa.int64())])
"""The type of one file in the rows of a dry run."""


_FILES_A_CHUNK: Final = 64
_READS_AT_ONCE: Final = 16
_VERSION: Final = re.compile(r"(?:v(\d+)|(\d+)-[0-9a-fA-F-]{36})(?:\.gz)?\.metadata\.json(?:\.gz)?")

_LIST_FIELDS: Final = (500, 501, 502, 517)  # manifest_path, manifest_length, partition_spec_id, content
_ENTRY_FIELDS: Final = (0, 134, 100, 104)  # status, content, file_path, file_size_in_bytes


_CONTENTS: Final = {
    DataFileContent.DATA: FileKind.DATA,
    DataFileContent.POSITION_DELETES: FileKind.POSITION_DELETES,
    DataFileContent.EQUALITY_DELETES: FileKind.EQUALITY_DELETES,
}


@dataclass(frozen=True)
class MetadataChunk:
    """Manifest lists or manifests for one task, read through ``io``. Missing ones are skipped, or refused."""

    io: FileIO
    files: Sequence[TableFile]
    must_stand: bool


_FILES_COLUMNS: Final[dict[str, pa.DataType]] = {
    "location": pa.string(),
    "kind": pa.string(),
    "size": pa.int64(),
    "spec": pa.int32(),
}
FILES: Final = pa.schema(_FILES_COLUMNS)
"""Schema of the tasks' fragments: one row a file."""


def read_lists(chunk: MetadataChunk) -> Iterator[pa.RecordBatch]:
    """The task: yields the manifest lists of the chunk with sizes, and the manifests that they name, each once."""
    found: dict[str, TableFile] = {}
    for file, content in contents(chunk):
        found[file.location] = TableFile(file.location, FileKind.MANIFEST_LIST, len(content))
        for path, size, spec, kind in read_columns(file.location, content, _LIST_FIELDS):
            if path not in found:
                delete = kind == ManifestContent.DELETES
                found[path] = TableFile(path, FileKind.DELETE_MANIFEST if delete else FileKind.MANIFEST, size, spec)
    yield _batch(found.values())


def read_manifests(chunk: MetadataChunk) -> Iterator[pa.RecordBatch]:
    """The task: yields the live files that the manifests of the chunk name, each once."""
    found: dict[str, TableFile] = {}
    for file, content in contents(chunk):
        for status, kind, path, size in read_columns(file.location, content, _ENTRY_FIELDS):
            if status != ManifestEntryStatus.DELETED:
                found[path] = TableFile(path, _CONTENTS[DataFileContent(kind or 0)], size, file.spec)
    yield _batch(found.values())


class Inventory:
    """Lists the files of any table for the sweep, read through ``io``. ``engine`` chooses where its tasks run."""

    def __init__(self, io: FileIO, engine: EngineFor) -> None:
        self._io = io
        self._engine = engine
        self._spelling = Spelling()

    def lists(self, snapshots: Iterable[Snapshot], *, must_stand: bool) -> dict[str, TableFile]:
        """Returns the manifest lists of ``snapshots`` and the manifests that they name, by location.

        Missing lists raise FormatError if they ``must_stand``, and are left out otherwise.
        """
        wanted = [TableFile(s.manifest_list, FileKind.MANIFEST_LIST) for s in snapshots if s.manifest_list]
        return dict(self.list_manifests(wanted, must_stand=must_stand))

    def list_manifests(self, lists: Sequence[TableFile], *, must_stand: bool) -> Iterator[tuple[str, TableFile]]:
        """Yields manifest ``lists`` and the manifests that they name, by location; a manifest may come twice."""
        return self._files_named_by(lists, read_lists, must_stand=must_stand)

    def live_files(self, manifests: Iterable[TableFile], *, must_stand: bool) -> Iterator[tuple[str, TableFile]]:
        """Yields the live files of ``manifests``, by location; a file may come twice."""
        return self._files_named_by(list(manifests), read_manifests, must_stand=must_stand)

    def sharing(
        self, kept_lists: Sequence[TableFile], doomed: Sequence[TableFile], contents: Collection[TableFile]
    ) -> list[TableFile]:
        """Returns the kept manifests that may name one of ``contents``: the same kind and, if known, the same spec."""
        wanted = {(_manifest_of(file.kind), file.spec) for file in contents}
        any_spec = {kind for kind, spec in wanted if spec is None}
        return [each for each in kept_lists if each.kind in any_spec or (each.kind, each.spec) in wanted]

    def path(self, location: str) -> str:
        """Returns the canonical path."""
        return self._spelling.path(location)

    def paths_to_keep(self, location: str) -> list[str]:
        """Returns the canonical paths of the file and, if it is a link on the local disk, of what it leads to."""
        return [self._spelling.path(name) for name in with_link_target(location)]

    def _files_named_by(
        self,
        files: Sequence[TableFile],
        task: Callable[[MetadataChunk], Iterator[pa.RecordBatch]],
        *,
        must_stand: bool,
    ) -> Iterator[tuple[str, TableFile]]:
        """The rows of ``task`` by location; each of ``files`` is read once, by tasks on the engine."""
        unique = list({file.location: file for file in files}.values())
        chunks = [
            MetadataChunk(self._io, unique[start : start + _FILES_A_CHUNK], must_stand)
            for start in range(0, len(unique), _FILES_A_CHUNK)
        ]
        if not chunks:
            return
        for batch in self._engine(len(unique)).run(chunks, task, FILES):
            for location, kind, size, spec in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield location, TableFile(location, FileKind(kind), size, spec)


def _manifest_of(kind: FileKind) -> FileKind:
    """Returns the kind of manifest that names files of ``kind``."""
    return FileKind.MANIFEST if kind is FileKind.DATA else FileKind.DELETE_MANIFEST


def metadata_files(metadata: TableMetadata, metadata_location: str) -> list[TableFile]:
    """Returns the current metadata file and those of the metadata log."""
    locations = [metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)]
    return [TableFile(location, FileKind.METADATA) for location in locations]


def version_of(location: str) -> int | None:
    """Returns the version in the name of a metadata file; None for any other file."""
    match = _VERSION.fullmatch(location.rpartition("/")[2])
    return int(match[1] or match[2]) if match else None


def contents(chunk: MetadataChunk) -> Iterator[tuple[TableFile, bytes]]:
    """Yields the files of the chunk with their contents. From a remote store, several are read concurrently."""
    if all(is_local(file.location) for file in chunk.files):
        # For a local disk, handing the files to threads costs more than it saves.
        yield from _standing(chunk, map(_content, repeat(chunk), chunk.files))
        return
    with Threads(_READS_AT_ONCE) as threads:
        yield from _standing(chunk, threads.map(_content, repeat(chunk, len(chunk.files)), chunk.files))


def _standing(chunk: MetadataChunk, contents: Iterable[bytes | None]) -> Iterator[tuple[TableFile, bytes]]:
    for file, content in zip(chunk.files, contents, strict=True):
        if content is not None:
            yield file, content


def _content(chunk: MetadataChunk, file: TableFile) -> bytes | None:
    try:
        return whole(chunk.io.new_input(file.location), ReadLimits.of(chunk.io.properties).limit_of("manifest"))
    except FileNotFoundError as error:
        if chunk.must_stand:
            raise FormatError(f"the {file.kind.value} {file.location} of a kept snapshot is missing") from error
        return None
    except OSError as error:
        raise StorageError(f"cannot read the {file.kind.value} {file.location}: {error}") from error


def _batch(files: Iterable[TableFile]) -> pa.RecordBatch:
    rows = list(files)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([file.location for file in rows], pa.string()),
            pa.array([file.kind.value for file in rows], pa.string()),
            pa.array([file.size for file in rows], pa.int64()),
            pa.array([file.spec for file in rows], pa.int32()),
        ],
        schema=FILES,
    )
