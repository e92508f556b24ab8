"""Statistics of one column in one container (row group, file, segment, table), and how they roll up.

ANALYZE makes :class:`ColumnStatistics` from footers. :func:`merge` rolls them up from row group to table. Their JSON
form is stored in ``columnsStatistics``, and pruning reads it back.

Promises: a bound is unknown (None) or contains the data. An exact bound is a value of the data. A merged bound is never
NaN. Zeros of FLOAT columns are bounded by -0.0 below and 0.0 above.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from decimal import Decimal
from functools import reduce
from typing import Any

from metastore.errors import FormatError
from metastore.model.drill_types import FLOAT_TYPES, INTEGER_TYPES, NO_TYPE, common_minor_type
from metastore.model.statistics_json import (
    Value,
    bound_json,
    decode,
    from_micros,
    holder_json,
    holder_of,
    long_json,
    micros,
    read_holders,
    read_value,
    unwrap_value,
)
from metastore.model.vocabulary import Statistic

__all__ = ["ColumnStatistics", "Value", "holder_json", "merge", "parse_many", "read_holders"]

MIN_MICROS, MAX_MICROS = "minMicros", "maxMicros"
"""Our extension: a bound of a TIME or TIMESTAMP column in microseconds, if Drill's milliseconds lose some."""

LOWER, UPPER = "lowerBound", "upperBound"
"""Our extension: a bound of a type that Drill cannot compare (decimals, bytes, unsigned numbers). Under Drill's own
name, such a bound makes Drill's queries fail."""

NANS_COUNT = "nanCount"
TIME_ZONE = "timeZone"
"""Our extension: "UTC" for a TIMESTAMP column that is adjusted to UTC; left out for local date-times."""

_COMPARED_BY_DRILL = frozenset(
    {"BIT", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT4", "FLOAT8", "VARCHAR", "DATE", "TIME", "TIMESTAMP"}
)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Bounds and counts of one column; ``type`` is Drill's minor type, every None is "unknown".

    TIMESTAMP bounds are naive datetimes for local date-times, and aware ones (UTC) if the column is adjusted to UTC.
    ``rows == nulls + non_nulls``; for a struct's leaf, a null parent counts as null. ``nans`` counts NaNs among
    ``non_nulls``; only FLOAT4 and FLOAT8 have any. Bounds ignore nulls and NaNs, so a column with nothing else has
    none.
    """

    type: str
    min: Value | None = None
    max: Value | None = None
    min_exact: bool = True
    max_exact: bool = True
    nulls: int | None = None
    non_nulls: int | None = None
    rows: int | None = None
    nans: int | None = None

    @property
    def all_null(self) -> bool:
        """True if certainly no row has a value, also if there are no rows at all."""
        return self.non_nulls == 0 or (self.nulls is not None and self.nulls == self.rows)

    def to_json(self) -> str:
        """Drill's JSON form; additional holders keep the facts that Drill cannot express, so nothing is lost.

        Raises InvalidRequestError for a bound that is not a :data:`Value`.
        """
        holders: list[str] = []
        zoned = False
        if (low := self.min) is not None:
            name = Statistic.MIN_VALUE if self.type in _COMPARED_BY_DRILL else LOWER
            zoned = _add_bound(holders, self.type, low, self.min_exact, name, MIN_MICROS, 0)
        if (high := self.max) is not None:
            name = Statistic.MAX_VALUE if self.type in _COMPARED_BY_DRILL else UPPER
            zoned |= _add_bound(holders, self.type, high, self.max_exact, name, MAX_MICROS, 999)
        for name, count in (
            (Statistic.NULLS_COUNT, self.nulls),
            (Statistic.NON_NULLS_COUNT, self.non_nulls),
            (Statistic.ROW_COUNT, self.rows),
            (NANS_COUNT, self.nans),
        ):
            if count is not None:
                holders.append(holder_json(name, count))
        if zoned:
            holders.append(holder_json(TIME_ZONE, "UTC"))
        return f'{{"statistics":[{",".join(holders)}],"type":"{self.type}"}}'

    @classmethod
    def from_json(cls, text: str) -> ColumnStatistics:
        """Reads Drill's JSON form or ours; raises FormatError for anything else."""
        return _from_document(decode(text))


def parse_many(texts: Sequence[str | None]) -> list[ColumnStatistics | None]:
    """:meth:`ColumnStatistics.from_json` for many texts at once, in order; None stays None."""
    parsed: list[ColumnStatistics | None] = []
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        documents = decode(f"[{','.join([text or 'null' for text in batch])}]")
        if len(documents) != len(batch):
            raise FormatError("one text of many holds several column statistics")
        parsed += [None if document is None else _from_document(document) for document in documents]
    return parsed


def _add_bound(holders: list[str], type_: str, value: Value, exact: bool, name: str, micros_name: str, up: int) -> bool:
    """Appends the holders of one bound; True if it is an aware timestamp. ``up`` = 999 rounds milliseconds up."""
    if isinstance(value, (datetime, time)):
        count = micros(value)
        whole = count % 1000 == 0
        millis = (count + up) // 1000
        holders.append(holder_of(name, str(millis) if isinstance(value, time) else long_json(millis), exact and whole))
        if not whole:
            holders.append(holder_json(micros_name, count, exact))
        return value.tzinfo is not None
    holders.append(holder_of(name, bound_json(value, type_), exact))
    return False


def _from_document(document: Any) -> ColumnStatistics:
    """The statistics in a decoded document. Drill's and our own kinds are read; FormatError says what is wrong."""
    try:
        type_ = document["type"]
        found: dict[str, tuple[Any, bool]] = {}
        for holder in document["statistics"]:
            kind = holder["statisticsKind"]
            if (value := holder.get("statisticsValue")) is not None:
                found[kind["name"]] = (value, kind.get("exact", False))
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"column statistics lack {error}: {str(document)[:200]}") from error
    get = found.get
    zoned = type_ == "TIMESTAMP" and TIME_ZONE in found
    try:
        low, low_exact = _read_bound(get(LOWER) or get(Statistic.MIN_VALUE), get(MIN_MICROS), type_, zoned, False)
        high, high_exact = _read_bound(get(UPPER) or get(Statistic.MAX_VALUE), get(MAX_MICROS), type_, zoned, True)
    except (TypeError, ValueError) as error:
        raise FormatError(f"column statistics have a bound that is no {type_}: {str(document)[:200]}") from error
    nulls, non_nulls, rows, nans = (
        _count(get(Statistic.NULLS_COUNT, _ABSENT)[0]),
        _count(get(Statistic.NON_NULLS_COUNT, _ABSENT)[0]),
        _count(get(Statistic.ROW_COUNT, _ABSENT)[0]),
        _count(get(NANS_COUNT, _ABSENT)[0]),
    )
    if rows is not None and nulls is not None and non_nulls is not None:
        rows = max(rows, nulls + non_nulls)  # Where Drill reads data, it counts only values as a column's rows.
    return ColumnStatistics(type_, low, high, low_exact, high_exact, nulls, non_nulls, rows, nans)


_ABSENT = (None, True)
_BATCH = 200
"""Texts decoded at once: enough to save calls, and few enough to be freed before a garbage collection."""


def _count(stored: Any) -> int | None:
    """A number of rows; None for Drill's -1, which means unknown."""
    value = unwrap_value(stored) if type(stored) is dict else stored
    return value if type(value) is int and value >= 0 else None


def _read_bound(
    stored: tuple[Any, bool] | None, in_micros: tuple[Any, bool] | None, type_: str, zoned: bool, ceil: bool
) -> tuple[Value | None, bool]:
    if in_micros is not None:
        count = unwrap_value(in_micros[0]) if type(in_micros[0]) is dict else in_micros[0]
        value: Value | None = from_micros(count, type_, zoned=zoned)
        return (value, in_micros[1]) if value is not None else _ABSENT
    if stored is None:
        return _ABSENT
    value = stored[0]
    # Texts, among the most frequent bounds, need no decoding.
    if type(value) is not str or type_ != "VARCHAR":
        value = read_value(value, type_, zoned=zoned, ceil=ceil)
    return (value, stored[1]) if value is not None else _ABSENT


def merge(parts: Iterable[ColumnStatistics]) -> ColumnStatistics:
    """Statistics of the union of ``parts``' rows; no parts give those of no rows, which merge without effect.

    Associative and commutative. A count is known if every part knows it. A bound is known if every part with a value
    knows it. Parts of differing types are converted to their common type. Integers and decimals that a float cannot
    hold are rounded outwards, and are then not exact. If the types have no common order, the bounds are unknown.
    """
    known = list(parts)
    type_ = reduce(common_minor_type, {part.type for part in known}, NO_TYPE)
    counts = [_counts(part) for part in known]
    nulls, non_nulls, rows, nans = (_total(column) for column in zip(*counts, strict=True)) if counts else (0, 0, 0, 0)
    # A part without values other than NaN has no bounds and does not affect those of the whole.
    bounded = [part for part, (_, values, _, nan) in zip(known, counts, strict=True) if values is None or values != nan]
    low, low_exact = _extreme([(p.min, p.min_exact, p.type) for p in bounded], type_, -1)
    high, high_exact = _extreme([(p.max, p.max_exact, p.type) for p in bounded], type_, 1)
    return ColumnStatistics(
        type_, low, high, low_exact, high_exact, nulls, non_nulls, rows, nans if type_ in FLOAT_TYPES else None
    )


def _counts(part: ColumnStatistics) -> tuple[int | None, int | None, int | None, int | None]:
    """Nulls, non-nulls, rows and NaNs; a missing count is computed from the others if possible."""
    nulls, non_nulls, rows = part.nulls, part.non_nulls, part.rows
    if rows is None and nulls is not None and non_nulls is not None:
        rows = nulls + non_nulls
    elif rows is not None and nulls is None and non_nulls is not None:
        nulls = rows - non_nulls
    elif rows is not None and nulls is not None and non_nulls is None:
        non_nulls = rows - nulls
    nans = part.nans if part.type in FLOAT_TYPES and non_nulls != 0 else 0
    return nulls, non_nulls, rows, nans


def _total(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _extreme(bounds: list[tuple[Value | None, bool, str]], type_: str, side: int) -> tuple[Value | None, bool]:
    """The smallest (``side`` -1) or largest (1) bound; (None, True) if one is unknown or two have no order."""
    best: Any = None
    best_exact = True
    for stored, stored_exact, own_type in bounds:
        value, exact = stored, stored_exact
        if stored is not None and own_type != type_:
            value, exact = _widen_bound(stored, stored_exact, type_, side)
        if value is None or value != value:
            return _ABSENT
        try:
            if best is None or (value < best if side < 0 else value > best):
                best, best_exact = value, exact
            elif value == best:
                best_exact = best_exact or exact
        except TypeError:  # a local date-time and one in UTC
            return _ABSENT
    if isinstance(best, float) and best == 0:
        best = math.copysign(0.0, side)
    return best, best_exact


def _widen_bound(value: Value, exact: bool, type_: str, side: int) -> tuple[Value | None, bool]:
    """A bound in the wider ``type_``, never inside the original; (None, True) if that type has another order."""
    if type_ in INTEGER_TYPES:
        return value, exact
    if type_ == "VARDECIMAL" and isinstance(value, int):
        return Decimal(value), exact
    if type_ == "FLOAT8" and isinstance(value, (int, float, Decimal)):
        rounded = nearest_double(value)
        if rounded == value:
            return rounded, exact
        inside = rounded > value if side < 0 else rounded < value
        return math.nextafter(rounded, side * math.inf) if inside else rounded, False
    return _ABSENT


def nearest_double(value: float | Decimal) -> float:
    """Return the double nearest to ``value``, an infinity beyond all of them."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)
