"""A query in another dialect, and what of it has no counterpart there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from metastore.errors import InvalidRequestError
from metastore.views.text import parse_query, require_dialect


@dataclass(frozen=True)
class Translation:
    """A query in ``dialect``; ``unsupported`` says, a sentence each, what could not be said in it."""

    sql: str
    dialect: str
    unsupported: tuple[str, ...]


def translate(
    query: str | exp.Query, source: str, target: str, *, pretty: bool = False, words: type[Dialect] | None = None
) -> Translation:
    """``query`` of dialect ``source`` in dialect ``target``.

    What ``target`` has no counterpart for is written as it was, and told in ``unsupported``: functions that are not
    known to translate among it. ``words`` is the dialect that prints it, if not sqlglot's own of that name. Raises
    InvalidRequestError for an unknown dialect and for SQL that cannot be read.
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
        raise InvalidRequestError(f"the query cannot be said in {target}: {error}") from error
    said = [message.rstrip(".") for message in generator.unsupported_messages]
    if source != target:
        said += [f"{name}() is not known here and was left as it is" for name in _unknown_functions(tree)]
    return Translation(sql, target, tuple(dict.fromkeys(said)))


def _unknown_functions(tree: exp.Expr) -> list[str]:
    return sorted({function.name for function in tree.find_all(exp.Anonymous, exp.AnonymousAggFunc)})


@contextmanager
def _silent() -> Iterator[None]:
    """The result says what cannot be translated; sqlglot would log it too."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
