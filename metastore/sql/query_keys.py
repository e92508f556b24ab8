"""The keys by which tasks deal the rows of a query's tables, as texts for DuckDB.

Place in the flow: :mod:`metastore.sql.division_choice` asks for the keys of a query whose rows do not pass alone. They
come from DuckDB's syntax tree (:mod:`metastore.duck.row_keys`). Its plan is a second witness: a query with an operator
that is not known is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from metastore.duck.name_scope import Untraced
from metastore.duck.queries import Duck, Failure
from metastore.duck.query_plans import why_not_by_keys
from metastore.duck.query_tables import QueryTables
from metastore.duck.row_keys import RowKeys
from metastore.duck.row_keys import Share as TracedShare
from metastore.duck.top_rows import top_rows
from metastore.quoting import double_quoted
from metastore.sql.divided_query import register
from metastore.sql.select import PreparedQuery, QueryTable, QueryView

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
    columns: dict[str, Sequence[str]] = {}
    views = {}
    for number, each in enumerate(prepared.registered):
        if isinstance(each, QueryTable):
            columns[_schema_of(number)] = each.asked.columns
        elif (view := duck.tree(each.text)) is not None:
            views[_schema_of(number)] = view
    tree = duck.tree(prepared.text)
    if tree is None:
        raise Untraced("DuckDB shows no syntax tree of the query")
    tables = QueryTables(columns, views, frozenset(map(_schema_of, divided)), duck.aggregates())
    return RowKeys(tables).shares(tree)


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
