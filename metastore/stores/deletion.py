"""Deletes many files of a table, in chunks on the engine, and reports failures.

This module does not decide which files to delete. A file that is already gone counts as deleted, because an earlier or
concurrent run did it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyiceberg.io import FileIO

from metastore.engine import EngineFor
from metastore.errors import InvalidRequestError
from metastore.stores.files import discard
from metastore.stores.local import LocalFileIO, remove

_FILES_A_CHUNK: Final = 500

_GONE: Final = pa.schema([("location", pa.string()), ("error", pa.string())])


@dataclass(frozen=True)
class DeletionChunk:
    """Files for one task to delete through ``io``."""

    io: FileIO
    locations: Sequence[str]


def require_concurrency(max_concurrent_deletes: int | None) -> None:
    """Raise InvalidRequestError if ``max_concurrent_deletes`` allows no deletion."""
    if max_concurrent_deletes is not None and max_concurrent_deletes < 1:
        raise InvalidRequestError(f"max_concurrent_deletes should have value > 0, value: {max_concurrent_deletes}")


@dataclass(frozen=True)
class Deletion:
    """Deletes files: in tasks on the engine, or at most ``max_concurrent`` at a time from this process."""

    io: FileIO
    engine: EngineFor
    max_concurrent: int | None = None
    progress: Callable[[int, int], None] | None = None

    def run(self, locations: Iterable[str]) -> dict[str, str]:
        """Delete the files; returns those that failed, each with its error."""
        wanted = list(locations)
        failed: dict[str, str] = {}
        done = 0
        for batch in self._batches(wanted):
            failed.update({row["location"]: row["error"] for row in batch.to_pylist() if row["error"] is not None})
            done += batch.num_rows
            if self.progress is not None:
                self.progress(done, len(wanted))
        return failed

    def _batches(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        size = self.max_concurrent or _FILES_A_CHUNK
        chunks = [DeletionChunk(self.io, wanted[start : start + size]) for start in range(0, len(wanted), size)]
        if self.max_concurrent is None and chunks:
            yield from self.engine(len(wanted)).run(chunks, delete_files, _GONE)
            return
        for chunk in chunks:
            yield from delete_files(chunk)


def _refusal(location: str) -> str | None:
    try:
        remove(location)
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(error)
    return None


def delete_files(chunk: DeletionChunk) -> Iterator[pa.RecordBatch]:
    """The task: yields one row for each file, with an error if deletion failed."""
    failed: dict[str, str] = {}
    if isinstance(chunk.io, LocalFileIO):
        # On a local disk, deleting a file is faster than passing it to a thread.
        for location in chunk.locations:
            if (error := _refusal(location)) is not None:
                failed[location] = error
    else:
        failed = {location: str(error) for location, error in discard(chunk.io, chunk.locations).failed}
    errors = [failed.get(location) for location in chunk.locations]
    yield pa.RecordBatch.from_arrays(
        [pa.array(chunk.locations, pa.string()), pa.array(errors, pa.string())], schema=_GONE
    )
