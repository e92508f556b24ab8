"""Deletes many files of a table, in chunks on the engine, and reports failures.

This module does not decide which files are useless. It is where deletion has roots: a file that is not below one of
them is kept, whoever asked. It is where deletion waits: a file whose deletion is put off is put on a list
(:mod:`metastore.lake.stores.deletion_list`). On the local disk, a file also stays if it is not the one that was listed
(:mod:`metastore.lake.stores.listed_files`). A file that is already gone counts as deleted, because an earlier or
concurrent run did it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from metastore.engines.engine import EngineFor
from metastore.errors import InvalidRequestError, MetastoreError, StorageError
from metastore.lake.stores.containment import Roots
from metastore.lake.stores.deletion_list import PutOff
from metastore.lake.stores.files import discard
from metastore.lake.stores.listed_files import OpenedFolders
from metastore.lake.stores.local import local_path
from metastore.lake.stores.locations import is_local

_FILES_A_CHUNK: Final = 500
OUTSIDE: Final = (
    "kept: it lies outside of the catalog's warehouse and of the place where the catalog made the table; allow its "
    "folder by drill.metastore.procedures.allowed_locations"
)
"""Why a file that nothing needs stays."""

_NOWHERE: Final = Roots(())
_GONE: Final = pa.schema([("location", pa.string()), ("error", pa.string())])


@dataclass(frozen=True)
class DeletionChunk:
    """Files for one task to delete below ``roots`` through ``io``; ``listed`` as in :class:`Deletion`."""

    io: FileIO
    locations: Sequence[str]
    roots: Roots = _NOWHERE
    listed: Mapping[str, str] = field(default_factory=dict)


def require_concurrency(max_concurrent_deletes: int | None) -> None:
    """Raise InvalidRequestError if ``max_concurrent_deletes`` allows no deletion."""
    if max_concurrent_deletes is not None and max_concurrent_deletes < 1:
        raise InvalidRequestError(f"max_concurrent_deletes should have value > 0, value: {max_concurrent_deletes}")


@dataclass(frozen=True)
class Deletion:
    """Deletes files below ``roots``: in tasks on the engine, or at most ``max_concurrent`` at a time from this process.

    ``put_off`` decides which files wait, and has them afterwards. ``listed`` has the identities of local files by
    location, from before they were proven useless.
    """

    io: FileIO
    engine: EngineFor
    roots: Roots
    put_off: PutOff
    listed: Mapping[str, str] = field(default_factory=dict)
    max_concurrent: int | None = None
    progress: Callable[[int, int], None] | None = None

    def run(self, locations: Iterable[str]) -> dict[str, str]:
        """Delete the files that need not wait; returns those that could not be deleted, each with the reason.

        If the list of deletions cannot be read or written, none is deleted.
        """
        asked = list(locations)
        try:
            wanted = self.put_off.put_off(asked, self.roots, self.listed)
        except MetastoreError as error:
            return dict.fromkeys(asked, f"kept: {error}")
        failed: dict[str, str] = {}
        done = 0
        for batch in self._batches(wanted):
            failed.update({row["location"]: row["error"] for row in batch.to_pylist() if row["error"] is not None})
            done += batch.num_rows
            if self.progress is not None:
                self.progress(done, len(wanted))
        self.put_off.forget([location for location in wanted if location not in failed])
        return failed

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        size = self.max_concurrent or _FILES_A_CHUNK
        chunks = [self._chunk(columns[start : start + size]) for start in range(0, len(columns), size)]
        if self.max_concurrent is None and chunks:
            yield from self.engine(len(columns)).run(chunks, delete_files, _GONE)
            return
        for chunk in chunks:
            yield from delete_files(chunk)

    def _chunk(self, locations: Sequence[str]) -> DeletionChunk:
        listed = {location: self.listed[location] for location in locations if location in self.listed}
        return DeletionChunk(self.io, locations, self.roots, listed)


def delete_files(chunk: DeletionChunk) -> Iterator[pa.RecordBatch]:
    """The task: yields one row for each file, with an error if it stays."""
    kept = delete_chunk(chunk)
    errors = [kept.get(location) for location in chunk.locations]
    yield pa.RecordBatch.from_arrays(
        [pa.array(chunk.locations, pa.string()), pa.array(errors, pa.string())], schema=_GONE
    )


def delete_chunk(chunk: DeletionChunk) -> dict[str, str]:
    """Delete the files of ``chunk``; returns those that stay, each with the reason."""
    kept = {location: OUTSIDE for location in chunk.locations if not chunk.roots.hold(location)}
    inside = [location for location in chunk.locations if location not in kept]
    kept |= _removed_here(chunk, [location for location in inside if is_local(location)])
    remote = [location for location in inside if not is_local(location)]
    return kept | {location: str(error) for location, error in discard(chunk.io, remote).failed}


def _removed_here(chunk: DeletionChunk, locations: Sequence[str]) -> dict[str, str]:
    """Remove files of the local disk; returns those that stay, each with the reason."""
    # One after another: deleting a file is faster than passing it to a thread.
    with OpenedFolders([*filter(is_local, chunk.roots.folders)]) as folders:
        refusals = {each: _refusal(folders, chunk.io, each, chunk.listed.get(each)) for each in locations}
    return {location: error for location, error in refusals.items() if error is not None}


def _refusal(folders: OpenedFolders, io: FileIO, location: str, identity: str | None) -> str | None:
    opened_by_io = isinstance(io, PyArrowFileIO)
    path = PyArrowFileIO.parse_location(location, io.properties)[2] if opened_by_io else local_path(location)
    try:
        folders.remove(path, identity)
    except FileNotFoundError:
        return None
    except (OSError, StorageError) as error:
        return str(error)
    return None
