"""Assignments ``column = value`` of UPDATE and MERGE; a field of a struct is assigned by its path, ``s.a = value``.

Place in the flow: assignments are parsed before the table is known. A field is composed to the value of its whole
struct afterwards: its other fields keep their values. A struct that is NULL becomes one with this field, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from pyiceberg.types import NestedField, StructType
from sqlglot import Token, TokenType

from metastore.errors import InvalidRequestError
from metastore.ground.quoting import double_quoted, quote_for_spark, text_constant
from metastore.sql.expressions import expression, position_of
from metastore.sql.queries.composed_query import ComposedQuery
from metastore.sql.queries.default_keyword import is_default
from metastore.sql.statement import Cursor, Name

_Given = tuple[tuple[Name, ...], tuple[Token, ...]]
"""The path of a field below a struct, and its value."""


@dataclass(frozen=True)
class FieldValues:
    """Values of fields of a struct column of the table ``alias``."""

    cursor: Cursor
    alias: str
    given: tuple[_Given, ...]


Value = tuple[Token, ...] | FieldValues
"""What a column is assigned: an expression or DEFAULT, or values of its fields."""


def assignments(cursor: Cursor, alias: str, ends: Collection[str]) -> list[tuple[Name, Value]]:
    """Read ``column = expression, …``; ``alias`` may qualify a column. Fields of one column are one assignment."""
    found: list[tuple[Name, Value]] = []
    while True:
        names = _path(cursor, alias)
        cursor.expect(TokenType.EQ, "=")
        value = expression(cursor, ends)
        if not names[1:]:
            found.append((names[0], value))
        else:
            _add_field(cursor, alias, found, (names, value))
        if not cursor.accept(TokenType.COMMA):
            return found


def _add_field(cursor: Cursor, alias: str, fields: list[tuple[Name, Value]], assignment: _Given) -> None:
    (column, *path), value = assignment
    own: tuple[_Given, ...] = ((tuple(path), value),)
    for at, (name, present) in enumerate(fields):
        if isinstance(present, FieldValues) and name.text.lower() == column.text.lower():
            fields[at] = (name, FieldValues(cursor, alias, (*present.given, *own)))
            return
    fields.append((column, FieldValues(cursor, alias, own)))


def assigned_column(cursor: Cursor, alias: str) -> Name:
    """Read the name of a column, which ``alias`` may qualify. Refuses a field of a struct."""
    names = _path(cursor, alias)
    if names[1:]:
        shown = ".".join(name.text for name in names)
        raise cursor.statement.error(f"{shown} is a field of a struct; give the whole struct", names[0].token)
    return names[0]


def _path(cursor: Cursor, alias: str) -> tuple[Name, ...]:
    names = cursor.names("the name of a column")
    return tuple(names[1:] if names[1:] and names[0].text.lower() == alias.lower() else names)


def add_value(composed: ComposedQuery, value: Value, field: NestedField, *, of_engine: bool = False) -> None:
    """Add the value of the column ``field`` to a query, in the SQL of Spark with ``of_engine``, else of DuckDB.

    Raises InvalidRequestError, at the name, for a field that the column does not have.
    """
    if isinstance(value, FieldValues):
        quoted = quote_for_spark if of_engine else double_quoted
        column = f"{quoted(value.alias)}.{quoted(field.name)}"
        _Fields(composed, value.cursor, quoted, of_engine).add(column, field, value.given)
    else:
        composed.value(value)


@dataclass(frozen=True)
class _Fields:
    """Composes a struct of new and present fields."""

    composed: ComposedQuery
    cursor: Cursor
    quoted: Callable[[str], str]
    of_engine: bool

    def add(self, column: str, field: NestedField, assignments: Sequence[_Given]) -> None:
        """Add the struct ``column``, in which the fields ``assignments`` have new values."""
        kind, first = field.field_type, assignments[0][0][0]
        if not isinstance(kind, StructType):
            raise self.cursor.statement.error(f"{field.name} is {kind}, and has no fields to assign", first.token)
        places = [position_of(self.cursor, kind, path[0]) for path, _ in assignments]
        self.composed.add("named_struct(" if self.of_engine else "{")
        for at, inner in enumerate(kind.fields):
            self.composed.add(", " if at else "").add(text_constant(inner.name) + (", " if self.of_engine else ": "))
            own = [(path[1:], value) for place, (path, value) in zip(places, assignments, strict=True) if place == at]
            present = f"{column}.{self.quoted(inner.name)}"
            if not own:
                self.composed.add(present)
            elif all(path for path, _ in own):
                self.add(present, inner, own)
            else:
                again = [path[0] for place, (path, _) in zip(places, assignments, strict=True) if place == at]
                self._add_whole(inner, own, again[-1])
        self.composed.add(")" if self.of_engine else "}")

    def _add_whole(self, field: NestedField, own: Sequence[_Given], name: Name) -> None:
        if len(own) > 1:
            raise self.cursor.statement.error(f"field {field.name} is given twice", name.token)
        [(_, value)] = own
        if is_default(value):
            raise self._no_default(field, value[0])
        self.composed.value(value)

    def _no_default(self, field: NestedField, token: Token) -> InvalidRequestError:
        return self.cursor.statement.error(
            f"DEFAULT is for a whole column, and {field.name} is a field: give it a value", token
        )
