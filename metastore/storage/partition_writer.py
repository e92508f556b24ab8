"""Rows of partitions -> Parquet files, one file a partition, with the metrics that a manifest entry carries.

Files get new UUID names in the folder of their location keys, so nothing is ever written over; they mean nothing until
a commit refers to them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from metastore.errors import InvalidRequestError, StorageError
from metastore.mapping.bounds import bounds_of
from metastore.mapping.rows import PartitionKey, PartitionRows
from metastore.mapping.schema import arrow_schema
from metastore.model.fields import Unit
from metastore.storage.files import discard
from metastore.storage.locations import is_local
from metastore.storage.parquet_content import Codec, ParquetContent
from metastore.storage.paths import folder_of
from metastore.storage.table import TableState

_THREADS: Final = 4
_FILES_AT_ONCE: Final = 16
"""Files are quickly written, so that handing each alone to a thread would cost too."""
_FEW: Final = 4
"""So many are written to the local disk before threads have begun. And a process that commits a little now and then has
no threads that come and go: each takes a lock of Arrow's allocator (mimalloc), which a child may be forked with."""
_CODEC_PROPERTY: Final = "write.parquet.compression-codec"
_DEFAULT_CODEC: Final = "snappy"
"""Readable by every Parquet reader, Drill's included, without native libraries."""

_CODECS: Final[Mapping[str, Codec]] = {
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4": "lz4",
    "brotli": "brotli",
}


@dataclass(frozen=True)
class PartitionWriter:
    """Writes partitions of one component's table, in the schema of ``state``."""

    io: FileIO
    unit_type: type[Unit]
    state: TableState

    def write(self, partitions: Sequence[PartitionRows]) -> dict[PartitionKey, DataFile]:
        """One new file for each partition. When one fails, the others are removed again and the error is raised."""
        written: dict[PartitionKey, DataFile] = {}

        def write(some: Sequence[PartitionRows]) -> None:
            for partition in some:
                written[partition.key] = self.write_one(partition)

        try:
            if len(partitions) <= (_FEW if is_local(self.state.metadata.location) else 1):
                write(partitions)
            else:
                _in_threads(write, partitions)
        except BaseException as error:
            discard(self.io, [data_file.file_path for data_file in written.values()])
            if isinstance(error, OSError):
                raise StorageError(f"cannot write data files: {error}; nothing was changed") from error
            raise
        return {partition.key: written[partition.key] for partition in partitions}

    def write_one(self, partition: PartitionRows) -> DataFile:
        """The new file of one partition; when that fails, nothing stays, and the store's own error is raised."""
        folder = partition_folder(self.unit_type, partition.key)
        location = f"{self.state.metadata.location.rstrip('/')}/{folder}/{uuid.uuid4()}.parquet"
        content = self._parquet.of(partition.rows)
        try:
            with self.io.new_output(location).create() as stream:
                stream.write(content.to_pybytes())
        except BaseException:
            discard(self.io, [location])
            raise
        bounds = bounds_of(self.unit_type, self.state.schema, partition.rows)
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=location,
            file_format=FileFormat.PARQUET,
            partition=Record(*partition.key),
            record_count=partition.rows.num_rows,
            file_size_in_bytes=content.size,
            value_counts=bounds.value_counts,
            null_value_counts=bounds.null_value_counts,
            lower_bounds=bounds.lower_bounds,
            upper_bounds=bounds.upper_bounds,
            spec_id=self.state.spec.spec_id,
        )

    @cached_property
    def _parquet(self) -> ParquetContent:
        schema = arrow_schema(self.unit_type, self.state.schema)
        return ParquetContent(self.unit_type, schema, _codec(self.state.metadata.properties))


def _in_threads(write: Callable[[Sequence[PartitionRows]], None], partitions: Sequence[PartitionRows]) -> None:
    """All ``partitions`` written, a few by each call; the first error is raised when all calls have ended."""
    at_once = max(1, min(_FILES_AT_ONCE, len(partitions) // _THREADS))
    with ThreadPoolExecutor(_THREADS) as threads:
        pending = [
            threads.submit(write, partitions[start : start + at_once]) for start in range(0, len(partitions), at_once)
        ]
    for future in pending:
        future.result()


def partition_folder(unit_type: type[Unit], key: PartitionKey) -> str:
    """Folder of a partition's files, below the component's location. InvalidRequestError for unsafe location keys."""
    keys: Mapping[str, str] = dict(zip(unit_type.partition_columns, key, strict=True))
    return folder_of(unit_type.location_columns, tuple(keys[column] for column in unit_type.location_columns))


def _codec(properties: Mapping[str, str]) -> Codec:
    name = properties.get(_CODEC_PROPERTY, _DEFAULT_CODEC).lower()
    if name not in _CODECS:
        raise InvalidRequestError(f"table property {_CODEC_PROPERTY} is {name!r}; it can be {', '.join(_CODECS)}")
    return _CODECS[name]
