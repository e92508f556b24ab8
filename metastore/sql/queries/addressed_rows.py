"""Rows of a table with their addresses: the number of the file, and the row's number among the file's live rows.

Place in the flow: a statement that changes rows finds them by a query over these rows
(:mod:`metastore.sql.tasks.row_writes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from metastore.lake.iceberg.columns.carried_columns import with_variant_parts
from metastore.lake.iceberg.rows.row_scan import RowScan
from metastore.lake.iceberg.rows.scan_tasks import scan_tasks
from metastore.lake.writes.row_changes import FILE, ROW, LiveRows
from metastore.sql.queries.columns_of_files import HiddenColumns

ADDRESS: Final[list[pa.Field[Any]]] = [pa.field(FILE, pa.int64()), pa.field(ROW, pa.int64())]


def files_with_rows(
    table: Table, live: LiveRows, condition: BooleanExpression, is_meant: Callable[[DataFile], bool]
) -> list[int]:
    """Returns the numbers of the files that may have a row of ``condition``, and that are ``is_meant``.

    Raises StorageError.
    """
    chosen = {task.file.file_path for task in scan_tasks(table.metadata, table.io, condition)}
    return [
        number
        for number, task in enumerate(live.tasks)
        if task.file.file_path in chosen and number not in live.hidden and is_meant(task.file)
    ]


def scan_of_all_rows(table: Table, columns: Sequence[str], hidden: HiddenColumns) -> RowScan:
    """Returns a scan without a condition: rows are counted from the first live one of their file."""
    projection = with_variant_parts(table.scan(AlwaysTrue(), tuple(columns)).projection())
    return RowScan(table.metadata, table.io, projection, AlwaysTrue(), hidden.places)


def addressed_rows(
    scan: RowScan, live: LiveRows, numbers: Sequence[int], hidden: HiddenColumns, *, ahead: bool = True
) -> Iterator[pa.RecordBatch]:
    """Yields all rows of the files ``numbers``: the columns of ``scan``, the ``hidden`` ones and the address.

    ``ahead``: several files are read at once. Otherwise some batches of one file are in memory. Raises StorageError and
    FormatError, which name the file.
    """
    tasks = [live.tasks[number] for number in numbers]
    each_file: Iterable[tuple[str, Iterable[pa.RecordBatch]]] = (
        scan.by_file(tasks) if ahead else ((task.file.file_path, scan.stream_file(task)) for task in tasks)
    )
    for number, (_, batches) in zip(numbers, each_file, strict=True):
        first = 0
        for batch in batches:
            wide = hidden.beside(batch, live.tasks[number].file)
            ends = [
                pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows),
                pa.array(range(first, first + batch.num_rows), pa.int64()),
            ]
            first += batch.num_rows
            yield pa.RecordBatch.from_arrays([*wide.columns, *ends], schema=pa.schema([*wide.schema, *ADDRESS]))
