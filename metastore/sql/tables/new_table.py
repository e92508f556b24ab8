"""The description of a table in CREATE TABLE: columns, partitioning, order, properties. It is parsed, then built.

::

    [({column type [NOT NULL] [DEFAULT constant] [COMMENT '…'] | LIKE table}, …)]
    [LIKE table]                                                -- its columns, and its partitioning
    [USING ICEBERG] [PARTITIONED BY (transform, …)] [COMMENT '…'] [LOCATION '…']
    [TBLPROPERTIES (key = value, …)]                            -- Spark's syntax
    [WITH (partitioning = ARRAY[…], sorted_by = ARRAY[…], format_version = 2, location = '…', key = value, …)]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import NestedField
from sqlglot import Token, TokenType

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.columns.readable_columns import can_partition
from metastore.lake.writes.sorting import sort_keys
from metastore.procedures.tables.set_property import require_settable
from metastore.sql.queries.named_table import named_table
from metastore.sql.statement import Cursor, Name
from metastore.sql.tables.column_definition import ColumnDefinition, column_definition, require_defaults, require_type
from metastore.sql.tables.partition_fields import PartitionTerm, partition_term
from metastore.sql.tables.sort_order import order_texts, sort_fields
from metastore.sql.tables.table_properties import (
    FORMAT_VERSIONS,
    PARTITIONING,
    SORTED_BY,
    checked_value,
    partition_terms,
    property_key,
    property_value,
    written_version,
)
from metastore.sql.target import StatementTarget

_SUFFIXES: Final[Mapping[type[Transform[Any, Any]], str]] = {
    IdentityTransform: "",
    BucketTransform: "_bucket",
    TruncateTransform: "_trunc",
    YearTransform: "_year",
    MonthTransform: "_month",
    DayTransform: "_day",
    HourTransform: "_hour",
}
"""Suffixes in the names of partition fields, as in Spark."""

_FORMAT: Final = "format"


@dataclass
class NewTable:
    """The parsed description. ``schema`` is None if the columns come from a query; ``definitions`` are theirs."""

    columns: list[NestedField] = field(default_factory=list)
    terms: list[PartitionTerm] = field(default_factory=list)
    sorted_by: list[str] = field(default_factory=list)
    order_token: Token | None = None
    location: str | None = None
    format_version: int = 2
    properties: dict[str, str] = field(default_factory=dict)
    definitions: list[ColumnDefinition] = field(default_factory=list)

    @property
    def schema(self) -> Schema | None:
        """Returns the schema of the columns, with ids; None if there are no columns."""
        return assign_fresh_schema_ids(Schema(*self.columns)) if self.columns else None

    def spec(self, cursor: Cursor, schema: Schema) -> PartitionSpec:
        """Returns the partition spec. Raises InvalidRequestError, at the term that does not fit ``schema``."""
        fields: list[PartitionField] = []
        for number, term in enumerate(self.terms):
            name = ".".join(each.text for each in term.names)
            try:
                source = schema.find_field(name, case_sensitive=all(each.exact for each in term.names))
            except ValueError as error:
                known = ", ".join(each.name for each in schema.fields)
                raise cursor.statement.error(f"there is no column {name}; there are {known}", term.token) from error
            if not can_partition(term.transform, source.field_type):
                raise cursor.statement.error(f"{term}: {name} is {source.field_type}", term.token)
            full = schema.find_column_name(source.field_id) or name
            called = field_name(full, term.transform)
            if any(each.source_id == source.field_id and each.transform == term.transform for each in fields):
                raise cursor.statement.error(f"the table is partitioned by {term} twice", term.token)
            fields.append(PartitionField(source.field_id, PARTITION_FIELD_ID_START + number, term.transform, called))
        return PartitionSpec(*fields)

    def order(self, cursor: Cursor, name: str, schema: Schema) -> SortOrder:
        """Returns the sort order. Raises InvalidRequestError, at the list, for a key that does not fit ``schema``."""
        if not self.sorted_by:
            return UNSORTED_SORT_ORDER
        assert self.order_token is not None
        with cursor.statement.at(self.order_token):
            keys = sort_keys(name, schema, UNSORTED_SORT_ORDER, self.sorted_by)
        return SortOrder(*sort_fields(keys))


def field_name(column: str, transform: Transform[Any, Any]) -> str:
    """Returns the name of a new partition field, as Spark makes it."""
    return column + _SUFFIXES.get(type(transform), "")


def new_table(target: StatementTarget, cursor: Cursor) -> NewTable:
    """Read the description up to AS or the end. Raises InvalidRequestError, with line and column."""
    made = NewTable()
    if cursor.accept(TokenType.L_PAREN):
        cursor.list_of(lambda: _columns(target, cursor, made))
        cursor.expect(TokenType.R_PAREN, ", or )")
    elif cursor.word == "LIKE":
        made.terms += _terms_like(_like(target, cursor, made), cursor)
    while cursor.token is not None and cursor.word != "AS":
        _clause(cursor, made)
    for column in made.definitions:
        require_type(made.format_version, column)
        if column.given is not None:
            require_defaults(made.format_version, column.given)
    return made


def _columns(target: StatementTarget, cursor: Cursor, made: NewTable) -> None:
    """Read one column, or LIKE and the table whose columns are meant."""
    if cursor.word == "LIKE":
        _like(target, cursor, made)
    else:
        made.columns.append(_column(cursor, made))


def _like(target: StatementTarget, cursor: Cursor, made: NewTable) -> Table:
    """Read ``LIKE table``; returns the table. The new one has at least its format version, for types and defaults."""
    token = cursor.advance()
    table = named_table(target, cursor).table.load()
    for each in table.schema().fields:
        if any(each.name.lower() == known.name.lower() for known in made.columns):
            raise cursor.statement.error(f"column {each.name} is given twice", token)
        made.columns.append(each)
    made.format_version = max(made.format_version, table.metadata.format_version)
    return table


def _terms_like(table: Table, cursor: Cursor) -> list[PartitionTerm]:
    """Returns the partitioning of ``table``, which LIKE has named."""
    token, schema = cursor.statement.tokens[0], table.schema()
    return [
        PartitionTerm((Name(name, True, token),), field.transform, f"{field.transform} of {name}", token)
        for field in table.spec().fields
        if not isinstance(field.transform, VoidTransform) and (name := schema.find_column_name(field.source_id))
    ]


def _column(cursor: Cursor, made: NewTable) -> NestedField:
    name = cursor.name("the name of a column")
    if any(each.name.lower() == name.text.lower() for each in made.columns):
        raise cursor.statement.error(f"column {name.text} is given twice", name.token)
    column = column_definition(cursor)
    made.definitions.append(column)
    return NestedField(
        len(made.columns) + 1,
        name.text,
        column.kind,
        required=column.required,
        doc=column.comment,
        initial_default=column.default,
        write_default=column.default,
    )


def _clause(cursor: Cursor, made: NewTable) -> None:
    """Read one clause behind the columns into ``made``, in the words of Spark or Trino."""
    if cursor.accept_word("USING"):
        if cursor.word != "ICEBERG":
            raise cursor.expectation_error("ICEBERG")
        cursor.advance()
    elif _accept_partitioned_by(cursor):
        cursor.expect(TokenType.L_PAREN, "(")
        made.terms += cursor.list_of(lambda: partition_term(cursor))
        cursor.expect(TokenType.R_PAREN, ", or )")
    elif cursor.accept_word("COMMENT"):
        made.properties["comment"] = cursor.expect(TokenType.STRING, "a comment").text
    elif cursor.accept_word("LOCATION"):
        made.location = cursor.expect(TokenType.STRING, "a place").text
    elif cursor.word in ("TBLPROPERTIES", "WITH"):
        cursor.advance()
        _properties(cursor, made)
    else:
        raise cursor.expectation_error("PARTITIONED BY, COMMENT, LOCATION, TBLPROPERTIES, WITH, AS or the end")


def _accept_partitioned_by(cursor: Cursor) -> bool:
    """Read PARTITIONED BY, which the tokenizer makes one token of."""
    token = cursor.token
    found = token is not None and cursor.statement.source(token).upper().split() == ["PARTITIONED", "BY"]
    if found:
        cursor.advance()
    return found


def _properties(cursor: Cursor, made: NewTable) -> None:
    cursor.expect(TokenType.L_PAREN, "(")
    named: set[str] = set()
    while True:
        token = cursor.token
        key = property_key(cursor)
        if key in named:
            raise cursor.statement.error(f"property {key!r} is given twice", token)
        named.add(key)
        cursor.expect(TokenType.EQ, "=")
        _property(cursor, made, key, token)
        if not cursor.accept(TokenType.COMMA):
            break
    cursor.expect(TokenType.R_PAREN, ", or )")


def _property(cursor: Cursor, made: NewTable, key: str, token: Token | None) -> None:
    """Read the value of ``key`` into ``made``; DEFAULT leaves it out. Formats other than Parquet are refused."""
    value_token = cursor.token
    if key in FORMAT_VERSIONS:
        made.format_version = written_version(cursor)
    elif key == PARTITIONING:
        made.terms += partition_terms(cursor)
    elif key == SORTED_BY:
        made.order_token = value_token
        made.sorted_by += order_texts(cursor)
    elif key == "location":
        made.location = cursor.expect(TokenType.STRING, "a place").text
    elif key == _FORMAT:
        value = (property_value(cursor) or "").upper()
        if value not in ("PARQUET", "ICEBERG", "ICEBERG/PARQUET"):
            raise cursor.statement.error(
                f"format {value}: rows are written as PARQUET; files of ORC and Avro are read. Leave it out",
                value_token,
            )
    else:
        try:
            require_settable(key)
        except InvalidRequestError as error:
            raise cursor.statement.error(str(error), token) from error
        value = checked_value(cursor, key) or ""
        if value_token is not None and cursor.statement.source(value_token).upper() == "DEFAULT":
            return
        made.properties[key] = value
