"""The text of CREATE TABLE that makes a table like an existing one, without its rows. Pure.

What CREATE TABLE cannot say stands in comments at the end, as a statement for afterwards where there is one. Values of
secrets are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField
from pyiceberg.transforms import IdentityTransform, VoidTransform
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
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from metastore.errors import InvalidRequestError
from metastore.ground.quoting import double_quoted, text_constant
from metastore.lake.iceberg.columns.type_spellings import VariantType
from metastore.procedures.tables.set_property import require_settable
from metastore.redaction import redact_value
from metastore.sql.rows.default_values import constant_text
from metastore.sql.tables.new_table import field_name

_WORD: Final = re.compile(r"[^\W\d]\w*")
_NAMES: Final[Mapping[type[IcebergType], str]] = {
    BooleanType: "BOOLEAN",
    IntegerType: "INTEGER",
    LongType: "BIGINT",
    FloatType: "REAL",
    DoubleType: "DOUBLE",
    DateType: "DATE",
    TimeType: "TIME",
    TimestampType: "TIMESTAMP",
    TimestamptzType: "TIMESTAMPTZ",
    StringType: "VARCHAR",
    BinaryType: "VARBINARY",
    UUIDType: "UUID",
    VariantType: "VARIANT",
}
_SIZED: Final = re.compile(r"(?P<name>\w+)\[(?P<size>\d+)\]")
_COMMENT: Final = "comment"


def table_definition(name: str, table: Table) -> str:
    """Returns the statement for ``table``, which is called ``name`` in it (quoted as needed)."""
    metadata, schema = table.metadata, table.schema()
    columns = ",\n".join(f"  {_column(field)}" for field in schema.fields)
    lines = [f"CREATE TABLE {name} (\n{columns}\n)"]
    terms = [
        _term(schema, field.source_id, str(field.transform))
        for field in table.spec().fields
        if not isinstance(field.transform, VoidTransform)
    ]
    if terms:
        lines.append(f"PARTITIONED BY ({', '.join(terms)})")
    if _COMMENT in metadata.properties:
        lines.append(f"COMMENT {text_constant(metadata.properties[_COMMENT])}")
    lines.append(f"LOCATION {text_constant(metadata.location)}")
    properties = {"format-version": str(metadata.format_version), **dict(_settable_properties(metadata.properties))}
    texts = ",\n".join(f"  {text_constant(key)} = {text_constant(value)}" for key, value in properties.items())
    lines.append(f"TBLPROPERTIES (\n{texts}\n)")
    order = table.sort_order().fields
    if order and all(isinstance(field.transform, IdentityTransform) for field in order):
        keys = ", ".join(text_constant(_key(schema, field, quoted=False)) for field in order)
        lines.append(f"WITH (sorted_by = ARRAY[{keys}])")
    return "\n".join([*lines, *(f"-- {note}" for note in _notes(name, table))])


def quote_name(name: str) -> str:
    """Returns a name as SQL takes it: in double quotes unless it is a word."""
    return name if _WORD.fullmatch(name) else double_quoted(name)


def type_text(kind: IcebergType) -> str:
    """Returns a type as CREATE TABLE reads it; Iceberg's own word, in upper case, for one that it does not know."""
    if type(kind) in _NAMES:
        return _NAMES[type(kind)]
    match kind:
        case DecimalType():
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case FixedType():
            return f"FIXED({len(kind)})"
        case ListType():
            return f"ARRAY<{type_text(kind.element_type)}>"
        case MapType():
            return f"MAP<{type_text(kind.key_type)}, {type_text(kind.value_type)}>"
        case StructType():
            return f"STRUCT<{', '.join(map(_field, kind.fields))}>"
    return str(kind).upper()


def _field(field: NestedField) -> str:
    required, comment = _required_and_comment(field)
    return f"{quote_name(field.name)}: {type_text(field.field_type)}{required}{comment}"


def _required_and_comment(field: NestedField) -> tuple[str, str]:
    comment = f" COMMENT {text_constant(field.doc)}" if field.doc is not None else ""
    return " NOT NULL" if field.required else "", comment


def _column(field: NestedField) -> str:
    required, comment = _required_and_comment(field)
    given = _default_text(field, field.initial_default)
    default = "" if given is None else f" DEFAULT {given}"
    return f"{quote_name(field.name)} {type_text(field.field_type)}{required}{default}{comment}"


def _default_text(field: NestedField, value: object) -> str | None:
    """Returns a default as a constant; None if there is none, and for a struct, whose fields have their own."""
    return None if value is None or isinstance(field.field_type, StructType) else constant_text(field.field_type, value)


def _path(schema: Schema, field_id: int) -> str:
    """Returns the name of a column, whose parts are quoted as needed; of one that is gone, its id in quotes."""
    if field_id not in schema.field_ids:
        return double_quoted(str(field_id))
    if any(field.field_id == field_id for field in schema.fields):
        return quote_name(schema.find_field(field_id).name)
    return ".".join(map(quote_name, (schema.find_column_name(field_id) or "").split(".")))


def _term(schema: Schema, field_id: int, transform: str) -> str:
    path = _path(schema, field_id)
    if transform == "identity":
        return path
    sized = _SIZED.fullmatch(transform)
    return f"{sized['name']}({sized['size']}, {path})" if sized else f"{transform}({path})"


def _key(schema: Schema, field: SortField, *, quoted: bool = True) -> str:
    path = _term(schema, field.source_id, str(field.transform))
    if not quoted:
        path = schema.find_column_name(field.source_id) or path
    way = "DESC" if field.direction == SortDirection.DESC else "ASC"
    return f"{path} {way} NULLS {'FIRST' if field.null_order == NullOrder.NULLS_FIRST else 'LAST'}"


def _settable_properties(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the properties that CREATE TABLE can set."""
    for key, value in sorted(properties.items()):
        if key != _COMMENT and _why_left_out(key, value) is None:
            yield key, value


def _why_left_out(key: str, value: str) -> str | None:
    try:
        require_settable(key)
    except InvalidRequestError:
        return "is not set by statements"
    return None if redact_value(key, value) == value else "holds a secret"


def _notes(name: str, table: Table) -> Iterator[str]:
    """Yield what the statement does not say."""
    schema, order = table.schema(), table.sort_order().fields
    if any(not isinstance(field.transform, IdentityTransform) for field in order):
        yield f"then: ALTER TABLE {name} WRITE ORDERED BY {', '.join(_key(schema, field) for field in order)}"
    if schema.identifier_field_ids:
        columns = ", ".join(_path(schema, field_id) for field_id in sorted(schema.identifier_field_ids))
        yield f"then: ALTER TABLE {name} SET IDENTIFIER FIELDS {columns}"
    for field in table.spec().fields:
        source = schema.find_column_name(field.source_id)
        if not isinstance(field.transform, VoidTransform) and field.name != field_name(source or "", field.transform):
            yield f"the partition field {_term(schema, field.source_id, str(field.transform))} is called {field.name}"
    yield from _notes_on_columns(name, schema)
    for key, value in sorted(table.metadata.properties.items()):
        if (why := _why_left_out(key, value)) is not None:
            yield f"the property {key} {why}"


def _notes_on_columns(table: str, schema: Schema) -> Iterator[str]:
    top = {field.field_id for field in schema.fields}
    for field_id in sorted(schema.field_ids):
        field, name = schema.find_field(field_id), schema.find_column_name(field_id)
        if field.required and field_id not in top and _is_value(schema, field_id):
            yield f"the column {name} is required"
        yield from _notes_on_defaults(table, schema, field, is_said=field_id in top)


def _notes_on_defaults(table: str, schema: Schema, field: NestedField, *, is_said: bool) -> Iterator[str]:
    """Yield what the column's definition does not say, which has the initial default if ``is_said``."""
    path = _path(schema, field.field_id)
    initial, written = (_default_text(field, each) for each in (field.initial_default, field.write_default))
    if isinstance(field.field_type, StructType) and (field.initial_default, field.write_default) != (None, None):
        yield f"the column {path} has a struct of its fields' defaults as default value"
    if initial is not None and not is_said:
        yield f"the column {path} is {initial} in rows of files without it"
    if written != (initial if is_said else None):
        change = "DROP DEFAULT" if written is None else f"SET DEFAULT {written}"
        yield f"then: ALTER TABLE {table} ALTER COLUMN {path} {change}"


def _is_value(schema: Schema, field_id: int) -> bool:
    """Whether a field is the element of a list or the value of a map, of which a type's text has no NOT NULL."""
    kinds = [schema.find_type(each) for each in schema.field_ids]
    return any(isinstance(kind, ListType) and kind.element_id == field_id for kind in kinds) or any(
        isinstance(kind, MapType) and kind.value_id == field_id for kind in kinds
    )
