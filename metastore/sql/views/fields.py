"""Columns in the form of Drill's views: a JSON list of names with the types of Drill's SQL parser.

``.view.drill`` files hold it, and the ``fields`` column of views and materialized views. A column whose type Drill
would determine while reading has the type ANY. A star cannot occur, since views name their columns here.
"""

from __future__ import annotations

import json
from typing import Any, Final

from metastore.errors import FormatError
from metastore.model.drill_types import parse_type
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.sql.views.types import UNKNOWN

_TO_FIELD: Final = {
    "INT": "INTEGER",
    "UINT1": "SMALLINT",
    "UINT2": "INTEGER",
    "UINT4": "BIGINT",
    "ARRAY": UNKNOWN,
    "STRUCT": UNKNOWN,
    "MAP": UNKNOWN,
    "UINT8": UNKNOWN,
}
_FROM_FIELD: Final = {"INTEGER": "INT", "CHAR": "VARCHAR", "BINARY": "VARBINARY", "REAL": "FLOAT", "NUMERIC": "DECIMAL"}
_PLAIN: Final = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "VARCHAR", "VARBINARY", "DATE", "TIME"}
    | {"TIMESTAMP", "DECIMAL", UNKNOWN}
)


def fields_of(schema: TupleSchema) -> list[dict[str, Any]]:
    """Returns the columns of ``schema`` as Drill lists them."""
    return [_field(column) for column in schema.columns]


def to_json(schema: TupleSchema) -> str:
    """Returns the list as a JSON text."""
    return json.dumps(fields_of(schema), ensure_ascii=False)


def schema_of(fields: object, owner: str) -> TupleSchema:
    """Returns the columns of Drill's list; types that only Drill has become ANY.

    Raises FormatError, naming ``owner``, if the list is invalid.
    """
    try:
        assert isinstance(fields, list)
        return TupleSchema(tuple(_column(field) for field in fields if field["name"] != "*"))
    except (AssertionError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"the fields of {owner} are no list of names and types: {str(fields)[:200]}") from error


def _field(column: SchemaColumn) -> dict[str, Any]:
    type_ = parse_type(column.type)
    field: dict[str, Any] = {"name": column.name, "type": _TO_FIELD.get(type_.name, type_.name)}
    if type_.name == "DECIMAL" and type_.arguments:
        field["precision"] = type_.arguments[0]
        field["scale"] = type_.arguments[1] if len(type_.arguments) > 1 else 0
    field["isNullable"] = not column.required
    return field


def _column(field: dict[str, Any]) -> SchemaColumn:
    name = str(field["type"]).upper()
    name = _FROM_FIELD.get(name, name)
    type_ = name if name in _PLAIN else UNKNOWN
    if type_ == "DECIMAL":
        type_ = f"DECIMAL({field.get('precision', 38)}, {field.get('scale', 0)})"
    return SchemaColumn(str(field["name"]), type_, required=field.get("isNullable") is False)
