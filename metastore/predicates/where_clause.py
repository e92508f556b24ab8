"""Which conditions of a SELECT apply to the rows of one source before it is joined with others. Pure.

Place in the flow: SELECT passes each table its WHERE, and the scan is pruned by it. Views carry conditions down to
their tables (:mod:`metastore.sql.views.push_down`) by the same rule. The whole query still runs, so a part that is not
understood only costs time and never loses a row.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from metastore.predicates.condition import ARGUMENTS, DUCKDB, Condition, is_understood

_PLAIN_JOINS: Final = {"", "INNER", "CROSS", "SEMI", "ANTI"}


def is_plain(table: exp.Expr, *more: str) -> bool:
    """Whether a table or subquery has only a name, an alias that renames no column, and ``more`` arguments."""
    alias = table.args.get("alias")
    others = {name for name, value in table.args.items() if value} - ARGUMENTS[exp.Table]
    return others <= set(more) and (alias is None or is_understood(alias, exp.TableAlias))


def where_of(tree: exp.Expr, table: exp.Table) -> Condition | str | None:
    """The condition that rows of ``table``, a node of ``tree``, must satisfy to be used; None without a WHERE.

    If the WHERE cannot be applied to the table alone, returns a text with the reason.
    """
    select = table.find_ancestor(exp.Select)
    where = None if select is None else select.args.get("where")
    if select is None or where is None:
        return None
    if not is_understood(select, exp.Select) or tree.find(exp.Pivot) is not None:
        return "the query has a clause that is not supported here, such as a sample or a pivot"
    from_, joins = select.args.get("from_"), select.args.get("joins") or []
    if from_ is None:
        return "the query has no FROM"
    others = [from_.this, *(join.this for join in joins)]
    if not any(other is table for other in others):
        return "the table is not joined by its name"
    if not may_go_first(table, select):
        return "rows of this side of a join may not be dropped before the join"
    alias = table.alias_or_name.lower()
    return Condition(where.this, DUCKDB.text_of(where.this), DUCKDB, alias, alone=len(others) == 1)


def is_inner(join: exp.Join) -> bool:
    """Whether only pairs of rows that satisfy ON are kept, so that ON is as good as a WHERE."""
    return is_understood(join, exp.Join) and not join.side and not join.method and join.kind in {"", "INNER", "CROSS"}


def may_go_first(source: exp.Expr, select: exp.Select) -> bool:
    """Whether rows of ``source``, in the FROM of ``select``, that WHERE drops may be dropped before the joins.

    They may not on the side of an outer join that is filled with nulls. They may not if a join looks for the nearest
    row or counts rows. They may not if a table has more than its name, such as the joins of a FROM that comes first.
    """
    from_, joins = select.args.get("from_"), select.args.get("joins") or []
    others = [*([] if from_ is None else [from_.this]), *(join.this for join in joins)]
    if not is_plain(source):
        return False
    names = [other.alias_or_name.lower() for other in others]
    if names.count(source.alias_or_name.lower()) > 1 or any(other.args.get("joins") for other in others):
        return False
    for join in joins:
        if not is_understood(join, exp.Join):
            return False
        if join.method not in {"", "NATURAL"} or (join.kind or "") not in _PLAIN_JOINS:
            return False
        if join.side and (join.side != "LEFT" or join.this is source):
            return False
    return True
