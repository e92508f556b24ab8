"""Writes partition files in background threads while the caller creates more, so finished ones leave memory.

A :class:`BackgroundWriter` takes partitions one by one and returns an :class:`Ahead` for each. Guarantees: no more than
a few partitions wait in memory. The files belong to the writer until :meth:`BackgroundWriter.finish` returns them, and
:meth:`BackgroundWriter.abandon` removes all of them. The thread that calls ``finish`` writes the last partition itself,
because it would only wait otherwise. So a single partition, the usual case of an increment, needs no thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from pyiceberg.manifest import DataFile

from metastore.components.storage.partition_encoder import EncodedPartition, PartitionEncoder, StoredPartition
from metastore.components.storage.partition_sender import PartitionSender, StoreProof, new_run
from metastore.components.storage.partition_writer import PartitionWriter
from metastore.errors import MetastoreError, StorageError
from metastore.ground.threads import Threads
from metastore.lake.stores.files import discard
from metastore.lake.stores.new_files import NewFiles
from metastore.lake.stores.trees import Folder, files_in
from metastore.model.mapping.rows import PartitionKey, PartitionRows

_THREADS: Final = 4
_WAITING: Final = 8
"""Partitions that may wait besides those being written; with more, adding the next one blocks."""


@dataclass(frozen=True, eq=False)
class Ahead:
    """A partition whose file is written or being written."""

    key: PartitionKey
    file: Future[DataFile]


@dataclass(frozen=True)
class _Unwritten:
    """A partition that is not written yet, and the future of its file."""

    partition: PartitionRows | EncodedPartition
    file: Future[DataFile]

    def write(self, writer: PartitionWriter, files: NewFiles) -> None:
        """Write the file and complete the future with it or with the error; raises nothing."""
        try:
            self.file.set_result(writer.write_one(self.partition, files))
        except BaseException as error:  # noqa: BLE001 - as an executor's own futures do
            self.file.set_exception(error)


class BackgroundWriter:
    """Writes partitions through ``writer`` in threads of its own."""

    def __init__(self, writer: PartitionWriter) -> None:
        self._writer = writer
        self._files = NewFiles(writer.io)
        self._threads = Threads(_THREADS, "metastore-writer")
        self._unfinished: deque[Future[DataFile]] = deque()
        self._latest: _Unwritten | None = None
        self._run: str | None = None
        self._folders: set[str] = set()

    @property
    def encoder(self) -> PartitionEncoder:
        """The encoder of the files' content."""
        return self._writer.encoder

    def sender(self, folder_key: PartitionKey) -> PartitionSender:
        """Return what stores partitions in tasks, in the folder of ``folder_key``; results are for :meth:`adopt`.

        When this writer ends, it removes every file of the sender's run that was not adopted.
        """
        self._run = self._run or new_run()
        sender = PartitionSender(self.reach, self._writer.unit_type, self._writer.state.metadata.location, self._run)
        self._folders.add(sender.folder(folder_key))
        return sender

    @property
    def reach(self) -> StoreProof:
        """The proof that a process has this writer's store."""
        state = self._writer.state
        return StoreProof(self._writer.io, state.metadata_location, str(state.metadata.table_uuid))

    def adopt(self, partition: StoredPartition) -> Ahead:
        """Take over the file of a partition that a task has stored."""
        self._files.adopt([partition.location])
        file: Future[DataFile] = Future()
        file.set_result(self._writer.entry_of(partition))
        return Ahead(partition.key, file)

    @property
    def table_uuid(self) -> UUID:
        """UUID of the table that the files belong to."""
        return self._writer.state.metadata.table_uuid

    def add(self, partition: PartitionRows | EncodedPartition) -> Ahead:
        """Queue a partition. Raises the error of writing an earlier one; StorageError where the store failed."""
        while self._unfinished and (self._unfinished[0].done() or len(self._unfinished) >= _THREADS + _WAITING):
            _result(self._unfinished.popleft())
        self.proceed()
        self._latest = _Unwritten(partition, Future())
        return Ahead(partition.key, self._latest.file)

    def proceed(self) -> None:
        """Write the last partition in a thread, too: the caller has other work to do before :meth:`finish`."""
        if self._latest is not None:
            self._threads.submit(self._latest.write, self._writer, self._files)
            self._unfinished.append(self._latest.file)
            self._latest = None

    def finish(self, writes: Collection[Ahead]) -> dict[PartitionKey, DataFile]:
        """Return the files of ``writes``, which now belong to the caller; removes the others, and all if it raises."""
        try:
            if self._latest is not None and self._latest.file in {ahead.file for ahead in writes}:
                self._latest.write(self._writer, self._files)
            files = {ahead.key: _result(ahead.file) for ahead in writes}
        except BaseException:
            self.abandon()
            raise
        self._remove_all_but({file.file_path for file in files.values()})
        return files

    def abandon(self) -> None:
        """Remove every written file and stop writing."""
        self._remove_all_but(())

    def _remove_all_but(self, locations: Collection[str]) -> None:
        self._latest = None
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._files.discard(path for path in self._files.created_files if path not in locations)
        self._files = NewFiles(self._writer.io)  # the kept files now belong to the caller
        self._remove_uncounted(locations)

    def _remove_uncounted(self, locations: Collection[str]) -> None:
        """Remove the files of tasks whose result did not count: failed, repeated and speculative ones.

        Their names begin with this writer's run. What cannot be listed or removed is left to the removal of orphan
        files, as is a file that a task stores later.
        """
        if self._run is None:
            return
        run, self._run = f"{self._run}-", None
        of_run = []
        for folder in self._folders:
            with suppress(MetastoreError):
                of_run += [file.location for file in files_in(Folder(self._writer.io, folder))]
        discard(
            self._writer.io,
            [path for path in of_run if path.rpartition("/")[2].startswith(run) and path not in locations],
        )


def _result(file: Future[DataFile]) -> DataFile:
    try:
        return file.result()
    except OSError as error:
        raise StorageError(f"cannot write data files: {error}; nothing was changed") from error
