"""Translates a query into another dialect, and lists the parts that have no counterpart there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from metastore.errors import InvalidRequestError
from metastore.sql.views.text import parse_query, require_dialect


@dataclass(frozen=True)
class Translation:
    """A query in ``dialect``; each sentence of ``unsupported`` names a part that has no counterpart in it."""

    sql: str
    dialect: str
    unsupported: tuple[str, ...]


def translate(
    query: str | exp.Query, source: str, target: str, *, pretty: bool = False, words: type[Dialect] | None = None
) -> Translation:
    """Translates ``query`` from dialect ``source`` to dialect ``target``.

    A part without a counterpart in ``target`` stays as it was, and is listed in ``unsupported``; so are functions whose
    translation is not known. ``words`` is the dialect that prints the query, if it is not sqlglot's own of that name.
    Raises InvalidRequestError for an unknown dialect and for SQL that cannot be parsed.
    """
    source, target = require_dialect(source), require_dialect(target)
    tree = parse_query(query, source) if isinstance(query, str) else query
    generator = Dialect.get_or_raise(words or target).generator(
        pretty=pretty, unsupported_level=ErrorLevel.WARN, identify=False, max_unsupported=0
    )
    try:
        with _silent():
            sql = generator.generate(tree)
    except SqlglotError as error:
        raise InvalidRequestError(f"the query cannot be written in {target}: {error}") from error
    notes = [message.rstrip(".") for message in generator.unsupported_messages]
    if source != target:
        notes += [f"{name}() is an unknown function and was left unchanged" for name in _unknown_functions(tree)]
    return Translation(sql, target, tuple(dict.fromkeys(notes)))


def _unknown_functions(tree: exp.Expr) -> list[str]:
    return sorted({function.name for function in tree.find_all(exp.Anonymous, exp.AnonymousAggFunc)})


@contextmanager
def _silent() -> Iterator[None]:
    """Suppresses sqlglot's log: the result already says what cannot be translated."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
