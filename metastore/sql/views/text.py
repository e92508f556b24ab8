"""Parses a query and finds places in its text. Only this module handles sqlglot's parser errors.

A query keeps the positions of its names until it is printed, so later errors can still name line and column. Text from
a longer statement is padded, so that positions are the statement's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError

from metastore.errors import InvalidRequestError
from metastore.predicates.spark_sql import SparkSql, reason_of

DEFAULT_DIALECT: Final = "spark"
"""The SQL dialect of views that do not name another; predicates and Spark use the same."""

_NOT_SPACE: Final = re.compile(r"[^\n]")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def require_dialect(name: str) -> str:
    """Returns ``name`` in lower case. Raises InvalidRequestError, with all names, if sqlglot has no such dialect."""
    known = sqlglot.Dialects.__members__.values()
    if name.lower() not in {dialect.value for dialect in known if dialect.value}:
        names = ", ".join(sorted(dialect.value for dialect in known if dialect.value))
        raise InvalidRequestError(f"there is no SQL dialect {name!r}; the dialects are {names}")
    return name.lower()


def pad_to_place(text: str, start: int, end: int | None = None) -> str:
    """Returns only ``text`` from ``start`` to ``end``, padded so that its lines and columns stay the same."""
    return _NOT_SPACE.sub(" ", text[:start]) + text[start:end]


def parse_query(text: str, dialect: str = DEFAULT_DIALECT) -> exp.Query:
    """Returns the one query in ``text``. Raises InvalidRequestError, with line and column, for anything else."""
    try:
        statements = [statement for statement in sqlglot.parse(text, read=_reader(dialect)) if statement is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        message = reason_of(first or {"description": error})
        near = f" near {first['highlight']!r}" if first.get("highlight") else ""
        column = first["col"] - len(first.get("highlight") or " ") + 1 if first.get("line") else 0
        place = f"line {first['line']}, column {column}: " if column else ""
        raise InvalidRequestError(f"{place}cannot read the SQL ({dialect}){near}: {message}") from error
    except TokenError as error:
        message = _COLOURS.sub("", str(error)).partition("\n")[0]
        raise InvalidRequestError(f"cannot read the SQL ({dialect}): {message}; is a quote not closed?") from error
    except SqlglotError as error:
        raise InvalidRequestError(f"cannot read the SQL ({dialect}): {error}") from error
    except RecursionError as error:
        raise InvalidRequestError(f"cannot read the SQL ({dialect}): it is nested too deeply") from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise InvalidRequestError("one query is expected: SELECT …, or WITH … SELECT …")
    return statements[0]


def _reader(dialect: str) -> str | type[SparkSql]:
    return SparkSql if dialect == DEFAULT_DIALECT else dialect


def place_of(node: exp.Expr) -> str:
    """Returns ``line L, column C: `` of the first name in ``node``, as the start of a message.

    Empty if it is not known.
    """
    found = min((at for identifier in node.find_all(exp.Identifier) if (at := _start(identifier))), default=None)
    return f"line {found[0]}, column {found[1]}: " if found else ""


def identifier_at(query: exp.Expr, line: int, last_column: int) -> exp.Identifier | None:
    """Returns the name in ``query`` whose last character is at that place."""
    for identifier in query.find_all(exp.Identifier):
        if (identifier.meta.get("line"), identifier.meta.get("col")) == (line, last_column):
            return identifier
    return None


def ctes_seen_from(table: exp.Table) -> Iterator[str]:
    """Returns the names, in lower case, of the common table expressions that a name at ``table``'s place can mean."""
    inside: exp.Expr = table
    while (parent := inside.parent) is not None:
        if isinstance(parent, exp.Query):
            with_ = next((node for node in parent.args.values() if isinstance(node, exp.With)), None)
            for cte in with_.expressions if with_ is not None and with_ is not inside else ():
                yield cte.alias.lower()
        elif isinstance(parent, exp.With):
            # Within a WITH only earlier expressions are visible; with RECURSIVE, also the expression itself.
            for cte in parent.expressions:
                if cte is inside:
                    if parent.recursive:
                        yield cte.alias.lower()
                    break
                yield cte.alias.lower()
        inside = parent


def _start(identifier: exp.Identifier) -> tuple[int, int] | None:
    meta = identifier.meta
    if "line" not in meta:
        return None
    # sqlglot keeps the column of the last character.
    return meta["line"], meta["col"] - (meta["end"] - meta["start"])
