"""Partition files written while their caller is still making others: what is written need not be held in memory.

A :class:`BackgroundWriter` takes partitions one by one and hands out an :class:`Ahead` for each. Promises: no more than
a few partitions wait in memory; until :meth:`BackgroundWriter.finish` hands the files over they belong to the writer,
and :meth:`BackgroundWriter.abandon` removes all of them. The latest partition is written by whoever finishes, who would
only wait for it: so a single one, as an increment mostly has, needs no thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from pyiceberg.manifest import DataFile

from metastore.errors import StorageError
from metastore.mapping.rows import PartitionKey, PartitionRows
from metastore.storage.partition_encoder import EncodedPartition, PartitionEncoder
from metastore.storage.partition_writer import PartitionWriter
from metastore.stores.new_files import NewFiles

_THREADS: Final = 4
_WAITING: Final = 8
"""Partitions beyond those being written that may wait; more, and whoever brings the next one waits instead."""


@dataclass(frozen=True, eq=False)
class Ahead:
    """A partition whose file is being written, or is."""

    key: PartitionKey
    file: Future[DataFile]


@dataclass(frozen=True)
class _Unwritten:
    """A partition still to be written, and the promise of its file."""

    partition: PartitionRows | EncodedPartition
    file: Future[DataFile]

    def write(self, writer: PartitionWriter, files: NewFiles) -> None:
        """Keep the promise; it holds what writing raises, and nothing is raised here."""
        try:
            self.file.set_result(writer.write_one(self.partition, files))
        except BaseException as error:  # noqa: BLE001 - as an executor's own futures have it
            self.file.set_exception(error)


class BackgroundWriter:
    """Writes partitions through ``writer`` in threads of its own."""

    def __init__(self, writer: PartitionWriter) -> None:
        self._writer = writer
        self._files = NewFiles(writer.io)
        self._threads = ThreadPoolExecutor(_THREADS, "metastore-writer")
        self._unfinished: deque[Future[DataFile]] = deque()
        self._latest: _Unwritten | None = None

    @property
    def encoder(self) -> PartitionEncoder:
        """What makes the content of the files."""
        return self._writer.encoder

    @property
    def table_uuid(self) -> UUID:
        """Of the table whose files these are."""
        return self._writer.state.metadata.table_uuid

    def add(self, partition: PartitionRows | EncodedPartition) -> Ahead:
        """Have a partition written. Raises what writing an earlier one raised; StorageError where the store failed."""
        while self._unfinished and (self._unfinished[0].done() or len(self._unfinished) >= _THREADS + _WAITING):
            _result(self._unfinished.popleft())
        if self._latest is not None:
            self._threads.submit(self._latest.write, self._writer, self._files)
            self._unfinished.append(self._latest.file)
        self._latest = _Unwritten(partition, Future())
        return Ahead(partition.key, self._latest.file)

    def finish(self, wanted: Collection[Ahead]) -> dict[PartitionKey, DataFile]:
        """The files of ``wanted``, which are the caller's now; the others are removed. Raises, and removes all."""
        try:
            if self._latest is not None and self._latest.file in {ahead.file for ahead in wanted}:
                self._latest.write(self._writer, self._files)
            files = {ahead.key: _result(ahead.file) for ahead in wanted}
        except BaseException:
            self.abandon()
            raise
        self._remove_all_but({file.file_path for file in files.values()})
        return files

    def abandon(self) -> None:
        """Remove every file that was written, and write no more."""
        self._remove_all_but(())

    def _remove_all_but(self, kept: Collection[str]) -> None:
        self._latest = None
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._files.discard(path for path in self._files.created if path not in kept)
        self._files = NewFiles(self._writer.io)  # the files that are kept are the caller's now


def _result(file: Future[DataFile]) -> DataFile:
    try:
        return file.result()
    except OSError as error:
        raise StorageError(f"cannot write data files: {error}; nothing was changed") from error
