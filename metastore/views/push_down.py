"""What a query asks of each table alone: conditions that a scan may be pruned by. Pure.

Place in the flow: an engine that is given a scan for each table of an expanded query gives the scans these conditions,
and runs the query as it is. A condition is taken only where leaving rows out cannot change the answer: it stands in
the WHERE or ON of a SELECT that joins its table by inner joins at most, and speaks of no other table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.pushdown_predicates import pushdown_predicates

from metastore.model.tuple_schema import TupleSchema
from metastore.views.binding import Bound
from metastore.views.incremental import is_steady
from metastore.views.text import DEFAULT_DIALECT


def conditions(bound: Bound, schema_of: Mapping[str, TupleSchema]) -> dict[str, str]:
    """For each table of ``bound``, by its key, a Spark SQL predicate that all rows it needs satisfy; none for some.

    ``schema_of`` has the tables' columns by key.
    """
    if any(_says_more(each) for each in bound.query.find_all(exp.Table, exp.Subquery)):
        return {}
    try:
        query = pushdown_predicates(bound.query.copy(), dialect=DEFAULT_DIALECT)
    except SqlglotError:  # conditions are for speed: without them the answer is the same
        query = bound.query
    found: dict[str, str] = {}
    for select in query.find_all(exp.Select):
        joins = select.args.get("joins") or ()
        if any(join.side or join.kind not in ("", "INNER", "CROSS") for join in joins):
            continue
        where = select.args.get("where")
        asked = [each for each in (where and where.this, *(join.args.get("on") for join in joins)) if each is not None]
        parts = [part for each in asked for part in (each.flatten() if isinstance(each, exp.And) else (each,))]
        for alias, key in _tables(select):
            if key not in schema_of:  # a common table expression
                continue
            spelled = {column.name.lower(): column.name for column in schema_of[key].columns}
            own = [f"({_plain(part, spelled)})" for part in parts if _speaks_of(part, alias, spelled)]
            if own:
                found[key] = " AND ".join(own)
    return found


def _says_more(source: exp.Expr) -> bool:
    """Whether more than a name hangs on a table or subquery: the joins of a FROM that comes first, samples, pivots.

    Or names for the columns of a table, by their places.
    """
    alias = source.args.get("alias")
    renames = isinstance(source, exp.Table) and isinstance(alias, exp.TableAlias) and bool(alias.columns)
    return renames or any(source.args.get(name) for name in ("joins", "laterals", "pivots", "sample"))


def _tables(select: exp.Select) -> Iterator[tuple[str, str]]:
    """Aliases and keys of the tables that ``select`` itself reads."""
    from_ = select.args.get("from_")
    for clause in ([from_] if from_ is not None else []) + list(select.args.get("joins") or ()):
        if isinstance(clause.this, exp.Table):
            yield clause.this.alias_or_name, clause.this.name


def _speaks_of(condition: exp.Expr, alias: str, spelled: Mapping[str, str]) -> bool:
    columns = list(condition.find_all(exp.Column))
    if not columns or condition.find(exp.Query, exp.AggFunc, exp.Window) or not is_steady(condition):
        return False
    return all(column.table == alias and column.name in spelled for column in columns)


def _plain(condition: exp.Expr, spelled: Mapping[str, str]) -> str:
    """``condition`` as Spark SQL over the table's own columns."""
    plain = condition.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
        column.set("this", exp.to_identifier(spelled[column.name], quoted=True))
    return plain.sql(DEFAULT_DIALECT)
