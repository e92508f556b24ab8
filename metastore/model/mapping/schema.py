"""Makes Iceberg schemas and partition specs of units; :mod:`metastore.model.mapping.arrow` makes their Arrow schemas.

The unit's field declaration is the only source. Field ids are stable: top-level columns get 1..n in column order,
nested ids follow in the same order, as Iceberg assigns fresh ids; partition field ids start at 1000. A column added at
the end of a unit later gets the next free id of each existing table (:func:`added_fields`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from pyiceberg.expressions import BooleanExpression
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
)

from metastore.model.fields import Column, ColumnType, Unit, columns_of, once_per_unit
from metastore.model.mapping.filters import allowed_strings, bind_filter, conjuncts


def _iceberg_type(type_: ColumnType, next_id: Callable[[], int]) -> IcebergType:
    match type_:
        case ColumnType.STRING:
            return StringType()
        case ColumnType.LONG:
            return LongType()
        case ColumnType.INT:
            return IntegerType()
        case ColumnType.STRING_LIST:
            return ListType(next_id(), StringType(), element_required=False)
        case ColumnType.STRING_MAP:
            return MapType(next_id(), StringType(), next_id(), StringType(), value_required=False)
        case ColumnType.FLOAT_MAP:
            return MapType(next_id(), StringType(), next_id(), FloatType(), value_required=False)


@once_per_unit
def iceberg_schema(unit_type: type[Unit]) -> Schema:
    """Returns the Iceberg schema of a new component table."""
    columns = columns_of(unit_type)
    nested_ids = count(len(columns) + 1)
    return Schema(
        *(
            NestedField(field_id, c.name, _iceberg_type(c.type, lambda: next(nested_ids)), required=False)
            for field_id, c in enumerate(columns, start=1)
        )
    )


@once_per_unit
def partition_spec(unit_type: type[Unit]) -> PartitionSpec:
    """Returns the identity partitioning by the unit's partition columns, in their order."""
    schema = iceberg_schema(unit_type)
    return PartitionSpec(
        *(
            PartitionField(
                schema.find_field(name).field_id, PARTITION_FIELD_ID_START + position, IdentityTransform(), name
            )
            for position, name in enumerate(unit_type.partition_columns)
        )
    )


def added_fields(schema: Schema, unit_type: type[Unit]) -> tuple[Column, ...]:
    """Returns the columns that the unit declares and ``schema`` (of an existing table) lacks."""
    present = set(schema.column_names)
    return tuple(c for c in columns_of(unit_type) if c.name not in present)


def evolve_schema(schema: Schema, last_column_id: int, unit_type: type[Unit]) -> Schema:
    """Returns ``schema`` with the unit's missing columns appended; existing fields keep id, name, type and order."""
    ids = count(last_column_id + 1)
    fields = []
    for c in added_fields(schema, unit_type):
        field_id = next(ids)
        fields.append(NestedField(field_id, c.name, _iceberg_type(c.type, lambda: next(ids)), required=False))
    return Schema(*schema.fields, *fields, schema_id=schema.schema_id + 1)


def require_fit(unit_type: type[Unit], expression: BooleanExpression) -> None:
    """Raises InvalidRequestError for a filter with an unknown column, or a literal that does not fit its column."""
    texts = _texts(unit_type)
    # Binding checks the types, but takes longer than a cached answer, and most filters are simple.
    for term in conjuncts(expression):
        name, values = allowed_strings(term)
        if values is None or name not in texts:
            bind_filter(iceberg_schema(unit_type), term)


@once_per_unit
def _texts(unit_type: type[Unit]) -> frozenset[str]:
    return frozenset(column.name for column in columns_of(unit_type) if column.type is ColumnType.STRING)
