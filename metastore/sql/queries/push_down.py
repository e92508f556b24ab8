"""The columns of one table that a query needs, and a condition on its rows. Pure.

Both may be too wide but never too narrow: every column that the query may need is included, and every row that it needs
satisfies the condition (:mod:`metastore.predicates.where_clause`). DuckDB still runs the whole query, so an expression
that is not understood here costs time but loses no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysFalse,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    NotEqualTo,
    NotNull,
    NotStartsWith,
    Or,
    SetPredicate,
    StartsWith,
    UnaryPredicate,
    UnboundPredicate,
)
from sqlglot import exp

from metastore.ground.quoting import text_constant
from metastore.model.column_path import parse
from metastore.predicates.condition import AllOf, Condition
from metastore.predicates.literals import plain_literal
from metastore.predicates.where_clause import is_plain, where_of
from metastore.scan.pruning.asked_row_ids import reason_without_ids, row_ids_in
from metastore.sql.queries.query_text import QueryText, Reference


@dataclass(frozen=True)
class AskedRows:
    """The part of a table that a query reads: ``columns``, and the rows that satisfy ``condition`` (None: all rows).

    ``why_all`` is the reason if the query has a WHERE that cannot be applied to the table. ``row_ids``: each row has
    one of these ids; None if the query does not restrict them. ``why_no_ids`` is the reason if the query names ids that
    cannot be used.
    """

    columns: tuple[str, ...]
    condition: Condition | AllOf | None = None
    why_all: str = ""
    row_ids: Sequence[bytes] | None = None
    why_no_ids: str | None = None


def asked_of(query: QueryText, reference: Reference, schema: pa.Schema) -> AskedRows:
    """Returns the part of the table at ``reference``, with the columns ``schema``, that ``query`` needs."""
    columns, where = _columns(query, reference, schema), where_of(query.tree, reference.node)
    if isinstance(where, str) or where is None:
        return AskedRows(columns, why_all=where or "")
    ids = row_ids_in(where)
    return AskedRows(columns, where, row_ids=ids, why_no_ids=None if ids is not None else reason_without_ids(where))


_SIGNS: Final[Mapping[type[BooleanExpression], str]] = {
    EqualTo: "=",
    NotEqualTo: "<>",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}
_TESTS: Final[Mapping[type[BooleanExpression], str]] = {
    IsNull: "IS NULL",
    NotNull: "IS NOT NULL",
    IsNaN: "IS NAN",
}


def condition_text(condition: BooleanExpression) -> str:
    """Returns a condition as SQL, for people."""
    match condition:
        case And():
            return f"{condition_text(condition.left)} AND {condition_text(condition.right)}"
        case Or():
            return f"({condition_text(condition.left)} OR {condition_text(condition.right)})"
        case UnaryPredicate():
            return f"{_name(condition)} {_TESTS[type(condition)]}"
        case SetPredicate():
            values = ", ".join(sorted(_text(plain_literal(each, zoned=False)) for each in condition.literals))
            return f"{_name(condition)} {'IN' if isinstance(condition, In) else 'NOT IN'} ({values})"
        case NotStartsWith():
            return f"{_name(condition)} NOT LIKE {_text(f'{condition.literal.value}%')}"
        case StartsWith():
            return f"{_name(condition)} LIKE {_text(f'{condition.literal.value}%')}"
        case LiteralPredicate():
            return (
                f"{_name(condition)} {_SIGNS[type(condition)]} {_text(plain_literal(condition.literal, zoned=False))}"
            )
    return "FALSE" if isinstance(condition, AlwaysFalse) else "TRUE"


def _name(test: UnboundPredicate) -> str:
    name = str(getattr(test.term, "name", test.term))
    return ".".join(parse(name)) if name.startswith("`") else name


def _text(value: Any) -> str:
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    return text_constant(text) if isinstance(value, (str, date, time)) else text


def _columns(query: QueryText, reference: Reference, schema: pa.Schema) -> tuple[str, ...]:
    """Returns the columns whose names occur anywhere in the query; all columns if the query may use unnamed ones."""
    select = reference.node.find_ancestor(exp.Select)
    if select is None or _means_all(query, reference, select):
        return tuple(schema.names)
    return tuple(name for name in schema.names if name.lower() in query.names) or _cheapest(schema)


def _means_all(query: QueryText, reference: Reference, select: exp.Select) -> bool:
    if not select.expressions or any(_takes_all(each) for each in select.expressions):
        return True
    if not is_plain(reference.node, "joins", "sample") or any(join.method for join in query.tree.find_all(exp.Join)):
        return True
    # COLUMNS('…') selects columns by a pattern, #1 by their number, and a pivot uses columns that it does not name.
    if query.tree.find(exp.Columns, exp.PositionalColumn, exp.Pivot) is not None or any(_find_renamed(query.tree)):
        return True
    # The name of the table alone means its whole row, and so does its name with a star.
    alias = reference.node.alias_or_name.lower()
    columns = query.tree.find_all(exp.Column)
    return any((each.table if isinstance(each.this, exp.Star) else _bare(each)).lower() == alias for each in columns)


def _bare(column: exp.Column) -> str:
    """Returns the name if it is unqualified."""
    return "" if column.table else column.name


def _find_renamed(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Returns tables, and joins of tables in brackets, whose columns are renamed by position. Functions are none."""
    for alias in tree.find_all(exp.TableAlias):
        what = alias.parent
        if (
            alias.columns
            and isinstance(what, exp.Table | exp.Subquery)
            and not isinstance(what.this, exp.Query | exp.Func)
        ):
            yield what


def _takes_all(projection: exp.Expr) -> bool:
    return any(not isinstance(star.parent, exp.Count) for star in projection.find_all(exp.Star))


def _cheapest(schema: pa.Schema) -> tuple[str, ...]:
    """Returns one column to count rows by; a column of fixed width needs the fewest bytes."""
    fixed = [field.name for field in schema if pa.types.is_primitive(field.type)]
    return (*fixed, *schema.names)[:1]
