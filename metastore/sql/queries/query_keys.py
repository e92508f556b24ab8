"""The keys by which tasks deal the rows of a query's tables, as texts for DuckDB.

Place in the flow: :mod:`metastore.sql.tasks.division_choice` asks for the keys of a query whose rows do not pass alone.
They come from DuckDB's syntax tree (:mod:`metastore.duck.row_keys`). Its plan is a second witness: a query with an
operator that is not known is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from metastore.duck.name_scope import Untraced
from metastore.duck.queries import Duck, Failure
from metastore.duck.query_cut import UPPER_TABLE, CutQuery, cut_query
from metastore.duck.query_plans import why_not_by_keys
from metastore.duck.query_tables import QueryTables
from metastore.duck.row_keys import RowKeys
from metastore.duck.row_keys import Share as TracedShare
from metastore.duck.syntax import Node, below
from metastore.duck.top_rows import top_rows
from metastore.ground.quoting import double_quoted
from metastore.sql.queries.divided_query import register
from metastore.sql.queries.select import PreparedQuery, QueryTable, QueryView

_INTEGERS: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
)
_COMMON_TYPES: Final[Mapping[str, frozenset[str]]] = {
    "HUGEINT": _INTEGERS,
    "DOUBLE": frozenset({"FLOAT", "DOUBLE"}),
    "TIMESTAMP": frozenset({"DATE", "TIMESTAMP"}),
}
"""The types in which DuckDB compares values of several types."""

PLACE: Final = "$place"
"""A column of :func:`top_rows_of`: the number of a row."""


def row_keys(prepared: PreparedQuery, divided: Sequence[int]) -> dict[int, str | None]:
    """Returns an expression of equal values for rows that must be in one share, for each of the tables ``divided``.

    None: a row may be in any share. Raises Untraced if the rows cannot be dealt by keys.
    """
    with Duck(plans=True) as duck:
        register(duck, prepared, divided)
        try:
            reason = why_not_by_keys(duck.plan(prepared.text))
            if reason is not None:
                raise Untraced(reason)
            shares = _traced(duck, prepared, divided)
            return {number: text for share in shares for number, text in _texts(duck, prepared, share).items()}
        except Failure as failure:
            raise Untraced("DuckDB does not evaluate its keys alone") from failure


@dataclass(frozen=True)
class Halves:
    """Texts of a query that is cut in two: ``lower`` has rows of ``columns``; ``upper`` reads them as a table.

    ``key`` has equal values for rows that the upper query compares.
    """

    lower: str
    upper: str
    columns: pa.Schema
    key: str


def halves(prepared: PreparedQuery) -> Halves:
    """Returns a query in two. Raises Untraced if it cannot be cut, or if rows would change their types between them."""
    with Duck(plans=True) as duck:
        register(duck, prepared, ())
        try:
            tree, source = _tree(duck, prepared.text), _tree(duck, f"FROM _1.{UPPER_TABLE}")
            cut = cut_query(tree, _tables(duck, prepared, ()), source["from_table"])
            lower, upper = duck.query_text(cut.lower), duck.query_text(cut.upper)
            (columns, types), (_, whole) = duck.columns(lower), duck.columns(prepared.text)
            return Halves(lower, upper, columns, _upper_key(cut, upper, columns, (types, whole)))
        except Failure as failure:
            raise Untraced("DuckDB does not evaluate a half of it") from failure


def _upper_key(cut: CutQuery, upper: str, columns: pa.Schema, types: tuple[list[str], list[str]]) -> str:
    with Duck(plans=True) as duck:
        again = duck.add(UPPER_TABLE, columns, lambda: iter(()))
        if (duck.columns(f"FROM {again}")[1], duck.columns(upper)[1]) != types:
            raise Untraced("a type would change between two tasks")
        reason = why_not_by_keys(duck.plan(upper))
        if reason is not None:
            raise Untraced(reason)
        tables = QueryTables({_schema_of(0): cut.names}, {}, frozenset({_schema_of(0)}), duck.aggregates())
        [share] = RowKeys(tables).shares(cut.upper)
        [keys] = share.values()
        if not keys:
            raise Untraced("it compares no rows")
        return ", ".join(f"TRY({text})" for text in duck.texts(keys))


def top_rows_of(prepared: PreparedQuery, number: int) -> str | None:
    """Returns a query for the places of the first rows by ORDER BY and LIMIT, over the table ``number`` alone.

    The rows of the whole query are among these rows of any parts of the table. None: all rows are needed.
    """
    with Duck() as duck:
        register(duck, prepared, ())
        tree = duck.tree(prepared.text)
        found = None if tree is None else top_rows(tree, _schema_of(number), PLACE, duck.aggregates())
        return None if found is None else duck.query_text(found)


def _traced(duck: Duck, prepared: PreparedQuery, divided: Sequence[int]) -> list[TracedShare]:
    return RowKeys(_tables(duck, prepared, divided)).shares(_tree(duck, prepared.text))


def _tree(duck: Duck, text: str) -> Node:
    """Returns the syntax tree of a query. Raises Untraced if DuckDB does not show it, and for a collation.

    Texts that a collation holds equal may have different hashes where only one side of a comparison names it, and a
    column's collation is lost between two tasks.
    """
    tree = duck.tree(text)
    if tree is None:
        raise Untraced("DuckDB shows no syntax tree of the query")
    if any(each.get("class") == "COLLATE" for each in below(tree)):
        raise Untraced("a collation compares the rows")
    return tree


def _tables(duck: Duck, prepared: PreparedQuery, divided: Sequence[int]) -> QueryTables:
    columns: dict[str, Sequence[str]] = {}
    views = {}
    for number, each in enumerate(prepared.registered):
        if isinstance(each, QueryTable):
            columns[_schema_of(number)] = each.asked.columns
        else:
            views[_schema_of(number)] = _tree(duck, each.text)
    return QueryTables(columns, views, frozenset(map(_schema_of, divided)), duck.aggregates())


def _texts(duck: Duck, prepared: PreparedQuery, share: TracedShare) -> dict[int, str | None]:
    """Returns the key of each table of a share. Raises Untraced if equal values may have keys of different types."""
    keys = {_number_of(schema): duck.texts(expressions) for schema, expressions in share.items()}
    types: dict[int, list[str]] = {}
    for number, texts in keys.items():
        table = prepared.registered[number]
        assert not isinstance(table, QueryView)
        tried = ", ".join(f"TRY({text})" for text in texts)
        place = f"{_schema_of(number)}.{double_quoted(table.name)}"
        types[number] = duck.columns(f"FROM {place} SELECT {tried}")[1] if texts else []
    casts = [_common(kinds) for kinds in zip(*types.values(), strict=True)]
    made: dict[int, str | None] = {}
    for number, texts in keys.items():
        cast = [f"TRY(CAST({text} AS {kind}))" for text, kind in zip(texts, casts, strict=True)]
        made[number] = ", ".join(cast) or None
    return made


def _common(kinds: Sequence[str]) -> str:
    first = kinds[0]
    if all(each == first for each in kinds):
        return first
    for common, family in _COMMON_TYPES.items():
        if family.issuperset(kinds):
            return common
    raise Untraced(f"a key has the types {', '.join(sorted(set(kinds)))}")


def _schema_of(number: int) -> str:
    return f"_{number + 1}"


def _number_of(schema: str) -> int:
    return int(schema[1:]) - 1
