"""Conditions of a query on each single table, by which the table's scan may be pruned. Pure.

Place in the flow: an engine that has a scan for each table of an expanded query passes these conditions to the scans,
and runs the query unchanged. A condition is used only if leaving rows out cannot change the result: it uses no other
table, and :mod:`metastore.predicates.where_clause` lets it go before the joins.

sqlglot pushes conditions down, but rewrites them on the way: ``i < -1`` for ``i + 1 < 0``, which has other rows if
integers overflow. So each comparison is hidden from sqlglot behind a function of its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.pushdown_predicates import pushdown_predicates

from metastore.model.tuple_schema import TupleSchema
from metastore.predicates.condition import SPARK
from metastore.predicates.where_clause import is_inner, may_go_first
from metastore.sql.views.binding import ResolvedQuery
from metastore.sql.views.group_keys import below_groups
from metastore.sql.views.incremental import is_steady
from metastore.sql.views.text import DEFAULT_DIALECT

_SEALED: Final = "metastore_sealed"
_STRUCTURE: Final = (exp.And, exp.Or, exp.Not, exp.Paren)


def conditions(bound: ResolvedQuery, schema_of: Mapping[str, TupleSchema]) -> dict[str, str]:
    """Returns, for each table of ``bound``, by key, a Spark SQL predicate that all needed rows satisfy; some have none.

    ``schema_of`` holds the tables' columns by key.
    """
    found = asked_of_tables(bound, schema_of)
    return {key: " AND ".join(f"({SPARK.text_of(part)})" for part in parts) for key, parts in found.items()}


def asked_of_tables(bound: ResolvedQuery, schema_of: Mapping[str, TupleSchema]) -> dict[str, list[exp.Expr]]:
    """Returns the same as trees over each table's own columns; all of them must hold."""
    if any(_says_more(each) for each in bound.query.find_all(exp.Table, exp.Subquery)):
        return {}
    sealed = _SealedComparisons()
    try:
        pushed = pushdown_predicates(sealed.of(bound.query), dialect=DEFAULT_DIALECT)
        while below_groups(pushed, schema_of):
            pushed = pushdown_predicates(pushed, dialect=DEFAULT_DIALECT)
        query = sealed.unseal(pushed)
    except SqlglotError:  # conditions only save time: without them the result is the same
        query = bound.query
    found: dict[str, list[exp.Expr]] = {}
    for select in query.find_all(exp.Select):
        where = select.args.get("where")
        inner = [join.args.get("on") for join in select.args.get("joins") or () if is_inner(join)]
        asked = [each for each in (where and where.this, *inner) if each is not None]
        parts = [part for each in asked for part in (each.flatten() if isinstance(each, exp.And) else (each,))]
        for table in _tables(select):
            alias, key = table.alias_or_name, table.name
            if key not in schema_of or not may_go_first(table, select):  # a common table expression, or an outer join
                continue
            spelled = {column.name.lower(): column.name for column in schema_of[key].columns}
            own = [_unqualify(part, spelled) for part in parts if _speaks_of(part, alias, spelled)]
            if own:
                found[key] = own
    return found


@dataclass
class _SealedComparisons:
    """The comparisons of a query, each hidden behind a function of its columns and subqueries."""

    kept: list[exp.Expr] = field(default_factory=list)

    def of(self, query: exp.Query) -> exp.Query:
        """Returns a copy of ``query`` with the comparisons of every WHERE, HAVING and ON hidden."""
        tree = query.copy()
        for clause in list(tree.find_all(exp.Where, exp.Having, exp.Join)):
            condition = clause.args.get("on") if isinstance(clause, exp.Join) else clause.this
            for leaf in [] if condition is None else list(_leaves(condition)):
                parts = [exp.Literal.number(len(self.kept)), *_parts(leaf)]
                self.kept.append(leaf.copy())
                # Parts are moved, not copied: the clauses of their subqueries are hidden later.
                leaf.replace(function := exp.Anonymous(this=_SEALED))
                function.set("expressions", parts)
        return tree

    def unseal(self, query: exp.Query) -> exp.Query:
        """Returns ``query`` with its comparisons restored, over the current meaning of their columns."""
        # Bottom-up: a subquery within a comparison may hold others.
        for function in reversed([each for each in query.find_all(exp.Anonymous) if each.name == _SEALED]):
            number, *parts = function.expressions
            leaf = exp.Paren(this=self.kept[int(number.name)].copy())
            for part, now in zip(list(_parts(leaf)), parts, strict=True):
                part.replace(now if isinstance(now, (exp.Column, exp.Query)) else exp.paren(now))
            function.replace(leaf.this)
        return query


def _leaves(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Yields the operands that AND, OR and NOT combine to ``condition``."""
    return (node for node in condition.walk(prune=_is_leaf) if _is_leaf(node))


def _is_leaf(node: exp.Expr) -> bool:
    return not isinstance(node, _STRUCTURE)


def _parts(leaf: exp.Expr) -> Iterator[exp.Expr]:
    """Yields the columns and subqueries of ``leaf``, except those within a subquery."""
    return (node for node in leaf.walk(prune=_is_part) if _is_part(node))


def _is_part(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Column, exp.Query))


def _says_more(source: exp.Expr) -> bool:
    """Whether a table or subquery has more than a name: joins in brackets, laterals, samples, pivots, column names."""
    alias = source.args.get("alias")
    renames = isinstance(source, exp.Table) and isinstance(alias, exp.TableAlias) and bool(alias.columns)
    return renames or any(source.args.get(name) for name in ("joins", "laterals", "pivots", "sample"))


def _tables(select: exp.Select) -> Iterator[exp.Table]:
    """Yields the tables that ``select`` itself reads."""
    from_ = select.args.get("from_")
    for clause in ([from_] if from_ is not None else []) + list(select.args.get("joins") or ()):
        if isinstance(clause.this, exp.Table):
            yield clause.this


def _speaks_of(condition: exp.Expr, alias: str, spelled: Mapping[str, str]) -> bool:
    columns = list(condition.find_all(exp.Column))
    if not columns or condition.find(exp.Query, exp.AggFunc, exp.Window) or not is_steady(condition):
        return False
    return all(column.table == alias and column.name in spelled for column in columns)


def _unqualify(condition: exp.Expr, spelled: Mapping[str, str]) -> exp.Expr:
    """Returns ``condition`` over the table's own columns."""
    plain: exp.Expr = condition.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
        column.set("this", exp.to_identifier(spelled[column.name], quoted=True))
    return plain
