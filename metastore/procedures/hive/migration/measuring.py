"""The engine tasks of a verification: read files in one of three ways, and measure each piece of each column.

The first way is Hive's: it opens a file by its format, and takes the partition's values from the metastore. The second
is Iceberg's: this package reads the files in the metadata by column ids, as Iceberg for Java does. The third is
PyIceberg's own reader, which reads some values differently. Rows are read in batches, and only numbers are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.types as pt
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import FileFormat as IcebergFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata

from metastore.errors import FormatError
from metastore.lake.iceberg.manifests.data_file import open_data_file
from metastore.lake.iceberg.rows.row_scan import RowScan
from metastore.lake.stores.read_errors import reading_file
from metastore.procedures.hive.migration.column_pieces import PieceMeasures, paths, pieces
from metastore.sources.hive.listing import HiveStore
from metastore.sources.hive.matching import match
from metastore.sources.hive.partitions import typed_value
from metastore.sources.hive.tables import Columns, HiveFormat

_arrow: Any = pa
"""pyarrow without its stubs, which lack some of its arguments."""

_Columns = Mapping[str, Any]
"""Arrow arrays by column name."""

_BOUNDS: Final = "bounds"

_FRAGMENT: Final[dict[str, Any]] = {
    "side": pa.string(),
    "piece": pa.string(),
    "rows": pa.int64(),
    "nulls": pa.int64(),
    "digest": pa.uint64(),
    "error": pa.string(),
    _BOUNDS: pa.binary(),
}
FRAGMENT: Final = pa.schema(_FRAGMENT)
"""The task's result for each piece. ``bounds`` is an Arrow stream with the lowest and the highest value."""


class Side(str, Enum):
    """A way of reading the rows."""

    HIVE = "hive"
    ICEBERG = "iceberg"
    PYICEBERG = "pyiceberg"


class HiveFile(NamedTuple):
    """A file as Hive had it. ``values`` are the values of its partition, as text."""

    location: str
    format: HiveFormat | None
    values: tuple[str, ...]


@dataclass(frozen=True)
class HiveChunk:
    """Files for a task that reads as Hive does; ``types`` are Iceberg's types by column name. Plain data."""

    columns: Columns
    partition_columns: Columns
    types: Mapping[str, pa.DataType]
    files: Sequence[HiveFile]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class IcebergChunk:
    """Files for a task that reads Iceberg tables. ``metadata`` is the table's metadata without its history."""

    metadata: TableMetadata
    io: FileIO
    schema: Schema
    files: Sequence[FileScanTask]
    side: Side = Side.ICEBERG


Chunk = HiveChunk | IcebergChunk


def measure_chunk(chunk: Chunk) -> Iterator[pa.RecordBatch]:
    """Yields one batch of :data:`FRAGMENT` with a row for each piece.

    Raises StorageError and FormatError, which name the file. If PyIceberg cannot read a column, its error becomes part
    of the result and is not raised.
    """
    if isinstance(chunk, HiveChunk):
        side, types = Side.HIVE, dict(chunk.types)
    else:
        arrow = chunk.schema.as_arrow()
        side, types = chunk.side, dict(zip(arrow.names, arrow.types, strict=True))
    measured = {piece: (PieceMeasures(), held) for name, type_ in types.items() for piece, held in paths(name, type_)}
    if isinstance(chunk, HiveChunk):
        _measure(_hive_rows(chunk), types, measured)
    elif side is Side.ICEBERG:
        _measure(_iceberg_rows(chunk), types, measured)
    else:
        for name, type_ in types.items():
            _measure_plainly(chunk, name, type_, measured)
    rows = [
        {
            "side": side.value,
            "piece": piece,
            "rows": each.rows,
            "nulls": each.nulls,
            "digest": each.digest,
            "error": each.error,
            _BOUNDS: _pack_bounds(each, type_),
        }
        for piece, (each, type_) in measured.items()
    ]
    yield pa.RecordBatch.from_pylist(rows, FRAGMENT)


def _measure(
    batches: Iterable[tuple[str, _Columns]],
    types: Mapping[str, pa.DataType],
    measured: Mapping[str, tuple[PieceMeasures, pa.DataType]],
) -> None:
    for location, columns in batches:
        for name, type_ in types.items():
            for piece, values in _pieces(location, name, columns[name], type_):
                measured[piece][0].add(values)


def _measure_plainly(
    chunk: IcebergChunk, name: str, type_: pa.DataType, measured: Mapping[str, tuple[PieceMeasures, pa.DataType]]
) -> None:
    try:
        _measure(_pyiceberg_rows(chunk, name), {name: type_}, measured)
    except FormatError as error:
        measured[name][0].error = str(error)


def _pieces(location: str, name: str, values: Any, type_: pa.DataType) -> list[tuple[str, Any]]:
    with reading_file(location, errors=pa.ArrowException):
        return list(pieces(name, values, type_))


def combine_results(batches: Iterable[pa.RecordBatch]) -> Mapping[tuple[Side, str], PieceMeasures]:
    """Returns the combined result of all tasks, by side and piece. A piece of no task has no rows."""
    found: dict[tuple[Side, str], PieceMeasures] = defaultdict(PieceMeasures)
    for batch in batches:
        for row in batch.to_pylist():
            with pa.ipc.open_stream(row[_BOUNDS]) as stream:
                low, high = stream.read_all()[_BOUNDS].to_pylist()
            part = PieceMeasures(row["rows"], row["nulls"], low, high, row["digest"], row["error"])
            found[Side(row["side"]), row["piece"]].merge(part)
    return found


def _pack_bounds(measured: PieceMeasures, type_: Any) -> bytes:
    kept = type_
    if pt.is_nested(type_):
        kept = pa.null()
    elif pt.is_temporal(type_):
        kept = pa.int64()
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.array([measured.low, measured.high], kept)], names=[_BOUNDS])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _iceberg_rows(chunk: IcebergChunk) -> Iterator[tuple[str, _Columns]]:
    scan = RowScan(chunk.metadata, chunk.io, chunk.schema, AlwaysTrue())
    for task in chunk.files:  # only one file at a time is in memory
        for batch in scan.to_record_batches([task]):
            yield task.file.file_path, _by_name(batch)


def _pyiceberg_rows(chunk: IcebergChunk, column: str) -> Iterator[tuple[str, _Columns]]:
    scan = ArrowScan(chunk.metadata, chunk.io, chunk.schema.select(column), AlwaysTrue())
    for task in chunk.files:
        for batch in _plainly_read(scan, task):
            yield task.file.file_path, _by_name(batch)


def _plainly_read(scan: ArrowScan, task: FileScanTask) -> Iterator[pa.RecordBatch]:
    with reading_file(task.file.file_path):
        yield from scan.to_record_batches([task])


def _hive_rows(chunk: HiveChunk) -> Iterator[tuple[str, _Columns]]:
    """Yields columns under the table's names, with the values that files hold, and partition values as columns."""
    store = HiveStore(chunk.properties)
    for file in chunk.files:
        for batch in _file_batches(store, file):
            yield file.location, _as_hive(chunk, batch, file)


def _file_batches(store: HiveStore, file: HiveFile) -> Iterator[pa.RecordBatch]:
    with reading_file(file.location), store.open(file.location) as stream:
        # Files of other formats are not migrated.
        reader = open_data_file(stream, IcebergFormat(str(file.format)), file.location)
        yield from reader.matching(None, reader.schema.names)


def _as_hive(chunk: HiveChunk, batch: pa.RecordBatch, file: HiveFile) -> _Columns:
    aliases = match(chunk.columns, batch.schema).aliases
    partition = {
        name: typed_value(text, type_)
        for (name, type_), text in zip(chunk.partition_columns, file.values, strict=False)
    }
    present = frozenset(batch.schema.names)
    columns: dict[str, Any] = {}
    for name, type_ in chunk.types.items():
        if name in partition:
            columns[name] = pa.array([partition[name]], type_).take(pa.array([0] * batch.num_rows, pa.int32()))
            continue
        alias = next((each for each in aliases.get((name,), ()) if each in present), None)
        columns[name] = _arrow.nulls(batch.num_rows, type_) if alias is None else batch[alias]
    return columns


def _by_name(batch: pa.RecordBatch) -> _Columns:
    return dict(zip(batch.schema.names, batch.columns, strict=True))
