"""Which queries can be refreshed by reading new files only, and how. Pure.

Place in the flow: refresh passes the bound query of a materialized view; this module returns one of three methods.

- :class:`Rowwise`: a projection and filter of one table. The rows of new files are added to the existing rows.
- :class:`IncrementalState`: mergeable aggregates of one table, kept as partial results (the "state"). The state of new
  files is merged with the existing state, and the rows are computed from the merged state.
- :class:`FullRefresh`: every other query, with the reason.

Promise: for any split of a table into files, both ways of refreshing give the same rows, while the types of its columns
stay the same (refresh checks that). Only sums and averages of floating-point numbers may differ in the last digits,
because they depend on the order of adding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.merge_subqueries import merge_subqueries

from metastore.model.drill_types import INTEGER_TYPES, parse_type
from metastore.model.tuple_schema import TupleSchema
from metastore.sql.views.binding import ResolvedQuery
from metastore.sql.views.types import UNKNOWN, sum_type, to_sqlglot, type_of

STATE: Final = "metastore_state"
"""The name under which the queries that merge a state, or compute rows from it, read it."""

_UNSTEADY: Final = (exp.Rand, exp.Randn, exp.Uuid, exp.CurrentUser)
_OF_NOTHING: Final = (exp.Count, exp.Array, exp.Map, exp.Struct)
_ROW_BY_ROW: Final = frozenset({"kind", "expressions", "from_", "where"})
_GROUPED: Final = _ROW_BY_ROW | {"group", "having"}


@dataclass(frozen=True)
class Rowwise:
    """``query`` reads ``table`` only; its rows over several files are the rows over each file, together."""

    table: str
    query: exp.Query


@dataclass(frozen=True)
class IncrementalState:
    """``state`` reads ``table``; ``merged`` merges several states into one; ``rows`` computes the rows from a state."""

    table: str
    state: exp.Query
    merged: exp.Query
    rows: exp.Query


@dataclass(frozen=True)
class FullRefresh:
    """``query`` must read everything again, for ``reason``."""

    query: exp.Query
    reason: str


Way = Rowwise | IncrementalState | FullRefresh


class _CannotSplitError(Exception):
    """The reason why a query must read everything."""


def is_steady(query: exp.Expr) -> bool:
    """Whether ``query`` always returns the same rows over the same tables, as far as can be determined."""
    return next(_unsteady(query), None) is None


def way_of(bound: ResolvedQuery, schema_of: Mapping[str, TupleSchema]) -> Way:
    """Returns how ``bound``, an expanded query over tables, can be refreshed.

    ``schema_of`` holds the columns of its tables by key. The queries return the columns of ``bound``, by name.
    """
    names = [column.name for column in bound.columns]
    whole = _with_output_names(bound.query.copy(), names)
    try:
        flat = merge_subqueries(bound.query.copy())
        _require_one_table(flat)
        assert isinstance(flat, exp.Select)
        flat.set("order", None)
        _with_output_names(flat, names)
        if not flat.args.get("group") and not flat.find(exp.AggFunc):
            _require_only(flat, _ROW_BY_ROW)
            return Rowwise(_table(flat).name, flat)
        return _Aggregates(flat, schema_of).way()
    except _CannotSplitError as error:
        return FullRefresh(whole, str(error))
    except SqlglotError as error:
        return FullRefresh(whole, f"the query cannot be taken apart: {error}")


def _unsteady(query: exp.Expr) -> Iterator[exp.Expr]:
    for function in query.find_all(exp.Func):
        if isinstance(function, (*_UNSTEADY, exp.Anonymous, exp.AnonymousAggFunc)):
            yield function
        elif not (isinstance(function, _OF_NOTHING) or isinstance(function.parent, exp.Window) or _arguments(function)):
            # A function without arguments depends on the time or the session; one example is current_date.
            yield function


def _arguments(function: exp.Expr) -> bool:
    return any(isinstance(value, exp.Expr) or (isinstance(value, list) and value) for value in function.args.values())


def _with_output_names(query: exp.Query, names: list[str]) -> exp.Query:
    for item, name in zip(query.selects, names, strict=True):
        item.replace(exp.Alias(this=item.unalias().copy(), alias=exp.to_identifier(name, quoted=True)))
    return query


def _table(select: exp.Select) -> exp.Table:
    table = select.find(exp.Table)
    assert table is not None
    return table


def _require_one_table(query: exp.Expr) -> None:
    """Raises _CannotSplitError with the first reason why new files alone do not decide the rows."""
    if isinstance(query, exp.SetOperation):
        raise _CannotSplitError("it is a set operation")
    if not isinstance(query, exp.Select):
        raise _CannotSplitError("it is no plain SELECT")
    if (unsteady := next(_unsteady(query), None)) is not None:
        raise _CannotSplitError(f"{unsteady.sql()} may return another result each time")
    if query.args.get("joins") or query.args.get("laterals"):
        raise _CannotSplitError("it joins")
    tables = list(query.find_all(exp.Table))
    if len(tables) != 1:
        raise _CannotSplitError("it reads several tables" if tables else "it reads no table")
    if query.find(exp.Subquery, exp.Exists) or len(list(query.find_all(exp.Select))) > 1:
        raise _CannotSplitError("it has a subquery")
    for kind, what in ((exp.Window, "a window"), (exp.TableSample, "a sample"), (exp.UDTF, "a table function")):
        if query.find(kind):
            raise _CannotSplitError(f"it has {what}")
    for part, word in (("distinct", "DISTINCT"), ("limit", "LIMIT"), ("offset", "OFFSET"), ("qualify", "QUALIFY")):
        if query.args.get(part):
            raise _CannotSplitError(f"it has {word}")


def _require_only(select: exp.Select, parts: frozenset[str]) -> None:
    if others := sorted(part for part, value in select.args.items() if value and part not in parts):
        raise _CannotSplitError(f"it has {', '.join(others).upper()}")


class _Aggregates:
    """Splits an aggregating SELECT over one table into partial results."""

    def __init__(self, select: exp.Select, schema_of: Mapping[str, TupleSchema]) -> None:
        _require_only(select, _GROUPED)
        self._select = select
        table = _table(select)
        self._table = table.name
        columns = schema_of[table.name].columns
        self._types = {column.name.lower(): column.type for column in columns}
        group = select.args.get("group")
        others = group is not None and any(value for part, value in group.args.items() if part != "expressions")
        if others or (group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets)):
            raise _CannotSplitError("it has grouping sets")
        self._keys: list[exp.Expr] = list(group.expressions) if group is not None else []
        self._partials: dict[str, tuple[exp.Expr, exp.Expr]] = {}
        """By column of the state: the expression that computes it from rows, and the one that merges it."""
        self._columns: dict[exp.Expr, str] = {}
        """The column that holds each partial result."""

    def way(self) -> IncrementalState:
        """Three queries: partial results of new rows, their merge with those kept, and the view's rows from these."""
        having = self._select.args.get("having")
        items = [self._from_state(item) for item in self._select.selects]
        rows = exp.select(*items).from_(exp.to_table(STATE))
        if having is not None:
            rows = rows.where(self._from_state(having.this))
        keys = {f"k{number}": key for number, key in enumerate(self._keys)}
        state = exp.select(
            *(exp.alias_(key.copy(), name) for name, key in keys.items()),
            *(exp.alias_(made, name) for name, (made, _) in self._partials.items()),
        )
        state.set("from_", self._select.args["from_"].copy())
        if (where := self._select.args.get("where")) is not None:
            state.set("where", where.copy())
        merged = exp.select(
            *(exp.column(name) for name in keys),
            *(exp.alias_(merged, name) for name, (_, merged) in self._partials.items()),
        ).from_(exp.to_table(STATE))
        if keys:
            state = state.group_by(*(key.copy() for key in keys.values()))
            merged = merged.group_by(*(exp.column(name) for name in keys))
        return IncrementalState(self._table, state, merged, rows)

    def _from_state(self, node: exp.Expr) -> exp.Expr:
        """Returns ``node`` with every key and aggregate replaced by columns of the state."""
        for number, key in enumerate(self._keys):
            if node == key:
                return exp.column(f"k{number}")
        if isinstance(node, exp.Filter):
            raise _CannotSplitError(f"{node.sql()} filters within an aggregate")
        if isinstance(node, exp.AggFunc):
            return self._aggregate(node)
        if isinstance(node, exp.Column):
            raise _CannotSplitError(f"{node.name} is neither grouped nor aggregated")
        copy = node.copy()
        for part, value in node.args.items():
            if isinstance(value, list):
                copy.set(part, [self._from_state(each) if isinstance(each, exp.Expr) else each for each in value])
            elif isinstance(value, exp.Expr):
                copy.set(part, self._from_state(value))
        return copy

    def _aggregate(self, node: exp.AggFunc) -> exp.Expr:
        """The aggregate from merged partial results. _CannotSplitError if parts do not say it, or engines differ."""
        argument = node.this
        if isinstance(argument, exp.Distinct) or not isinstance(node, (exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg)):
            raise _CannotSplitError(f"{node.sql()} cannot be merged from parts")
        if node.expressions or (argument is not None and argument.find(exp.AggFunc)):
            raise _CannotSplitError(f"{node.sql()} cannot be merged from parts")
        if isinstance(node, exp.Count):
            return self._count(argument)
        type_ = type_of(argument, lambda column: self._types.get(column.name, UNKNOWN))
        if isinstance(node, (exp.Min, exp.Max)):
            return self._partial(node.copy(), type(node))
        if isinstance(node, exp.Sum):
            total = sum_type(type_)
            if total == UNKNOWN:
                raise _CannotSplitError(f"the type of {argument.sql()} is not known, nor that of its sum")
            return exp.cast(self._sum(argument, type_), to_sqlglot(total))
        if parse_type(type_).name not in INTEGER_TYPES | {"FLOAT", "DOUBLE"}:
            raise _CannotSplitError(f"engines differ on the average of {argument.sql()}, which is {type_}")
        number = exp.func("NULLIF", self._count(argument), exp.Literal.number(0))
        return exp.paren(exp.Div(this=exp.cast(self._sum(argument, type_), exp.DType.DOUBLE), expression=number))

    def _count(self, argument: exp.Expr) -> exp.Expr:
        return self._partial(exp.Count(this=argument.copy(), big_int=True), exp.Sum, exp.DType.BIGINT)

    def _sum(self, argument: exp.Expr, type_: str) -> exp.Expr:
        """Returns a sum in a type that cannot overflow before the result would."""
        parsed = parse_type(type_)
        if parsed.name in ("FLOAT", "DOUBLE"):
            wide = exp.DataType.build("DOUBLE")
        else:
            scale = parsed.arguments[1] if parsed.name == "DECIMAL" else 0
            wide = exp.DataType.build(f"DECIMAL(38, {scale})")
        return self._partial(exp.Sum(this=exp.cast(argument.copy(), wide)), exp.Sum, wide)

    def _partial(
        self, aggregate: exp.Expr, merge: type[exp.AggFunc], type_: exp.DataType | exp.DType | None = None
    ) -> exp.Expr:
        """Returns the state's column for ``aggregate``; ``merge`` merges it, in ``type_`` if engines would widen it."""
        if aggregate in self._columns:
            return exp.column(self._columns[aggregate])
        name = self._columns[aggregate] = f"a{len(self._partials)}"
        merged: exp.Expr = merge(this=exp.column(name))
        if type_ is not None:
            aggregate, merged = exp.cast(aggregate, type_), exp.cast(merged, type_)
        self._partials[name] = (aggregate, merged)
        return exp.column(name)
