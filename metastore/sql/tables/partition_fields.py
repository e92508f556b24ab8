"""Columns and partition transforms of ALTER TABLE, resolved against the table.

A name in quotes is exact; the case of another name does not matter, as in SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
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
from metastore.lake.iceberg.catalogs.iceberg_private import PartitionUpdate
from metastore.lake.iceberg.columns.readable_columns import can_partition
from metastore.lake.iceberg.columns.schemas import fields_inside, parts_of
from metastore.sql.statement import Cursor, Name, Statement

Change = Callable[[Transaction], None]
"""Adds the changes of a statement to a transaction."""

_OF_TIME: Final[dict[str, type[Transform[Any, Any]]]] = {
    "YEAR": YearTransform,
    "MONTH": MonthTransform,
    "DAY": DayTransform,
    "HOUR": HourTransform,
}
_SIZED: Final[dict[str, Callable[[int], Transform[Any, Any]]]] = {
    "BUCKET": BucketTransform,
    "TRUNCATE": TruncateTransform,
}


@dataclass(frozen=True)
class PartitionTerm:
    """A transform of a column; a plain name may also name a partition field."""

    names: tuple[Name, ...]
    transform: Transform[Any, Any]
    text: str
    token: Token | None

    def __str__(self) -> str:
        """The term as the statement has it."""
        return self.text


def partition_term(cursor: Cursor) -> PartitionTerm:
    """Read ``column``, ``day(column)``, ``bucket(16, column)`` or ``bucket(column, 16)``."""
    first = cursor.token
    names = cursor.names("a column, or a transform of one")
    if not (len(names) == 1 and cursor.accept(TokenType.L_PAREN)):
        return PartitionTerm(tuple(names), IdentityTransform(), ".".join(name.text for name in names), first)
    word = names[0].text.upper()
    singular = word.removesuffix("S")
    size: int | None = None
    if word in _SIZED and cursor.ahead(TokenType.NUMBER):
        size = _size(cursor)
        cursor.expect(TokenType.COMMA, ",")
    column = cursor.names("a column")
    if word in _SIZED and size is None:
        cursor.expect(TokenType.COMMA, ",")
        size = _size(cursor)
    cursor.expect(TokenType.R_PAREN, ")")
    shown = ".".join(name.text for name in column)
    if word in _SIZED:
        assert size is not None
        return PartitionTerm(tuple(column), _SIZED[word](size), f"{word.lower()}({size}, {shown})", first)
    if singular in _OF_TIME:
        return PartitionTerm(tuple(column), _OF_TIME[singular](), f"{singular.lower()}({shown})", first)
    raise cursor.statement.error(
        f"there is no transform {names[0].text}; there are bucket, truncate, year, month, day and hour", first
    )


def term_of_text(token: Token) -> PartitionTerm:
    """Returns the term in a text constant. Raises InvalidRequestError, with the place inside the text."""
    statement = Statement.parse(token.text)
    cursor = Cursor(statement)
    term = partition_term(cursor)
    cursor.end()
    # Errors about a column are reported at the text.
    names = tuple(Name(name.text, name.exact, token) for name in term.names)
    return PartitionTerm(names, term.transform, term.text, token)


@dataclass(frozen=True)
class ColumnLookup:
    """Looks up the names of a statement's columns in the table."""

    statement: Statement

    def path(self, transaction: Transaction, names: list[Name] | tuple[Name, ...]) -> tuple[str, ...]:
        """Returns the column's names from the top down.

        Raises InvalidRequestError at the first one that does not exist.
        """
        return self._find(transaction, names)[0]

    def field(self, transaction: Transaction, names: list[Name] | tuple[Name, ...]) -> NestedField:
        """Returns the column. Raises as :meth:`path`."""
        return self._find(transaction, names)[1]

    def exists(self, transaction: Transaction, names: list[Name]) -> bool:
        """Whether the column exists."""
        try:
            self._find(transaction, names)
        except InvalidRequestError:
            return False
        return True

    def sibling(self, transaction: Transaction, path: tuple[str, ...], name: Name) -> tuple[str, ...]:
        """Returns the path of the column ``name`` beside the column at ``path``."""
        parents = [Name(part, True, name.token) for part in path[:-1]]
        return self.path(transaction, [*parents, name])

    def require_new(self, transaction: Transaction, above: list[Name], name: Name, renamed: int | None = None) -> None:
        """Refuse an unquoted name of a column that exists: the name would then mean two columns.

        ``above`` is the struct that gets the new name, ``renamed`` the id of the column that gets it.
        """
        if name.exact:
            return
        beside = fields_inside(self.field(transaction, above)) if above else transaction.table_metadata.schema().fields
        for field in beside:
            # Whoever adds the column reports an exact duplicate.
            alike = field.name != name.text and field.name.lower() == name.text.lower()
            if alike and field.field_id != renamed:
                raise self.statement.error(
                    f'there is a column {field.name}, which {name.text} means, too; write "{name.text}" to have both',
                    name.token,
                )

    def require_unused(self, transaction: Transaction, names: list[Name]) -> None:
        """Refuse a column by which new rows are partitioned or sorted."""
        metadata = transaction.table_metadata
        gone = {part.field_id for part in parts_of([self.field(transaction, names)])}
        for field in metadata.spec().fields:
            if field.source_id in gone and not isinstance(field.transform, VoidTransform):
                raise self.statement.error(
                    f"{names[-1].text} cannot be dropped: new rows are partitioned by {field.name}; "
                    "drop that partition field first",
                    names[0].token,
                )
        order = next(each for each in metadata.sort_orders if each.order_id == metadata.default_sort_order_id)
        if any(field.source_id in gone for field in order.fields):
            raise self.statement.error(
                f"{names[-1].text} cannot be dropped: it is part of the table's sort order", names[0].token
            )

    def _find(
        self, transaction: Transaction, names: list[Name] | tuple[Name, ...]
    ) -> tuple[tuple[str, ...], NestedField]:
        schema: Schema = transaction.table_metadata.schema()
        fields: tuple[NestedField, ...] = schema.fields
        path: list[str] = []
        field: NestedField | None = None
        for name in names:
            field = self._one(fields, name, path)
            path.append(field.name)
            fields = fields_inside(field)
        assert field is not None
        return tuple(path), field

    def _one(self, fields: tuple[NestedField, ...], name: Name, above: list[str]) -> NestedField:
        exact = [field for field in fields if field.name == name.text]
        loose = [] if name.exact else [field for field in fields if field.name.lower() == name.text.lower()]
        found = exact or loose
        if len(found) == 1:
            return found[0]
        where = f" in {'.'.join(above)}" if above else ""
        known = ", ".join(field.name for field in fields) or "none"
        problem = f"there is no column {name.text}{where}" if not found else f"{name.text} may mean several columns"
        raise self.statement.error(f"{problem}; there are {known}", name.token)


@dataclass(frozen=True)
class PartitionChange:
    """A new partition spec for new rows: terms dropped and added, or ``exactly`` these terms."""

    statement: Statement
    drop: tuple[PartitionTerm, ...] = ()
    add: tuple[tuple[PartitionTerm, str | None], ...] = ()
    exactly: tuple[PartitionTerm, ...] | None = None

    def __call__(self, transaction: Transaction) -> None:
        """Add the change to ``transaction``."""
        columns = ColumnLookup(self.statement)
        spec = transaction.table_metadata.spec()
        present = {
            (field.source_id, field.transform): field.name
            for field in spec.fields
            if not isinstance(field.transform, VoidTransform)
        }
        drop = [self._name_of(transaction, term, present) for term in self.drop]
        add = list(self.add)
        if self.exactly is not None:
            wanted = {(columns.field(transaction, term.names).field_id, term.transform): term for term in self.exactly}
            drop = [name for key, name in present.items() if key not in wanted]
            add = [(term, None) for key, term in wanted.items() if key not in present]
        if not (drop or add):
            return
        for term, _ in add:
            kind = columns.field(transaction, term.names).field_type
            if not can_partition(term.transform, kind):
                raise self.statement.error(f"{term} is no partition field: the column is of type {kind}", term.token)
        with PartitionUpdate(transaction) as update:
            for name in drop:
                update.remove_field(name)
            for term, name_of_new in add:
                source = ".".join(columns.path(transaction, term.names))
                update.add_field(source, term.transform, name_of_new)

    def _name_of(
        self, transaction: Transaction, term: PartitionTerm, present: dict[tuple[int, Transform[Any, Any]], str]
    ) -> str:
        """Returns the name of the partition field that the term means, by the field's name or by its source column."""
        if isinstance(term.transform, IdentityTransform) and len(term.names) == 1:
            named = [name for name in present.values() if name.lower() == term.names[0].text.lower()]
            if named:
                return named[0]
        columns = ColumnLookup(self.statement)
        if columns.exists(transaction, list(term.names)):
            name = present.get((columns.field(transaction, term.names).field_id, term.transform))
            if name is not None:
                return name
        known = ", ".join(present.values()) or "none"
        raise self.statement.error(f"there is no partition field {term}; there are {known}", term.token)


def _size(cursor: Cursor) -> int:
    token = cursor.expect(TokenType.NUMBER, "a number")
    if not token.text.isdecimal() or not int(token.text):
        raise cursor.statement.error(f"a whole number above 0 is expected, not {token.text}", token)
    return int(token.text)
