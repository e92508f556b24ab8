"""Reads the rows of one version: plans on the manifests, answers from them if possible, and opens the other files.

A table's metadata is read again and again, so small files are read whole and cached decoded, and small answers are
cached by version. Many files are read as one Arrow dataset with filter and projection pushdown. If a file disappears
because its version expired, the reader plans again on the newest version; a read of a named version then raises
NotFoundError. :meth:`Reader.parts` is for results that may be too large for one table: it returns the plan alone, in
parts that are read one by one, here or in other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from metastore.components.storage.data_files import (
    FILES_AT_ONCE,
    FilesToRead,
    PlannedFile,
    batches_of,
    by_partition,
    group_files,
)
from metastore.components.storage.file_groups import FileGroup, Parts, needed_columns
from metastore.components.storage.key_range import split
from metastore.components.storage.planning import ManifestRows, bounds_test, plan, wanted_manifests
from metastore.components.storage.table import ComponentTable
from metastore.config.reading import ReadSettings
from metastore.errors import FormatError, MetastoreError, StorageError
from metastore.ground.threads import Threads
from metastore.lake.iceberg.catalogs.open_tables import FileCache
from metastore.lake.iceberg.snapshots.snapshot_choice import SeenVersion, SnapshotChoice
from metastore.lake.stores.files import arrow_paths
from metastore.lake.stores.locations import is_local
from metastore.model.bounds.embedded_place import COLUMNS_ID
from metastore.model.mapping.arrow import no_rows, plain_arrow_schema
from metastore.model.mapping.filters import bind_filter
from metastore.model.mapping.row_test import RowTest
from metastore.model.mapping.rows import PartitionKey, conform
from metastore.model.mapping.schema import added_fields, evolve_schema
from metastore.model.mapping.segment_digest import DIGEST_ID

_ATTEMPTS: Final = 5
_CACHED_FILE_BYTES: Final = 1 << 20
"""Largest file that is cached decoded: decoded units take ten times as much, and most reads need few of their
columns."""

_CACHED_ANSWER_BYTES: Final = 1 << 20
_SHARE_OF_A_TABLE: Final = 1 / 8
"""Largest share of the cache for an answer that was requested as one table; the rest is left to other entries."""


@dataclass(frozen=True)
class _Plan:
    """The plan of one version: ``answered`` rows, all of which match, and files with candidates."""

    answered: pa.Table
    files: Sequence[PlannedFile]
    needed: tuple[str, ...]
    rest: BooleanExpression
    """The part of the filter to test on the rows of ``files``; their keys match already."""
    row_test: RowTest
    """The same, compiled."""


@dataclass(frozen=True)
class Reader:
    """Reads rows of one component's table."""

    table: ComponentTable
    cache: FileCache
    limits: ReadSettings = field(default_factory=ReadSettings)

    def read(self, choose: SnapshotChoice, expression: BooleanExpression, columns: Sequence[str] | None) -> pa.Table:
        """Return the rows matching ``expression``, with ``columns`` (None: all), in plain Arrow types; unordered.

        Raises InvalidRequestError for a filter that does not fit, NotFoundError for a version that is not kept,
        StorageError and FormatError for files that cannot be read.
        """
        wanted = self._column_names(columns)
        lost: FileNotFoundError | None = None
        for attempt in range(_ATTEMPTS):
            table = self.table.load(anew=True) if attempt else self._load(choose)
            if table is None:
                return no_rows(self.table.unit_type).select(wanted)
            self.table.state_of(table)
            snapshot = choose(table.metadata)
            try:
                return self._answer(table, snapshot, expression, wanted)
            except FileNotFoundError as error:
                lost = error
                if snapshot is not None and self._still_kept(snapshot):
                    raise StorageError(
                        f"a file of version {snapshot.snapshot_id} of {self.table.name} is missing: {error}"
                    ) from error
            except OSError as error:
                raise StorageError(f"cannot read {self.table.name}: {error}") from error
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise FormatError(f"a data file of {self.table.name} cannot be read: {error}") from error
        raise StorageError(
            f"versions of {self.table.name} expired faster than they could be read; last lost: {lost}"
        ) from lost

    def parts(
        self,
        choose: SnapshotChoice,
        expression: BooleanExpression,
        columns: Sequence[str] | None,
        *,
        open_small: bool = False,
    ) -> Parts:
        """Return the same rows as parts; only rows from manifests are read already. Raises as :meth:`read`.

        With ``open_small``, small files are read too and cached decoded, as by :meth:`read`.
        """
        return self._parts(choose, expression, columns, open_small=open_small)

    def few(
        self, choose: SnapshotChoice, expression: BooleanExpression, columns: Sequence[str] | None, most: int
    ) -> pa.Table | None:
        """Return the same rows in one chunk, cached by version; None as :meth:`Parts.few` of ``most`` bytes.

        Raises as :meth:`batches`.
        """
        wanted = self._column_names(columns)
        table = self._load(choose)
        if table is None:
            return no_rows(self.table.unit_type).select(wanted)
        snapshot = choose(table.metadata)
        question = None if snapshot is None else _question(snapshot, expression, wanted)
        known = None if question is None else self.cache.find(question)
        if isinstance(known, pa.Table):
            return known
        if known == most:
            return None
        rows = self._parts(choose, expression, wanted, open_small=True).few(most)
        if rows is None:
            if question is not None:
                self.cache.put(question, most, len(question))
            return None
        if question is not None and rows.nbytes <= self.cache.budget_bytes * _SHARE_OF_A_TABLE:
            self.cache.put(question, rows, rows.nbytes + len(question))
        return rows

    def partitions(self, choose: SnapshotChoice, expression: BooleanExpression) -> dict[PartitionKey, FileGroup]:
        """Return the same rows in all columns, one group for each partition's files. Raises as :meth:`parts`.

        Nothing is answered from manifests: every partition that can hold matching rows has a group.
        """
        table = self._load(choose)
        if table is None:
            return {}
        self.table.state_of(table)
        files, rest = self._files(table, choose, expression)
        columns = self._column_names(None)
        return {key: self._group(table, own, columns, rest) for key, own in by_partition(files, self.limits).items()}

    def groups(
        self, choose: SnapshotChoice, expression: BooleanExpression, columns: Sequence[str] | None
    ) -> tuple[FileGroup, ...]:
        """Return the same rows with ``columns``, in groups of files, with what manifests say of each file.

        Nothing is answered from manifests, as in :meth:`partitions`. Raises as :meth:`parts`.
        """
        wanted = self._column_names(columns)
        table = self._load(choose)
        if table is None:
            return ()
        self.table.state_of(table)
        files, rest = self._files(table, choose, expression)
        return tuple(self._group(table, group, wanted, rest) for group in group_files(files, self.limits))

    def read_ahead(self, choose: SnapshotChoice, expression: BooleanExpression) -> None:
        """Fetch and cache the manifests of matching rows at once, on a store with latency. Raises as a look does."""
        table = self._load(choose)
        if table is None or is_local(table.metadata.location):
            return
        schema, spec = self._schema(table.metadata), table.metadata.spec()
        manifests = self.table.manifests(table.io)
        with suppress(MetastoreError, OSError):  # raised when it is needed
            manifests.fetch(
                wanted_manifests(manifests.of(choose(table.metadata)), schema, spec, split(expression, spec))
            )

    def _load(self, choose: SnapshotChoice) -> Table | None:
        """Load the table at its newest version, or as last seen if ``choose`` needs no more."""
        return self.table.seen_with(choose.id) if isinstance(choose, SeenVersion) else self.table.load()

    def _files(
        self, table: Table, choose: SnapshotChoice, expression: BooleanExpression
    ) -> tuple[list[PlannedFile], BooleanExpression]:
        """Return the files of partitions that can hold matching rows, and the rest of the filter to test on rows."""
        schema, spec = self._schema(table.metadata), table.metadata.spec()
        wanted = split(expression, spec)
        manifests = self.table.manifests(table.io)
        try:
            found = plan(manifests, manifests.of(choose(table.metadata)), schema, spec, wanted)
            return [_plan_file(key, entry) for key, entry in found], wanted.rest
        except OSError as error:
            raise StorageError(f"cannot read {self.table.name}: {error}") from error

    def batches(
        self, choose: SnapshotChoice, expression: BooleanExpression, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the same rows batch by batch; small files are cached decoded, as by :meth:`read`.

        Raises as :meth:`read`: errors of planning at once, and StorageError if the version expires during the read.
        """
        return self._parts(choose, expression, columns, open_small=True).batches()

    def _parts(
        self,
        choose: SnapshotChoice,
        expression: BooleanExpression,
        columns: Sequence[str] | None,
        *,
        open_small: bool,
    ) -> Parts:
        """Rows that manifests answer, and groups of files for the rest. ``open_small``: few files are read at once."""
        wanted = self._column_names(columns)
        table = self._load(choose)
        if table is None:
            return Parts(0, no_rows(self.table.unit_type).select(wanted))
        self.table.state_of(table)
        snapshot = choose(table.metadata)
        version = snapshot.snapshot_id if snapshot else 0
        try:
            found = self._plan(table, snapshot, expression, wanted)
            if open_small and self._are_small(found.files):
                return Parts(version, self._rows(table, found, wanted))
        except OSError as error:
            raise StorageError(f"cannot read {self.table.name}: {error}") from error
        groups = tuple(self._group(table, files, wanted, found.rest) for files in group_files(found.files, self.limits))
        return Parts(version, found.answered.select(wanted), groups)

    def _group(
        self, table: Table, files: FilesToRead, columns: tuple[str, ...], expression: BooleanExpression
    ) -> FileGroup:
        return FileGroup(self.table.name, self.table.unit_type, table.io, files, columns, expression, self.limits)

    def _are_small(self, files: Sequence[PlannedFile]) -> bool:
        sizes = [planned.size_bytes for planned in files]
        if len(sizes) > self.limits.small_files or sum(sizes) > self.limits.small_size:
            return False
        return all(size <= _CACHED_FILE_BYTES for size in sizes)

    def _column_names(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        return tuple(columns) if columns is not None else tuple(plain_arrow_schema(self.table.unit_type).names)

    def _still_kept(self, snapshot: Snapshot) -> bool:
        table = self.table.load(anew=True)
        return table is not None and table.metadata.snapshot_by_id(snapshot.snapshot_id) is not None

    def _answer(
        self, table: Table, snapshot: Snapshot | None, expression: BooleanExpression, columns: tuple[str, ...]
    ) -> pa.Table:
        """Return the rows of one version. A version never changes, so its answers can be cached."""

        def read_rows() -> pa.Table:
            return self._rows(table, self._plan(table, snapshot, expression, columns), columns)

        if snapshot is None:
            return read_rows()
        question = _question(snapshot, expression, columns)
        known = self.cache.find(question)
        if isinstance(known, pa.Table):
            return known
        rows = read_rows()
        size = rows.nbytes + len(question)
        if size <= _CACHED_ANSWER_BYTES:
            self.cache.put(question, rows, size)
        return rows

    def _rows(self, table: Table, plan: _Plan, columns: tuple[str, ...]) -> pa.Table:
        from_manifests = plan.answered.select(columns)
        if not plan.files:
            return from_manifests
        from_files = (
            self._open(table, plan.files).select(plan.needed)
            if self._are_small(plan.files)
            else self._scan(table, plan)
        )
        return pa.concat_tables([from_manifests, plan.row_test.passing(from_files).select(columns)])

    def _plan(
        self, table: Table, snapshot: Snapshot | None, expression: BooleanExpression, columns: tuple[str, ...]
    ) -> _Plan:
        """What manifests alone answer, and the files to open; bounds are compared only for files not yet answered."""
        schema, spec = self._schema(table.metadata), table.metadata.spec()
        manifests = self.table.manifests(table.io)
        wanted = split(expression, spec)
        row_test = RowTest(bind_filter(schema, wanted.rest))
        needed = needed_columns(columns, schema, row_test)
        known = ManifestRows.of(schema, spec, needed)
        in_bounds: Callable[[DataFile], bool] | None = None
        answered, to_open = [], []
        for key, entry in plan(manifests, manifests.of(snapshot), schema, spec, wanted):
            row = known.row(key, entry.data_file)
            if row is not None:
                answered.append(row)
                continue
            if in_bounds is None:
                in_bounds = bounds_test(schema, wanted.rest)
            if in_bounds(entry.data_file):
                to_open.append(_plan_file(key, entry))
        rows = known.table(answered, self.table.unit_type)
        return _Plan(row_test.passing(rows), to_open, needed, wanted.rest, row_test)

    def _schema(self, metadata: TableMetadata) -> Schema:
        """Return the table's schema with every column of the unit; a column that the table lacks reads as null."""
        schema = metadata.schema()
        if not added_fields(schema, self.table.unit_type):
            return schema
        return evolve_schema(schema, metadata.last_column_id, self.table.unit_type)

    def _open(self, table: Table, files: Sequence[PlannedFile]) -> pa.Table:
        """Read small files whole, decode and cache them; several at a time if the store has latency."""
        paths = [planned.path for planned in files]
        filesystem, _ = arrow_paths(table.io, paths)

        def rows(path: str) -> pa.Table:
            return self.cache.get(path, lambda: self._decode_file(table, path), lambda decoded: decoded.nbytes)

        if len(paths) == 1 or isinstance(filesystem, fs.LocalFileSystem) or self.cache.holds(paths):
            return pa.concat_tables([rows(path) for path in paths])
        with Threads(FILES_AT_ONCE) as threads:
            return pa.concat_tables(list(threads.map(rows, paths)))

    def _decode_file(self, table: Table, path: str) -> pa.Table:
        """Return one file's rows. FormatError if it is not a data file of the component; OSError from the store."""
        known = set(plain_arrow_schema(self.table.unit_type).names)
        filesystem, [place] = arrow_paths(table.io, [path])
        try:
            with pq.ParquetFile(place, filesystem=filesystem) as file:
                # Ignore columns that a newer release or another tool added, as Drill does.
                columns = [name for name in file.schema_arrow.names if name in known]
                return conform(self.table.unit_type, file.read(columns, use_threads=False))
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            # An OSError without errno is Arrow's, about the content of the file.
            raise FormatError(f"{path} cannot be read as a data file of {self.table.name}: {error}") from error

    def _scan(self, table: Table, plan: _Plan) -> pa.Table:
        """Read many files, and decode only row groups that may hold a matching row.

        A dataset holds the footers of its files while it is read, some hundred kilobytes each, so the files are split
        into several datasets.
        """
        needed, types = plan.needed, plain_arrow_schema(self.table.unit_type)
        return pa.Table.from_batches(
            (
                batch
                for files in group_files(plan.files, self.limits)
                for batch in batches_of(
                    table.io, self.table.unit_type, files, needed, needed, plan.row_test, self.limits
                )
            ),
            pa.schema([types.field(name) for name in needed]),
        )


def _question(snapshot: Snapshot, expression: BooleanExpression, columns: tuple[str, ...]) -> str:
    """Return the cache key of an answer: its version and the question."""
    return f"{snapshot.manifest_list}?{columns}{expression!r}"


def _plan_file(key: PartitionKey, entry: ManifestEntry) -> PlannedFile:
    data_file = entry.data_file
    lower = data_file.lower_bounds or {}
    return PlannedFile(
        data_file.file_path,
        data_file.record_count,
        data_file.file_size_in_bytes,
        key,
        lower.get(DIGEST_ID),
        lower.get(COLUMNS_ID),
        entry.sequence_number or 0,
    )
