"""The columns of a table whose values can be read here: all but variants. Pure.

One rule for every door: a top-level column whose type is a variant, or a struct that contains one, is left out of what
is read, so ``*`` means the other columns. A query that names it gets an error with its name and type. Rows of such a
table cannot be written, since they would lose its values.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, StructType

from metastore.errors import InvalidRequestError
from metastore.iceberg.type_spellings import VariantType


def columns_left_out(schema: Schema) -> Mapping[str, str]:
    """Return the names of the columns that cannot be read, each with its type in Iceberg's spelling."""
    return {field.name: str(field.field_type) for field in schema.fields if _has_variant(field.field_type)}


def readable_schema(schema: Schema) -> Schema:
    """Return ``schema`` without the columns that cannot be read; the same object if there are none."""
    left_out = columns_left_out(schema)
    if not left_out:
        return schema
    return Schema(*(field for field in schema.fields if field.name not in left_out), schema_id=schema.schema_id)


def reasons_of_columns_left_out(schema: Schema) -> Mapping[str, str]:
    """Return the columns that cannot be read, each with the reason for messages."""
    return {
        name: f"it is of type {kind}, whose values cannot be read here; an engine such as Spark reads them"
        for name, kind in columns_left_out(schema).items()
    }


def require_readable_columns(schema: Schema) -> None:
    """Raise InvalidRequestError, which names column and type, if ``schema`` has a column that cannot be read."""
    for name, reason in reasons_of_columns_left_out(schema).items():
        raise InvalidRequestError(f"column {name} cannot be read: {reason}")


def require_writable_columns(table: str, schema: Schema) -> None:
    """Raise InvalidRequestError if rows of ``table`` would be written without values of some column."""
    left_out = [f"{name} of type {kind}" for name, kind in columns_left_out(schema).items()]
    if left_out:
        raise InvalidRequestError(
            f"rows of {table} cannot be written here: it has {', '.join(left_out)}, whose values would be lost. Nothing "
            "was changed; use an engine that writes such columns, such as Spark"
        )


def _has_variant(kind: IcebergType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_variant(field.field_type) for field in kind.fields)
    return isinstance(kind, VariantType)
