"""``PARTITION (column [= value], …)`` of INSERT, as Spark writes it.

A column with a value gets it in every new row, and the query does not give it. A column without a value comes from the
query. A text is cast to the type of its column, as Spark casts it.

Each must be a column that the table is partitioned by itself: a value of a transform, such as a day of a
timestamp, does not say what the column's value is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BinaryType, FixedType, PrimitiveType, StringType, UUIDType
from sqlglot import Token, TokenType

from metastore.lake.writes.conforming import conformed_column
from metastore.sql.expressions import expression, position_of, positions_of
from metastore.sql.queries.composed_query import ComposedQuery
from metastore.sql.queries.select import rows_of
from metastore.sql.statement import Cursor, Name
from metastore.sql.tasks.row_writes import StatementReading

_NOT_CAST: Final = (StringType, BinaryType, FixedType, UUIDType)
"""Types that take a text as it is; for others it is cast, as in Spark: everybody writes texts in this clause."""


@dataclass(frozen=True)
class PartitionValue:
    """A column with its value: its ``place`` in the schema, its partition ``field``, an array of the one ``value``."""

    place: int
    field: PartitionField
    value: Any


@dataclass(frozen=True)
class PartitionClause:
    """The parsed clause: columns, each with the tokens of its value; None for a column without a value."""

    columns: tuple[tuple[Name, tuple[Token, ...] | None], ...]

    @property
    def names(self) -> list[Name]:
        """Returns the columns with a value."""
        return [name for name, value in self.columns if value is not None]

    def values(self, cursor: Cursor, reading: StatementReading) -> list[PartitionValue]:
        """Returns the columns with a value. Raises InvalidRequestError, at the column that does not fit the table."""
        schema = reading.table.schema()
        places = positions_of(cursor, schema, [name for name, _ in self.columns])
        found = []
        for place, (name, tokens) in zip(places, self.columns, strict=True):
            field = _field(cursor, reading.job.output_spec, schema.fields[place].field_id, name)
            if tokens is not None:
                found.append(PartitionValue(place, field, _value(cursor, reading, place, tokens)))
        return found

    def require_absent(self, cursor: Cursor, reading: StatementReading, chosen: Sequence[Name]) -> None:
        """Raises InvalidRequestError if the query gives a column, too, whose value is in the clause."""
        schema = reading.table.schema()
        given = {position_of(cursor, schema, name) for name in self.names}
        for name in chosen:
            if position_of(cursor, schema, name) in given:
                raise cursor.statement.error(
                    f"column {name.text} has its value in PARTITION; leave it out of the columns of the query",
                    name.token,
                )


def partition_clause(cursor: Cursor) -> PartitionClause:
    """Read ``[PARTITION (column [= value], …)]``."""
    if not cursor.accept_word("PARTITION"):
        return PartitionClause(())
    cursor.expect(TokenType.L_PAREN, "(")

    def column() -> tuple[Name, tuple[Token, ...] | None]:
        name = cursor.name("the name of a column")
        return name, expression(cursor, what="a value") if cursor.accept(TokenType.EQ) else None

    found = cursor.list_of(column)
    cursor.expect(TokenType.R_PAREN, ", or )")
    if cursor.word == "IF":
        raise cursor.statement.error(
            "IF NOT EXISTS is not supported after PARTITION: leave it out, or use MERGE INTO", cursor.token
        )
    return PartitionClause(tuple(found))


def _field(cursor: Cursor, spec: PartitionSpec, source_id: int, name: Name) -> PartitionField:
    for field in spec.fields:
        if field.source_id == source_id and isinstance(field.transform, IdentityTransform):
            return field
    raise cursor.statement.error(
        f"the table is not partitioned by {name.text} itself, so PARTITION cannot name it; leave PARTITION out: "
        "INSERT OVERWRITE then replaces the partitions of the new rows",
        name.token,
    )


def _value(cursor: Cursor, reading: StatementReading, place: int, tokens: tuple[Token, ...]) -> Any:
    field = reading.table.schema().fields[place]
    is_text = len(tokens) == 1 and tokens[0].token_type is TokenType.STRING
    cast = is_text and isinstance(field.field_type, PrimitiveType) and not isinstance(field.field_type, _NOT_CAST)
    composed = ComposedQuery(cursor.statement).add("SELECT").add("CAST(" if cast else "(")
    composed.part(tokens).add(f"AS {field.field_type})" if cast else ")")
    with composed.errors():
        made = rows_of(composed.query(), reading.relations)
    with cursor.statement.at(tokens[0]):
        return conformed_column(field, reading.job.arrow_schema.field(place), made.column(0))
