"""A schema that a user declares, as text: ``a INT, b VARCHAR NOT NULL, c STRUCT<`x` DOUBLE>``."""

from __future__ import annotations

from metastore.errors import FormatError, InvalidRequestError
from metastore.model.drill_types import parse_type
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.sources.arrow_schema import arrow_schema


def declared_schema(text: str) -> TupleSchema:
    """The columns of ``a INT, b VARCHAR NOT NULL``. InvalidRequestError for what is none."""
    try:
        fields = parse_type(f"STRUCT<{text}>").fields
    except FormatError as error:
        raise InvalidRequestError(f"{text!r} declares no columns: {error}") from error
    if not fields:
        raise InvalidRequestError(f"{text!r} declares no columns")
    columns = tuple(SchemaColumn(field.name, str(field.type), field.required) for field in fields)
    arrow_schema(TupleSchema(columns))  # refuses unknown types
    return TupleSchema(columns)
