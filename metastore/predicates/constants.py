"""The constants of a condition: numbers, texts, typed literals, their casts, intervals, and exact sums.

Place in the flow: :mod:`metastore.predicates.sql_predicate` asks for the value of a node beside a column. All dialects
and entry points read constants here. A constant that engines read differently is rejected: :class:`NotConstant` says
why.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final, TypeVar

import numpy as np
from sqlglot import exp

from metastore.predicates.calendar_units import later, steps_of
from metastore.predicates.condition import Condition, has_unknown_arguments
from metastore.predicates.literals import INTEGER_TEXT
from metastore.predicates.time_spans import FineTime, Literal, SessionTime, is_calm
from metastore.predicates.written_times import date_of, fine_time_of, time_of, timestamp_of

T = TypeVar("T")


class NotConstant(Exception):  # noqa: N818 - no error of the user's: the part is left out, and a note says why
    """The part is not a literal, or engines read it differently; the text is the reason."""


_INTEGER_BITS: Final[Mapping[exp.DType, int]] = {
    exp.DType.TINYINT: 8,
    exp.DType.SMALLINT: 16,
    exp.DType.INT: 32,
    exp.DType.BIGINT: 64,
    exp.DType.INT128: 128,
}
_LEAST: Final = frozenset(-(1 << bits - 1) for bits in _INTEGER_BITS.values())
_DECIMAL_TEXT: Final = re.compile(r"([+-]?)(\d+)(?:\.(\d+))?", re.ASCII)
_DECIMAL_DEFAULT: Final = (10, 0)
"""Precision and scale of a DECIMAL without arguments."""

_READERS: Final[Mapping[exp.DType, Callable[[str], date | time | None]]] = {
    exp.DType.DATE: date_of,
    exp.DType.TIME: time_of,
}


@dataclass(frozen=True)
class Constants:
    """Reads the constants of ``condition``; ``zone`` is the session's, None if unknown."""

    condition: Condition
    zone: tzinfo | None

    def value(self, node: exp.Expr) -> Literal | None:
        """The value of ``node``, None for NULL; raises NotConstant for anything that is not a constant."""
        node = node.unnest()
        if has_unknown_arguments(node):
            raise NotConstant("its form is not supported here")
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Neg):
            return _negate(self.value(node.this))
        if isinstance(node, exp.HexString):
            return _bytes(node)
        if isinstance(node, exp.Cast):
            return self._cast(self.value(node.this), node.to)
        if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
            return self._compute(node)
        if isinstance(node, exp.Column):
            raise NotConstant("columns are compared with each other")
        if not isinstance(node, exp.Literal):
            raise NotConstant(f"{self.condition.dialect.text_of(node)} is no constant that is known when planning")
        if node.is_string and node.this in self.condition.escaped_texts:
            raise NotConstant("engines read a backslash differently")
        return str(node.this) if node.is_string else _number(node.this)

    def _cast(self, value: Literal | None, to: exp.DataType) -> Literal | None:
        """A typed literal (``DATE '…'``, ``5L``, ``1.5BD``), or a lossless cast of a literal."""
        kind = to.this
        if value is None or has_unknown_arguments(to):
            raise NotConstant(f"a cast of NULL to {to}")
        if kind in _INTEGER_BITS and isinstance(value, str) and INTEGER_TEXT.fullmatch(value):
            value = int(value)
        if kind in _INTEGER_BITS and type(value) is int and -(limit := 1 << _INTEGER_BITS[kind] - 1) <= value < limit:
            return value
        if kind in (exp.DType.DOUBLE, exp.DType.FLOAT) and type(value) in (int, float, Decimal):
            try:
                return float(value) if kind is exp.DType.DOUBLE else _single(value)  # type: ignore[arg-type]
            except OverflowError as error:
                raise NotConstant(f"the number is beyond {kind.value}") from error
        if kind in (exp.DType.TEXT, exp.DType.VARCHAR) and isinstance(value, str) and not to.expressions:
            return value
        if kind is exp.DType.DECIMAL and (isinstance(value, str) or type(value) in (int, Decimal)):
            return _decimal(format(value, "f") if isinstance(value, Decimal) else str(value), to)
        if to.expressions:
            raise NotConstant(f"{to} may cut or round the value")
        if isinstance(value, str):
            return self._read_typed_literal(value, kind)
        return self._time_as(value, kind)

    def _read_typed_literal(self, text: str, kind: exp.DType) -> Literal:
        """The value of ``DATE 'text'`` and similar typed literals."""
        if kind in _READERS and (read := _READERS[kind](text)) is not None:
            return read
        moment, fine = timestamp_of(text), fine_time_of(text)
        if fine is not None and fine[1] == 0:
            moment, fine = fine[0], None
        if moment is not None and kind in self.condition.dialect.local_times and moment.tzinfo is None:
            return moment
        if moment is not None and kind in self.condition.dialect.instants:
            return SessionTime(moment) if moment.tzinfo is None else moment
        if fine is not None and kind in self.condition.dialect.fine_times:
            zoned = kind in self.condition.dialect.instants and fine[0].tzinfo is None
            return FineTime(SessionTime(fine[0]) if zoned else fine[0], fine[1])
        raise NotConstant(f"engines may read {text!r} differently as {kind.value}")

    def _time_as(self, value: Literal, kind: exp.DType) -> Literal:
        """A day as a point in time, or the day of a point in time."""
        local = value.local if isinstance(value, SessionTime) else value
        if kind is exp.DType.DATE and isinstance(local, datetime) and local.tzinfo is None:
            return local.date()
        if type(local) is date:
            local = datetime(local.year, local.month, local.day)
        if isinstance(local, datetime) and local.tzinfo is None:
            if kind in self.condition.dialect.local_times and not isinstance(value, SessionTime):
                return local
            if kind in self.condition.dialect.instants:
                return SessionTime(local)
        raise NotConstant(f"a cast to {kind.value} may change the value")

    def _compute(self, node: exp.Add | exp.Sub | exp.Mul) -> Literal:
        """The exact sum or product of integers, or a moved day. NotConstant where engines would differ or overflow."""
        sign = -1 if isinstance(node, exp.Sub) else 1
        if isinstance(node.expression, exp.Interval):
            return self._move_by_interval(self.value(node.this), node.expression, sign)
        left, right = self.value(node.this), self.value(node.expression)
        if type(left) is date and type(right) is int and not isinstance(node, exp.Mul):
            day, days = left, timedelta(days=sign * right)
            return _within_calendar(lambda: day + days)
        if type(left) is not int or type(right) is not int:
            raise NotConstant("integers and times alone are computed here")
        found = left * right if isinstance(node, exp.Mul) else left + sign * right
        # Both engines compute in the wider of the two types; a result beyond it fails or wraps around.
        limit = 1 << (31 if all(-(1 << 31) <= each < 1 << 31 for each in (left, right)) else 63)
        if not -limit <= found < limit:
            raise NotConstant("the result overflows its type")
        return found

    def _move_by_interval(self, value: Literal | None, interval: exp.Interval, sign: int) -> Literal:
        """``value`` moved by an interval."""
        steps = steps_of(interval)
        if steps is None or has_unknown_arguments(interval):
            raise NotConstant("the form of the interval is not supported here")
        if type(value) is date:
            if steps.micros:
                raise NotConstant("an interval of hours makes a time of a day")
            day = value
            return _within_calendar(lambda: later(day, steps, sign))
        if isinstance(value, FineTime):
            cut = self._move_by_interval(value.moment, interval, sign)
            return FineTime(cut, value.nanos)  # type: ignore[arg-type]  # a moment moved is a moment
        if isinstance(value, datetime) and value.tzinfo is None:
            moment = value
            return _within_calendar(lambda: later(moment, steps, sign))
        if isinstance(value, SessionTime):
            local = value.local
            moved = _within_calendar(lambda: later(local, steps, sign))
            if steps.micros and not (is_calm(local, self.zone) and is_calm(moved, self.zone)):
                raise NotConstant("hours are added where clocks may change; name a time zone")
            return SessionTime(moved)
        raise NotConstant("intervals are added to days and times only")


def _within_calendar(made: Callable[[], T]) -> T:
    try:
        return made()
    except OverflowError as error:
        raise NotConstant("the time is beyond the calendar") from error


def _negate(value: Literal | None) -> Literal | None:
    """``-value``, except for the least integer of a type, which Spark without ANSI mode leaves unchanged."""
    if type(value) not in (int, float, Decimal) or value in _LEAST:
        raise NotConstant("its negation may overflow")
    # The operator would round a Decimal to the digits of a context.
    return value.copy_negate() if isinstance(value, Decimal) else -value  # type: ignore[operator]


def _single(value: float | Decimal) -> float:
    """The FLOAT nearest to ``value``; of two, the one with an even last bit. Raises OverflowError."""
    nearest = np.float32(struct.unpack("<f", struct.pack("<f", value))[0])
    around = [nearest, *(np.nextafter(nearest, np.float32(side * np.inf)) for side in (-1, 1))]
    exact = Fraction(value)
    # Rounded twice, by way of DOUBLE, the number may be one off; of two that are as near, the first is the even one.
    return float(min(filter(np.isfinite, around), key=lambda one: abs(Fraction(float(one)) - exact)))


def _bytes(node: exp.HexString) -> bytes:
    try:
        return bytes.fromhex(node.this)
    except ValueError as error:
        raise NotConstant("no hexadecimal digits") from error


def _number(text: str) -> int | float | Decimal:
    """An integer for digits alone, a decimal with a point, a double with an exponent."""
    try:
        if "e" in text.lower():
            return float(text)
        return Decimal(text) if "." in text else int(text)
    except (ValueError, InvalidOperation) as error:
        raise NotConstant(f"{text} is no number here") from error


def _decimal(text: str, to: exp.DataType) -> Decimal:
    """The number that ``text`` writes in plain digits; it must fit the digits of its type without loss."""
    match = _DECIMAL_TEXT.fullmatch(text)
    arguments = [parameter.name for parameter in to.expressions]
    if match is None or not all(argument.isdecimal() for argument in arguments):
        raise NotConstant(f"{text!r} is no decimal number in plain digits")
    precision, scale = (*map(int, arguments), *_DECIMAL_DEFAULT[len(arguments) :])
    sign, whole, fraction = match.group(1), match.group(2).lstrip("0"), (match.group(3) or "").rstrip("0")
    if len(fraction) > scale or len(whole) > precision - scale:
        raise NotConstant(f"{text!r} loses digits as {to}")
    return Decimal(f"{sign}{whole or 0}.{fraction.ljust(scale, '0')}")
