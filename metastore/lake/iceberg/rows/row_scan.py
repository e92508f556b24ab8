"""Reads rows of an Iceberg table's data files: columns by id, deletes of both kinds applied, rows filtered.

SELECT, statistics and verification all read data files here; a rewrite uses the same functions on parts of files
(:mod:`metastore.lake.writes.reading`). PyIceberg's scan has these defects: it does not read Avro, reads INT96 in
nanoseconds, turns null lists of structs into empty ones, and refuses equality deletes. It also drops rows of a file by
delete files that do not apply to it: if the file was added again after they were written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import reduce
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundIsNaN,
    BoundNotEqualTo,
    BoundNotIn,
    BoundPredicate,
    Not,
    Or,
)
from pyiceberg.expressions.visitors import bind, extract_field_ids, translate_column_names
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import expression_to_pyarrow, pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import DoubleType, FloatType
from pyiceberg.utils.concurrent import ExecutorFactory

from metastore.lake.iceberg.columns.carried_columns import has_variant_parts
from metastore.lake.iceberg.columns.column_defaults import compared_default
from metastore.lake.iceberg.columns.readable_columns import columns_with_ids, require_readable_columns
from metastore.lake.iceberg.columns.version_3_fields import first_row_id
from metastore.lake.iceberg.manifests.carried_files import open_carried_file
from metastore.lake.iceberg.rows.delete_index import DeleteFile
from metastore.lake.iceberg.rows.equality_deletes import EqualityDeletes
from metastore.lake.iceberg.rows.position_deletes import Positions, deleted_positions, merge_positions, without
from metastore.lake.iceberg.rows.projection import Projection, partition_constants
from metastore.lake.iceberg.rows.row_lineage import LINEAGE_IDS, FileLineage, add_places
from metastore.lake.iceberg.rows.scan_tasks import EntryTask
from metastore.lake.stores.files import open_ranges
from metastore.lake.stores.read_errors import reading_file
from metastore.model.mapping.filters import conjuncts

_AHEAD: Final = 32 << 20
"""Bytes of equality delete files that are read before the first data file."""

_READ_AHEAD: Final = 32 << 20
"""Bytes of data files that are read before their rows are needed."""


class RowScan:
    """Reads data files of one table. ``schema`` is the requested one, ``condition`` is on the table's columns.

    A variant is read as its parts, if ``schema`` has them
    (:func:`metastore.lake.iceberg.columns.carried_columns.with_variant_parts`).

    ``places`` are columns of :func:`metastore.lake.iceberg.rows.row_lineage.add_places`, which rows have at their end.

    Raises InvalidRequestError if ``schema`` has a column that cannot be read.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        schema: Schema,
        condition: BooleanExpression,
        places: Sequence[str] = (),
    ) -> None:
        self._places = places
        self._metadata = metadata
        self._io = io
        self._schema = schema
        require_readable_columns(schema)
        self._carried = metadata.schema() if has_variant_parts(schema) else Schema()
        self._arrow = schema_to_pyarrow(schema, include_field_ids=False)
        self._condition = (
            None if isinstance(condition, AlwaysTrue) else bind(metadata.schema(), condition, case_sensitive=True)
        )
        self._used = extract_field_ids(self._condition) if self._condition is not None else set()
        self._ids = schema.field_ids | self._used
        self._names = metadata.name_mapping()
        self._equality = EqualityDeletes.of_table(metadata, io)

    def to_record_batches(self, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
        """Yield the rows file by file, in the order of ``tasks``.

        Files are read ahead, up to :data:`_READ_AHEAD` bytes. Of a larger file, some batches are in memory.

        Raises StorageError and FormatError, which name the file, and InvalidRequestError for an unsupported format.
        """
        for _, batches in self.by_file(tasks):
            yield from batches

    def by_file(self, tasks: Iterable[FileScanTask]) -> Iterator[tuple[str, Iterable[pa.RecordBatch]]]:
        """As :meth:`to_record_batches`, grouped by file, with the file's path."""
        tasks = list(tasks)
        executor = ExecutorFactory.get_or_create()
        paths = {task.file.file_path for task in tasks}
        applied = [sorted(map(DeleteFile.of, task.delete_files)) for task in tasks]
        by_position = list({delete for deletes in applied for delete in deletes if not delete.equality_ids})

        def read_deletes(delete: DeleteFile) -> Mapping[str, list[Positions]]:
            with reading_file(delete.path):
                return deleted_positions(self._io, delete.path, delete.format, paths)

        positions = dict(zip(by_position, executor.map(read_deletes, by_position), strict=True))
        # Data files are read concurrently, and all of them need these.
        list(executor.map(self._equality.prepare, _few(delete for task in tasks for delete in task.delete_files)))

        def rows(task: FileScanTask, deletes: Sequence[DeleteFile]) -> Iterator[pa.RecordBatch]:
            path = task.file.file_path
            named = [positions[delete].get(path, ()) for delete in deletes if not delete.equality_ids]
            own = merge_positions(part for parts in named for part in parts)
            with reading_file(path):
                yield from self._batches(task, own, [delete for delete in deletes if delete.equality_ids])

        waiting = deque(zip(tasks, applied, strict=True))
        reading: deque[tuple[FileScanTask, Iterable[pa.RecordBatch] | Future[list[pa.RecordBatch]]]] = deque()
        size = 0
        while waiting or reading:
            while waiting and (not reading or size + waiting[0][0].file.file_size_in_bytes <= _READ_AHEAD):
                task, deletes = waiting.popleft()
                size += task.file.file_size_in_bytes
                found = rows(task, deletes)
                is_large = task.file.file_size_in_bytes > _READ_AHEAD
                reading.append((task, found if is_large else executor.submit(list[pa.RecordBatch], found)))
            task, batches = reading.popleft()
            yield task.file.file_path, batches.result() if isinstance(batches, Future) else batches
            size -= task.file.file_size_in_bytes

    def stream_file(self, task: FileScanTask) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one file; memory holds some of its batches. Raises as :meth:`to_record_batches`.

        If equality deletes apply, all rows of the file are in memory.
        """
        path = task.file.file_path
        deletes = sorted(map(DeleteFile.of, task.delete_files))
        found: list[Positions] = []
        for delete in deletes:
            if not delete.equality_ids:
                with reading_file(delete.path):
                    found += deleted_positions(self._io, delete.path, delete.format, {path}).get(path, ())
        with reading_file(path):
            yield from self._batches(task, merge_positions(found), [each for each in deletes if each.equality_ids])

    def _batches(
        self, task: FileScanTask, deleted: Positions | None, equality: Sequence[DeleteFile]
    ) -> Iterator[pa.RecordBatch]:
        """Rows of one file that pass. Where positions count, no row group is skipped before deletes are applied."""
        data, version = task.file, self._metadata.format_version
        keys = {column for delete in equality for column in delete.equality_ids}
        with open_ranges(self._io, data.file_path) as source:
            file = open_carried_file(source, data.file_format, data.file_path, self._carried)
            # Format versions 1 and 2 have no nanoseconds.
            held = pyarrow_to_schema(columns_with_ids(file.schema), self._names, version <= 2, version)
            constants = partition_constants(self._metadata.specs()[data.spec_id], data.partition)
            projection = Projection(held, self._schema, self._arrow, constants)
            ids = self._ids | keys | (LINEAGE_IDS if self._places else frozenset())
            columns = [field.name for field in held.fields if _has(field, ids)]
            if self._asks_missing_part(held):
                batches = _choose_rows(self._add_places(file.matching(None, columns), task, held), deleted, None)
                if equality:
                    batches = iter(self._equality.without(list(batches), held, constants, equality))
                yield from self._tested_as_table(batches, held, constants)
                return
            condition = self._of_file(held, constants)
            reads_all = condition is None or deleted is not None or self._places
            pushed = None if condition is None or reads_all else _for_row_groups(condition)
            tested = None if pushed is condition else _in_arrow(condition, held)
            found = self._add_places(file.matching(_in_arrow(pushed, held), columns), task, held)
            batches = _choose_rows(found, deleted, tested)
            if equality:
                batches = iter(self._equality.without(list(batches), held, constants, equality))
            yield from (self._with_places(projection.apply(batch), batch) for batch in batches)

    def _add_places(
        self, batches: Iterable[pa.RecordBatch], task: FileScanTask, held: Schema
    ) -> Iterable[pa.RecordBatch]:
        """Return ``batches``, all rows of a file, with the columns of their places, if they are asked."""
        if not self._places:
            return batches
        number = task.added_number if isinstance(task, EntryTask) else 0
        return add_places(batches, FileLineage(held, first_row_id(task.file), number), self._places)

    def _with_places(self, rows: pa.RecordBatch, wide: pa.RecordBatch) -> pa.RecordBatch:
        if not self._places:
            return rows
        fields = [pa.field(name, pa.int64()) for name in self._places]
        arrays = [*rows.columns, *(wide.column(name) for name in self._places)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*rows.schema, *fields]))

    def _asks_missing_part(self, held: Schema) -> bool:
        """Whether the condition is on a field of a struct that a file lacks: it is NULL, or has its default, by row."""
        top = {field.field_id for field in self._metadata.schema().fields}
        return not self._used <= held.field_ids | top

    def _tested_as_table(
        self, batches: Iterable[pa.RecordBatch], held: Schema, constants: Mapping[int, Any]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that match the condition, which is tested on the columns of the table."""
        assert self._condition is not None
        asked = [field for field in self._metadata.schema().fields if _has(field, self._used)]
        wanted = {field.field_id for field in self._schema.fields}
        wide = Schema(*self._schema.fields, *(field for field in asked if field.field_id not in wanted))
        projection = Projection(held, wide, schema_to_pyarrow(wide, include_field_ids=False), constants)
        condition = expression_to_pyarrow(self._condition, wide)
        for batch in batches:
            rows = self._with_places(projection.apply(batch), batch)
            yield _true_for(condition, rows).select([*self._arrow.names, *self._places])

    def _of_file(self, held: Schema, constants: Mapping[int, Any]) -> BooleanExpression | None:
        """Return the condition in the file's names; None if there is none."""
        if self._condition is None:
            return None
        lacking = [field for field in self._metadata.schema().fields if field.field_id in self._used - held.field_ids]
        missing = {each.field_id: compared_default(each) for each in lacking if each.initial_default is not None}
        missing.update((own, value) for own, value in constants.items() if own not in held.field_ids)
        translated = translate_column_names(self._condition, held, True, missing)
        return bind(held, translated, case_sensitive=True)


def _for_row_groups(condition: BooleanExpression) -> BooleanExpression | None:
    """Return the part of a bound condition by which Arrow may choose row groups; None if there is none."""
    terms = list(conjuncts(condition))
    safe = [term for term in terms if not _may_pass_nan(term)]
    return condition if len(safe) == len(terms) else reduce(And, safe) if safe else None


def _in_arrow(condition: BooleanExpression | None, held: Schema) -> Any:
    return None if condition is None else expression_to_pyarrow(condition, held)


def _choose_rows(
    batches: Iterable[pa.RecordBatch], deleted: Positions | None, condition: Any
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are not deleted and match the Arrow expression ``condition``, if any."""
    row = 0
    for batch in batches:
        kept = without(batch, row, deleted)
        row += batch.num_rows
        if condition is not None:
            kept = _true_for(condition, kept)
        if kept.num_rows:
            yield kept


def _few(deletes: Iterable[DataFile]) -> list[DeleteFile]:
    """Return the first equality delete files whose total size is small enough to read in advance."""
    sizes = {DeleteFile.of(delete): delete.file_size_in_bytes for delete in deletes if delete.equality_ids}
    ends = accumulate(sizes.values())
    return [delete for delete, end in zip(sizes, ends, strict=True) if end <= _AHEAD]


def _has(field: Any, ids: set[int]) -> bool:
    """Whether a file's column, or a part of it, is one of ``ids``."""
    return field.field_id in ids or not ids.isdisjoint(Schema(field).field_ids)


def _true_for(condition: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
    rows = pa.Table.from_batches([batch]).filter(condition).combine_chunks()
    return rows.to_batches()[0] if rows.num_rows else batch.slice(0, 0)


def _may_pass_nan(condition: BooleanExpression) -> bool:
    """Returns whether a row may satisfy the bound ``condition`` because it has NaN.

    Bounds in Parquet footers leave NaN out. If all other values of a row group are equal, Arrow takes that value for
    every row, and skips the row group. So Arrow must not choose row groups by these conditions.
    """
    match condition:
        case And() | Or():
            return _may_pass_nan(condition.left) or _may_pass_nan(condition.right)
        case Not():
            return _names_float(condition.child)
        case BoundIsNaN() | BoundNotEqualTo() | BoundNotIn():
            return _names_float(condition)
    return False


def _names_float(condition: BooleanExpression) -> bool:
    match condition:
        case And() | Or():
            return _names_float(condition.left) or _names_float(condition.right)
        case Not():
            return _names_float(condition.child)
        case BoundPredicate():
            return isinstance(condition.term.ref().field.field_type, FloatType | DoubleType)
    return False
