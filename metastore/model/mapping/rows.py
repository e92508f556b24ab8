"""Converts units to Arrow rows and back, and groups rows by partition.

A :data:`PartitionKey` identifies a partition: it has the values of the unit's partition columns, in order. All rows of
one key go into one Parquet file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from metastore.errors import InvalidRequestError
from metastore.model.fields import ColumnType, Unit, columns_of, require_columns
from metastore.model.mapping.arrow import plain_arrow_schema

U = TypeVar("U", bound=Unit)
PartitionKey = tuple[str, ...]


@dataclass(frozen=True)
class PartitionRows:
    """The rows of one partition, in the component's Arrow schema."""

    key: PartitionKey
    rows: pa.Table


def to_arrow(unit_type: type[Unit], units: Sequence[Unit]) -> pa.Table:
    """Returns units as Arrow rows in on-disk columns. Raises InvalidRequestError if a value does not fit its column."""
    schema = plain_arrow_schema(unit_type)
    arrays = []
    for column, field in zip(columns_of(unit_type), schema, strict=True):
        values: list[Any] = [getattr(unit, column.attribute) for unit in units]
        try:
            if column.type in (ColumnType.STRING_MAP, ColumnType.FLOAT_MAP):
                values = [None if value is None else list(value.items()) for value in values]
            _refuse_silent_changes(column.type, values)
            arrays.append(pa.array(values, field.type))
        except (pa.ArrowException, AttributeError, TypeError, ValueError, OverflowError) as error:
            raise InvalidRequestError(
                f"a value of column {column.name!r} is not a {column.type.value}: {error}"
            ) from error
    return pa.Table.from_arrays(arrays, schema=schema)


def _refuse_silent_changes(type_: ColumnType, values: Sequence[Any]) -> None:
    """Raises ValueError for values that Arrow would change: it truncates fractions, and splits texts into lists."""
    wrong: list[Any] = []
    if type_ in (ColumnType.LONG, ColumnType.INT):
        wrong = [value for value in values if isinstance(value, float) and not value.is_integer()]
    elif type_ is ColumnType.STRING_LIST:
        wrong = [value for value in values if isinstance(value, (str, bytes))]
    if wrong:
        raise ValueError(f"{wrong[0]!r} would be changed")


def from_arrow(unit_type: type[U], table: pa.Table) -> list[U]:
    """Returns Arrow rows in on-disk columns as units; columns that the table lacks stay None."""
    present = [c for c in columns_of(unit_type) if c.name in table.schema.names]
    values = []
    for column in present:
        listed = table.column(column.name).to_pylist()
        if column.type in (ColumnType.STRING_MAP, ColumnType.FLOAT_MAP):
            listed = [None if pairs is None else dict(pairs) for pairs in listed]
        values.append(listed)
    attributes = [c.attribute for c in present]
    if not present:
        return [unit_type() for _ in range(table.num_rows)]
    return [unit_type(**dict(zip(attributes, row, strict=True))) for row in zip(*values, strict=True)]


def conform(unit_type: type[Unit], table: pa.Table) -> pa.Table:
    """Returns an Arrow table in the component's schema: columns matched by name, missing ones null, types cast.

    Raises InvalidRequestError for an unknown column or a value that cannot be cast without loss.
    """
    names = require_columns(unit_type, table.schema.names)
    if len(set(names)) < len(names):
        raise InvalidRequestError(f"an Arrow table to write names each column once, not {', '.join(names)}")
    schema = plain_arrow_schema(unit_type)
    if table.schema.equals(schema):
        return table
    columns = []
    for field in schema:
        if field.name not in table.schema.names:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(field.name)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            raise InvalidRequestError(f"column {field.name!r} is not a {field.type}: {error}") from error
    return pa.Table.from_arrays(columns, schema=schema)


def by_partition(unit_type: type[Unit], table: pa.Table) -> list[PartitionRows]:
    """Returns rows grouped by partition key, groups in order of first appearance, rows in their order.

    Raises InvalidRequestError if a partition column of a row is null.
    """
    table = conform(unit_type, table)
    if table.num_rows == 0:
        return []
    for name in unit_type.partition_columns:
        if table.column(name).null_count:
            raise InvalidRequestError(f"partition column {name!r} must not be null")
    keys = list(zip(*(table.column(name).to_pylist() for name in unit_type.partition_columns), strict=True))
    positions: dict[PartitionKey, list[int]] = {}
    for position, key in enumerate(keys):
        positions.setdefault(key, []).append(position)
    if any(group[-1] - group[0] != len(group) - 1 for group in positions.values()):
        # The rows of some partition are scattered: bring them together. Otherwise no row is copied.
        table = table.take(pa.array([p for group in positions.values() for p in group], pa.int64()))
    groups = []
    start = 0
    for key, group in positions.items():
        groups.append(PartitionRows(key, table.slice(start, len(group))))
        start += len(group)
    return groups


def rows_of(unit_type: type[Unit], source: Iterable[Unit] | pa.Table) -> pa.Table:
    """Returns rows from either input of ``overwrite``: units, or an Arrow table in on-disk columns."""
    if isinstance(source, pa.Table):
        return conform(unit_type, source)
    units = list(source)
    if wrong := next((unit for unit in units if not isinstance(unit, unit_type)), None):
        raise InvalidRequestError(f"expected units of type {unit_type.__name__}, got {type(wrong).__name__}")
    return to_arrow(unit_type, units)
