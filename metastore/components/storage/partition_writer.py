"""Writes each partition as one Parquet file, and returns its manifest entry.

Files get new UUID names in the folder of their location keys, so no file is ever overwritten. They have no effect until
a commit refers to them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from metastore.components.storage.partition_encoder import EncodedPartition, PartitionEncoder, StoredPartition
from metastore.components.storage.paths import new_file_location
from metastore.components.storage.table import TableState
from metastore.errors import StorageError
from metastore.ground.threads import Threads
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.new_files import NewFiles
from metastore.model.fields import Unit
from metastore.model.mapping.rows import PartitionKey, PartitionRows

T = TypeVar("T")

_TOGETHER: Final = 64
"""Partitions that are encoded together."""
_PUTS_AT_ONCE: Final = 64
"""Files that are sent to a store concurrently; waiting for answers costs no CPU."""
_BYTES_IN_FLIGHT: Final = 64 << 20
"""While more bytes than this are being sent, no further partition is encoded."""


@dataclass(frozen=True)
class PartitionWriter:
    """Writes partitions of one component's table, in the schema of ``state``."""

    io: FileIO
    unit_type: type[Unit]
    state: TableState

    def write(
        self, partitions: Sequence[PartitionRows], at_last: Callable[[], T]
    ) -> tuple[dict[PartitionKey, DataFile], T]:
        """Write one new file for each partition. If one fails, removes the others and raises the error.

        Calls ``at_last`` when no more files wait than are sent at once: it may begin what comes after them. Returns its
        answer with the files.
        """
        files = NewFiles(self.io)
        try:
            if is_local(self.state.metadata.location) or len(partitions) <= 1:
                answer = at_last()
                encoded = self._encode_partitions(partitions)
                return {each.key: self.write_one(each, files) for each in encoded}, answer
            return self._send_partitions(partitions, files, at_last)
        except BaseException as error:
            files.discard()
            if isinstance(error, OSError):
                raise StorageError(f"cannot write data files: {error}; nothing was changed") from error
            raise

    def _encode_partitions(self, partitions: Sequence[PartitionRows]) -> Iterator[EncodedPartition]:
        """Yield the encoded ``partitions``, converted a few at a time."""
        for start in range(0, len(partitions), _TOGETHER):
            yield from self.encoder.encode_each(partitions[start : start + _TOGETHER])

    def _send_partitions(
        self, partitions: Sequence[PartitionRows], files: NewFiles, at_last: Callable[[], T]
    ) -> tuple[dict[PartitionKey, DataFile], T]:
        """Write ``partitions`` to a store with latency; raises the first error once every file is settled."""
        in_flight = _InFlight(_BYTES_IN_FLIGHT)

        def send(encoded: EncodedPartition) -> DataFile:
            try:
                return self.write_one(encoded, files)
            finally:
                in_flight.add(-encoded.content.size)

        with Threads(min(_PUTS_AT_ONCE, len(partitions))) as threads:
            pending: dict[PartitionKey, Future[DataFile]] = {}
            for encoded in self._encode_partitions(partitions):
                in_flight.wait_for_room()
                in_flight.add(encoded.content.size)
                pending[encoded.key] = threads.submit(send, encoded)
            wait([*pending.values()][:-_PUTS_AT_ONCE])
            answer = at_last()
        return {key: future.result() for key, future in pending.items()}, answer

    def write_one(self, partition: PartitionRows | EncodedPartition, files: NewFiles) -> DataFile:
        """Write the new file of one partition through ``files``. Raises the store's own error."""
        location = new_file_location(self.unit_type, self.state.metadata.location, partition.key)
        encoded = self.encoder.encode(partition) if isinstance(partition, PartitionRows) else partition
        files.write(location, encoded.content.to_pybytes())
        return self.entry_of(StoredPartition(encoded.key, encoded.rows, encoded.bounds, location, encoded.content.size))

    def entry_of(self, stored: StoredPartition) -> DataFile:
        """Return the manifest entry of a stored partition."""
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=stored.location,
            file_format=FileFormat.PARQUET,
            partition=Record(*stored.key),
            record_count=stored.rows,
            file_size_in_bytes=stored.size_bytes,
            value_counts=stored.bounds.value_counts,
            null_value_counts=stored.bounds.null_value_counts,
            lower_bounds=stored.bounds.lower_bounds,
            upper_bounds=stored.bounds.upper_bounds,
        )

    @cached_property
    def encoder(self) -> PartitionEncoder:
        """The encoder of the files' content."""
        return PartitionEncoder.of(self.unit_type, self.state.schema, self.state.metadata.properties)


class _InFlight:
    """Counts bytes in flight; a sender waits while ``most`` or more are in flight."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._changed = threading.Condition()

    def wait_for_room(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._bytes < self._most)

    def add(self, size: int) -> None:
        with self._changed:
            self._bytes += size
            self._changed.notify_all()
