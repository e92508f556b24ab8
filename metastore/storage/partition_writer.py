"""Rows of partitions -> Parquet files, one file a partition, with the metrics that a manifest entry carries.

Files get new UUID names in the folder of their location keys, so nothing is ever written over; they mean nothing until
a commit refers to them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from metastore.errors import InvalidRequestError, StorageError
from metastore.mapping.bounds import bounds_of
from metastore.mapping.rows import PartitionKey, PartitionRows
from metastore.mapping.schema import arrow_schema
from metastore.model.fields import Unit
from metastore.storage.files import discard
from metastore.storage.paths import folder_of
from metastore.storage.table import TableState

_THREADS: Final = 4
_CODEC_PROPERTY: Final = "write.parquet.compression-codec"
_DEFAULT_CODEC: Final = "snappy"
"""Readable by every Parquet reader, Drill's included, without native libraries."""

_Codec = Literal["none", "snappy", "gzip", "zstd", "lz4", "brotli"]
_CODECS: Final[Mapping[str, _Codec]] = {
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4": "lz4",
    "brotli": "brotli",
}

_SMALL_ROWS: Final = 64
"""Below this, dictionaries cost more bytes and time than they save."""


@dataclass(frozen=True)
class PartitionWriter:
    """Writes partitions of one component's table, in the schema of ``state``."""

    io: FileIO
    unit_type: type[Unit]
    state: TableState

    def write(self, partitions: Sequence[PartitionRows]) -> dict[PartitionKey, DataFile]:
        """One new file for each partition. When one fails, the others are removed again and the error is raised."""
        folders = [partition_folder(self.unit_type, partition.key) for partition in partitions]
        schema = arrow_schema(self.unit_type, self.state.schema)
        with ThreadPoolExecutor(_THREADS) as threads:
            pending = [
                threads.submit(self._write_one, partition, folder, schema)
                for partition, folder in zip(partitions, folders, strict=True)
            ]
        failures = [error for future in pending if (error := future.exception())]
        if failures:
            discard(self.io, [future.result().file_path for future in pending if not future.exception()])
            if isinstance(failures[0], OSError):
                raise StorageError(f"cannot write data files: {failures[0]}; nothing was changed") from failures[0]
            raise failures[0]
        return {partition.key: future.result() for partition, future in zip(partitions, pending, strict=True)}

    def _write_one(self, partition: PartitionRows, folder: str, schema: pa.Schema) -> DataFile:
        location = f"{self.state.metadata.location.rstrip('/')}/{folder}/{uuid.uuid4()}.parquet"
        rows = pa.Table.from_arrays(partition.rows.columns, schema=schema)
        buffer = pa.BufferOutputStream()
        pq.write_table(
            rows,
            buffer,
            compression=_codec(self.state.metadata.properties),
            use_dictionary=rows.num_rows > _SMALL_ROWS,
            write_statistics=rows.num_rows > _SMALL_ROWS,
            store_schema=False,
        )
        content = buffer.getvalue()
        try:
            with self.io.new_output(location).create() as stream:
                stream.write(content.to_pybytes())
        except BaseException:
            discard(self.io, [location])
            raise
        bounds = bounds_of(self.unit_type, self.state.schema, rows)
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=location,
            file_format=FileFormat.PARQUET,
            partition=Record(*partition.key),
            record_count=rows.num_rows,
            file_size_in_bytes=content.size,
            value_counts=bounds.value_counts,
            null_value_counts=bounds.null_value_counts,
            lower_bounds=bounds.lower_bounds,
            upper_bounds=bounds.upper_bounds,
            spec_id=self.state.spec.spec_id,
        )


def partition_folder(unit_type: type[Unit], key: PartitionKey) -> str:
    """Folder of a partition's files, below the component's location. InvalidRequestError for unsafe location keys."""
    keys: Mapping[str, str] = dict(zip(unit_type.partition_columns, key, strict=True))
    return folder_of(unit_type.location_columns, [keys[column] for column in unit_type.location_columns])


def _codec(properties: Mapping[str, str]) -> _Codec:
    name = properties.get(_CODEC_PROPERTY, _DEFAULT_CODEC).lower()
    if name not in _CODECS:
        raise InvalidRequestError(f"table property {_CODEC_PROPERTY} is {name!r}; it can be {', '.join(_CODECS)}")
    return _CODECS[name]
