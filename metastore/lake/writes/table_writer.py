"""Writes rows of a table as new data files: divided by its partition spec, in its sort order, of its target size.

It writes the delete files of a statement, too. Place in the flow: rows come from a query or from files that are
rewritten; the files go to a commit (:mod:`metastore.lake.writes.publication`). Memory is bounded: rows are sorted in
temporary files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Final

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import VoidTransform

from metastore.errors import FormatError, MetastoreError, OutcomeUnknownError
from metastore.lake.iceberg.columns.number_properties import number_property
from metastore.lake.stores.new_files import NewFiles
from metastore.lake.writes.delete_writing import NewDeletes, write_delete_file
from metastore.lake.writes.job import RewriteJob, SortKey, warn_of_other_format
from metastore.lake.writes.limits import TARGET_PROPERTY
from metastore.lake.writes.ordering import Order, in_order
from metastore.lake.writes.sorting import sort_keys
from metastore.lake.writes.task_files import TaskFiles
from metastore.lake.writes.writing import FileWriter

_TARGET_BYTES: Final = 512 << 20
"""Iceberg's default of ``write.target-file-size-bytes``."""


def job_of(name: str, metadata: TableMetadata, io: FileIO) -> RewriteJob:
    """Returns the description of the table for reading and writing its files.

    Raises FormatError for a spec whose columns no longer exist.
    """
    spec = metadata.spec()
    known = metadata.schema().field_ids
    gone = [field.name for field in spec.fields if field.source_id not in known and not _is_void(field.transform)]
    if gone:
        raise FormatError(f"{name} cannot be written: its partition fields are of dropped columns: {', '.join(gone)}")
    warn_of_other_format(name, metadata.properties)
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    job = RewriteJob.of(name, metadata, io)
    if order is None or not order.fields:
        return job
    return replace(job, order=sort_keys(name, metadata.schema(), order, ()), sort_order_id=order.order_id)


class TableWriter:
    """Writes rows of one table, which have the columns of ``job.arrow_schema``, and deletes of its rows."""

    def __init__(self, job: RewriteJob) -> None:
        self.job = job
        self._removals: list[Callable[[], object]] = []
        self._of_tasks: list[TaskFiles] = []

    def keep_lineage(self) -> RewriteJob:
        """Store the lineage of rows in new files from now on; returns the new :attr:`job`."""
        self.job = replace(self.job, keeps_lineage=True)
        return self.job

    def files_of_tasks(self) -> TaskFiles:
        """Returns new files for tasks to write; :meth:`remove` removes them, too."""
        files = TaskFiles(self.job)
        self._of_tasks.append(files)
        self._removals.append(files.remove)
        return files

    def write(self, batches: Iterable[pa.RecordBatch], row_bytes: int | None = None) -> list[DataFile]:
        """Returns the new files, complete and flushed; none without rows.

        ``row_bytes`` is the approximate size of a row in a file; None: as in the first batch.

        Raises StorageError if the store does not take a file, FormatError for rows that Arrow cannot write, and the
        errors of reading ``batches``.
        """
        job = self.job
        rows = iter(batches)
        first = next(rows, None)
        if first is None:
            return []
        if row_bytes is None:
            row_bytes = first.nbytes // max(1, first.num_rows)
        rows = chain([first], rows)
        target = number_property(job.properties, TARGET_PROPERTY, _TARGET_BYTES)
        writer = FileWriter(job, f"sql{job.mark}", max(1, target // max(1, row_bytes)))
        self._removals.append(writer.remove)
        fields = [field for field in job.output_spec.fields if not _is_void(field.transform)]
        keys = [*(SortKey(field.source_id, field.transform, False, True) for field in fields), *job.order]
        if keys:
            rows = in_order(rows, Order(job.schema, keys))
        try:
            return list(writer.write(rows, None))
        except MetastoreError:
            raise
        except pa.ArrowException as error:
            raise FormatError(f"rows of {job.name} cannot be written: {error}") from error

    def write_deletes(self, groups: Iterable[Sequence[NewDeletes]], *, vectors: bool) -> list[DataFile]:
        """Returns the entries of new delete files, one file for each group; durable. Raises StorageError."""
        entries: list[DataFile] = []
        for group in groups:
            files = NewFiles(self.job.io)
            self._removals.append(files.discard)
            made = write_delete_file(self.job, files, group, vectors=vectors)
            entries += {id(entry): entry for entry in made}.values()
        return entries

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Within, the files belong to a commit. Only an error that proves that nothing was committed gives them back.

        After any other error or an interruption a snapshot may name them: then :meth:`remove` deletes nothing.
        """
        removals, self._removals = self._removals, []
        try:
            yield
        except OutcomeUnknownError:
            raise
        except (CommitFailedException, MetastoreError):
            self._removals = removals
            raise
        for files in self._of_tasks:
            files.remove_unnamed()

    def remove(self) -> None:
        """Delete all files that were written, unless a commit may have taken them."""
        for remove in self._removals:
            remove()


def _is_void(transform: object) -> bool:
    return isinstance(transform, VoidTransform)
