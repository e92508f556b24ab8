"""``execute`` runs every statement: the first words of its text choose the family that handles it.

A family is a module with ``HANDLERS``: handlers by the first words of their statements. If several fit, the handler
with the most words wins. To add a family, add its module to ``_FAMILIES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any, Final

import pyarrow as pa

from metastore.config.engine import QueryDialect
from metastore.duck.limits import limit_queries
from metastore.engines.telemetry import operation
from metastore.sql import analyze, call, session_settings
from metastore.sql import view_statements as views
from metastore.sql.other_engines import refusal
from metastore.sql.queries import select
from metastore.sql.rows import delete_update, insert, merge
from metastore.sql.statement import Statement
from metastore.sql.tables import alter, create, drop, schemas, show, show_table
from metastore.sql.target import Progress, StatementTarget

Handler = Callable[[StatementTarget, Statement], pa.Table]
"""Runs one statement in a session: ``handler(target, statement)`` returns its rows."""

_FAMILIES: Final = (
    alter,
    analyze,
    call,
    create,
    delete_update,
    drop,
    insert,
    merge,
    views,
    schemas,
    select,
    session_settings,
    show,
    show_table,
)
_HANDLERS: Final[Mapping[tuple[str, ...], Handler]] = {
    words: handler for family in _FAMILIES for words, handler in family.HANDLERS.items()
}

STATEMENTS: Final = tuple(_HANDLERS)
"""The first words of every statement, in capitals."""

_EXPLAIN: Final = ("EXPLAIN",)


def execute(
    target: StatementTarget,
    text: str,
    on_progress: Progress | None = None,
    dialect: QueryDialect | None = None,
    limits: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Run the one statement of ``text``; returns its rows.

    Long work calls ``on_progress`` with the amount done and the total. ``dialect`` is the SQL of the statement's query,
    which its engine runs; None: as configured. ``limits`` replace those of ``drill.metastore.sql``
    (:meth:`~metastore.config.sql.SqlSettings.with_limits`). Raises InvalidRequestError, with line and column, for a
    text that is not a statement, and for a ``dialect`` beside a statement without a query. Raises the errors of the
    statement.
    """
    statement = Statement.parse(text, on_progress).with_short_explain()
    if (reason := refusal(statement)) is not None:
        raise statement.error(reason, statement.tokens[0])
    fitting = [words for words in _HANDLERS if statement.begins_with(words)]
    if not fitting:
        raise statement.error(_unknown(statement), statement.tokens[0])
    words = max(fitting, key=len)
    if words == _EXPLAIN:
        _require_plan(statement)
    if _is_query(statement):
        engine = target.query_engine(dialect or target.settings.engine.sql)
        statement = replace(statement, engine=engine)
    elif dialect == "spark":
        known = ", ".join(" ".join(each) for each in _WITH_QUERY)
        raise statement.error(
            f"{' '.join(words)} has no query that Spark could run; leave out the engine. "
            f"Spark runs the queries of {known}",
            statement.tokens[0],
        )
    with limit_queries(target.settings.sql.with_limits(limits or {})), operation(" ".join(words).lower()):
        return _HANDLERS[words](target, statement)


def _unknown(statement: Statement) -> str:
    """Returns the statements that begin most alike."""
    texts = {
        " ".join(words): [statement.word(index) for index in range(len(words))]
        for words in _HANDLERS
        if words[:1] != _EXPLAIN
    }
    likeness = {text: SequenceMatcher(None, text, " ".join(words)).ratio() for text, words in texts.items()}
    nearest = sorted(likeness, key=lambda text: (-likeness[text], text))[:_SUGGESTED]
    typed = f"{statement.source(statement.tokens[0])} {statement.word(1)}".rstrip()
    return f"no statement begins with {typed}; did you mean {', '.join(nearest[:-1])} or {nearest[-1]}?"


_SUGGESTED: Final = 3

_WITH_QUERY: Final = (
    ("SELECT",),
    ("WITH",),
    ("INSERT", "INTO"),
    ("INSERT", "OVERWRITE"),
    ("CREATE", "TABLE"),
    ("MERGE", "INTO"),
)
"""First words of the statements whose queries another engine can run."""


def _is_query(statement: Statement) -> bool:
    explains = statement.begins_with(_EXPLAIN) and len(statement.tokens) > 1
    asked = statement.without_explain() if explains else statement
    return any(map(asked.begins_with, _WITH_QUERY))


def _require_plan(statement: Statement) -> None:
    """Raise InvalidRequestError if EXPLAIN stands before a statement of which it shows nothing."""
    explained = statement.without_explain()
    fitting = [words for words in _HANDLERS if explained.begins_with(words)]
    words = max(fitting, key=len, default=())
    if not words or _HANDLERS[words] is select.select:
        return
    known = ", ".join(sorted(" ".join(each[1:]) for each in _HANDLERS if each[:1] == _EXPLAIN and each != _EXPLAIN))
    raise statement.error(
        f"EXPLAIN does not support {' '.join(words)}; it shows how queries, {known} would run, without running them",
        statement.tokens[0],
    )
