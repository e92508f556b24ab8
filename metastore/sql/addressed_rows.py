"""Rows of a table with their addresses: the number of the file, and the row's number among the file's live rows.

Place in the flow: a statement that changes rows finds them by a query over these rows
(:mod:`metastore.sql.row_writes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import Table

from metastore.iceberg.row_scan import RowScan
from metastore.iceberg.scan_tasks import scan_tasks
from metastore.sql.columns_of_files import beside
from metastore.writes.row_changes import FILE, ROW, LiveRows

ADDRESS: Final[list[pa.Field[Any]]] = [pa.field(FILE, pa.int64()), pa.field(ROW, pa.int64())]


def addressed_rows(
    table: Table,
    live: LiveRows,
    columns: Sequence[str],
    condition: BooleanExpression,
    is_meant: Callable[[str], bool],
    of_file: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Yields all rows of the files that may have a row of ``condition``: ``columns``, then ``of_file`` and the address.

    ``columns`` are columns of the table, in its order. Raises StorageError and FormatError, which name the file.
    """
    chosen = {task.file.file_path for task in scan_tasks(table.metadata, table.io, condition)}
    numbers = [
        number
        for number, task in enumerate(live.tasks)
        if task.file.file_path in chosen and number not in live.hidden and is_meant(task.file.file_path)
    ]
    # Read without a condition: rows are counted from the first live one of their file.
    scan = table.scan(AlwaysTrue(), tuple(columns))
    rows = RowScan(table.metadata, table.io, scan.projection(), AlwaysTrue())
    for number, (path, batches) in zip(numbers, rows.by_file(live.tasks[each] for each in numbers), strict=True):
        first = 0
        for batch in batches:
            wide = beside(batch, path, of_file) if of_file else batch
            ends = [
                pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows),
                pa.array(range(first, first + batch.num_rows), pa.int64()),
            ]
            first += batch.num_rows
            yield pa.RecordBatch.from_arrays([*wide.columns, *ends], schema=pa.schema([*wide.schema, *ADDRESS]))
