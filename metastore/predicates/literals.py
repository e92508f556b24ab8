"""A comparison of a column with a literal, as a PyIceberg condition that covers every engine's answer.

Engines compare a column with a literal of another type in different ways. The possible meanings of a literal are
therefore a :class:`Span` of values of the column's type. The span is narrow if all engines agree. It is wider if they
round, or if the session's time zone is unknown. There is no span if nothing is certain. The condition asks whether a
row *may* pass:

* ``<`` and ``<=`` compare with the upper end, ``>`` and ``>=`` with the lower, ``=`` with both; ``!=`` needs certainty;
* without a span only "not null" remains, since no comparison is true for a null;
* Spark and DuckDB treat NaN as equal to itself and above all numbers, Arrow as equal to nothing; if one of them lets a
  NaN pass, the condition says "or is NaN".
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta, tzinfo
from decimal import Context, Decimal
from typing import Any, NamedTuple
from uuid import UUID

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNull,
    Or,
)
from pyiceberg.expressions.literals import DateLiteral, TimeLiteral, TimestampLiteral
from pyiceberg.expressions.literals import Literal as IcebergLiteral

from metastore.errors import InvalidRequestError
from metastore.ground.epoch import EPOCH_DATE, EPOCH_UTC
from metastore.model.drill_types import INTEGER_TYPES
from metastore.predicates.columns import PredicateColumn
from metastore.predicates.time_spans import Literal, Span, date_span, time_span, timestamp_span

INVERSE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The sign of the opposite comparison."""

_REACHES_NAN = frozenset({">", ">=", "!="})
_FLOATS = {"FLOAT": 24, "DOUBLE": 53}
"""Bits of precision of the float types."""

_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_ULPS = 2
"""Engines divide digits by a power of ten in the float type: two roundings, and that of the power."""

UUIDS = "uuid"
"""The logical type of a column whose bytes or texts are UUIDs."""

_UUID_BYTES = 16

_UUID = re.compile(r"\{?[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\}?", re.IGNORECASE)

_KEPT_DIGITS = 6
"""Least number of digits after the point that Spark keeps of a decimal with more than 38 digits."""

EXACT = Context(prec=10_000)
"""For sums of Decimals: Python's own context would round them to 28 digits."""

INTEGER_TEXT = re.compile(r"-?(0|[1-9]\d{0,17})", re.ASCII)
"""Text that every engine reads as the same integer."""


class UnderstoodCondition(NamedTuple):
    """A condition for a test; ``usable`` if its literals were, ``exact`` if it passes only rows that pass the test."""

    condition: BooleanExpression
    usable: bool
    exact: bool


def comparison(
    column: PredicateColumn, operator: str, literal: Literal, zone: tzinfo | None = None, *, inverted: bool = False
) -> UnderstoodCondition:
    """The condition for ``column operator literal``, under NOT if ``inverted``."""
    if passes_nulls(column, operator, literal):
        return UnderstoodCondition(AlwaysTrue(), usable=False, exact=False)
    span = span_of(column, literal, zone)
    asked = INVERSE[operator] if inverted else operator
    # Text compared with a directory's number: engines that keep directory names as text use the order of texts.
    if span and asked != "=" and _is_text_for_number(column, literal):
        span = None
    if span is None:
        return UnderstoodCondition(NotNull(column.key), usable=False, exact=False)
    condition = _condition(column.key, asked, span)
    if column.type.name in _FLOATS and (inverted or asked in _REACHES_NAN):
        condition = Or(condition, IsNaN(column.key))
    return UnderstoodCondition(condition, usable=True, exact=span.certain)


def membership(
    column: PredicateColumn, literals: Iterable[Literal], zone: tzinfo | None = None, *, inverted: bool = False
) -> UnderstoodCondition:
    """The condition for ``column IN (literals)``, under NOT if ``inverted``; no literal may be None."""
    literals = list(literals)
    if is_of_many_types(column, literals):
        return UnderstoodCondition(NotNull(column.key), usable=False, exact=False)
    spans = [None if inverted and _is_text_for_number(column, v) else span_of(column, v, zone) for v in literals]
    usable = None not in spans
    certain = [span.low for span in spans if span and span.certain]
    exact = len(certain) == len(literals)
    if inverted:
        condition: BooleanExpression = NotIn(column.key, certain) if certain else NotNull(column.key)
        if column.type.name in _FLOATS:
            condition = Or(condition, IsNaN(column.key))
        return UnderstoodCondition(condition, usable, exact)
    if not usable:
        return UnderstoodCondition(NotNull(column.key), usable=False, exact=False)
    wide = [_condition(column.key, "=", span) for span in spans if span and not span.certain]
    narrow = [In(column.key, certain)] if certain else []
    alternatives = [*narrow, *wide]
    return UnderstoodCondition(
        Or(*alternatives) if len(alternatives) > 1 else alternatives[0], usable=True, exact=exact
    )


def _condition(key: str, operator: str, span: Span) -> BooleanExpression:
    """A condition that holds wherever the comparison does for some value of ``span``."""
    if operator == "<":
        return LessThan(key, span.high)
    if operator == "<=":
        return LessThanOrEqual(key, span.high)
    if operator == ">":
        return GreaterThan(key, span.low)
    if operator == ">=":
        return GreaterThanOrEqual(key, span.low)
    if operator == "=":
        return (
            EqualTo(key, span.low)
            if span.certain
            else And(GreaterThanOrEqual(key, span.low), LessThanOrEqual(key, span.high))
        )
    return NotEqualTo(key, span.low) if span.certain else NotNull(key)


def _is_text_for_number(column: PredicateColumn, literal: Literal) -> bool:
    return (
        column.from_directory and isinstance(literal, str) and column.type.name in (*INTEGER_TYPES, *_FLOATS, "DECIMAL")
    )


def passes_nulls(column: PredicateColumn, operator: str, literal: Literal) -> bool:
    """Whether Spark's comparison is TRUE or FALSE for every value of the column, nulls included.

    This is so for order comparisons (``<``, ``>=`` …) of an integer column with a number outside BIGINT's range.
    """
    if column.type.name not in INTEGER_TYPES or operator in ("=", "!=") or type(literal) not in (int, Decimal):
        return False
    return not -(2**63) <= literal < 2**63  # type: ignore[operator]


def is_of_many_types(column: PredicateColumn, literals: Sequence[Literal]) -> bool:
    """Whether a list's common type with ``column`` may differ from the common type with each single literal.

    Spark has such cases. One number with an exponent makes all of them DOUBLE. Decimals get digits for the whole list.
    Without ANSI mode, one text makes all of them texts, of which only days and integers have a single spelling.
    """
    kinds = set(map(type, literals))
    if column.logical == UUIDS:
        return len(kinds) > 1
    if str in kinds and column.type.name != "VARCHAR":
        return len(kinds) > 1 or column.type.name not in (*INTEGER_TYPES, "DATE")
    if column.type.name not in (*INTEGER_TYPES, "DECIMAL"):
        return False
    if float in kinds:
        return len(kinds) > 1
    return not _fit_together(column, [Decimal(number) for number in literals if isinstance(number, (int, Decimal))])


def span_of(column: PredicateColumn, literal: Literal, zone: tzinfo | None = None) -> Span | None:
    """The possible meanings of ``literal`` beside ``column``; None if engines disagree without a known limit."""
    of_type = _SPANS.get("INT" if column.type.name in INTEGER_TYPES else column.type.name)
    if of_type is None or not column.usable or literal != literal:
        return None
    try:
        return of_type(column, literal, zone)
    except OverflowError:  # a moment so near the ends of Python's calendar that there is nothing around it
        return None


def widening_of(column: PredicateColumn, literal: Literal, zone: tzinfo | None) -> str | None:
    """Why ``literal`` stands for more than one time beside ``column``, and the remedy; None if it does not."""
    if column.type.name not in ("DATE", "TIMESTAMP"):
        return None
    span = span_of(column, literal, zone)
    if span is None or span.certain:
        return None
    reach = span.high - span.low
    if column.type.name == "TIMESTAMP" and reach < timedelta(hours=1):
        return None  # a literal in nanoseconds: its microsecond is as narrow as a bound
    hours = (
        f"by {int(reach / timedelta(hours=2))} hours to either side" if column.type.name == "TIMESTAMP" else "by days"
    )
    if zone is None:
        return f"widened {hours}, since no time zone is named; name the session's, such as time_zone='UTC'"
    return f"widened {hours}, since clocks change near it in the time zone of the session"


def _text(column: PredicateColumn, literal: Literal, _zone: tzinfo | None) -> Span | None:
    if column.logical == UUIDS:
        _require_meant(column, literal)
        return None  # files may spell a UUID in several ways
    # An integer can only be compared with text that is surely an integer; the evaluation checks this.
    return Span.of(literal) if isinstance(literal, str) or type(literal) is int else None


def _literal_of(*types: type) -> Callable[[PredicateColumn, Literal, tzinfo | None], Span | None]:
    return lambda _column, literal, _zone: Span.of(literal) if type(literal) in types else None  # type: ignore[arg-type]


def _binary(column: PredicateColumn, literal: Literal, _zone: tzinfo | None) -> Span | None:
    """Bytes as they are; a text beside a UUID means its bytes, which have the order of the texts."""
    if column.logical == UUIDS:
        _require_meant(column, literal)
    if isinstance(literal, str) and column.logical == UUIDS:
        return Span.of(UUID(literal).bytes)
    return Span.of(literal) if isinstance(literal, bytes) else None


def _require_meant(column: PredicateColumn, literal: Literal) -> None:
    """Raises InvalidRequestError for a literal that cannot be a value of a column of UUIDs."""
    is_meant = isinstance(literal, str) and _UUID.fullmatch(literal) is not None
    is_meant |= isinstance(literal, bytes) and len(literal) == _UUID_BYTES
    if not is_meant:
        raise InvalidRequestError(f"column {'.'.join(column.path)} is of type UUID: no value of it is {literal!r}")


def _integer(column: PredicateColumn, literal: Literal, _zone: tzinfo | None) -> Span | None:
    """The span of a literal beside integers: wide for doubles beyond 2^53, None for a text that is no integer."""
    if isinstance(literal, str):
        if not INTEGER_TEXT.fullmatch(literal):
            return None
        # Beyond the column's type, it is a number in ANSI mode, else NULL.
        bits = _INTEGER_BITS.get(column.type.name, 0)
        number = int(literal)
        return Span(number, number, certain=-(1 << bits) <= 2 * number < 1 << bits)
    if isinstance(literal, float):
        # The column is cast to DOUBLE, which holds integers below 2^53 exactly and keeps the order of those above.
        if abs(literal) < 2**53:
            return Span.of(literal)
        if math.isinf(literal):
            return Span(literal, literal, certain=False)
        near = [math.nextafter(literal, toward) for toward in (-math.inf, math.inf)]
        low, high = (literal if math.isinf(each) else int(each) for each in near)
        return Span(low, high, certain=False)
    return _exact_number(column, literal)


def _decimal(column: PredicateColumn, literal: Literal, _zone: tzinfo | None) -> Span | None:
    if isinstance(literal, float):
        if not math.isfinite(literal):
            return None
        low, high = (Decimal(_step(literal, toward, _double_step)) for toward in (-math.inf, math.inf))
        return Span(low, high, certain=False) if low.is_finite() and high.is_finite() else None
    return _exact_number(column, literal)


def _exact_number(column: PredicateColumn, literal: Literal) -> Span | None:
    """The span of an integer or decimal.

    Exact if the type common to it and the column loses no digit, else around it.
    """
    if type(literal) is not int and type(literal) is not Decimal:
        return None
    number = Decimal(literal)
    if _fit_together(column, [number]):
        return Span.of(literal)
    # Spark keeps six digits after the point, or the column's if these are fewer, and rounds both sides.
    _, scale = column.type.arguments or (0, 0)
    reach = Decimal((0, (2,), -min(scale, _KEPT_DIGITS)))
    return Span(EXACT.subtract(number, reach), EXACT.add(number, reach), certain=False)


def _fit_together(column: PredicateColumn, numbers: Sequence[Decimal]) -> bool:
    """Whether the type common to ``column`` and all ``numbers`` loses no digit.

    The common type has at most 38 digits, or 76 if the column has more than 38, which only Arrow supports.
    """
    own = column.type.arguments or ((38, 0) if column.type.name == "DECIMAL" else (20, 0))
    digits = [own, *map(_digits, numbers)]
    common = max(precision - scale for precision, scale in digits) + max(scale for _, scale in digits)
    return common <= (38 if own[0] <= 38 else 76)


def _digits(number: Decimal) -> tuple[int, int]:
    _, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    return max(len(digits) + max(0, int(exponent)), scale), scale


def _float(column: PredicateColumn, literal: Literal, _zone: tzinfo | None) -> Span | None:
    if type(literal) not in (int, float, Decimal):
        return None
    step = _single_step if column.type.name == "FLOAT" else _double_step
    near = step(float(Decimal(literal)), 0)  # type: ignore[arg-type]
    if near == literal and (isinstance(literal, float) or _is_short(literal, _FLOATS[column.type.name])):
        return Span.of(near)
    return Span(_step(near, -math.inf, step), _step(near, math.inf, step), certain=False)


def _is_short(number: Any, bits: int) -> bool:
    """True if the digits and the power of ten are both exact in the float type, so that no engine rounds."""
    _, digits, exponent = Decimal(number).as_tuple()
    power = abs(int(exponent))
    significand = int("".join(map(str, digits)))
    return bool(max(significand, 5**power) <= 2**bits)


def _step(value: float, toward: float, step: Callable[[float, float], float]) -> float:
    for _ in range(_ULPS):
        value = step(value, toward)
    return value


def _double_step(value: float, toward: float) -> float:
    return math.nextafter(value, toward) if toward else value


def _single_step(value: float, toward: float) -> float:
    """The float32 next to ``value`` in the direction of ``toward``; for 0, the float32 nearest to ``value``."""
    try:
        bits = struct.unpack("<i", struct.pack("<f", value))[0]
    except OverflowError:  # beyond the largest float32
        bits = struct.unpack("<i", struct.pack("<f", math.copysign(math.inf, value)))[0]
    if toward:
        ordered = bits if bits >= 0 else -(bits & 0x7FFFFFFF)
        ordered = max(-0x7F800000, min(0x7F800000, ordered + (1 if toward > 0 else -1)))
        bits = ordered if ordered >= 0 else -ordered - 0x80000000
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def plain_literal(literal: IcebergLiteral[Any], *, zoned: bool) -> Literal:
    """The Python value of a PyIceberg literal; timestamps become aware datetimes if ``zoned``."""
    if isinstance(literal, DateLiteral):
        return EPOCH_DATE + timedelta(days=literal.value)
    if isinstance(literal, TimestampLiteral):
        moment = EPOCH_UTC + timedelta(microseconds=literal.value)
        return moment if zoned else moment.replace(tzinfo=None)
    if isinstance(literal, TimeLiteral):
        return (EPOCH_UTC + timedelta(microseconds=literal.value)).time()
    plain: Literal = literal.value
    return plain


_SPANS: dict[str, Callable[[PredicateColumn, Any, tzinfo | None], Span | None]] = {
    "VARCHAR": _text,
    "INT": _integer,
    "DECIMAL": _decimal,
    "FLOAT": _float,
    "DOUBLE": _float,
    "BOOLEAN": _literal_of(bool),
    "VARBINARY": _binary,
    "DATE": date_span,
    "TIME": time_span,
    "TIMESTAMP": timestamp_span,
}
