"""Iceberg tables of configured catalogs: files and statistics from the manifests of the current snapshot.

A data file of a snapshot never changes. Its state consists of the delete files that apply to it and the table's
columns, since a name may now mean another column. Bounds of texts and bytes may be shortened, so they are not exact. If
delete files remove rows of a file, its bounds still contain the remaining rows; its counts are used only if they cannot
have changed. An identity partition value holds for all rows of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from functools import cached_property
from typing import Any, Final, NamedTuple, get_args

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
)

from metastore.errors import FormatError, NotFoundError, StorageError
from metastore.ground.epoch import EPOCH_DATE
from metastore.lake.formats.arrow_schema import tuple_schema
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.iceberg.columns.readable_columns import readable_schema, reasons_of_columns_left_out
from metastore.lake.iceberg.manifests.believed_metrics import Bounds, Metrics, believed_nulls
from metastore.lake.iceberg.manifests.data_file import require_readable
from metastore.lake.iceberg.rows.scan_tasks import scan_tasks
from metastore.model.column_path import ColumnPath, is_among
from metastore.model.statistics import ColumnStatistics, Value
from metastore.model.statistics_json import from_micros
from metastore.model.tuple_schema import LOGICAL_TYPE, TupleSchema, with_left_out
from metastore.sources.iceberg_rows import IcebergRows
from metastore.sources.provided_tables import Measures, ProvidedFile, by_key, column_statistics, source_file, state_of

FORMAT: Final = "ICEBERG"


class _Leaf(NamedTuple):
    """A primitive column by path: its field id, its type, and the type's SQL spelling."""

    path: ColumnPath
    number: int
    type: PrimitiveType
    sql_type: str


class IcebergSource:
    """The current snapshot of one table; ``load`` returns the table at its newest version, and is called once."""

    format: Final = FORMAT

    def __init__(self, load: Callable[[], Table]) -> None:
        self._load = load

    @cached_property
    def _table(self) -> Table:
        return self._load()

    @property
    def location(self) -> str:
        """As :attr:`metastore.sources.provided_tables.ProvidedTable.location`."""
        return plain_path(self._table.location()).rstrip("/")

    def files(self) -> Sequence[SourceFile]:
        """As :meth:`metastore.sources.provided_tables.ProvidedTable.files`."""
        return sorted(self._tasks)

    def modified_times(self) -> None:
        """As :meth:`metastore.sources.provided_tables.ProvidedTable.modified_times`."""

    def contents(
        self, files: Sequence[SourceFile], columns: Sequence[ColumnPath] | None = None
    ) -> Iterator[ProvidedFile]:
        """As :meth:`metastore.sources.provided_tables.ProvidedTable.contents`."""
        leaves = [leaf for leaf in self._leaves if columns is None or is_among(leaf.path, columns)]
        for file in files:
            yield self._content(file, self._tasks[file], leaves)

    @cached_property
    def schema(self) -> TupleSchema:
        """As :attr:`metastore.sources.provided_tables.ReadableTable.schema`."""
        nanos = (TimestampNanoType, TimestamptzNanoType)
        counted = {each.name for each in self._readable.fields if isinstance(each.field_type, nanos)}
        arrow = schema_to_pyarrow(self._readable, include_field_ids=False)
        mark: dict[bytes | str, bytes | str] = {LOGICAL_TYPE: "timestamp_ns"}
        found = tuple_schema(pa.schema([f.with_metadata(mark) if f.name in counted else f for f in arrow]))[0]
        return with_left_out(found, reasons_of_columns_left_out(self._table.schema()))

    @cached_property
    def _readable(self) -> Schema:
        return readable_schema(self._table.schema())

    def reader(self, paths: Sequence[str]) -> IcebergRows:
        """As :meth:`metastore.sources.provided_tables.ReadableTable.reader`."""
        tasks = {file.path: task for file, task in self._tasks.items()}
        for path in paths:
            if path not in tasks:
                raise NotFoundError(f"{path} is no file of {self._name} any more; run ANALYZE")
            require_readable(tasks[path].file.file_format, path)
        return IcebergRows.of_tasks(self._table.metadata, self._table.io, {path: tasks[path] for path in paths})

    @property
    def _name(self) -> str:
        return ".".join(self._table.name())

    @cached_property
    def _tasks(self) -> dict[SourceFile, FileScanTask]:
        try:
            tasks = scan_tasks(self._table.metadata, self._table.io)
        except (OSError, ValueError, NotImplementedError) as error:
            raise StorageError(f"the manifests of {self._name} cannot be read: {error}") from error
        columns = [_identity(field) for field in self._table.schema().fields]
        found: dict[SourceFile, FileScanTask] = {}
        for task in tasks:
            # Other delete files, or other columns, make another state of the file.
            state = state_of(columns, sorted(each.file_path for each in task.delete_files))
            found[source_file(plain_path(task.file.file_path), task.file.file_size_in_bytes, state)] = task
        if len(found) < len(tasks):
            raise FormatError(f"the manifests of {self._name} name a data file twice; PyIceberg would read it twice")
        return found

    @cached_property
    def _leaves(self) -> list[_Leaf]:
        types = dict(self.schema.leaves())
        return [
            _Leaf(path, field.field_id, field.field_type, types[path])
            for path, field in _leaf_fields(self._readable.fields, ())
            if isinstance(field.field_type, PrimitiveType)
        ]

    def _content(self, file: SourceFile, task: FileScanTask, leaves: Sequence[_Leaf]) -> ProvidedFile:
        data = task.file
        whole = not task.delete_files
        statistics: dict[ColumnPath, ColumnStatistics] = {}
        fixed = self._measures_of_partition(data)
        for path, number, type_, sql_type in leaves:
            measures = fixed.get(number) or self._measures(data, number, type_)
            statistics[path] = column_statistics(sql_type, data.record_count, measures, whole=whole)
        return ProvidedFile(file, self.schema, by_key(statistics), data.record_count, whole)

    def _measures(self, data: DataFile, number: int, type_: PrimitiveType) -> Measures:
        """Returns the manifest's measures of a column, without those that cannot be trusted."""
        if isinstance(type_, UnknownType):  # it is NULL, whatever a writer stored and counted
            return Measures(None, None, data.record_count)
        bounds = Bounds()
        if isinstance(type_, _BOUNDED):
            lows, highs = data.lower_bounds or {}, data.upper_bounds or {}
            bounds = self._metrics.bounds(type_, lows.get(number), highs.get(number))
        return Measures(
            _to_value(type_, bounds.low),
            _to_value(type_, bounds.high),
            believed_nulls(data, number),
            (data.nan_value_counts or {}).get(number),
            exact=bounds.is_exact and not isinstance(type_, (StringType, BinaryType, FixedType)),
        )

    @cached_property
    def _metrics(self) -> Metrics:
        return Metrics.of(self._table.metadata.properties)

    def _measures_of_partition(self, data: DataFile) -> dict[int, Measures]:
        """Returns the measures of columns that a file's partition fixes, by column id."""
        found = {}
        for place, part in enumerate(self._table.specs()[data.spec_id].fields):
            source = self._by_id.get(part.source_id)
            if (
                source is None
                or source.initial_default is not None
                or not isinstance(part.transform, IdentityTransform)
            ):
                continue
            value = data.partition[place]
            if value is None:
                found[part.source_id] = Measures(None, None, data.record_count)
            elif (known := _to_value(source.field_type, value)) is not None:
                found[part.source_id] = Measures(known, known, 0, 0)
        return found

    @cached_property
    def _by_id(self) -> dict[int, NestedField]:
        return {field.field_id: field for field in self._table.schema().fields}


def _identity(field: NestedField) -> tuple[object, ...]:
    return field.field_id, field.name, str(field.field_type), repr(field.initial_default)


def _leaf_fields(fields: Sequence[NestedField], above: ColumnPath) -> Iterator[tuple[ColumnPath, NestedField]]:
    for field in fields:
        path = (*above, field.name)
        if isinstance(field.field_type, StructType):
            yield from _leaf_fields(field.field_type.fields, path)
        else:
            yield path, field


def _to_value(type_: IcebergType, value: Any) -> Value | None:
    """Returns a value as the metastore's, from Iceberg's stored form; None if it has none."""
    if value is None or not isinstance(type_, _BOUNDED):
        return None
    if isinstance(type_, DateType):
        return _day(value)
    if isinstance(type_, TimeType):
        return from_micros(value, "TIME")
    if isinstance(type_, (TimestampType, TimestamptzType)):
        return from_micros(value, "TIMESTAMP", zoned=isinstance(type_, TimestamptzType))
    return value if isinstance(value, _KNOWN) and value == value else None


_BOUNDED: Final = (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)
"""Types whose bounds have the metastore's order of values. UUIDs do not: some writers compare signed halves."""

_KNOWN: Final = get_args(Value)


def _day(days: int) -> date | None:
    try:
        return EPOCH_DATE + timedelta(days=days)
    except OverflowError:
        return None


def plain_path(location: str) -> str:
    """Returns a plain path on the local disk, in the metastore's form."""
    if location.startswith("file:"):
        return "/" + location[len("file:") :].lstrip("/")
    return location
