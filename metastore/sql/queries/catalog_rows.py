"""The rows of one version of a catalog's table in a query: read here or in parts, and what narrows them.

Place in the flow: :mod:`metastore.sql.queries.relations` resolves a name to a table, and asks this module for its rows.
The columns ``extra`` are of a row's file (:mod:`metastore.sql.queries.columns_of_files`). With ``live``, rows have
addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from metastore.duck.variants import reads_variants
from metastore.errors import FormatError, MetastoreError, StorageError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.columns.carried_columns import arrow_schema, with_variant_parts
from metastore.lake.iceberg.columns.readable_columns import readable_schema
from metastore.lake.iceberg.rows.row_scan import RowScan
from metastore.lake.iceberg.rows.scan_tasks import EntryTask, scan_tasks
from metastore.lake.stores.read_errors import is_of_store
from metastore.lake.writes.row_changes import LiveRows
from metastore.sql.queries.addressed_rows import ADDRESS, addressed_rows, files_with_rows, scan_of_all_rows
from metastore.sql.queries.columns_of_files import (
    HiddenColumns,
    columns_of_files,
    may_have_rows,
    of_table,
    with_columns,
)
from metastore.sql.queries.narrowed_read import NarrowedRead, fitting, of_iceberg
from metastore.sql.queries.push_down import AskedRows
from metastore.sql.queries.row_parts import RowsOnStore, addressed_rows_of, rows_of_iceberg


@dataclass(frozen=True)
class CatalogRows:
    """The rows of ``table``. ``own`` are its readable columns, ``schema`` has those of ``extra`` at its end.

    The methods raise StorageError and FormatError, which name the table or the file.
    """

    target: TargetTable
    table: Table
    own: pa.Schema
    extra: tuple[str, ...]
    schema: Schema
    live: LiveRows | None

    @classmethod
    def of(cls, target: TargetTable, table: Table, unlisted: Collection[str], live: LiveRows | None) -> CatalogRows:
        """Returns the rows of ``table``; ``unlisted`` are the columns of files that the query names."""
        readable = table.schema() if reads_variants() else readable_schema(table.schema())
        own = arrow_schema(with_variant_parts(readable))
        extra = columns_of_files(unlisted, own.names)
        return cls(target, table, own, extra, with_columns(readable, extra), live)

    @cached_property
    def columns(self) -> pa.Schema:
        """All columns of the rows."""
        return pa.schema([*self.own, *HiddenColumns(self.table.metadata, self.extra).fields, *self._address])

    @property
    def unlisted_columns(self) -> tuple[str, ...]:
        """The columns that a star leaves out."""
        return (*self.extra, *(field.name for field in self._address))

    @property
    def _address(self) -> list[pa.Field[Any]]:
        return [] if self.live is None else ADDRESS

    def read(self, request: AskedRows) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the columns that are asked."""
        with self._errors():
            condition, is_meant = self._conditions_for(request)
            hidden = self._hidden_columns(request)
            if self.live is not None:
                chosen = [name for name in self.own.names if name in request.columns]
                numbers = files_with_rows(self.table, self.live, condition, is_meant)
                found = addressed_rows(scan_of_all_rows(self.table, chosen, hidden), self.live, numbers, hidden)
                yield from (batch.select(request.columns) for batch in found)
                return
            metadata, io = self.table.metadata, self.table.io
            rows = RowScan(metadata, io, self._projection(request, condition), condition, hidden.places)
            tasks = self._tasks(condition, is_meant)
            for task, (_, batches) in zip(tasks, rows.by_file(tasks), strict=True):
                if hidden.names:
                    yield from (hidden.beside(batch, task.file).select(request.columns) for batch in batches)
                else:
                    yield from batches

    def on_store(self, request: AskedRows) -> RowsOnStore:
        """Returns the rows for tasks, each of which reads some files."""
        with self._errors():
            condition, is_meant = self._conditions_for(request)
            more = self._hidden_columns(request).names
            if self.live is not None:
                numbers = files_with_rows(self.table, self.live, condition, is_meant)
                return addressed_rows_of(self.table, self.live, numbers, request.columns, more)
            tasks = self._tasks(condition, is_meant)
            projection = self._projection(request, condition)
            return rows_of_iceberg(self.table, projection, condition, tasks, request.columns, more)

    def narrow(self, request: AskedRows) -> NarrowedRead:
        """Returns which part is read, and why."""
        with self._errors():
            return of_iceberg(request, fitting(request, self.schema), self.table, self.extra)

    def _conditions_for(self, request: AskedRows) -> tuple[BooleanExpression, Callable[[DataFile], bool]]:
        """Returns the condition on the table's own columns, and that on a file."""
        expression = fitting(request, self.schema).expression
        return of_table(expression, self.extra), may_have_rows(expression, self.table.metadata, self.extra)

    def _hidden_columns(self, request: AskedRows) -> HiddenColumns:
        return HiddenColumns(self.table.metadata, [name for name in self.extra if name in request.columns])

    def _projection(self, request: AskedRows, condition: BooleanExpression) -> Schema:
        names = [each for each in request.columns if each not in self.extra]
        return with_variant_parts(self.table.scan(condition, tuple(names)).projection())

    def _tasks(self, condition: BooleanExpression, is_meant: Callable[[DataFile], bool]) -> list[EntryTask]:
        tasks = scan_tasks(self.table.metadata, self.table.io, condition)
        return [task for task in tasks if is_meant(task.file)]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Within, PyIceberg's errors about a damaged table become this package's."""
        try:
            yield
        except MetastoreError:
            raise
        except Exception as error:
            if is_of_store(error):
                raise StorageError(f"the files of {self.target} cannot be read: {error}") from error
            message = f"the files of {self.target} cannot be read: {str(error) or repr(error)}"
            raise FormatError(message) from error
