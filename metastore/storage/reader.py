"""Reading rows of one version: plan on the manifests, answer from them what they know, open the other files together.

Few small files are read whole and kept decoded, since a table's metadata is asked for again and again; many are read
through one Arrow dataset with filter and projection pushed down. A reader that loses a file to an expiration plans
again on the newest version; a version asked for by name is then gone, and said so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from metastore.errors import FormatError, NotFoundError, StorageError
from metastore.mapping.filters import bound, columns_read, compiled
from metastore.mapping.rows import conform
from metastore.mapping.schema import added_fields, evolved, plain_arrow_schema
from metastore.storage.cache import FileCache
from metastore.storage.files import arrow_paths
from metastore.storage.iceberg_private import metrics_evaluator
from metastore.storage.planning import ManifestRows, plan
from metastore.storage.table import ComponentTable

_ATTEMPTS: Final = 5
_CACHED_FILES: Final = 32
_FILES_AT_ONCE: Final = 8
_CACHED_FILE_BYTES: Final = 1 << 20

SnapshotChoice = Callable[[TableMetadata], Snapshot | None]


def newest(metadata: TableMetadata) -> Snapshot | None:
    """The current snapshot."""
    return metadata.current_snapshot()


def at_version(version: int) -> SnapshotChoice:
    """The snapshot with id ``version``; 0 is the empty version before the first. NotFoundError when it is not kept."""

    def choose(metadata: TableMetadata) -> Snapshot | None:
        snapshot = metadata.snapshot_by_id(version)
        if snapshot is None and version != 0:
            raise NotFoundError(f"version {version} is not kept (any more); the history lists the versions that are")
        return snapshot

    return choose


def as_of(time: datetime) -> SnapshotChoice:
    """The snapshot current at ``time``, to the millisecond; None before the first. NotFoundError when it is gone."""
    moment = int(time.timestamp() * 1000)

    def choose(metadata: TableMetadata) -> Snapshot | None:
        line = list(ancestors_of(metadata.current_snapshot(), metadata))
        if found := next((snapshot for snapshot in line if snapshot.timestamp_ms <= moment), None):
            return found
        if not line or line[-1].sequence_number == 1:
            return None
        raise NotFoundError(f"no version is kept from {time.isoformat()} or before")

    return choose


@dataclass(frozen=True)
class Reader:
    """Reads rows of one component's table."""

    table: ComponentTable
    cache: FileCache

    def read(self, choose: SnapshotChoice, expression: BooleanExpression, columns: Sequence[str] | None) -> pa.Table:
        """Rows matching ``expression`` with ``columns`` (all when None), in plain Arrow types; order is not defined.

        Raises InvalidRequestError for a filter that does not fit, NotFoundError for a version that is not kept,
        StorageError and FormatError for files that cannot be read.
        """
        wanted = tuple(columns) if columns is not None else tuple(plain_arrow_schema(self.table.unit_type).names)
        lost: FileNotFoundError | None = None
        for _ in range(_ATTEMPTS):
            table = self.table.load()
            if table is None:
                return plain_arrow_schema(self.table.unit_type).empty_table().select(wanted)
            self.table.state_of(table)
            snapshot = choose(table.metadata)
            try:
                return self._read_snapshot(table, snapshot, expression, wanted)
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

    def _still_kept(self, snapshot: Snapshot) -> bool:
        table = self.table.load()
        return table is not None and table.metadata.snapshot_by_id(snapshot.snapshot_id) is not None

    def _read_snapshot(
        self, table: Table, snapshot: Snapshot | None, expression: BooleanExpression, columns: tuple[str, ...]
    ) -> pa.Table:
        schema, spec = self._schema(table.metadata), table.metadata.spec()
        manifests = self.table.manifests(table.io)
        row_test = bound(schema, expression)
        files = plan(manifests, manifests.of(snapshot), schema, spec, expression)
        needed = tuple(dict.fromkeys((*columns, *sorted(columns_read(schema, row_test)))))
        types = plain_arrow_schema(self.table.unit_type)
        known = ManifestRows.of(schema, spec, needed)
        in_bounds = metrics_evaluator(schema, expression)
        answered, to_open = [], []
        for data_file in files:
            row = known.row(data_file)
            if row is not None:
                answered.append(row)
            elif in_bounds(data_file):
                to_open.append(data_file)
        row_filter = compiled(row_test)
        from_manifests = known.table(answered, types).filter(row_filter).select(columns)
        if not to_open:
            return from_manifests
        from_files = (
            self._open(table, to_open).select(needed) if _small(to_open) else self._scan(table, to_open, needed)
        )
        return pa.concat_tables([from_manifests, from_files.filter(row_filter).select(columns)])

    def _schema(self, metadata: TableMetadata) -> Schema:
        """The table's schema with every column of the unit: one that the table lacks so far reads as null."""
        schema = metadata.schema()
        if not added_fields(schema, self.table.unit_type):
            return schema
        return evolved(schema, metadata.last_column_id, self.table.unit_type)

    def _open(self, table: Table, files: Sequence[DataFile]) -> pa.Table:
        """Small files, decoded whole and kept; several at a time when there is something to wait for."""
        paths = [data_file.file_path for data_file in files]

        def rows(path: str) -> pa.Table:
            return self.cache.get(path, lambda: self._decoded(table, path), lambda decoded: decoded.nbytes)

        if len(paths) == 1 or self.cache.holds(paths):
            return pa.concat_tables([rows(path) for path in paths])
        with ThreadPoolExecutor(_FILES_AT_ONCE) as threads:
            return pa.concat_tables(list(threads.map(rows, paths)))

    def _decoded(self, table: Table, path: str) -> pa.Table:
        """One file's rows. FormatError when it is no data file of the component; OSError as the store has it."""
        known = set(plain_arrow_schema(self.table.unit_type).names)
        filesystem, [place] = arrow_paths(table.io, [path])
        try:
            with pq.ParquetFile(place, filesystem=filesystem) as file:
                # Columns that a newer release or another tool added are not the unit's; Drill ignores them too.
                columns = [name for name in file.schema_arrow.names if name in known]
                return conform(self.table.unit_type, file.read(columns))
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            # Without a number it is not the system's error but Arrow's, of what stands in the file.
            raise FormatError(f"{path} cannot be read as a data file of {self.table.name}: {error}") from error

    def _scan(self, table: Table, files: Sequence[DataFile], columns: Sequence[str]) -> pa.Table:
        """Many files at a time through one dataset."""
        filesystem, paths = arrow_paths(table.io, [data_file.file_path for data_file in files])
        parquet = ds.ParquetFileFormat()
        fragments = [parquet.make_fragment(path, filesystem) for path in paths]
        rows = ds.FileSystemDataset(fragments, plain_arrow_schema(self.table.unit_type), parquet, filesystem)
        return rows.to_table(columns=list(columns))


def _small(files: Sequence[DataFile]) -> bool:
    return len(files) <= _CACHED_FILES and all(
        data_file.file_size_in_bytes <= _CACHED_FILE_BYTES for data_file in files
    )
