"""Stores encoded partitions from the process that made them, if that process reaches the component's store.

Place in the flow: an engine's tasks make partitions (:mod:`metastore.components.storage.partition_encoder`). A task
that reaches the store puts the file itself and returns only its facts, so the content does not pass through the driver.

Guarantees: whether a process reaches the store is proven, not assumed. The process must read the metadata file that the
driver works on, with its UUID; the local disk of another machine does not have it. File names begin with the ``run`` of
one transaction. So this transaction finds and removes what attempts that do not count have left
(:mod:`metastore.components.storage.background_writer`).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from pyiceberg.io import FileIO

from metastore.components.storage.partition_encoder import EncodedPartition, StoredPartition
from metastore.components.storage.paths import new_file_location, partition_folder
from metastore.errors import MetastoreError
from metastore.lake.stores.new_files import NewFiles
from metastore.model.fields import Unit
from metastore.model.mapping.rows import PartitionKey


@dataclass(frozen=True)
class StoreProof:
    """The proof that a process has the driver's store: a metadata file with ``table_uuid`` in it. Plain data."""

    io: FileIO
    metadata_location: str
    table_uuid: str

    def is_given(self) -> bool:
        """Whether this process can read the file."""
        try:
            with self.io.new_input(self.metadata_location).open() as stream:
                return self.table_uuid.encode() in stream.read()
        except (OSError, MetastoreError):
            return False


@dataclass(frozen=True)
class PartitionSender:
    """Puts partitions of one component's table below ``table_location``; plain data for tasks."""

    reach: StoreProof
    unit_type: type[Unit]
    table_location: str
    run: str

    def folder(self, key: PartitionKey) -> str:
        """Return the folder of a partition's files. Raises InvalidRequestError for keys that cannot name one."""
        return f"{self.table_location.rstrip('/')}/{partition_folder(self.unit_type, key)}"

    def put(self, encoded: EncodedPartition) -> StoredPartition | None:
        """Create the partition's file; None if the store does not take it from here, so that the driver must.

        A file whose creation has an unknown outcome is left, under a name that nothing refers to.
        """
        location = new_file_location(self.unit_type, self.table_location, encoded.key, f"{self.run}-")
        try:
            NewFiles(self.reach.io).write(location, encoded.content.to_pybytes())
        except OSError:
            return None
        return StoredPartition(encoded.key, encoded.rows, encoded.bounds, location, encoded.content.size)


def new_run() -> str:
    """Return a name that no other transaction uses."""
    return uuid.uuid4().hex
