"""The private names of PyIceberg that this package leans on, in one place; a test fails when one changes.

``_InclusiveMetricsEvaluator`` tells from a manifest entry's counts and bounds whether its file can hold a matching row.
PyIceberg has no public form of it, and a second implementation here would be one to keep right.
``_get_parquet_writer_kwargs`` reads the table properties that say how data files are written.
``Transaction._updates`` is what a transaction would commit, so that it is committed by our own rules.
``_task_to_record_batches`` reads a data file for PyIceberg's scans, by what ``_get_file_format`` makes of its format:
times of INT96 in Arrow's own unit. ``_read_deletes`` tells what a delete file takes away, by data file.
:class:`RowScan` is the same scan with another unit, and with the deletes of each file's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any, Final, cast

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.io.pyarrow import (
    ArrowScan,
    _get_file_format,
    _get_parquet_writer_kwargs,
    _read_deletes,
    _task_to_record_batches,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Transaction
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.utils.concurrent import ExecutorFactory

from metastore.errors import InvalidRequestError
from metastore.storage.read_errors import UNREADABLE, unreadable


def metrics_evaluator(schema: Schema, expression: BooleanExpression) -> Callable[[DataFile], bool]:
    """A test of data files: False only when no row of the file can match ``expression``."""
    return _InclusiveMetricsEvaluator(schema, expression, case_sensitive=True).eval


def parquet_writer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of pyarrow's Parquet writer that a table with ``properties`` asks for: codec, page sizes."""
    return _get_parquet_writer_kwargs(dict(properties))


def pending(transaction: Transaction) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """What ``transaction``, which is not committed, has gathered."""
    return transaction._requirements, transaction._updates  # noqa: SLF001


def _with(function: Any, **names: Any) -> Any:
    """``function`` as it stands, but for what some global names in it mean."""
    code, others = function.__code__, {**function.__globals__, **names}
    return FunctionType(code, others, function.__name__, function.__defaults__, function.__closure__)


def _format_of(file_format: FileFormat, **options: Any) -> Any:
    times = {"coerce_int96_timestamp_unit": "us"} if file_format is FileFormat.PARQUET else {}
    return _get_file_format(file_format, **options, **cast("dict[str, Any]", times))


_READABLE: Final = {
    DataFileContent.DATA: (FileFormat.PARQUET, FileFormat.ORC),
    DataFileContent.POSITION_DELETES: (FileFormat.PARQUET, FileFormat.ORC, FileFormat.PUFFIN),
}


def require_readable(file: DataFile) -> None:
    """InvalidRequestError for a data file, or one of position deletes, in a format that PyIceberg does not read."""
    if file.file_format not in _READABLE[file.content]:
        raise InvalidRequestError(
            f"{file.file_path} is in {file.file_format.value}, which PyIceberg does not read; "
            "rewrite the table's data files as Parquet, by an engine that reads them"
        )


class RowScan(ArrowScan):
    """PyIceberg's reading of data files, with times of INT96 in microseconds, and each file with its own deletes alone.

    In nanoseconds, Arrow's own choice, times before 1677 and after 2262 would silently become others. And PyIceberg
    takes rows from a file that its neighbours' delete files name, too: one that was added again after these were.
    """

    def to_record_batches(self, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
        """The rows file by file, in the order of ``tasks``; a file's rows are in memory at once.

        Raises StorageError and FormatError, which name the file, and what :func:`require_readable` does.
        """
        for _, batches in self.by_file(tasks):
            yield from batches

    def by_file(self, tasks: Iterable[FileScanTask]) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
        """The same, each file's with its path."""
        tasks = list(tasks)
        executor = ExecutorFactory.get_or_create()
        deletes = list({delete for task in tasks for delete in task.delete_files})
        positions = dict(zip(deletes, executor.map(self._deleted, deletes), strict=True))

        def rows(task: FileScanTask) -> list[pa.RecordBatch]:
            path = task.file.file_path
            own = [positions[delete][path] for delete in task.delete_files if path in positions[delete]]
            require_readable(task.file)
            try:
                return list(self._record_batches_from_scan_tasks_and_deletes([task], {path: own} if own else {}))
            except UNREADABLE as error:
                raise unreadable(path, error) from error

        yield from zip((task.file.file_path for task in tasks), executor.map(rows, tasks), strict=True)

    def _deleted(self, delete: DataFile) -> dict[str, pa.ChunkedArray[Any]]:
        require_readable(delete)
        try:
            return _read_deletes(self._io, delete)
        except UNREADABLE as error:
            raise unreadable(delete.file_path, error) from error

    _record_batches_from_scan_tasks_and_deletes = _with(
        ArrowScan._record_batches_from_scan_tasks_and_deletes,  # noqa: SLF001
        _task_to_record_batches=_with(_task_to_record_batches, _get_file_format=_format_of),
    )
