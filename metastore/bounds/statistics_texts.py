"""Texts of ``columnsStatistics`` -> :class:`StatisticsColumns`: JSON is read once, many texts at a time.

Texts as ANALYZE and Drill write them, of the usual types, are taken apart by a pattern, which costs a fraction of what
JSON's objects do. Every other text is read by :mod:`metastore.model.statistics`, whose answer is the rule for both.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.bounds.bound_arrays import Kind, Numbers, Texts
from metastore.bounds.statistics_columns import BoundPair, StatisticsColumns, bound_pair, flags_of_counts, together
from metastore.epoch import EPOCH_DAY
from metastore.model.drill_types import INTEGER_TYPES
from metastore.model.statistics import (
    LOWER,
    MAX_MICROS,
    MIN_MICROS,
    NANS_COUNT,
    TIME_ZONE,
    UPPER,
    parse_many,
)
from metastore.model.vocabulary import Statistic


def decoded(texts: pa.Array[Any]) -> StatisticsColumns:
    """Statistics by ``texts``, JSON or null for each container. FormatError as the reader of one text has it."""
    distinct = texts.dictionary_encode()
    different: list[Any] = distinct.dictionary.to_pylist()
    places: Any = distinct.indices.cast(pa.int64())
    indices = pc.fill_null(places, -1).to_numpy(zero_copy_only=False)
    return _of_distinct(different).take(indices)


class _Stated(NamedTuple):
    """One text that the pattern took apart: bounds in the form that arrays have them, and the four counts."""

    position: int
    low: Any
    high: Any
    counts: tuple[int, int, int, int]


def _of_distinct(texts: Sequence[str]) -> StatisticsColumns:
    by_kind: dict[tuple[str, Kind], list[_Stated]] = {}
    others: list[int] = []
    for position, text in enumerate(texts):
        match = _PATTERN.fullmatch(text)
        if match is None or (type_ := match[match.lastindex or 0]) not in _READERS:
            others.append(position)
            continue
        low, high, (*counts, zone, _) = match.groups()[:5], match.groups()[5:10], match.groups()[10:]
        kind, read = _READERS[type_]
        try:
            stated = _Stated(position, _bound(read, low, False), _bound(read, high, True), _counts(counts))
        except _NotPlainError:
            others.append(position)
            continue
        if zone and kind is Kind.LOCAL:
            kind = Kind.INSTANT
        by_kind.setdefault((type_, kind), []).append(stated)
    parts = [
        _together(type_, kind, found).take(_places(len(texts), [one.position for one in found]))
        for (type_, kind), found in by_kind.items()
    ]
    if others:
        rest = StatisticsColumns.of(parse_many([texts[position] for position in others]))
        parts.append(rest.take(_places(len(texts), others)))
    return together(parts) if parts else StatisticsColumns.nothing(len(texts))


def _places(count: int, positions: Sequence[int]) -> Any:
    """For each of ``count`` containers its place in ``positions``, -1 without one."""
    found = np.full(count, -1, np.int64)
    found[positions] = np.arange(len(positions))
    return found


def _together(type_: str, kind: Kind, found: Sequence[_Stated]) -> StatisticsColumns:
    nulls, non_nulls, rows, nans = np.array([one.counts for one in found], np.int64).T
    flags = flags_of_counts(nulls, non_nulls, rows, nans)
    pair = _pair(type_, kind, [one.low for one in found], [one.high for one in found])
    return StatisticsColumns(flags, (type_,), np.zeros(len(found), np.int16), (pair,))


def _pair(type_: str, kind: Kind, low: Sequence[Any], high: Sequence[Any]) -> BoundPair:
    if type_ == "VARDECIMAL":
        return bound_pair(kind, low, high)
    if kind is Kind.TEXT:
        return BoundPair(Texts(kind, pa.array(low, pa.string())), Texts(kind, pa.array(high, pa.string())))
    form: Any = np.float64 if type_ in ("FLOAT4", "FLOAT8") else np.int64
    low_side, high_side = (
        Numbers(
            kind,
            np.array([value is not None for value in side], np.bool_),
            np.array([0 if value is None else value for value in side], form),
        )
        for side in (low, high)
    )
    return BoundPair(low_side, high_side)


def _counts(texts: Sequence[str | None]) -> tuple[int, int, int, int]:
    """Nulls, values, rows and NaNs, -1 where unknown, as the rule has them."""
    nulls, non_nulls, rows, nans = (-1 if text is None else int(text) for text in texts)
    if rows >= 0 and nulls >= 0 and non_nulls >= 0:
        rows = max(rows, nulls + non_nulls)  # Drill, where it reads data, counts only values as a column's rows.
    return nulls, non_nulls, rows, nans


def _bound(read: _Read, groups: Sequence[str | None], is_upper: bool) -> Any:
    class_, wrapped, bare, text, micros = groups
    return read(class_, wrapped or bare, text, micros, is_upper)


class _NotPlainError(Exception):
    """A bound that the rule has to read."""


_Read = Callable[["str | None", "str | None", "str | None", "str | None", bool], Any]
"""A bound by its Java class (without ``java.``), its number, its text in quotes, its microseconds, and its side."""


def _whole(class_: str | None, number: str | None, text: str | None) -> int | None:
    if text is not None or (number is not None and (class_ not in (None, _LONG) or not _WHOLE.fullmatch(number))):
        raise _NotPlainError
    return None if number is None else int(number)


def _long(class_: str | None, number: str | None, text: str | None, micros: str | None, _: bool) -> int | None:
    if micros is not None:
        raise _NotPlainError
    return _whole(class_, number, text)


def _day(class_: str | None, number: str | None, text: str | None, micros: str | None, is_upper: bool) -> int | None:
    millis = _long(class_, number, text, micros, is_upper)
    if millis is None:
        return None
    day = -(-millis // _DAY_MILLIS) if is_upper else millis // _DAY_MILLIS
    return day if _DAYS[0] <= day <= _DAYS[1] else None


def _moment(class_: str | None, number: str | None, text: str | None, micros: str | None, _: bool) -> int | None:
    millis = _whole(class_, number, text)
    count = int(micros) if micros is not None else None if millis is None else millis * 1000
    return count if count is not None and _DAYS[0] <= count // (_DAY_MILLIS * 1000) <= _DAYS[1] else None


def _double(class_: str | None, number: str | None, text: str | None, micros: str | None, _: bool) -> float | None:
    if text is not None or micros is not None or class_ not in (None, _LONG):
        raise _NotPlainError
    return None if number is None else float(number)


def _float(class_: str | None, number: str | None, text: str | None, micros: str | None, up: bool) -> float | None:
    if class_ != _FLOAT or number is None:
        return _double(class_, number, text, micros, up)
    try:
        value: float = _SINGLE.unpack(_SINGLE.pack(float(number)))[0]
    except OverflowError as error:
        raise _NotPlainError from error
    return value


def _decimal(class_: str | None, number: str | None, text: str | None, micros: str | None, _: bool) -> Decimal | None:
    if text is not None or micros is not None or (number is not None and class_ != _DECIMAL):
        raise _NotPlainError
    return None if number is None else Decimal(number)


def _text(_: str | None, number: str | None, text: str | None, micros: str | None, __: bool) -> str | None:
    if number is not None or micros is not None:
        raise _NotPlainError
    return None if text is None else text[1:-1]


_DAY_MILLIS: Final = 86_400_000
_DAYS: Final = (1 - EPOCH_DAY, 3_652_059 - EPOCH_DAY)
"""The first and the last day of Python's years, which the rule keeps to."""

_LONG, _FLOAT, _DECIMAL = "lang.Long", "lang.Float", "math.BigDecimal"
_SINGLE: Final = struct.Struct("<f")

_READERS: Final[Mapping[str, tuple[Kind, _Read]]] = {
    **dict.fromkeys(INTEGER_TYPES, (Kind.NUMBER, _long)),
    "FLOAT4": (Kind.NUMBER, _float),
    "FLOAT8": (Kind.NUMBER, _double),
    "VARDECIMAL": (Kind.NUMBER, _decimal),
    "VARCHAR": (Kind.TEXT, _text),
    "DATE": (Kind.DATE, _day),
    "TIMESTAMP": (Kind.LOCAL, _moment),
}

_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
_JSON_NUMBER: Final = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"


def _holder(value: str, *names: str) -> str:
    name = "|".join(names)
    return (
        rf'(?:\{{"statisticsValue":{value},"statisticsKind":\{{(?:"exact":true,)?"name":"(?:{name})"\}}\}}'
        r"(?:,(?=\{)|(?=\])))?"
    )


_CLASS: Final = r"lang\.Long|lang\.Float|math\.BigDecimal"
_BOUND: Final = rf'(?:\{{"java\.({_CLASS})":({_JSON_NUMBER})\}}|({_JSON_NUMBER})|("[^"\\\x00-\x1f]*"))'
_MICROS: Final = r'\{"java\.lang\.Long":(-?(?:0|[1-9][0-9]{0,17}))\}'
_COUNT: Final = r'\{"java\.lang\.Long":(0|[1-9][0-9]{0,17})\}'

_PATTERN: Final = re.compile(
    r'\{"statistics":\['
    + _holder(_BOUND, Statistic.MIN_VALUE, LOWER)
    + _holder(_MICROS, MIN_MICROS)
    + _holder(_BOUND, Statistic.MAX_VALUE, UPPER)
    + _holder(_MICROS, MAX_MICROS)
    + _holder(_COUNT, Statistic.NULLS_COUNT)
    + _holder(_COUNT, Statistic.NON_NULLS_COUNT)
    + _holder(_COUNT, Statistic.ROW_COUNT)
    + _holder(_COUNT, NANS_COUNT)
    + _holder('("UTC")', TIME_ZONE)
    + r'\],"type":"([A-Z0-9]+)"\}'
)
