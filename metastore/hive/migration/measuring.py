"""The tasks of a verification: files by one of two ways to their rows -> what each column holds.

Hive's way opens a file by its format alone, and takes the partition's values as the metastore had them. Iceberg's way
is PyIceberg's reading of the files that the metadata names. Rows pass through in batches; nothing is kept but numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyarrow import orc, parquet
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata

from metastore.errors import FormatError, StorageError
from metastore.hive.listing import Store
from metastore.hive.matching import match
from metastore.hive.partitions import typed_value
from metastore.hive.tables import Columns, FileFormat
from metastore.storage.row_scan import RowScan

_BATCH_ROWS: Final = 64 * 1024
_BOUNDS: Final = "bounds"

_FRAGMENT: Final[dict[str, Any]] = {
    "side": pa.string(),
    "column": pa.string(),
    "rows": pa.int64(),
    "nulls": pa.int64(),
    _BOUNDS: pa.binary(),
}
FRAGMENT: Final = pa.schema(_FRAGMENT)
"""What a task returns of each column; ``bounds`` is a stream of Arrow with the lowest and the highest value."""


class Side(str, Enum):
    """A way to the rows."""

    HIVE = "hive"
    ICEBERG = "iceberg"


@dataclass
class Measured:
    """One column as one way saw it; bounds of columns that have an order, NaNs left out."""

    rows: int = 0
    nulls: int = 0
    low: Any = None
    high: Any = None

    def add(self, values: Any) -> None:
        """Take in a batch of values."""
        self.rows += len(values)
        self.nulls += values.null_count
        if pt.is_floating(values.type):
            values = values.filter(pc.invert(pc.is_nan(values)))
        if pt.is_nested(values.type) or pt.is_null(values.type) or len(values) == values.null_count:
            return
        found: dict[str, Any] = pc.min_max(values).as_py()  # type: ignore[assignment] # the stubs say a list
        self.include(found["min"], found["max"])

    def include(self, low: Any, high: Any) -> None:
        """Widen the bounds, if there are any to widen them by."""
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


class HiveFile(NamedTuple):
    """A file as Hive had it: the texts are the values of its partition."""

    location: str
    format: FileFormat | None
    values: tuple[str, ...]


@dataclass(frozen=True)
class HiveChunk:
    """Files that a task reads as Hive's; ``types`` are Iceberg's by the columns' names. Plain data."""

    columns: Columns
    partition_columns: Columns
    types: Mapping[str, pa.DataType]
    files: Sequence[HiveFile]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class IcebergChunk:
    """Files that a task reads as Iceberg's; ``metadata`` is the table's, without history."""

    metadata: TableMetadata
    io: FileIO
    schema: Schema
    files: Sequence[FileScanTask]


Chunk = HiveChunk | IcebergChunk


def measure_chunk(chunk: Chunk) -> Iterator[pa.RecordBatch]:
    """One batch of :data:`FRAGMENT` with a row for each column. StorageError and FormatError name a file."""
    if isinstance(chunk, HiveChunk):
        side, types, batches = Side.HIVE, dict(chunk.types), _hive_rows(chunk)
    else:
        arrow = chunk.schema.as_arrow()
        side, types, batches = Side.ICEBERG, dict(zip(arrow.names, arrow.types, strict=True)), _iceberg_rows(chunk)
    measured = {column: Measured() for column in types}
    for batch in batches:
        for column, found in measured.items():
            found.add(batch[column])
    rows = [
        {"side": side.value, "column": column, "rows": each.rows, "nulls": each.nulls, _BOUNDS: _packed(each, type_)}
        for (column, each), type_ in zip(measured.items(), types.values(), strict=True)
    ]
    yield pa.RecordBatch.from_pylist(rows, FRAGMENT)


def gathered(batches: Iterable[pa.RecordBatch]) -> Mapping[tuple[Side, str], Measured]:
    """What all tasks found, by side and column; of a column that none met, that there is no row."""
    found: dict[tuple[Side, str], Measured] = defaultdict(Measured)
    for batch in batches:
        for row in batch.to_pylist():
            measured = found[Side(row["side"]), row["column"]]
            measured.rows += row["rows"]
            measured.nulls += row["nulls"]
            with pa.ipc.open_stream(row[_BOUNDS]) as stream:
                low, high = stream.read_all()[_BOUNDS].to_pylist()
            measured.include(low, high)
    return found


def _packed(measured: Measured, type_: pa.DataType) -> bytes:
    bounds = pa.array([measured.low, measured.high], pa.null() if pt.is_nested(type_) else type_)
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([bounds], names=[_BOUNDS])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _iceberg_rows(chunk: IcebergChunk) -> Iterator[pa.RecordBatch]:
    scan = RowScan(chunk.metadata, chunk.io, chunk.schema, AlwaysTrue())
    for task in chunk.files:  # one at a time is in memory
        yield from scan.to_record_batches([task])


def _hive_rows(chunk: HiveChunk) -> Iterator[pa.RecordBatch]:
    """Rows as Hive has them: columns by its own names and Iceberg's types, partition values beside them."""
    store = Store(chunk.properties)
    for file in chunk.files:
        for batch in _file_batches(store, file):
            yield _as_rows(chunk, batch, file)


def _file_batches(store: Store, file: HiveFile) -> Iterator[pa.RecordBatch]:
    try:
        with store.open(file.location) as stream:
            if file.format is FileFormat.ORC:
                reader = orc.ORCFile(stream)
                yield from (reader.read_stripe(at) for at in range(reader.nstripes))
            else:
                yield from parquet.ParquetFile(stream, coerce_int96_timestamp_unit="us").iter_batches(_BATCH_ROWS)
    except OSError as error:
        raise StorageError(f"cannot read {file.location}: {error}") from error
    except pa.ArrowException as error:
        raise FormatError(f"{file.location} cannot be read: {error}") from error


def _as_rows(chunk: HiveChunk, batch: pa.RecordBatch, file: HiveFile) -> pa.RecordBatch:
    aliases = match(chunk.columns, batch.schema).aliases
    partition = {
        name: typed_value(text, type_)
        for (name, type_), text in zip(chunk.partition_columns, file.values, strict=False)
    }
    columns: list[Any] = []
    for name, type_ in chunk.types.items():
        if name in partition:
            columns.append(pa.array([partition[name]], type_).take(pa.array([0] * batch.num_rows, pa.int32())))
            continue
        alias = next((each for each in aliases.get((name,), ()) if each in batch.schema.names), None)
        if alias is None:
            missing: Any = pa.int32() if pt.is_nested(type_) else type_
            columns.append(pa.nulls(batch.num_rows, missing))
        else:
            found = batch[alias]
            columns.append(found if pt.is_nested(found.type) else found.cast(type_, safe=False))
    return pa.RecordBatch.from_arrays(columns, names=list(chunk.types))
