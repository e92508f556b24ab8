"""Moves conditions on the keys of a GROUP BY into the WHERE of the grouped SELECT. Pure functions.

Place in the flow: :mod:`metastore.sql.views.push_down` looks for conditions on tables. sqlglot pushes no condition into
a grouped SELECT, so without this module a condition on a grouping view would prune nothing. All rows of a group have
the same key. So a condition on keys alone keeps or drops whole groups, and may be tested before the grouping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from metastore.model.tuple_schema import TupleSchema
from metastore.predicates.where_clause import may_go_first

_STEPS: Final = (
    exp.Cast,
    exp.Column,
    exp.DataType,
    exp.Date,
    exp.DateTrunc,
    exp.Identifier,
    exp.Left,
    exp.Literal,
    exp.Lower,
    exp.Month,
    exp.Paren,
    exp.Quarter,
    exp.Substring,
    exp.TimestampTrunc,
    exp.TsOrDsToDate,
    exp.Upper,
    exp.Var,
    exp.Year,
)
"""Expressions allowed in a key. None of them returns a floating-point number: its two zeros form one group."""

_FLOATS: Final = ("FLOAT", "DOUBLE")
_ROWS_AFTERWARDS: Final = ("limit", "offset", "qualify", "distinct", "windows", "laterals", "cluster", "sort")


_Schemas = Mapping[str, TupleSchema]
"""The columns of tables, by their names in the query."""


def below_groups(query: exp.Query, schema_of: _Schemas) -> bool:
    """Move conditions of ``query`` on keys of its grouped SELECTs one level down; return whether any was moved.

    ``schema_of`` has the columns of its tables. A comparison may contain functions of columns.
    """
    scopes = traverse_scope(query)
    references = scopes[-1].ref_count() if scopes else {}
    moved = False
    for scope in reversed(scopes):
        for condition in list(_parts(scope.expression.args.get("where"))):
            inner = _source(scope, condition, references)
            if inner is not None and _move(condition, inner, _named_keys(_alias(condition), inner, schema_of)):
                moved = True
        for condition in list(_parts(scope.expression.args.get("having"))):
            keys = {key.sql(): key for key in _keys(scope, schema_of) if isinstance(key, exp.Column)}
            if _move(condition, scope, keys):
                moved = True
    return moved


def _parts(clause: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yields the conditions that AND joins in a WHERE or HAVING."""
    if clause is not None:
        yield from clause.this.flatten() if isinstance(clause.this, exp.And) else (clause.this,)


def _move(condition: exp.Expr, grouped: Scope, keys: Mapping[str, exp.Expr]) -> bool:
    """Move ``condition`` into the WHERE of ``grouped`` if all its columns are ``keys``, by their SQL."""
    columns = {column.sql() for column in condition.find_all(exp.Column)}
    if not columns or not columns <= keys.keys() or condition.find(exp.Query, exp.AggFunc, exp.Window) is not None:
        return False

    def replace(node: exp.Expr) -> exp.Expr:
        return keys[node.sql()].copy() if isinstance(node, exp.Column) else node

    select = grouped.expression
    assert isinstance(select, exp.Select)
    select.where(condition.transform(replace), copy=False)
    condition.replace(exp.true())
    return True


def _source(scope: Scope, condition: exp.Expr, references: Mapping[int, int]) -> Scope | None:
    """Returns the SELECT whose columns ``condition`` of ``scope`` tests, if its rows may be dropped first, or None."""
    names = {column.table for column in condition.find_all(exp.Column)}
    around = scope.expression
    if len(names) != 1 or not isinstance(around, exp.Select):
        return None
    node, source = scope.selected_sources.get(names.pop(), (None, None))
    if not isinstance(source, Scope) or references.get(id(source), 0) > 1 or not _may_go_first(node, around):
        return None
    select = source.expression
    is_plain = isinstance(select, exp.Select) and not any(select.args.get(name) for name in _ROWS_AFTERWARDS)
    return source if is_plain and select.find(exp.Window, exp.UDTF) is None else None


def _may_go_first(node: exp.Expr | None, around: exp.Select) -> bool:
    joined = None if node is None else node.find_ancestor(exp.From, exp.Join)
    return joined is not None and may_go_first(joined.this, around)


def _keys(scope: Scope, schema_of: _Schemas) -> list[exp.Expr]:
    """Returns the keys of a plain GROUP BY; none for grouping sets, ``GROUP BY ALL``, or without grouping."""
    group = scope.expression.args.get("group")
    if group is None or any(value for name, value in group.args.items() if name != "expressions"):
        return []
    return [key for key in group.expressions if _has_one_form(key, scope, schema_of)]


def _alias(condition: exp.Expr) -> str:
    """Returns the qualifier that all columns of ``condition`` share."""
    return next(column.table for column in condition.find_all(exp.Column))


def _named_keys(alias: str, scope: Scope, schema_of: _Schemas) -> dict[str, exp.Expr]:
    """Returns the keys among the columns of a grouped SELECT, by the SQL of the outer columns of ``alias``."""
    keys, select = {key.sql() for key in _keys(scope, schema_of)}, scope.expression
    assert isinstance(select, exp.Select)
    named = {column.alias_or_name: column.unalias() for column in select.selects}
    return {exp.column(name, alias, quoted=True).sql(): value for name, value in named.items() if value.sql() in keys}


def _has_one_form(key: exp.Expr, scope: Scope, schema_of: _Schemas) -> bool:
    """Returns whether equal values of ``key`` are identical. Floating-point zeros are not: ``0.0`` equals ``-0.0``."""
    for node in key.walk():
        if not isinstance(node, _STEPS) or (isinstance(node, exp.DataType) and node.this.value in _FLOATS):
            return False
        if isinstance(node, exp.Column) and not _is_exact(node, scope, schema_of):
            return False
    return True


def _is_exact(column: exp.Column, scope: Scope, schema_of: _Schemas) -> bool:
    """Returns whether ``column`` has no floating-point numbers, in a table or in the expression that makes it."""
    source = scope.sources.get(column.table)
    if isinstance(source, exp.Table):
        known = {each.name.lower(): each.type for each in getattr(schema_of.get(source.name), "columns", ())}
        type_ = known.get(column.name)
        return type_ is not None and not any(name in type_ for name in _FLOATS)
    if not isinstance(source, Scope) or not isinstance(source.expression, exp.Select):
        return False
    made = [each.unalias() for each in source.expression.selects if each.alias_or_name == column.name]
    return len(made) == 1 and _has_one_form(made[0], source, schema_of)
