"""Views and materialized views.

::

    CREATE [OR REPLACE] VIEW [IF NOT EXISTS] plugin.workspace.name [(column [COMMENT '…'], …)] [COMMENT '…'] AS query
    ALTER VIEW name RENAME TO name
    DROP VIEW [IF EXISTS] name
    SHOW CREATE VIEW name
    CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(…)] [COMMENT '…'] AS query
    ALTER MATERIALIZED VIEW name RENAME TO name
    REFRESH MATERIALIZED VIEW name [FULL | INCREMENTAL]
    DROP MATERIALIZED VIEW [IF EXISTS] name
    SHOW CREATE MATERIALIZED VIEW name

The query is Spark SQL. Statements that change something return ``ok`` and a ``summary``, as in Drill.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from sqlglot import Token, TokenType

from metastore.components.named_components import NamedComponent
from metastore.errors import InvalidRequestError
from metastore.model.identity import TableInfo
from metastore.sql.statement import Cursor, Statement
from metastore.sql.target import StatementTarget
from metastore.sql.views.definition import Definition
from metastore.sql.views.names import Names
from metastore.sql.views.of_session import DefinedViews, RefreshedViews
from metastore.sql.views.statements import create_statement
from metastore.sql.views.text import pad_to_place

_OK: Final[list[pa.Field[Any]]] = [pa.field("ok", pa.bool_()), pa.field("summary", pa.string())]
_ANSWER: Final = pa.schema(_OK)
_RESULT: Final[list[pa.Field[Any]]] = [
    pa.field("view", pa.string()),
    pa.field("mode", pa.string()),
    pa.field("reason", pa.string()),
    pa.field("files", pa.int64()),
    pa.field("rows", pa.int64()),
    pa.field("version", pa.int64()),
    pa.field("engine", pa.string()),
    pa.field("seconds", pa.float64()),
]
_REFRESHED: Final = pa.schema(_RESULT)


@dataclass(frozen=True)
class _Header:
    """The part of a CREATE before its query."""

    name: TableInfo
    replace: bool
    if_not_exists: bool
    definition: Definition


def create_view(target: StatementTarget, statement: Statement) -> pa.Table:
    """CREATE VIEW."""
    return _create_view(target.views, _header(target, statement))


def create_materialized_view(target: StatementTarget, statement: Statement) -> pa.Table:
    """CREATE MATERIALIZED VIEW; it holds no rows before the first REFRESH."""
    return _create_view(target.materialized_views, _header(target, statement))


def refresh(target: StatementTarget, statement: Statement) -> pa.Table:
    """REFRESH MATERIALIZED VIEW; returns one row that says what it did."""
    cursor = Cursor(statement, 3)
    name = _name(target, cursor)
    mode = next((word for word in ("FULL", "INCREMENTAL") if cursor.accept_word(word)), None)
    cursor.end()
    result = target.materialized_views.refresh(name, mode and mode.lower())
    return pa.Table.from_pylist([{**vars(result), "view": str(result.view)}], _REFRESHED)


def drop(target: StatementTarget, statement: Statement) -> pa.Table:
    """DROP VIEW, DROP MATERIALIZED VIEW."""
    component, cursor = _component(target, statement, 1)
    if_exists = cursor.accept_words("IF", "EXISTS")
    name = _name(target, cursor)
    cursor.end()
    if component.drop(name, if_exists=if_exists):
        return _answer(True, f"{component.noun} {name} is dropped")
    return _answer(False, f"there is no {component.noun} {name}")


def rename(target: StatementTarget, statement: Statement) -> pa.Table:
    """ALTER VIEW, ALTER MATERIALIZED VIEW … RENAME TO."""
    component, cursor = _component(target, statement, 1)
    old = _name(target, cursor)
    cursor.expect_word("RENAME")
    cursor.expect_word("TO")
    new = _name(target, cursor)
    cursor.end()
    taken = Names(target.metastore, target.tables.describe_unstored).find(new)
    if taken is not None:
        raise InvalidRequestError(f"{new} is the name of a {taken.kind.noun} already")
    component.rename(old, new, now_ms=target.metastore.clock.now_ms())
    return _answer(True, f"{component.noun} {old} is renamed to {new}")


def show_create(target: StatementTarget, statement: Statement) -> pa.Table:
    """SHOW CREATE VIEW, SHOW CREATE MATERIALIZED VIEW: returns a statement that creates the view again."""
    component, cursor = _component(target, statement, 2)
    name = _name(target, cursor)
    cursor.end()
    return pa.table({"statement": pa.array([create_statement(component.get(name))], pa.string())})


def _create_view(component: DefinedViews | RefreshedViews, header: _Header) -> pa.Table:
    there = component.find(header.name) is not None
    if there and header.if_not_exists:
        return _answer(False, f"there is a {component.noun} {header.name} already")
    component.define(header.name, header.definition, replace=header.replace, if_not_exists=header.if_not_exists)
    return _answer(True, f"{component.noun} {header.name} is {'replaced' if there else 'created'}")


def _header(target: StatementTarget, statement: Statement) -> _Header:
    """What comes before AS, and the query in its place in the text, so that errors name lines of the statement."""
    cursor = Cursor(statement, 1)
    replace = cursor.accept_words("OR", "REPLACE")
    cursor.accept_word("MATERIALIZED")
    cursor.expect_word("VIEW")
    if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
    if replace and if_not_exists:
        raise statement.error("OR REPLACE and IF NOT EXISTS contradict each other", cursor.token)
    name = _name(target, cursor)
    columns, comments = _columns(cursor) if cursor.accept(TokenType.L_PAREN) else ([], {})
    comment = _text(cursor) if cursor.accept_word("COMMENT") else None
    cursor.expect_word("AS")
    first = cursor.token
    if first is None:
        raise cursor.expectation_error("a query")
    end = statement.tokens[-1].end + 1
    query = pad_to_place(statement.text, first.start, end)
    definition = Definition(query, columns=columns, comment=comment, column_comments=comments)
    return _Header(name, replace, if_not_exists, definition)


def _columns(cursor: Cursor) -> tuple[list[str], dict[str, str]]:
    names: list[str] = []
    comments: dict[str, str] = {}
    while True:
        name = cursor.name("the name of a column").text
        names.append(name)
        if cursor.accept_word("COMMENT"):
            comments[name] = _text(cursor)
        if not cursor.accept(TokenType.COMMA):
            cursor.expect(TokenType.R_PAREN, ")")
            return names, comments


def _component(target: StatementTarget, statement: Statement, start: int) -> tuple[NamedComponent[Any], Cursor]:
    cursor = Cursor(statement, start)
    materialized = cursor.accept_word("MATERIALIZED")
    cursor.expect_word("VIEW")
    return target.materialized_views if materialized else target.views, cursor


def _name(target: StatementTarget, cursor: Cursor) -> TableInfo:
    token: Token | None = cursor.token
    parts = target.catalogs.full([part.text for part in cursor.names("the name of a view")])
    if len(parts) < 3:
        raise cursor.statement.error("a view is named plugin.workspace.name", token)
    return TableInfo(parts[0], parts[1], ".".join(parts[2:]))


def _text(cursor: Cursor) -> str:
    return cursor.expect(TokenType.STRING, "a text in single quotes").text


def _answer(ok: bool, summary: str) -> pa.Table:
    return pa.Table.from_pylist([{"ok": ok, "summary": summary}], _ANSWER)


HANDLERS: Final = {
    ("CREATE", "VIEW"): create_view,
    ("CREATE", "OR", "REPLACE", "VIEW"): create_view,
    ("CREATE", "MATERIALIZED", "VIEW"): create_materialized_view,
    ("CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"): create_materialized_view,
    ("REFRESH", "MATERIALIZED", "VIEW"): refresh,
    ("DROP", "VIEW"): drop,
    ("DROP", "MATERIALIZED", "VIEW"): drop,
    ("ALTER", "VIEW"): rename,
    ("ALTER", "MATERIALIZED", "VIEW"): rename,
    ("SHOW", "CREATE", "VIEW"): show_create,
    ("SHOW", "CREATE", "MATERIALIZED", "VIEW"): show_create,
}
