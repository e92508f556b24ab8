"""A DataFrame goes into a table of a catalog: ``df.write.format("metastore").mode("append").save("lake.shop.sales")``.

Place in the flow: Spark's plan computes the rows. Each task writes its rows as data files, sorted by partition and by
the table's sort order, as every statement does. The driver's host makes one commit. Spark pickles the writer and sends
it to tasks, and once more to the process that commits.

Promises: names of files have a mark of this write. Files of attempts that failed, were killed or came second are in no
commit; they are found by the mark and deleted. If the outcome of a commit is unknown, no file is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from metastore.config import Settings
from metastore.errors import ConflictError, InvalidRequestError, MetastoreError, OutcomeUnknownError
from metastore.ground.suggestions import did_you_mean
from metastore.lake.writes.insert_values import InsertValues
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.kept_work import is_written_alike
from metastore.lake.writes.replaced_rows import Partitions, replaced_rows
from metastore.lake.writes.row_changes import RowChanges
from metastore.lake.writes.row_modes import Kind
from metastore.lake.writes.table_writer import TableWriter, job_of
from metastore.lake.writes.task_files import TaskFiles
from metastore.lake.writes.written_change import RowPlan, WrittenChange
from metastore.procedures.files.guards import require_written_version
from metastore.spark.source_options import BRANCH
from metastore.spark.spark_types import arrow_columns

if TYPE_CHECKING:
    from metastore.lake.iceberg.catalogs.target import TargetTable
    from metastore.session import Session
    from metastore.spark.row_condition import RowCondition
    from metastore.sql.tasks.row_writes import StatementReading


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):
    """The files that a task wrote. ``repeated``: an earlier attempt of the task may have left others."""

    files: tuple[DataFile, ...]
    repeated: bool


class TableSink(DataSourceArrowWriter):
    """Writes rows with the columns of ``columns`` into the table ``name``: by name, in any order and any case.

    ``overwrites`` is ``static`` or ``dynamic``, or None to append. With the condition ``where`` it is ``static``, and
    rows of the condition are replaced. ``branch`` is the branch that gets the snapshot; None: the main one.
    ``speculates``: Spark may run several attempts of a task at once. Raises NotFoundError for an unknown table, and
    InvalidRequestError for columns that do not fit and a branch that is a tag.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        columns: StructType,
        *,
        overwrites: str | None,
        speculates: bool,
        where: str | None = None,
        branch: str | None = None,
    ) -> None:
        self._settings = settings
        self._name = name
        self._overwrites = overwrites
        self._speculates = speculates
        self._branch = branch
        with open_session(settings) as ms:
            target = _target(ms, name)
            table = target.load()
            if branch == "":
                raise InvalidRequestError(f"the option {BRANCH} names a branch; it is empty")
            ms.catalogs.audit.head(str(target), table.metadata, branch, may_be_new=True)  # refuses a tag
        require_written_version(table, target)
        # Tasks get this writer; a long history would make it large.
        no_history: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}}
        self._base = table.metadata.model_copy(update=no_history)
        self._files = TaskFiles(job_of(name, table.metadata, table.io))
        places = _places(table.schema(), columns.names, name)
        self._values = InsertValues(table.schema(), places, {}, "", by_name=True)
        self._values.require_storable(self._files.job, arrow_columns(columns))
        self._where: RowCondition | None = None
        if where is not None:
            from metastore.spark.row_condition import RowCondition  # noqa: PLC0415 - most writes have no condition

            self._where = RowCondition.of(where, target.name, self._files.job.arrow_schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:  # type: ignore[override]  # as PySpark's own
        """Write the rows of one task. Raises StorageError, and InvalidRequestError for a value that does not fit."""
        job = self._files.job
        rows: Iterator[pa.RecordBatch] = (
            part for batch in iterator for part in self._values.rows(job, batch).to_batches()
        )
        if self._where is not None:
            rows = self._where.met_by(rows, job.arrow_schema)
        return write_rows(job, rows)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks as one snapshot; an append without rows makes none.

        Raises ConflictError if the table has other columns, partitions or properties since the write began, or if other
        writers kept winning; StorageError; OutcomeUnknownError. After any error but the last, no file is left.
        """
        from metastore.sql.tasks.row_writes import run_change  # noqa: PLC0415 - tasks run no statement

        tasks = [message for message in messages if isinstance(message, WrittenFiles)]
        files = tuple(file for task in tasks for file in task.files)
        self._files.start()
        self._files.add(files)
        try:
            with open_session(self._settings) as ms:
                kind: Kind | None = None if self._overwrites is None else "delete"
                target = _target(ms, self._name)
                run_change(
                    ms, target, partial(self._plan, ms, target, files), kind, branch=self._branch, makes_branch=True
                )
        except OutcomeUnknownError:
            raise
        except MetastoreError:
            self._files.remove()
            raise
        self._files.end(repeated=self._speculates or any(task.repeated for task in tasks))
        self._files.remove_unnamed()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of a write whose tasks failed. Spark calls this after a failed commit, too.

        A message is missing exactly if a task failed. With all messages a commit was tried: it has removed the files,
        unless a snapshot may name them.
        """
        if None in messages:
            self._files.start()
            self._files.remove()

    def _plan(
        self, ms: Session, target: TargetTable, files: tuple[DataFile, ...], reading: StatementReading
    ) -> RowPlan:
        """Returns the change that adds ``files``, and removes what they replace."""
        if not is_written_alike(self._base, reading.table.metadata):
            raise ConflictError(
                f"{self._name} has other columns, partitions or properties since the write began; nothing was "
                "committed. Run the write again"
            )
        inserted = RowPlan(written=WrittenChange(files))
        live = reading.live
        if self._overwrites is None:
            return inserted
        if self._where is not None:
            removal = self._where.removal(ms, target, reading)
            return replace(removal, written=removal.written + inserted.written)
        if self._overwrites == "static":
            every = range(len(live.files))
            return replace(inserted, dropped=every, dropped_deletes=live.deletes, condition=AlwaysTrue())
        partitions = Partitions.of_files(reading.job, files)
        old = replaced_rows(reading.job, live, partitions)
        return replace(
            inserted,
            changes=RowChanges(old.addresses) if old.addresses.num_rows else None,
            dropped=old.files,
            dropped_deletes=old.deletes,
            condition=partitions.condition(reading.table.schema()),
        )


def write_rows(job: RewriteJob, rows: Iterable[pa.RecordBatch]) -> WrittenFiles:
    """Write the rows of one task, which have the columns of ``job``. If it fails, its files are removed.

    Raises the errors of ``rows``, StorageError and FormatError.
    """
    pa.set_cpu_count(1)  # the other cores belong to other tasks
    context = TaskContext.get()
    writer = TableWriter(job)
    try:
        files = writer.write(rows)
    except BaseException:
        writer.remove()
        raise
    return WrittenFiles(tuple(files), context is not None and context.attemptNumber() > 0)


def open_session(settings: Settings) -> Session:
    """Open a session where a write begins or ends. The processes of tasks have none, and do not load what makes one."""
    from metastore.session import connect  # noqa: PLC0415

    return connect(settings)


def _target(ms: Session, name: str) -> TargetTable:
    catalog, *schema, table = name.split(".") if name.count(".") > 1 else ("", "", "")
    if not catalog:
        raise InvalidRequestError(f'{name!r} is not a table of a catalog: save("catalog.schema.table") is expected')
    if ms.catalogs.target(catalog, ".".join(schema), table).is_component:
        raise InvalidRequestError(f"{name} is the metastore's own: its rows are written by its components")
    return ms.catalogs.table(catalog, ".".join(schema), table)


def _places(schema: Schema, names: list[str], table: str) -> list[int]:
    """Returns the position in ``schema`` of each of ``names``. Raises InvalidRequestError, which lists the columns."""
    known = [field.name for field in schema.fields]
    by_lower = {name.lower(): place for place, name in enumerate(known)}
    exact = {name: place for place, name in enumerate(known)}
    places = []
    for name in names:
        place = exact.get(name, by_lower.get(name.lower()))
        if place is None:
            raise InvalidRequestError(
                f"{table} has no column {name}{did_you_mean(name, known)}; its columns are {', '.join(known)}"
            )
        places.append(place)
    if len(set(places)) < len(places):
        raise InvalidRequestError(f"a column is given twice: {', '.join(names)}")
    if missing := [field.name for place, field in enumerate(schema.fields) if _is_missing(field, place, places)]:
        raise InvalidRequestError(f"{table} requires a value in {', '.join(missing)}, which the DataFrame lacks")
    return places


def _is_missing(field: NestedField, place: int, places: list[int]) -> bool:
    return field.required and field.write_default is None and place not in places
