"""Decodes texts of ``columnsStatistics`` into :class:`StatisticsColumns`, many at a time, each distinct text once.

A pattern decodes texts of the usual types as ANALYZE and Drill write them, at a fraction of the cost of JSON. Every
other text is read by :mod:`metastore.model.statistics`, the reference reader: both must give the same result.
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

from metastore.ground.epoch import EPOCH_DAY
from metastore.model.bounds.bound_arrays import BoundArray, Kind, Numbers, Texts, mask_of
from metastore.model.bounds.statistics_columns import (
    BoundPair,
    StatisticsColumns,
    bound_pair,
    flags_of_counts,
    together,
)
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


def decode_texts(texts: pa.Array[Any]) -> StatisticsColumns:
    """Statistics from ``texts``, JSON or null for each container. Raises FormatError as the reader of one text does."""
    distinct = texts.dictionary_encode()
    different: list[Any] = distinct.dictionary.to_pylist()
    places: Any = distinct.indices.cast(pa.int64())
    indices = pc.fill_null(places, -1).to_numpy(zero_copy_only=False)
    return _of_distinct(different).take(indices)


def null_counts(texts: pa.Array[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The number of nulls that each of ``texts`` states as ANALYZE writes it; -1 where it states none."""
    distinct = texts.dictionary_encode()
    found: Any = pc.struct_field(pc.extract_regex(distinct.dictionary, pattern=_NULLS), "nulls")
    counts: Any = found.cast(pa.int64()).take(distinct.indices)
    return pc.fill_null(counts, -1).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return] # of whole numbers


_NULLS: Final = (
    r'\{"java\.lang\.Long":(?P<nulls>[0-9]{1,18})\},"statisticsKind":\{"exact":true,"name":"'
    + Statistic.NULLS_COUNT
    + r'"'
)

_Groups = tuple[str, ...]
"""The pattern's groups for one text, "" for what it lacks: five for each bound, four counts, the zone and the type."""


class _StatisticsText(NamedTuple):
    """One text decoded by the pattern: bounds in the form of arrays, and the four counts."""

    position: int
    low: Any
    high: Any
    counts: tuple[int, int, int, int]


def _of_distinct(texts: Sequence[str]) -> StatisticsColumns:
    """Columns of ``texts``, in order: by pattern and type where that works, else by the reference reader."""
    others: list[int] = []
    by_type: dict[str, tuple[list[int], list[_Groups]]] = {}
    for position, found in enumerate(_matches(texts)):
        if found is None or found[-1] not in _READERS:
            others.append(position)
            continue
        positions, groups = by_type.setdefault(found[-1], ([], []))
        positions.append(position)
        groups.append(found)
    parts: list[StatisticsColumns] = []
    for type_, (positions, groups) in by_type.items():
        whole = _all_at_once(type_, groups)
        if whole is None:
            some, left = _one_by_one(type_, positions, groups, len(texts))
            parts += some
            others += left
        else:
            parts.append(whole.take(_places(len(texts), positions)))
    if others:
        rest = StatisticsColumns.of(parse_many([texts[position] for position in others]))
        parts.append(rest.take(_places(len(texts), others)))
    return together(parts) if parts else StatisticsColumns.nothing(len(texts))


def _matches(texts: Sequence[str]) -> Sequence[_Groups | None]:
    """The pattern's groups of each text; None for a text that does not match."""
    lines = "\n".join(texts)
    found: list[_Groups] = _LINES.findall(lines)
    if len(found) == len(texts) and lines.count("\n") == len(texts) - 1:
        return found
    return [match.groups("") if (match := _PATTERN.fullmatch(text)) else None for text in texts]


def _all_at_once(type_: str, groups: Sequence[_Groups]) -> StatisticsColumns | None:
    """Statistics of one of the commonest types; None if there is a spelling that needs another reader."""
    columns = list(zip(*groups, strict=True))
    read = _BOUNDS_AT_ONCE.get(type_)
    if type_ == "TIMESTAMP" and len(zones := set(columns[14])) == 1:
        read = _moments_at_once(Kind.INSTANT if zones.pop() else Kind.LOCAL)
    if read is None:
        return None
    try:
        low, high = read(*columns[:5]), read(*columns[5:10])
        nulls, non_nulls, rows, nans = (_numbers(column, pa.int64(), -1)[1] for column in columns[10:14])
    except (_NotPlainError, pa.ArrowInvalid):
        return None
    counted = (rows >= 0) & (nulls >= 0) & (non_nulls >= 0)
    rows = np.where(counted, np.maximum(rows, nulls + non_nulls), rows)  # See _counts.
    flags = flags_of_counts(nulls, non_nulls, rows, nans)
    return StatisticsColumns(flags, (type_,), np.zeros(len(groups), np.int16), (BoundPair(low, high),))


_Column = Sequence[str]


def _numbers_at_once(type_: pa.DataType) -> Callable[..., BoundArray]:
    def read(classes: _Column, wrapped: _Column, bare: _Column, texts: _Column, micros: _Column) -> BoundArray:
        if not {"", _LONG}.issuperset(classes) or any(texts) or any(micros):
            raise _NotPlainError
        numbers = [one or other for one, other in zip(wrapped, bare, strict=True)]
        return Numbers(Kind.NUMBER, *_numbers(numbers, type_, 0))

    return read


def _days_at_once(*columns: _Column) -> BoundArray:
    millis = _numbers_at_once(pa.int64())(*columns)
    assert isinstance(millis, Numbers)
    days, rest = np.divmod(millis.values, _DAY_MILLIS)
    if rest.any() or ((days < _DAYS[0]) | (days > _DAYS[1])).any():
        raise _NotPlainError
    return Numbers(Kind.DATE, millis.known, days)


def _moments_at_once(kind: Kind) -> Callable[..., BoundArray]:
    def read(classes: _Column, wrapped: _Column, bare: _Column, texts: _Column, in_micros: _Column) -> BoundArray:
        millis = _numbers_at_once(pa.int64())(classes, wrapped, bare, texts, ())
        assert isinstance(millis, Numbers)
        if (abs(millis.values // _DAY_MILLIS) > _DAYS[1]).any():
            raise _NotPlainError
        has_micros, micros = _numbers(in_micros, pa.int64(), 0)
        moments = np.where(has_micros, micros, millis.values * 1000)
        days = moments // (_DAY_MILLIS * 1000)
        if ((days < _DAYS[0]) | (days > _DAYS[1])).any():
            raise _NotPlainError
        return Numbers(kind, millis.known | has_micros, moments)

    return read


def _texts_at_once(_: _Column, wrapped: _Column, bare: _Column, texts: _Column, micros: _Column) -> BoundArray:
    if any(wrapped) or any(bare) or any(micros):
        raise _NotPlainError
    return Texts(Kind.TEXT, pa.array([text[1:-1] if text else None for text in texts], pa.string()))


def _numbers(texts: _Column, type_: pa.DataType, instead: int) -> tuple[Any, Any]:
    """Which numbers are present, and all of them with ``instead`` for missing ones."""
    found: Any = pa.array([text or None for text in texts], pa.string()).cast(type_)
    if found.null_count == 0:
        return np.ones(len(found), np.bool_), found.to_numpy()
    if found.null_count == len(found):
        return np.zeros(len(found), np.bool_), np.full(len(found), instead, type_.to_pandas_dtype())
    return mask_of(found.is_valid()), pc.fill_null(found, instead).to_numpy()


def _one_by_one(
    type_: str, positions: Sequence[int], groups: Sequence[_Groups], count: int
) -> tuple[list[StatisticsColumns], list[int]]:
    """Statistics of one type among ``count`` containers, and the positions that need the reference reader."""
    by_kind: dict[Kind, list[_StatisticsText]] = {}
    others: list[int] = []
    kind_of_type, read = _READERS[type_]
    for position, given in zip(positions, groups, strict=True):
        found = [group or None for group in given]
        low, high, (*counts, zone, _) = found[:5], found[5:10], found[10:]
        try:
            stated = _StatisticsText(
                position, _read_bound(read, low, False), _read_bound(read, high, True), _counts(counts)
            )
        except _NotPlainError:
            others.append(position)
            continue
        kind = Kind.INSTANT if zone and kind_of_type is Kind.LOCAL else kind_of_type
        by_kind.setdefault(kind, []).append(stated)
    parts = [
        _together(type_, kind, stated).take(_places(count, [one.position for one in stated]))
        for kind, stated in by_kind.items()
    ]
    return parts, others


def _places(count: int, positions: Sequence[int]) -> Any:
    """For each of ``count`` containers, its index in ``positions``; -1 if it is not there."""
    found = np.full(count, -1, np.int64)
    found[positions] = np.arange(len(positions))
    return found


def _together(type_: str, kind: Kind, texts: Sequence[_StatisticsText]) -> StatisticsColumns:
    nulls, non_nulls, rows, nans = np.array([one.counts for one in texts], np.int64).T
    flags = flags_of_counts(nulls, non_nulls, rows, nans)
    pair = _pair(type_, kind, [one.low for one in texts], [one.high for one in texts])
    return StatisticsColumns(flags, (type_,), np.zeros(len(texts), np.int16), (pair,))


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
    """Nulls, values, rows and NaNs, as the reference reader gives them; -1 means unknown."""
    nulls, non_nulls, rows, nans = (-1 if text is None else int(text) for text in texts)
    if rows >= 0 and nulls >= 0 and non_nulls >= 0:
        rows = max(rows, nulls + non_nulls)  # Where Drill reads data, it counts only values as a column's rows.
    return nulls, non_nulls, rows, nans


def _read_bound(read: _Read, groups: Sequence[str | None], is_upper: bool) -> Any:
    class_, wrapped, bare, text, micros = groups
    return read(class_, wrapped or bare, text, micros, is_upper)


class _NotPlainError(Exception):
    """The bound needs the reference reader."""


_Read = Callable[["str | None", "str | None", "str | None", "str | None", bool], Any]
"""Reads a bound from its Java class (without ``java.``), number, quoted text, microseconds, and side."""


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
"""The first and the last day of Python's years, the range of the reference reader."""

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

_TEXT: Final = (
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
_PATTERN: Final = re.compile(_TEXT)
_LINES: Final = re.compile(f"^{_TEXT}$", re.MULTILINE)

_BOUNDS_AT_ONCE: Final[Mapping[str, Callable[..., BoundArray]]] = {
    **dict.fromkeys(INTEGER_TYPES, _numbers_at_once(pa.int64())),
    "FLOAT8": _numbers_at_once(pa.float64()),
    "VARCHAR": _texts_at_once,
    "DATE": _days_at_once,
}
"""Readers of the bounds of the commonest types, from columns of the pattern's groups."""
