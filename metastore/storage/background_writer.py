"""Partition files written while their caller is still making others: what is written need not be held in memory.

A :class:`BackgroundWriter` takes partitions one by one and hands out an :class:`Ahead` for each. Promises: no more than
a few partitions wait in memory; until :meth:`BackgroundWriter.finish` hands the files over they belong to the writer,
and :meth:`BackgroundWriter.abandon` removes all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from pyiceberg.manifest import DataFile

from metastore.errors import StorageError
from metastore.mapping.rows import PartitionKey, PartitionRows
from metastore.storage.files import discard
from metastore.storage.partition_encoder import EncodedPartition, PartitionEncoder
from metastore.storage.partition_writer import PartitionWriter

_THREADS: Final = 4
_WAITING: Final = 8
"""Partitions beyond those being written that may wait; more, and whoever brings the next one waits instead."""


@dataclass(frozen=True, eq=False)
class Ahead:
    """A partition whose file is being written, or is."""

    key: PartitionKey
    file: Future[DataFile]


class BackgroundWriter:
    """Writes partitions through ``writer`` in threads of its own."""

    def __init__(self, writer: PartitionWriter) -> None:
        self._writer = writer
        self._threads = ThreadPoolExecutor(_THREADS, "metastore-writer")
        self._all: list[Ahead] = []
        self._unfinished: deque[Future[DataFile]] = deque()

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
        ahead = Ahead(partition.key, self._threads.submit(self._writer.write_one, partition))
        self._all.append(ahead)
        self._unfinished.append(ahead.file)
        return ahead

    def finish(self, wanted: Iterable[Ahead]) -> dict[PartitionKey, DataFile]:
        """The files of ``wanted``, which are the caller's now; the others are removed. Raises, and removes all."""
        try:
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
        self._threads.shutdown(wait=True, cancel_futures=True)
        written = [ahead.file.result().file_path for ahead in self._all if _succeeded(ahead.file)]
        if unwanted := [path for path in written if path not in kept]:
            discard(self._writer.io, unwanted)
        self._all.clear()


def _result(file: Future[DataFile]) -> DataFile:
    try:
        return file.result()
    except OSError as error:
        raise StorageError(f"cannot write data files: {error}; nothing was changed") from error


def _succeeded(file: Future[DataFile]) -> bool:
    return not file.cancelled() and file.exception() is None
