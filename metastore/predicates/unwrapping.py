"""Functions of a column that are compared with a constant, as conditions on the column itself.

``date(ts) = DATE '2024-01-05'`` holds for the times of a day, ``left(s, 3) = 'abc'`` for texts with a prefix, ``x + 1 >
5`` for ``x > 4`` and for the numbers that overflow. The rules are Trino's (UnwrapDateTruncInComparison,
UnwrapCastInComparison, UnwrapYearInComparison and others) where they are sound for Spark and DuckDB alike.

What is made follows from what is asked: every row that passes the question passes the condition. A comparison under NOT
is turned round first: each of these functions is NULL for NULL, so that the opposite comparison is the negation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, Or
from sqlglot import exp

from metastore.model.drill_types import INTEGER_TYPES
from metastore.predicates.calendar_units import UNITS, later, next_start, start_of, steps_of, unit_named
from metastore.predicates.columns import PredicateColumn
from metastore.predicates.condition import SPARK, Dialect
from metastore.predicates.constants import Constants, NotConstant
from metastore.predicates.leaves import Leaves
from metastore.predicates.literals import EXACT, Literal, SessionTime
from metastore.predicates.written_times import date_of, timestamp_of

_INVERSE: Final = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INT": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "UINT1": (0, 2**8 - 1),
    "UINT2": (0, 2**16 - 1),
    "UINT4": (0, 2**32 - 1),
    "UINT8": (0, 2**64 - 1),
}
_WIDER: Final[Mapping[exp.DType, frozenset[str]]] = {
    exp.DType.SMALLINT: frozenset({"TINYINT", "SMALLINT"}),
    exp.DType.INT: frozenset({"TINYINT", "SMALLINT", "INT"}),
    exp.DType.BIGINT: frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"}),
    exp.DType.DOUBLE: frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"}),
    exp.DType.TEXT: frozenset({"VARCHAR"}),
    exp.DType.BOOLEAN: frozenset({"BOOLEAN"}),
}
"""Casts that keep every value, by their target: types of columns."""

_MAX_DIGITS: Final = 38


@dataclass(frozen=True)
class Comparison:
    """``… operator literal``, under NOT if ``inverted``; ``text`` is the whole as it was written."""

    operator: str
    literal: Literal
    text: str
    inverted: bool = False

    @property
    def effective(self) -> str:
        """The operator with NOT carried into it."""
        return _INVERSE[self.operator] if self.inverted else self.operator


def constant_comparison(left: Literal, operator: str, right: Literal) -> bool | None:
    """Whether ``left operator right``; None for types that engines may compare differently."""
    numbers = (int, Decimal)
    alike = type(left) is type(right) and type(left) in (int, str, date, bool, Decimal, datetime)
    if not alike and not (type(left) in numbers and type(right) in numbers):
        return None
    one: Any = left
    other: Any = right
    try:
        found: Mapping[str, Callable[[], bool]] = {
            "=": lambda: one == other,
            "!=": lambda: one != other,
            "<": lambda: one < other,
            "<=": lambda: one <= other,
            ">": lambda: one > other,
            ">=": lambda: one >= other,
        }
        return bool(found[operator]())
    except TypeError:  # local times and instants
        return None


@dataclass(frozen=True)
class Unwrapping:
    """Makes conditions of functions; ``column_of`` gives the column that a node is, None for anything else."""

    dialect: Dialect
    column_of: Callable[[exp.Expr], PredicateColumn | None]
    constants: Constants
    leaves: Leaves

    def comparison(self, subject: exp.Expr, asked: Comparison) -> BooleanExpression | None:
        """What ``subject``, a function, and ``asked`` together ask of the column; None where that is not known.

        Raises NotConstant, with the reason, where an argument or the literal is in the way.
        """
        subject = subject.unnest()
        if isinstance(subject, exp.Coalesce):
            return self._coalesce(subject, asked)
        if isinstance(subject, (exp.Add, exp.Sub, exp.Mul, exp.Neg)):
            return self._arithmetic(subject, asked)
        if isinstance(subject, (exp.Left, exp.Substring)):
            return self._prefix(subject, asked)
        if isinstance(subject, exp.Cast) and subject.to.this is not exp.DType.DATE:
            return self._cast(subject, asked)
        return self._unit(subject, asked)

    def test(self, node: exp.Expr, text: str, *, inverted: bool) -> BooleanExpression | None:
        """What ``node``, a function that is true or false, asks of the column; None where that is not known."""
        if isinstance(node, exp.StartsWith):
            column, prefix = self.column_of(node.this), self.constants.value(node.expression)
            if column is None or not isinstance(prefix, str):
                return None
            return self.leaves.start_with(column, prefix, inverted=inverted)
        if isinstance(node, exp.IsNan):
            column = self.column_of(node.this)
            if column is None or column.type.name not in ("FLOAT", "DOUBLE") or inverted:
                return None  # NOT isnan(NULL) is TRUE in Spark, NULL in DuckDB
            return self.leaves.is_nan(column, inverted=False)
        if isinstance(node, exp.Coalesce):
            return self._coalesce(node, Comparison("=", True, text, inverted=inverted))
        if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
            column = self.column_of(node.expressions[0])
            if column is not None and node.name.lower() in ("isnull", "isnotnull"):
                return self.leaves.is_null(column, inverted=inverted is not (node.name.lower() == "isnotnull"))
        return None

    def _compare(self, column: PredicateColumn, operator: str, literal: Literal, text: str) -> BooleanExpression:
        return self.leaves.compare(column, operator, literal, text, inverted=False)

    # Casts that keep every value, and coalesce.

    def _cast(self, node: exp.Cast, asked: Comparison) -> BooleanExpression | None:
        column, kind = self.column_of(node.this), node.to.this
        if column is None:
            return None
        keeps = column.type.name in _WIDER.get(kind, ()) and not node.to.expressions
        if kind is exp.DType.DECIMAL and column.type.name == "DECIMAL" and len(node.to.expressions) == 2:
            precision, scale = (int(each.name) for each in node.to.expressions)
            own_precision, own_scale = column.type.arguments or (_MAX_DIGITS, 0)
            keeps = scale >= own_scale and precision - scale >= own_precision - own_scale
        moments = (*self.dialect.instants, *self.dialect.local_times)
        if kind in moments and column.type.name == "TIMESTAMP":
            keeps = column.zoned is (kind in self.dialect.instants)
        if not keeps:
            raise NotConstant(f"a cast of {column.type} to {node.to.sql(self.dialect.sql)} may change values or fail")
        if kind is exp.DType.DOUBLE and column.type.name in INTEGER_TYPES and type(asked.literal) in (int, Decimal):
            asked = replace(asked, literal=float(asked.literal))  # type: ignore[arg-type]
        found = self.leaves.compare(column, asked.operator, asked.literal, asked.text, inverted=asked.inverted)
        return self.leaves.implied(found)

    def _coalesce(self, node: exp.Coalesce, asked: Comparison) -> BooleanExpression | None:
        column = self.column_of(node.this)
        if column is None or len(node.expressions) != 1:
            return None
        default = self.constants.value(node.expressions[0])
        if default is None or not _is_of_type(column, default):
            raise NotConstant(f"coalesce of {column.type} and another type")
        found = self.leaves.compare(column, asked.operator, asked.literal, asked.text, inverted=asked.inverted)
        # Beside DOUBLE two decimals may round to one number.
        if column.type.name == "DOUBLE" or constant_comparison(default, asked.effective, asked.literal) is not False:
            found = Or(found, self.leaves.is_null(column, inverted=False))
        return self.leaves.implied(found)

    # Numbers.

    def _arithmetic(self, node: exp.Expr, asked: Comparison) -> BooleanExpression | None:
        if isinstance(node, exp.Neg):
            column, constant, column_first = self.column_of(node.this), 0, False
            kind: type[exp.Expr] = exp.Sub
        else:
            kind, column, column_first = type(node), self.column_of(node.this), True
            other = node.expression
            if column is None:
                column, other, column_first = self.column_of(node.expression), node.this, False
            if column is None:
                return None
            if isinstance(other, exp.Interval):
                return self._moved(column, other, -1 if kind is exp.Sub else 1, asked) if column_first else None
            constant = self.constants.value(other)  # type: ignore[assignment]
        if column is None or type(constant) is not int:
            raise NotConstant("arithmetic with other than a whole number may round")
        if column.type.name == "DATE" and column_first and kind is not exp.Mul:
            return self._moved_days(column, constant if kind is exp.Add else -constant, asked)
        if type(asked.literal) not in (int, Decimal) or not -(2**63) <= asked.literal < 2**63:  # type: ignore[operator]
            raise NotConstant(
                "arithmetic that is compared with other than whole or decimal numbers of 64 bits may round"
            )
        if column.type.name == "DECIMAL" and kind is not exp.Mul:
            precision, scale = column.type.arguments or (_MAX_DIGITS, 0)
            if max(precision - scale, len(str(abs(constant)))) + 1 + scale > _MAX_DIGITS:
                raise NotConstant("the sum may have more than 38 digits")
            return self.leaves.implied(self._inverse(column, kind, constant, asked, column_first=column_first))
        if column.type.name not in _LIMITS:
            raise NotConstant(f"arithmetic with {column.type} may round or fail")
        found = self._inverse(column, kind, constant, asked, column_first=column_first)
        return self.leaves.implied(self._or_overflow(column, kind, constant, found, asked, column_first=column_first))

    def _inverse(
        self, column: PredicateColumn, kind: type[exp.Expr], constant: int, asked: Comparison, *, column_first: bool
    ) -> BooleanExpression:
        """The comparison solved for the column, as if no number were too large."""
        operator, literal = asked.effective, Decimal(asked.literal)  # type: ignore[arg-type]
        if kind is exp.Mul:
            return self._divided(column, constant, operator, literal, asked.text)
        if kind is exp.Add:
            bound = EXACT.subtract(literal, Decimal(constant))
        elif column_first:
            bound = EXACT.add(literal, Decimal(constant))
        else:
            bound, operator = EXACT.subtract(Decimal(constant), literal), _MIRRORED[operator]
        return self._compare(column, operator, _whole(bound), asked.text)

    def _divided(
        self, column: PredicateColumn, factor: int, operator: str, literal: Decimal, text: str
    ) -> BooleanExpression:
        if factor == 0:
            raise NotConstant("a product with 0")
        quotient = Fraction(literal) / factor
        operator = _MIRRORED[operator] if factor < 0 else operator
        below = math.floor(quotient)
        exact = quotient.denominator == 1
        if operator == "=" and not exact:
            return AlwaysFalse()
        if operator == "!=" and not exact:
            return self.leaves.is_null(column, inverted=True)
        bound = below if exact or operator in ("<=", ">") else below + 1
        return self._compare(column, operator, bound, text)

    def _or_overflow(
        self,
        column: PredicateColumn,
        kind: type[exp.Expr],
        constant: int,
        found: BooleanExpression,
        asked: Comparison,
        *,
        column_first: bool,
    ) -> BooleanExpression:
        """``found``, or the numbers with which the arithmetic leaves the type: it fails there, or wraps round."""
        least, most = _LIMITS[column.type.name]
        if kind is exp.Mul:
            ends = sorted((Fraction(least, constant), Fraction(most, constant)))
            low, high = math.ceil(ends[0]), math.floor(ends[1])
        elif kind is exp.Add:
            low, high = least - constant, most - constant
        elif column_first:
            low, high = least + constant, most + constant
        else:
            low, high = constant - most, constant - least
        parts = [found]
        if low > least:
            parts.append(self._compare(column, "<", low, asked.text))
        if high < most:
            parts.append(self._compare(column, ">", high, asked.text))
        return Or(*parts) if len(parts) > 1 else found

    # Times.

    def _moved_days(self, column: PredicateColumn, days: int, asked: Comparison) -> BooleanExpression:
        day = _day_of(asked.literal)
        if day is None:
            raise NotConstant("a day that is moved is compared with something else")
        try:
            bound = day - timedelta(days=days)
        except OverflowError as error:
            raise NotConstant("the day is beyond the calendar") from error
        return self.leaves.implied(self._compare(column, asked.effective, bound, asked.text))

    def _moved(
        self, column: PredicateColumn, interval: exp.Interval, sign: int, asked: Comparison
    ) -> BooleanExpression | None:
        steps = steps_of(interval)
        if steps is None or steps.months or column.zoned:
            raise NotConstant("only days and hours are taken off again, of times without a zone")
        if column.type.name == "DATE" and not steps.micros:
            return self._moved_days(column, sign * steps.days, asked)
        moment = asked.literal
        if isinstance(moment, str):
            moment = timestamp_of(moment)  # type: ignore[assignment]
        if column.type.name != "TIMESTAMP" or not isinstance(moment, datetime) or moment.tzinfo is not None:
            raise NotConstant("a time that is moved is compared with something else")
        try:
            bound = later(moment, steps, -sign)
        except OverflowError as error:
            raise NotConstant("the time is beyond the calendar") from error
        return self.leaves.implied(self._compare(column, asked.effective, bound, asked.text))

    def _unit(self, node: exp.Expr, asked: Comparison) -> BooleanExpression | None:
        """Functions that are the same for all times of a day, year or other unit, and grow with the time."""
        if (of_day := _day(node)) is not None:
            return self._within(of_day, "DAY", _moment_of(asked.literal, date_of), asked)
        if (of_year := _year(node)) is not None:
            year = asked.literal
            if type(year) is not int or not 1 <= year < 9999:
                raise NotConstant("a year is compared with something else than a whole number of the calendar")
            return self._within(of_year, "YEAR", datetime(year, 1, 1), asked)
        if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
            unit = unit_named(node.text("unit"))
            if unit not in UNITS:
                raise NotConstant("truncated to a unit that is not known here")
            column = self.column_of(node.this)
            is_day = isinstance(node, exp.DateTrunc) or (column is not None and column.type.name == "DATE")
            moment = _moment_of(asked.literal, date_of if is_day else timestamp_of)
            # Spark's date_trunc takes a time without a zone for one of the session's.
            in_session = self.dialect is SPARK and isinstance(node, exp.TimestampTrunc)
            return self._within(node.this, unit, moment, asked, in_session=in_session)
        return None

    def _within(
        self, inner: exp.Expr, unit: str, moment: datetime | None, asked: Comparison, *, in_session: bool = False
    ) -> BooleanExpression | None:
        """``inner``, cut to the ``unit`` that holds it, compared with ``moment``."""
        column = self.column_of(inner)
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

        def bound(comparison: str, at: datetime) -> BooleanExpression:
            literal: Literal = SessionTime(at) if column.zoned or in_session else at
            return self._compare(column, comparison, at.date() if column.type.name == "DATE" else literal, asked.text)

        if operator in ("=", "!="):
            if not exact:
                found = AlwaysFalse() if operator == "=" else self.leaves.is_null(column, inverted=True)
            elif operator == "=":
                found = And(bound(">=", start), bound("<", end))
            else:
                before = bound("<", start)
                found = Or(before, bound(">=", end))
        elif operator == "<" and exact:
            found = bound("<", start)
        elif operator in ("<", "<="):
            found = bound("<", end)
        elif operator == ">=" and exact:
            found = bound(">=", start)
        else:
            found = bound(">=", end)
        return self.leaves.implied(found)

    # Texts.

    def _prefix(self, node: exp.Left | exp.Substring, asked: Comparison) -> BooleanExpression | None:
        column = self.column_of(node.this)
        length_node = node.expression if isinstance(node, exp.Left) else node.args.get("length")
        if column is None or length_node is None:
            return None
        length, text = self.constants.value(length_node), asked.literal
        starts: tuple[Literal, ...] = (0, 1) if self.dialect.substring_starts_at_zero else (1,)
        if isinstance(node, exp.Substring) and self.constants.value(node.args["start"]) not in starts:
            raise NotConstant("a piece of a text that does not begin at its first letter")
        if column.type.name != "VARCHAR" or not isinstance(text, str) or type(length) is not int or length < 1:
            raise NotConstant("a piece of a text is compared with something else, or has no length")
        return self.leaves.implied(self._begins(column, length, text, asked))

    def _begins(self, column: PredicateColumn, length: int, text: str, asked: Comparison) -> BooleanExpression:
        """The first ``length`` letters of ``column`` compared with ``text``, by the order of code points."""
        operator = asked.effective
        if operator in ("=", "!="):
            if len(text) > length:
                return AlwaysFalse() if operator == "=" else self.leaves.is_null(column, inverted=True)
            if len(text) == length:
                return self.leaves.start_with(column, text, inverted=operator == "!=")
            return self._compare(column, operator, text, asked.text)
        if operator in (">", ">="):
            return self._compare(column, operator, text, asked.text)
        if len(text) > length:
            raise NotConstant("a text that is longer than the piece it is compared with")
        below = self._compare(column, operator, text, asked.text)
        if operator == "<=" and len(text) == length:
            return Or(below, self.leaves.start_with(column, text, inverted=False))
        return below


def _whole(number: Decimal) -> int | Decimal:
    return int(number) if number == number.to_integral_value() else number


def _is_of_type(column: PredicateColumn, value: Literal) -> bool:
    """Whether the type common to ``column`` and ``value`` is the column's."""
    name = column.type.name
    if name in _LIMITS:
        least, most = _LIMITS[name]
        return type(value) is int and least <= value <= most
    kinds: Mapping[str, tuple[type, ...]] = {
        "VARCHAR": (str,),
        "BOOLEAN": (bool,),
        "DATE": (date,),
        "DOUBLE": (int, float, Decimal),
        "TIMESTAMP": () if column.zoned else (datetime,),
    }
    return type(value) in kinds.get(name, ())


def _day(node: exp.Expr) -> exp.Expr | None:
    """What ``node`` is the day of."""
    is_cast = isinstance(node, exp.Cast) and node.to.this is exp.DType.DATE
    inner: exp.Expr | None = node.this if is_cast or isinstance(node, (exp.Date, exp.TsOrDsToDate)) else None
    return inner


def _year(node: exp.Expr) -> exp.Expr | None:
    """What ``node`` is the year of."""
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
    """What clocks show at ``literal``, of a text what it ``read`` is; None for an instant, and for what is no time."""
    if isinstance(literal, SessionTime):
        return literal.local
    if isinstance(literal, str):
        literal = read(literal)  # type: ignore[assignment]
    if isinstance(literal, datetime):
        return literal if literal.tzinfo is None else None
    return datetime.combine(literal, time.min) if type(literal) is date else None
