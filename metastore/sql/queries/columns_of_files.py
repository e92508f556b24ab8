"""``$path``, ``_pos`` and the other columns of a row's file and place, in queries on Iceberg tables of catalogs. Pure.

Place in the flow: the table gets these columns in addition to its own. A condition is split in two: one on the table's
columns, for manifests and readers, and one on a file, by its path only. Every matching row satisfies both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, Or, UnboundPredicate
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField, PrimitiveType, StringType, StructType

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.rows.row_lineage import LAST_UPDATED, POSITION, ROW_ID
from metastore.lake.inspection.partition_columns import PartitionColumn
from metastore.scan.pruning.file_columns import MODIFIED, PARTITION, PSEUDO_COLUMNS, FileColumns
from metastore.sources.iceberg import plain_path

_OF_CATALOGS: Final[Mapping[str, PrimitiveType | StructType]] = {
    **{name: StringType() for name in PSEUDO_COLUMNS if name not in (MODIFIED, PARTITION)},
    "_file": StringType(),
    "_spec_id": IntegerType(),
    "_partition": StructType(),
    **{name: LongType() for name in (POSITION, ROW_ID.name, LAST_UPDATED.name)},
}
"""Manifests have no modification times of files. The directories of a table that a catalog keeps have no meaning.

The last six have Iceberg's own names.
"""

_OF_ROWS: Final = (POSITION, ROW_ID.name, LAST_UPDATED.name)
"""The columns that differ among the rows of a file."""

_FIRST_ID: Final = 1 << 30


def columns_of_files(unlisted: Collection[str], own: Iterable[str]) -> tuple[str, ...]:
    """Returns the columns among ``unlisted`` that a query means.

    One of the table's ``own`` columns hides its namesake.
    """
    hidden = {name.lower() for name in own}
    return tuple(name for name in _OF_CATALOGS if name in unlisted and name not in hidden)


def with_columns(schema: Schema, names: Sequence[str]) -> Schema:
    """Returns ``schema`` with the columns ``names`` of files at its end. No condition tests the partition."""
    plain = [(place, name, _OF_CATALOGS[name]) for place, name in enumerate(names) if name != "_partition"]
    more = [NestedField(_FIRST_ID + place, name, kind) for place, name, kind in plain]
    return Schema(*schema.fields, *more) if more else schema


def of_table(expression: BooleanExpression, names: Collection[str]) -> BooleanExpression:
    """Returns the part of ``expression`` on the table's own columns, whatever the columns ``names`` of files hold."""
    return _only(expression, lambda name: name not in names)


def may_have_rows(
    expression: BooleanExpression, metadata: TableMetadata, names: Sequence[str]
) -> Callable[[DataFile], bool]:
    """Whether a file may have rows of ``expression``, judged by the columns ``names`` of files."""
    tested = [name for name in names if name not in _OF_ROWS and name != "_partition"]
    asked = _only(expression, lambda name: name in tested)
    if isinstance(asked, AlwaysTrue):
        return lambda _: True
    holds = expression_evaluator(with_columns(Schema(), tested), asked, case_sensitive=True)
    hidden = HiddenColumns(metadata, tested)
    return lambda file: holds(Record(*hidden.values(file)))


@dataclass(frozen=True)
class HiddenColumns:
    """The columns ``names`` of a table that no star shows: each row's file, its place there, and its lineage."""

    metadata: TableMetadata
    names: Sequence[str]

    @property
    def places(self) -> list[str]:
        """The columns that differ among the rows of a file, which a scan reads."""
        return [name for name in self.names if name in _OF_ROWS]

    @cached_property
    def fields(self) -> list[pa.Field[Any]]:
        """The columns in Arrow. Raises InvalidRequestError for the partition of a table without partitions."""
        if "_partition" in self.names and not self._partition.fields:
            raise InvalidRequestError("there is no column _partition: the table was never partitioned")
        kinds: dict[str, Any] = {name: schema_to_pyarrow(_OF_CATALOGS[name]) for name in self.names}
        partition = self._partition.fields[0].type if "_partition" in kinds else None
        return [pa.field(name, partition if name == "_partition" else kinds[name]) for name in self.names]

    @cached_property
    def _partition(self) -> PartitionColumn:
        return PartitionColumn(self.metadata)

    def values(self, file: DataFile) -> list[Any]:
        """Returns the values that all rows of ``file`` have, without those of :attr:`places`."""
        return [self._value(name, file) for name in self.names if name not in _OF_ROWS]

    def _value(self, name: str, file: DataFile) -> Any:
        match name:
            case "_file":
                return file.file_path
            case "_spec_id":
                return file.spec_id
            case "_partition":
                return self._partition.of(file)["partition"]
        return FileColumns(self.names).value(name, plain_path(file.file_path))

    def beside(self, batch: pa.RecordBatch, file: DataFile) -> pa.RecordBatch:
        """Returns the rows ``batch`` of ``file`` with these columns at their end; those of places are in ``batch``."""
        constants = [field for field in self.fields if field.name not in _OF_ROWS]
        if not constants:
            return batch
        pairs = zip(constants, self.values(file), strict=True)
        more = [pa.repeat(pa.scalar(value, field.type), batch.num_rows) for field, value in pairs]
        return pa.RecordBatch.from_arrays([*batch.columns, *more], schema=pa.schema([*batch.schema, *constants]))


def _only(expression: BooleanExpression, is_kept: Callable[[str], bool]) -> BooleanExpression:
    """Returns ``expression`` with every test of another column replaced by true; it has no NOT above a test."""
    if isinstance(expression, And):
        return And(_only(expression.left, is_kept), _only(expression.right, is_kept))
    if isinstance(expression, Or):
        return Or(_only(expression.left, is_kept), _only(expression.right, is_kept))
    if isinstance(expression, UnboundPredicate) and not is_kept(expression.term.name):  # type: ignore[attr-defined]
        return AlwaysTrue()
    return expression
