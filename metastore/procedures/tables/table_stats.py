"""``compute_table_stats`` counts the distinct values of each column, as theta sketches in a Puffin file.

Tasks read the rows of the snapshot's files, apply deletes, and return one sketch per column. The union of these is the
sketch of the table. The sketches have the form that Iceberg prescribes, so the planner of every engine can read and
merge them.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.statistics import BlobMetadata, StatisticsFile

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.columns.readable_columns import readable_schema, reasons_of_columns_left_out
from metastore.lake.iceberg.rows.puffin import THETA, Blob, puffin_file
from metastore.lake.iceberg.rows.row_scan import RowScan
from metastore.lake.iceberg.rows.scan_tasks import scan_tasks, without_history
from metastore.lake.stores.new_files import write_alone
from metastore.model.sketches.hashing import distinct_first, domain_of, hashes_of
from metastore.model.sketches.theta import TABLE_SIZE, Theta, ThetaBuilder
from metastore.procedures.files.guards import require_written_version
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.tables.attached_statistics import attach

_FILES_A_CHUNK: Final = 16

_COLUMN: Final = pa.struct([("column", pa.string()), ("ndv", pa.int64())])
_RESULT: Final = columns(
    statistics_file=pa.string(),
    snapshot_id=pa.int64(),
    columns=pa.list_(_COLUMN),
)
_SKETCH_COLUMNS: Final[dict[str, pa.DataType]] = {"field_id": pa.int32(), "sketch": pa.binary()}
_SKETCHES: Final = pa.schema(_SKETCH_COLUMNS)


@dataclass(frozen=True)
class SketchChunk:
    """Files for one task to read. ``schema`` has the columns to sketch; ``metadata`` is the table's without history."""

    metadata: TableMetadata
    io: FileIO
    schema: Schema
    files: Sequence[FileScanTask]


@procedure(result=_RESULT)
def compute_table_stats(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    snapshot_id: int | None = None,
    columns: list[str] | None = None,
) -> list[Mapping[str, Any]]:
    """Counts the distinct values of columns, and stores the sketches as statistics of the snapshot."""
    target = context.table(schema, table_name)
    table = target.load()
    require_written_version(table, target)
    metadata = table.metadata
    snapshot = metadata.current_snapshot() if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        if snapshot_id is not None:
            raise InvalidRequestError(f"{target} has no snapshot {snapshot_id}")
        return []
    wanted = _columns(table, snapshot, columns)
    sketches = _sketches(context, table, snapshot, wanted, scan_tasks(metadata, table.io, snapshot=snapshot))
    location = table.location_provider().new_metadata_location(f"{snapshot.snapshot_id}-{uuid.uuid4()}.stats")
    statistics = _write_statistics(table, snapshot, location, wanted, sketches)
    attach(target, context.settings.iceberg.commit.timeout, table.io, statistics)
    found = [
        {"column": wanted.find_column_name(field_id), "ndv": round(sketch.estimate)}
        for field_id, sketch in sketches.items()
    ]
    return [{"statistics_file": location, "snapshot_id": snapshot.snapshot_id, "columns": found}]


def sketch_files(chunk: SketchChunk) -> Iterator[pa.RecordBatch]:
    """The task: yields one row a column, with the sketch of its values in all files of the chunk."""
    builders = {field.field_id: ThetaBuilder(TABLE_SIZE) for field in chunk.schema.fields}
    scan = RowScan(chunk.metadata, chunk.io, chunk.schema, AlwaysTrue())
    for batch in scan.to_record_batches(chunk.files):
        for field, values in zip(chunk.schema.fields, batch.columns, strict=True):
            for hashes in hashes_of(distinct_first(values.drop_null())):
                builders[field.field_id].add(hashes)
    sketches = [builder.sketch().to_bytes() for builder in builders.values()]
    yield pa.RecordBatch.from_arrays(
        [pa.array(builders, pa.int32()), pa.array(sketches, pa.binary())], schema=_SKETCHES
    )


def _columns(table: Table, snapshot: Snapshot, columns: Sequence[str] | None) -> Schema:
    """Returns the columns to sketch: the named ones, or all that have a supported type. Raises InvalidRequestError."""
    schema = table.scan(snapshot_id=snapshot.snapshot_id).projection()
    left_out = reasons_of_columns_left_out(schema)
    types = {field.name: field.type for field in schema_to_pyarrow(readable_schema(schema), include_field_ids=False)}
    if columns is None:
        return schema.select(*(name for name, type_ in types.items() if domain_of(type_) is not None))
    if not columns:
        raise InvalidRequestError("columns must not be empty when provided")
    for name in columns:
        if name in left_out:
            raise InvalidRequestError(f"column {name} cannot be counted: {left_out[name]}")
        if name not in types:
            raise InvalidRequestError(f"{'.'.join(table.name())} has no column {name}; it has {', '.join(types)}")
        if domain_of(types[name]) is None:
            raise InvalidRequestError(f"column {name} is {types[name]}: only columns of plain values can be counted")
    return schema.select(*columns)


def _sketches(
    context: CallContext, table: Table, snapshot: Snapshot, schema: Schema, files: Sequence[FileScanTask]
) -> dict[int, Theta]:
    bare = without_history(table.metadata, snapshots=[snapshot])
    chunks = [
        SketchChunk(bare, table.io, schema, files[start : start + _FILES_A_CHUNK])
        for start in range(0, len(files), _FILES_A_CHUNK)
    ]
    parts: dict[int, list[Theta]] = defaultdict(list)
    if chunks:
        for batch in context.engine(len(files)).run(chunks, sketch_files, _SKETCHES):
            for row in batch.to_pylist():
                parts[row["field_id"]].append(Theta.from_bytes(row["sketch"]))
    return {field.field_id: Theta.union(parts[field.field_id], TABLE_SIZE) for field in schema.fields}


def _write_statistics(
    table: Table, snapshot: Snapshot, location: str, schema: Schema, sketches: Mapping[int, Theta]
) -> StatisticsFile:
    """Write one Puffin file with a sketch and an estimate for each column; returns its entry in the metadata."""
    number = snapshot.sequence_number or 0
    blobs = [
        Blob(
            THETA,
            [field.field_id],
            snapshot.snapshot_id,
            number,
            sketches[field.field_id].to_bytes(),
            {"ndv": str(round(sketches[field.field_id].estimate))},
        )
        for field in schema.fields
    ]
    content, footer = puffin_file(blobs)
    write_alone(table.io, location, content)
    return StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        statistics_path=location,
        file_size_in_bytes=len(content),
        file_footer_size_in_bytes=footer,
        blob_metadata=[
            BlobMetadata(
                type=THETA,
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                fields=list(blob.fields),
                properties=dict(blob.properties),
            )
            for blob in blobs
        ],
    )
