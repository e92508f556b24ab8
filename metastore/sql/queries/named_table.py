"""The table of a catalog whose rows a statement changes."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import Token, TokenType

from metastore.errors import InvalidRequestError
from metastore.ground.quoting import double_quoted
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.sql.queries.versioned_names import versioned_name
from metastore.sql.statement import Cursor, Name
from metastore.sql.target import StatementTarget


@dataclass(frozen=True)
class NamedTable:
    """A named table: ``tokens`` are its name and alias in the text, ``alias`` is the qualifier of its columns.

    ``branch`` is the one that the name chooses; None without one.
    """

    table: TargetTable
    tokens: tuple[Token, ...]
    alias: str
    branch: str | None = None

    @property
    def quoted_alias(self) -> str:
        """Returns the alias, quoted for a query."""
        return double_quoted(self.alias)


def table_name(target: StatementTarget, cursor: Cursor, *, column: bool = False) -> list[Name]:
    """Read ``catalog.schema.table``, or a shorter name that begins with what USE has chosen.

    With ``column``, the name of a column follows it. Raises InvalidRequestError if the name is too short.
    """
    names = cursor.names("catalog.schema.table.column" if column else "catalog.schema.table")
    rest = names[-1:] if column else []
    names = names[: len(names) - len(rest)]
    if not names:
        raise cursor.statement.error("a column of a table is expected, table.column", rest[0].token)
    full = target.catalogs.full([name.text for name in names])
    named = [*(Name(text, True, names[0].token) for text in full[: len(full) - len(names)]), *names]
    return [*_full_name(cursor, named), *rest]


def _full_name(cursor: Cursor, names: list[Name]) -> list[Name]:
    if len(names) < 3:
        message = "a table of a catalog is named by three parts, catalog.schema.table"
        raise cursor.statement.error(message, names[0].token)
    return names


def place_of(target: StatementTarget, cursor: Cursor, names: list[Name]) -> TargetTable:
    """Returns the table that ``names`` mean, whether it exists or not. Refuses a component."""
    with cursor.statement.at(names[0].token):
        schema = ".".join(name.text for name in names[1:-1])
        table = target.catalogs.target(names[0].text, schema, names[-1].text)
        if table.is_component:
            raise InvalidRequestError(
                f"{table} is the metastore's own: its rows are written by its components, not by statements"
            )
    return table


def named_table(target: StatementTarget, cursor: Cursor, *, alias: tuple[str, ...] | None = None) -> NamedTable:
    """Read the name of a table that exists; ``alias`` allows an alias, unless it is one of these words.

    Raises InvalidRequestError and NotFoundError, at the name.
    """
    names = cursor.names("catalog.schema.table")
    with cursor.statement.at(names[0].token):
        chosen = versioned_name(target.catalogs, [name.text for name in names]).at(None)
        if not isinstance(chosen.wanted, str | None):
            raise InvalidRequestError(f"{chosen.word} is a version of {'.'.join(chosen.parts)}, which cannot change")
    place = place_of(target, cursor, _full_name(cursor, [Name(part, True, names[0].token) for part in chosen.parts]))
    with cursor.statement.at(names[0].token):
        table = target.catalogs.table(place.catalog_name, place.schema_name, place.name)
    given = None if alias is None else accept_alias(cursor, alias)
    tokens = (names[0].token, names[-1].token if given is None else given.token)
    return NamedTable(table, tokens, names[-1].text if given is None else given.text, chosen.wanted)


def accept_alias(cursor: Cursor, unless: tuple[str, ...]) -> Name | None:
    """Read ``[AS] alias`` if the next word is not in ``unless``."""
    if cursor.accept_word("AS"):
        return cursor.name("an alias")
    if cursor.ahead(TokenType.IDENTIFIER) or (cursor.word and cursor.word not in unless):
        return cursor.name("an alias")
    return None
