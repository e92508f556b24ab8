"""The parts of a read before it is executed: rows that manifests answer, and groups of data files still to read.

:mod:`metastore.components.storage.reader` plans a read and returns these parts to callers that cannot hold all rows at
once, or that have other processes read them. A group is plain data and can be read in any process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import chain, islice
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from metastore.components.storage.data_files import (
    FilesToRead,
    PlannedFile,
    batches_of,
    fetch_files,
    fetched_columns,
    rows_of,
    together,
)
from metastore.config.reading import ReadSettings
from metastore.errors import FormatError, StorageError
from metastore.model.bounds.embedded_columns import EmbeddedBatches
from metastore.model.bounds.embedded_facts import FactBatches
from metastore.model.bounds.unit_facts import FACTS, columns_for, facts_of_rows
from metastore.model.fields import Unit
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.mapping.filters import bind_filter, columns_read
from metastore.model.mapping.row_test import RowTest
from metastore.model.mapping.schema import iceberg_schema

_DECODED: Final = 16
"""Units usually decode to about ten times their stored bytes."""


@dataclass(frozen=True)
class FileGroup:
    """Data files of one version that are read together: plain data, which can be sent to another process."""

    component: str
    unit_type: type[Unit]
    io: FileIO
    files: FilesToRead
    columns: tuple[str, ...]
    expression: BooleanExpression
    limits: ReadSettings = field(default_factory=ReadSettings)
    """Limits for what is decoded together."""

    @cached_property
    def name(self) -> str:
        """A name that is unique to these files."""
        return sha256("\n".join(self.files.paths).encode()).hexdigest()

    def only(self, mask: Sequence[bool]) -> FileGroup:
        """Return a group with only the files that are ``mask``."""
        chosen = [planned for planned, is_wanted in zip(self.files.planned, mask, strict=True) if is_wanted]
        return replace(self, files=together(chosen, self.limits))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches."""
        types = plain_arrow_schema(self.unit_type)
        return pa.schema([types.field(name) for name in self.columns])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield matching rows with the wanted columns. StorageError for a lost file, FormatError for a bad one."""
        schema = iceberg_schema(self.unit_type)
        row_test = RowTest(bind_filter(schema, self.expression))
        needed = needed_columns(self.columns, schema, row_test)
        with _reading(self.component):
            yield from batches_of(self.io, self.unit_type, self.files, self.columns, needed, row_test, self.limits)

    def add_embedded(self, batches: EmbeddedBatches) -> list[bool]:
        """Add the files' embedded columns to ``batches``; returns for each file whether it needs nothing else.

        Raises StorageError for a lost file, FormatError for a bad one.
        """
        with_columns = [planned for planned in self.files.planned if planned.columns is not None]
        with _reading(self.component):
            contents = iter(fetched_columns(self.io, with_columns))
            return [
                planned.columns is not None and _add_columns(batches, planned, next(contents))
                for planned in self.files.planned
            ]

    def facts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the facts named ``columns`` of matching rows: of :data:`metastore.model.bounds.unit_facts.FACTS`.

        They are read from embedded columns where a file has them. The other columns of the group are not used. A table
        has all matching rows of its files.
        Raises StorageError for a lost file, FormatError for a bad one.
        """
        schema = iceberg_schema(self.unit_type)
        row_test = RowTest(bind_filter(schema, self.expression))
        can_be_facts = row_test.tested_columns <= set(FACTS.names)
        with_facts = [
            can_be_facts and planned.columns is not None and planned.columns.has_facts for planned in self.files.planned
        ]
        yield from _embedded_facts(self.only(with_facts), columns, row_test)
        rest = self.only([not has_facts for has_facts in with_facts])
        if rest.files.planned:
            read = replace(rest, columns=columns_for(columns))
            some = [facts_of_rows(pa.Table.from_batches([batch]), columns) for batch in read.batches()]
            if some:
                yield pa.concat_tables(some)

    def fetch(self) -> FetchedGroup:
        """Return this group with the files' content. Raises StorageError for a lost file."""
        [group] = fetched_together([self])
        return group


@dataclass(frozen=True)
class FetchedGroup:
    """A :class:`FileGroup` with the content of its files: plain data for a process that cannot reach the store."""

    component: str
    unit_type: type[Unit]
    contents: tuple[pa.Buffer, ...]
    columns: tuple[str, ...]
    expression: BooleanExpression

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield matching rows with the wanted columns. Raises FormatError for a bad file."""
        schema = iceberg_schema(self.unit_type)
        row_test = RowTest(bind_filter(schema, self.expression))
        needed = needed_columns(self.columns, schema, row_test)
        with _reading(self.component):
            rows = rows_of(self.contents, self.unit_type, needed)
            yield from row_test.passing(rows).select(list(self.columns)).to_batches()

    def fetch(self) -> FetchedGroup:
        """Return itself."""
        return self


def fetched_together(groups: Sequence[FileGroup]) -> list[FetchedGroup]:
    """Fetch the content of groups of one component; from a store with latency, several files at a time.

    Raises StorageError for a lost file.
    """
    if not groups:
        return []
    with _reading(groups[0].component):
        contents = iter(fetch_files(groups[0].io, [path for group in groups for path in group.files.paths]))
    return [
        FetchedGroup(
            group.component,
            group.unit_type,
            tuple(islice(contents, len(group.files.paths))),
            group.columns,
            group.expression,
        )
        for group in groups
    ]


@dataclass(frozen=True)
class Parts:
    """The parts of a read at ``version``: rows that the manifests answer, and groups of files still to read."""

    version: int
    answered: pa.Table
    groups: tuple[FileGroup, ...] = ()

    def few(self, stored_bytes: int) -> pa.Table | None:
        """Return all rows in one chunk; None if files have over ``stored_bytes``, or decode to :data:`_DECODED` times.

        Units that are alike are stored in a hundredth of their memory. Raises as :meth:`FileGroup.batches`.
        """
        if sum(group.files.size_bytes for group in self.groups) > stored_bytes:
            return None
        batches, decoded = self.answered.to_batches(), 0
        for batch in chain.from_iterable(group.batches() for group in self.groups):
            batches.append(batch)
            decoded += batch.nbytes
            if decoded > _DECODED * stored_bytes:
                return None
        return pa.Table.from_batches(batches, self.answered.schema).combine_chunks()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, group by group. Raises as :meth:`FileGroup.batches`."""
        yield from self.answered.to_batches()
        for group in self.groups:
            yield from group.batches()


def _embedded_facts(group: FileGroup, columns: Sequence[str], test: RowTest) -> list[pa.Table]:
    """Return facts of the units of ``group`` that pass ``test``; all files have embedded facts."""
    found, planned_files = FactBatches(columns), group.files.planned
    with _reading(group.component):
        for planned, content in zip(planned_files, fetched_columns(group.io, planned_files), strict=True):
            assert planned.columns is not None
            with _decoding(planned):
                found.add(planned.columns, content, planned.key)
        return found.tables(test)


def _add_columns(batches: EmbeddedBatches, planned: PlannedFile, content: pa.Buffer) -> bool:
    assert planned.columns is not None
    with _decoding(planned):
        return batches.add(planned.columns, content)


@contextmanager
def _decoding(planned: PlannedFile) -> Iterator[None]:
    """Within, a failure is raised as an error of the file."""
    try:
        yield
    except (FormatError, OSError, ValueError) as error:
        raise FormatError(f"{planned.path} cannot be read: {error}") from error


@contextmanager
def _reading(component: str) -> Iterator[None]:
    """Within, failures are raised as errors of the component."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"a file of {component} cannot be read; if its version has expired meanwhile, read again: {error}"
        ) from error
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise FormatError(f"a data file of {component} cannot be read: {error}") from error


def needed_columns(columns: Sequence[str], schema: Schema, row_test: RowTest) -> tuple[str, ...]:
    """Return ``columns`` and the columns that ``row_test`` uses."""
    return tuple(dict.fromkeys((*columns, *sorted(columns_read(schema, row_test.bound)))))
