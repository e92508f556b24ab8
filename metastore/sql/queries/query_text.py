"""A query as text and tree: the tables that it names, their places in the text, and the versions that it asks for.

Place in the flow: SELECT parses here, and runs the text itself in DuckDB, with each table's name replaced in its place.
The tree is used only to find names and is never printed, so all of DuckDB's syntax passes unchanged. Texts keep their
length, so that errors of DuckDB can be reported at the line and column of the original.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from metastore.duck.duckdb_sql import DuckDbSql
from metastore.duck.missing_functions import way_beside, way_of_calls
from metastore.duck.queries import Failure
from metastore.errors import InvalidRequestError
from metastore.ground.quoting import double_quoted
from metastore.predicates.spark_sql import reason_of
from metastore.sql.queries.lateral_views import lateral_views
from metastore.sql.queries.sampled_percents import sampled_percents
from metastore.sql.queries.table_changes import table_changes
from metastore.sql.queries.version_clauses import RequestedVersion, version_clauses
from metastore.sql.queries.written_values import in_duckdb_values
from metastore.sql.queries.zoned_literals import zoned_literals
from metastore.sql.statement import Statement
from metastore.sql.views.text import ctes_seen_from

_WORD: Final = re.compile(r"\w+")
_LAST_WORD: Final = re.compile(r"\w+\s*$")
_LIKE_COLUMNS: Final = frozenset(
    (
        *("all", "analyze", "asc", "case", "check", "column", "default", "desc", "end", "group", "limit", "offset"),
        *("order", "primary", "references", "table", "to", "user", "using", "when", "window"),
    )
)
"""Reserved words that are good names for columns, so a column was probably meant."""


@dataclass(frozen=True)
class Reference:
    """One place where the query names a table: the parts of the name, and the characters from ``start`` to ``end``."""

    parts: tuple[str, ...]
    start: int
    end: int
    node: exp.Table
    version: RequestedVersion | None = None

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class QueryText:
    """One query. ``tree`` is its syntax tree, whose names know their places in ``text``."""

    statement: Statement
    text: str
    tree: exp.Expr
    references: tuple[Reference, ...]

    @classmethod
    def parse(cls, statement: Statement, check: Callable[[str], None], text: str | None = None) -> QueryText:
        """Returns the query ``statement``; or ``text``, the end of the statement, with its place in the statement.

        ``check`` raises :class:`Failure` for invalid SQL. Raises InvalidRequestError, with line and column.
        """
        tokens = statement.tokens
        text = statement.text if text is None else text
        clauses = list(version_clauses(statement))
        for start, end, new in sorted([*zoned_literals(statement), *sampled_percents(statement)], reverse=True):
            text = _replace_text(text, start, end, new)
        for first, last, _ in clauses:
            text = _replace_text(text, tokens[first].start, tokens[last].end + 1, "")
        for token in reversed(tokens):
            if statement.text[token.start] == "`":
                text = _replace_text(text, token.start, token.end + 1, double_quoted(token.text))
        changes = list(table_changes(statement))
        for start, end, new in [*lateral_views(statement), *((start, end, name) for start, end, name, _ in changes)]:
            text = _replace_text(text, start, end, new)
        text = in_duckdb_values(statement, text)
        try:
            check(text)
        except Failure as failure:
            raise placed_error(statement, text, failure) from failure.__cause__
        tree = _tree(statement, text)
        versions = {tokens[first - 1].end: version for first, _, version in clauses}
        versions.update((start + len(name) - 1, version) for start, _, name, version in changes)
        found = []
        for node in tree.find_all(exp.Table):
            reference = _reference(node, versions)
            if reference is not None:
                found.append(reference)
        if versions:
            stray = next(iter(versions.values()))
            raise statement.error(
                "only tables have versions: move FOR VERSION or FOR TIMESTAMP AS OF to a table", stray.token
            )
        return cls(statement, text, tree, tuple(sorted(found, key=lambda each: each.start)))

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name in the query, in lower case."""
        return frozenset(each.name.lower() for each in self.tree.find_all(exp.Identifier))

    def at(self, reference: Reference) -> AbstractContextManager[None]:
        """Within this context, an error about ``reference`` gets its place in the statement."""
        return self.statement.at(next(token for token in self.statement.tokens if token.start == reference.start))

    def with_names(self, names: Sequence[str], others: Iterable[tuple[tuple[int, int], str]] = ()) -> str:
        """Returns the text with ``names`` in place of the references' names.

        Other text keeps its place if they are short enough. ``others`` are further places, with their replacements.
        """
        spans = {(each.start, each.end): name for each, name in zip(self.references, names, strict=True)}
        spans.update(others)
        spans.update(self._qualifiers())
        text = self.text
        for (start, end), name in sorted(spans.items(), reverse=True):
            text = _replace_text(text, start, end, name)
        return text

    def _qualifiers(self) -> Iterator[tuple[tuple[int, int], str]]:
        """In fully qualified columns (``catalog.schema.table.column``), keep only the table's own name."""
        known = {tuple(part.lower() for part in each.parts) for each in self.references}
        for column in self.tree.find_all(exp.Column):
            parts = [part for part in column.parts if isinstance(part, exp.Identifier)]
            before = tuple(part.name.lower() for part in parts[:-1])
            if len(before) > 1 and before in known and all("start" in part.meta for part in parts):
                yield (parts[0].meta["start"], parts[-2].meta["start"]), ""


def placed_error(statement: Statement, text: str, failure: Failure) -> InvalidRequestError:
    """Returns DuckDB's error in ``text``, made by :meth:`QueryText.with_names`, with its place in ``statement``."""
    if failure.line is None:
        return InvalidRequestError(f"{statement.place(statement.tokens[0])}: {failure.message}")
    line, column = text.split("\n")[failure.line - 1], failure.offset
    left_out = 3 if failure.snippet.startswith("...") else 0  # DuckDB shows a long line in part, without its margin
    column += max(line.find(failure.snippet[left_out:].removesuffix("...")), left_out) - left_out
    hint = _hint(line, column) if failure.message.startswith("syntax error") else ""
    return InvalidRequestError(f"line {failure.line}, column {min(column, len(line)) + 1}: {failure.message}{hint}")


def _hint(line: str, column: int) -> str:
    """Returns what helps if ``column``, or the word before it, is another engine's or a reserved word for a name."""
    if way := way_beside(line, column):
        return f"; {way}"
    before, at = _LAST_WORD.search(line[:column]), _WORD.match(line, column)
    for found in (before, at):
        if found is not None and found[0].strip().lower() in _LIKE_COLUMNS:
            word = found[0].strip()
            return f"; {word} is a reserved word: as the name of a column it needs quotes, {double_quoted(word)}"
    return ""


def _tree(statement: Statement, text: str) -> exp.Expr:
    """The query's tree; InvalidRequestError at the line if sqlglot cannot read it, or it is no single query."""
    try:
        trees = [tree for tree in sqlglot.parse(text, read=DuckDbSql) if tree is not None]
    except ParseError as error:  # DuckDB would understand it
        first: dict[str, Any] = dict(error.errors[0]) if error.errors else {}
        marked = first.get("highlight") or " "
        place = f"line {first.get('line', 1)}, column {max(first.get('col', 1) - len(marked), 0) + 1}"
        way = way_of_calls(text) or f"the tables of the query cannot be determined: {reason_of(first)}"
        raise InvalidRequestError(f"{place}: {way}") from error
    except (SqlglotError, RecursionError) as error:
        place = statement.place(statement.tokens[0])
        raise InvalidRequestError(f"{place}: the tables of the query cannot be determined: {error}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Pivot | exp.Summarize | exp.Values):
        raise statement.error("a query is expected", statement.tokens[0])
    return trees[0]


def _reference(node: exp.Table, versions: dict[int, RequestedVersion]) -> Reference | None:
    """Returns the reference that ``node`` is; None for a function and for a common table expression."""
    if isinstance(node.this, exp.Func | exp.Anonymous):
        return None
    parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
    if not parts or len(parts) != len(node.parts) or not all("start" in part.meta for part in parts):
        return None
    if len(parts) == 1 and parts[0].name.lower() in set(ctes_seen_from(node)):
        return None
    start, last = parts[0].meta["start"], parts[-1].meta["end"]
    return Reference(tuple(part.name for part in parts), start, last + 1, node, versions.pop(last, None))


def _replace_text(text: str, start: int, end: int, new: str) -> str:
    """Returns ``text`` with ``new`` in that place, padded with blanks: the text after it keeps its place."""
    breaks = "\n" * text.count("\n", start, end)
    return text[:start] + new + " " * max(end - start - len(new) - len(breaks), 0) + breaks + text[end:]
