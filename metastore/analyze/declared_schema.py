"""A schema that a user declares, as text: ``a INT, b VARCHAR NOT NULL, c STRUCT<`x` DOUBLE>``.

Place in the flow: ANALYZE parses it before it opens any file, so that an error in the text is reported as such.
Promise: the resulting types can be read into Arrow, and are spelled like the types of files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from metastore.errors import FormatError, InvalidRequestError
from metastore.lake.formats.arrow_schema import arrow_schema
from metastore.model.column_path import repeated_names
from metastore.model.drill_types import DrillType, parse_type
from metastore.model.tuple_schema import SchemaColumn, TupleSchema

_MOST_DIGITS: Final = 76
"""The digits of Arrow's widest decimal."""

_PARTS: Final = {"ARRAY": 1, "MAP": 2}


def declared_schema(text: str) -> TupleSchema:
    """Returns the columns of ``a INT, b VARCHAR NOT NULL``. Raises InvalidRequestError if the text is not a schema."""
    try:
        declared = _with_decimal_defaults(parse_type(f"STRUCT<{text}>"))
    except (FormatError, InvalidRequestError) as error:
        raise InvalidRequestError(f"{text!r} declares no columns: {error}") from error
    if not declared.fields:
        raise InvalidRequestError(f"{text!r} declares no columns")
    schema = TupleSchema(tuple(SchemaColumn(field.name, str(field.type), field.required) for field in declared.fields))
    arrow_schema(schema)  # refuses unknown types
    return schema


def _with_decimal_defaults(type_: DrillType) -> DrillType:
    """Returns ``type_`` with the defaults of SQL's decimals filled in.

    Raises InvalidRequestError for an impossible type.
    """
    if repeated := repeated_names([field.name for field in type_.fields]):
        raise InvalidRequestError(f"it names {repeated} more than once")
    if len(type_.parts) != _PARTS.get(type_.name, 0):
        raise InvalidRequestError(f"{type_} is no type; write ARRAY<type>, MAP<type, type>, or a type without parts")
    if type_.name == "DECIMAL":
        return replace(type_, arguments=_digits(type_))
    fields = tuple(replace(field, type=_with_decimal_defaults(field.type)) for field in type_.fields)
    return replace(type_, fields=fields, parts=tuple(map(_with_decimal_defaults, type_.parts)))


def _digits(decimal: DrillType) -> tuple[int, ...]:
    given = decimal.arguments
    digits = given if len(given) > 1 else (*given, 0) if given else (38, 0)
    if len(digits) > 2 or not digits[1] <= digits[0] or not 1 <= digits[0] <= _MOST_DIGITS:
        raise InvalidRequestError(
            f"{decimal} is no type; a DECIMAL has 1 to {_MOST_DIGITS} digits, and its scale is at most its precision"
        )
    return digits
