"""Keeps footers that were read until the table is migrated, so that a migration continues after a kill.

Only tables with many files, which take long to read again, keep footers. Each batch is a file in the hidden folder,
with location, size and time of each of its data files. A row is used only if its file is still listed with these
values, and only for the table's current columns. Unreadable files and rows of changed files are ignored. The folder is
removed with all other attempts once the table is migrated. No error here makes a migration fail.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from metastore.errors import StorageError
from metastore.ground.digests import digest
from metastore.procedures.hive.metrics import FRAGMENT, FileToRead
from metastore.procedures.hive.migration.staging import HIDDEN_FOLDER
from metastore.procedures.hive.migration.survey import Survey
from metastore.sources.hive.listing import HiveStore

WORTH_KEEPING: Final = 1_000
"""Minimum number of footers to keep; fewer take less than a second to read."""

_FOLDER: Final = "footers"
_SUFFIX: Final = ".arrow"
_COLUMNS: Final = b"metastore.columns"
_FILE: Final[dict[str, Any]] = {
    "location": pa.string(),
    "size": pa.int64(),
    "mtime_ns": pa.int64(),
    "format": pa.string(),
}
_KEPT: Final = pa.schema([*FRAGMENT, *pa.schema(_FILE)])

_State = tuple[str, int, int, str]


@dataclass(frozen=True)
class KeptFooters:
    """The kept footers of one surveyed table."""

    store: HiveStore
    survey: Survey

    @property
    def folder(self) -> str:
        """The folder of the kept footers."""
        return f"{self.survey.table.location}/{HIDDEN_FOLDER}/{_FOLDER}"

    def read(self) -> list[pa.RecordBatch]:
        """Returns the still valid rows, each file once, as :data:`~metastore.procedures.hive.metrics.FRAGMENT`."""
        numbers = {state: number for number, state in enumerate(self._states)}
        kept = (_true(batch, numbers) for batch in self._batches())
        return [batch for batch in kept if batch.num_rows]

    def keep(self, batch: pa.RecordBatch) -> None:
        """Keep a task's result, except rows of unreadable files. Does nothing if the store fails."""
        good = batch.filter(pc.is_null(batch["error"]))
        if not good.num_rows:
            return
        numbers: list[Any] = good["number"].to_pylist()
        files = [dict(zip(_FILE, self._states[number], strict=True)) for number in numbers]
        beside = pa.RecordBatch.from_pylist(files, pa.schema(_FILE))
        schema = _KEPT.with_metadata({_COLUMNS: self._columns})
        whole = pa.RecordBatch.from_arrays([*good.columns, *beside.columns], schema=schema)
        with suppress(OSError, pa.ArrowException):
            store, folder = self.store.place(self.folder)
            store.create_dir(folder)
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            with (
                store.open_output_stream(f"{folder}/{uuid.uuid4()}{_SUFFIX}") as sink,
                pa.ipc.new_file(sink, schema, options=options) as writer,
            ):
                writer.write_batch(whole)

    @cached_property
    def _states(self) -> list[_State]:
        """The listed state of each file of the survey, by number."""
        times = {file.location: file.mtime_ns for folder in self.survey.folders for file in folder.files}
        return [(file.location, file.size, times[file.location], str(file.format)) for file in self.survey.files]

    @cached_property
    def _columns(self) -> bytes:
        """A digest of the table's columns: rows hold numbers by the positions of their leaves."""
        columns = [(name, str(type_)) for name, type_ in self.survey.table.columns]
        return digest(repr((columns, FRAGMENT))).hex().encode()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with suppress(OSError, pa.ArrowException, StorageError):
            store, folder = self.store.place(self.folder)
            for entry in store.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
                if entry.path.endswith(_SUFFIX):
                    # A killed writer leaves an incomplete file.
                    with suppress(OSError, pa.ArrowException), store.open_input_file(entry.path) as source:
                        reader = pa.ipc.open_file(source)
                        if (reader.schema.metadata or {}).get(_COLUMNS) == self._columns:
                            yield from (reader.get_batch(at) for at in range(reader.num_record_batches))


def missing(survey: Survey, kept: list[pa.RecordBatch]) -> list[FileToRead]:
    """Returns the files of the survey without a kept footer."""
    known = {number for batch in kept for number in batch["number"].to_pylist()}
    return [file for file in survey.files if file.number not in known]


def _true(batch: pa.RecordBatch, numbers: dict[_State, int]) -> pa.RecordBatch:
    """Returns the rows of files in ``numbers``, renumbered, and removes these files from ``numbers``."""
    states = zip(*(batch[name].to_pylist() for name in _FILE), strict=True)
    found = pa.array([numbers.pop(state, None) for state in states], pa.int64())
    described = zip(batch["shape"].to_pylist(), batch["schema"].to_pylist(), strict=True)
    schemas = {shape: schema for shape, schema in described if schema is not None}
    rows = batch.set_column(0, FRAGMENT.field("number"), found).select(FRAGMENT.names).filter(pc.is_valid(found))
    # The row with the schema of a shape may belong to a changed file.
    first = [schemas.pop(shape, None) for shape in rows["shape"].to_pylist()]
    at = FRAGMENT.get_field_index("schema")
    columns = [*rows.columns[:at], pa.array(first, pa.binary()), *rows.columns[at + 1 :]]
    return pa.RecordBatch.from_arrays(columns, schema=FRAGMENT)
