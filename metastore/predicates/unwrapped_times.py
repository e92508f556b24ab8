"""Functions of days and times, as conditions on the column: the day, the year, truncation, and moved times.

``date(ts) = DATE '2024-01-05'`` holds between two midnights. Bounds are local times. For a column in UTC, they are in
the session's zone, and are widened near a change of clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Final

from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, Or
from sqlglot import exp

from metastore.predicates.calendar_units import UNITS, later, next_start, start_of, steps_of, unit_named
from metastore.predicates.columns import PredicateColumn
from metastore.predicates.condition import SPARK
from metastore.predicates.constants import NotConstant
from metastore.predicates.function_of_column import Comparison, Context, constant_comparison
from metastore.predicates.recurring import PARTS
from metastore.predicates.time_spans import Literal, SessionTime
from metastore.predicates.written_times import date_of, timestamp_of


def moved_days(context: Context, column: PredicateColumn, days: int, comparison: Comparison) -> BooleanExpression:
    """The condition for a column of days plus ``days``."""
    day = _day_of(comparison.literal)
    if day is None:
        raise NotConstant("a day that is moved is compared with something else")
    try:
        bound = day - timedelta(days=days)
    except OverflowError as error:
        raise NotConstant("the day is beyond the calendar") from error
    return context.leaves.weaken_to(context.compare(column, comparison.effective, bound, comparison.text))


def unwrap_interval(
    context: Context, column: PredicateColumn, interval: exp.Interval, sign: int, comparison: Comparison
) -> BooleanExpression | None:
    """The condition for a column of times plus ``interval``, or minus it with ``sign`` -1."""
    steps = steps_of(interval)
    if steps is None or steps.months or column.zoned:
        raise NotConstant("only days and hours are taken off again, of times without a zone")
    if column.type.name == "DATE" and not steps.micros:
        return moved_days(context, column, sign * steps.days, comparison)
    moment = comparison.literal
    if isinstance(moment, str):
        moment = timestamp_of(moment)  # type: ignore[assignment]
    if column.type.name != "TIMESTAMP" or not isinstance(moment, datetime) or moment.tzinfo is not None:
        raise NotConstant("a time that is moved is compared with something else")
    try:
        bound = later(moment, steps, -sign)
    except OverflowError as error:
        raise NotConstant("the time is beyond the calendar") from error
    return context.leaves.weaken_to(context.compare(column, comparison.effective, bound, comparison.text))


def of_unit(context: Context, node: exp.Expr, comparison: Comparison) -> BooleanExpression | None:
    """The condition for functions that are constant within a day, year or other unit, and grow with the time."""
    if (of_day := _day(node)) is not None:
        return _within(context, of_day, "DAY", _moment_of(comparison.literal, date_of), comparison)
    if (of_year := _year(node)) is not None:
        year = comparison.literal
        if type(year) is not int or not 1 <= year < 9999:
            raise NotConstant("a year is compared with something other than a whole number of the calendar")
        return _within(context, of_year, "YEAR", datetime(year, 1, 1), comparison)
    if (of_part := _part(node)) is not None:
        return _recurring(context, *of_part, comparison)
    if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
        unit = unit_named(node.text("unit"))
        if unit not in UNITS:
            raise NotConstant("truncated to a unit that is not supported here")
        column = context.column_of(node.this)
        is_day = isinstance(node, exp.DateTrunc) or (column is not None and column.type.name == "DATE")
        moment = _moment_of(comparison.literal, date_of if is_day else timestamp_of)
        # Spark's date_trunc reads a time without a zone as one of the session's.
        in_session = context.dialect is SPARK and isinstance(node, exp.TimestampTrunc)
        return _within(context, node.this, unit, moment, comparison, in_session=in_session)
    return None


def _within(
    context: Context,
    inner: exp.Expr,
    unit: str,
    moment: datetime | None,
    asked: Comparison,
    *,
    in_session: bool = False,
) -> BooleanExpression | None:
    """The condition for ``inner``, truncated to its ``unit``, compared with ``moment``."""
    column = context.column_of(inner)
    if column is None:
        return None
    if column.type.name not in ("DATE", "TIMESTAMP"):
        raise NotConstant(f"a {unit.lower()} of {column.type}, which engines read differently")
    if column.type.name == "DATE" and UNITS.index(unit) < UNITS.index("DAY"):
        unit = "DAY"
    if moment is None:
        raise NotConstant("a time is compared with something that is none to all engines")
    start = start_of(moment, unit)
    try:
        end = next_start(start, unit)
    except OverflowError as error:
        raise NotConstant("the time is beyond the calendar") from error
    exact = start == moment
    operator = asked.effective

    def compare_at(comparison: str, at: datetime) -> BooleanExpression:
        literal: Literal = SessionTime(at) if column.zoned or in_session else at
        return context.compare(column, comparison, at.date() if column.type.name == "DATE" else literal, asked.text)

    if not exact and operator in ("=", "!="):
        return context.leaves.weaken_to(
            AlwaysFalse() if operator == "=" else context.leaves.is_null(column, inverted=True)
        )
    return context.leaves.weaken_to(_of_interval(compare_at, operator, start if exact else end, end))


def _of_interval(
    bound: Callable[[str, datetime], BooleanExpression], operator: str, start: datetime, end: datetime
) -> BooleanExpression:
    """The times whose unit compares as requested with the unit from ``start`` to ``end``."""
    if operator == "=":
        return And(bound(">=", start), bound("<", end))
    if operator == "!=":
        return Or(bound("<", start), bound(">=", end))
    if operator in ("<", ">="):
        return bound(operator, start)
    return bound("<" if operator == "<=" else ">=", end)


def _recurring(context: Context, part: str, inner: exp.Expr, comparison: Comparison) -> BooleanExpression | None:
    """The condition for a month, quarter or day of a month compared with a whole number."""
    column = context.column_of(inner)
    if column is None:
        return None
    if column.type.name not in ("DATE", "TIMESTAMP") or type(comparison.literal) is not int:
        raise NotConstant(f"a {part.lower()} is compared with something other than a whole number, or is of no time")
    every = range(1, PARTS[part].most + 1)
    values = tuple(each for each in every if constant_comparison(each, comparison.effective, comparison.literal))
    if not values:
        return context.leaves.weaken_to(AlwaysFalse())
    return context.leaves.weaken_to(context.leaves.recurs(column, part, values, comparison.text))


_PART_FUNCTIONS: Final[Mapping[type[exp.Expr], str]] = {
    exp.Month: "MONTH",
    exp.Quarter: "QUARTER",
    exp.DayOfMonth: "DAY",
    exp.Day: "DAY",
}


def _part(node: exp.Expr) -> tuple[str, exp.Expr] | None:
    """The calendar part that ``node`` takes, and its argument."""
    name, inner = _PART_FUNCTIONS.get(type(node)), node.this
    if isinstance(node, exp.Extract):
        name, inner = node.name.upper(), node.expression
    elif isinstance(node, exp.Anonymous) and node.name.lower() == "date_part" and len(node.expressions) == 2:
        name, inner = node.expressions[0].name.upper(), node.expressions[1]
    return (name, _day(inner) or inner) if name is not None and name in PARTS else None


def _day(node: exp.Expr) -> exp.Expr | None:
    """The argument if ``node`` is a function for the day, else None."""
    is_cast = isinstance(node, exp.Cast) and node.to.this is exp.DType.DATE
    inner: exp.Expr | None = node.this if is_cast or isinstance(node, (exp.Date, exp.TsOrDsToDate)) else None
    return inner


def _year(node: exp.Expr) -> exp.Expr | None:
    """The argument if ``node`` is a function for the year, else None."""
    inner: exp.Expr | None = None
    if isinstance(node, exp.Year):
        inner = node.this
    elif isinstance(node, exp.Extract) and node.name.upper() == "YEAR":
        inner = node.expression
    elif isinstance(node, exp.Anonymous) and node.name.lower() == "date_part" and len(node.expressions) == 2:
        inner = node.expressions[1] if node.expressions[0].name.lower() == "year" else None
    return None if inner is None else _day(inner) or inner


def _day_of(literal: Literal) -> date | None:
    if isinstance(literal, str):
        return date_of(literal)
    return literal if type(literal) is date else None


def _moment_of(literal: Literal, read: Callable[[str], date | None]) -> datetime | None:
    """The local time of ``literal``, a text by ``read``; None for an instant, and for a value that is no time."""
    if isinstance(literal, SessionTime):
        return literal.local
    if isinstance(literal, str):
        literal = read(literal)  # type: ignore[assignment]
    if isinstance(literal, datetime):
        return literal if literal.tzinfo is None else None
    return datetime.combine(literal, time.min) if type(literal) is date else None
