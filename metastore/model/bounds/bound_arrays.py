"""Bounds of many containers as arrays, with one value or none per container, and their comparison with literals.

An array holds values of one kind, in the cheapest form that keeps their order exactly. Whole numbers and moments are
``int64``; decimals are ``int64`` of a common scale; floats are ``float64``; texts and bytes are Arrow arrays; anything
else is a Python object. A literal that the form cannot hold is compared by its two neighbours in that form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.ground.epoch import EPOCH_DATE
from metastore.model.bounds.neighbours import FAR, LONGS, as_long, floats_around, longs_around
from metastore.model.statistics import Value
from metastore.model.statistics_json import from_micros

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Positions: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class Kind(Enum):
    """Values of one kind have an order. Values of two kinds have none, except numbers and booleans."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    LOCAL = "local date-time"
    INSTANT = "instant"


_NUMERIC: Final = frozenset({Kind.NUMBER, Kind.BOOLEAN})
_KINDS: Final[Mapping[type, Kind]] = {
    bool: Kind.BOOLEAN,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    Decimal: Kind.NUMBER,
    str: Kind.TEXT,
    bytes: Kind.BYTES,
    date: Kind.DATE,
    time: Kind.TIME,
}
_MOMENTS: Final[Mapping[Kind, str]] = {Kind.TIME: "TIME", Kind.LOCAL: "TIMESTAMP", Kind.INSTANT: "TIMESTAMP"}


def kind_of(value: Value) -> Kind:
    """The kind of one value."""
    if isinstance(value, datetime):
        return Kind.LOCAL if value.tzinfo is None else Kind.INSTANT
    return _KINDS[type(value)]


def have_order(one: Kind, other: Kind) -> bool:
    """Whether values of the two kinds can be compared."""
    return one is other or (one in _NUMERIC and other in _NUMERIC)


Neighbours: TypeAlias = "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Mask]"
"""For each literal, its two neighbours in the form of some bounds, and whether the form holds it exactly."""


@dataclass(frozen=True, eq=False)
class SortedValues:
    """Sorted literals of one kind, at least one, with their neighbours in the forms of bounds seen so far."""

    values: Sequence[Value]
    neighbours: dict[tuple[Kind, str, int], Neighbours] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)


class BoundArray(ABC):
    """One bound of many containers, of one ``kind``; ``known`` marks the containers that have a bound.

    Comparisons are False where the bound is unknown.
    """

    kind: Kind
    known: Mask

    @abstractmethod
    def compare(self, sign: str, value: Value) -> Mask:
        """``bound sign value`` for each container; ``sign`` is one of ``< <= > >= =``."""

    @abstractmethod
    def same_as(self, other: BoundArray) -> Mask:
        """Where both bounds are known and equal; ``other`` must have the same form."""

    @abstractmethod
    def places(self, values: SortedValues) -> tuple[Positions, Mask]:
        """For each bound, the number of sorted ``values`` below it, and whether the next value equals it."""

    @abstractmethod
    def above(self, values: SortedValues, places: Positions) -> Mask:
        """Whether ``values[places[i]]`` is above bound ``i``; ``places`` are within ``values``."""

    @abstractmethod
    def take(self, positions: Positions) -> BoundArray:
        """The bounds at ``positions``; -1 gives an unknown one."""

    @abstractmethod
    def at(self, position: int) -> Value | None:
        """One bound as a Python value."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Approximate size in bytes."""


@dataclass(frozen=True, eq=False)
class Numbers(BoundArray):
    """Numbers as ``int64`` (times ten to the power of ``-scale``) or ``float64``; objects if neither holds them."""

    kind: Kind
    known: Mask
    values: np.ndarray[Any, Any]
    scale: int = 0
    decimal: bool = False

    def compare(self, sign: str, value: Value) -> Mask:
        """See :class:`BoundArray`."""
        low, high = self._neighbours(value)
        if sign == "=":
            return self._where(np.equal, low) if low == high else np.zeros(len(self.known), np.bool_)
        return self._where(_SIGNS[sign], high if sign in ("<", ">=") else low)

    def _where(self, compare: Callable[[Any, Any], Any], value: Any) -> Mask:
        if self.values.dtype != object:
            found: Mask = compare(self.values, value) & self.known
            return found
        found = np.zeros(len(self.known), np.bool_)
        found[self.known] = compare(self.values[self.known], value).astype(np.bool_)
        return found

    def same_as(self, other: BoundArray) -> Mask:
        """See :class:`BoundArray`."""
        assert isinstance(other, Numbers)
        both: Mask = self.known & other.known
        both[both] = (self.values[both] == other.values[both]).astype(np.bool_)
        return both

    def places(self, values: SortedValues) -> tuple[Positions, Mask]:
        """See :class:`BoundArray`."""
        low, _, is_exact = self._all_neighbours(values)
        mine = self.values if self.values.dtype != object else np.where(self.known, self.values, low[0])
        found = np.searchsorted(low, mine, "left")
        next_ = np.minimum(found, len(values) - 1)
        is_next = self.known & is_exact[next_] & (low[next_] == mine).astype(np.bool_)
        return found, is_next

    def above(self, values: SortedValues, places: Positions) -> Mask:
        """See :class:`BoundArray`."""
        _, high, _ = self._all_neighbours(values)
        found = np.zeros(len(self.known), np.bool_)
        found[self.known] = (high[places[self.known]] > self.values[self.known]).astype(np.bool_)
        return found

    def take(self, positions: Positions) -> Numbers:
        """See :class:`BoundArray`."""
        return replace(self, known=take_values(self.known, positions), values=take_values(self.values, positions))

    def at(self, position: int) -> Value | None:
        """See :class:`BoundArray`."""
        if not self.known[position]:
            return None
        found: Any = self.values[position]
        value: Any = found if self.values.dtype == object else found.item()
        if self.values.dtype == object:
            return value  # type: ignore[no-any-return] # objects are values
        if self.kind is Kind.BOOLEAN:
            return bool(value)
        if self.kind is Kind.DATE:
            return EPOCH_DATE + timedelta(days=value)
        if self.kind in _MOMENTS:
            return from_micros(value, _MOMENTS[self.kind], zoned=self.kind is Kind.INSTANT)
        return Decimal(value).scaleb(-self.scale) if self.decimal else value

    @property
    def nbytes(self) -> int:
        """See :class:`BoundArray`."""
        return int(self.known.nbytes + self.values.nbytes * (8 if self.values.dtype == object else 1))

    def _all_neighbours(self, values: SortedValues) -> Neighbours:
        """:meth:`_neighbours` of each value, limited to the form's range.

        The result is cached, since most portions share one form.
        """
        form = (self.kind, self.values.dtype.str, self.scale)
        found = values.neighbours.get(form)
        if found is None:
            found = values.neighbours[form] = self._cut_neighbours(values.values)
        return found

    def _cut_neighbours(self, values: Sequence[Value]) -> Neighbours:
        pairs = [self._neighbours(value) for value in values]
        is_exact = [low == high for low, high in pairs]
        if self.values.dtype == np.int64:
            least, most = LONGS
            is_exact = [same and least <= low <= most for same, (low, _) in zip(is_exact, pairs, strict=True)]
            pairs = [(min(max(low, least), most), min(max(high, least), most)) for low, high in pairs]
        lows, highs = (np.empty(len(pairs), self.values.dtype) for _ in (0, 1))
        lows[:] = [low for low, _ in pairs]
        highs[:] = [high for _, high in pairs]
        return lows, highs, np.array(is_exact, np.bool_)

    def _neighbours(self, value: Value) -> tuple[Any, Any]:
        """The largest value of this form not above ``value``, and the smallest not below it."""
        if self.values.dtype == object:
            return value, value
        if self.kind is Kind.DATE or self.kind in _MOMENTS:
            whole = as_long(value)
            return whole, whole
        assert isinstance(value, (int, float, Decimal))
        return floats_around(value) if self.values.dtype == np.float64 else longs_around(value, self.scale)


@dataclass(frozen=True, eq=False)
class Texts(BoundArray):
    """Texts (by their UTF-8) and bytes, in Arrow."""

    kind: Kind
    values: pa.Array[Any]

    @property
    def known(self) -> Mask:  # type: ignore[override]
        """See :class:`BoundArray`."""
        return mask_of(self.values.is_valid())

    def compare(self, sign: str, value: Value) -> Mask:
        """See :class:`BoundArray`."""
        try:
            literal = pa.scalar(value, self.values.type)
        except UnicodeEncodeError:  # half a character, which no stored text can be compared with
            return np.zeros(len(self.values), np.bool_)
        return mask_of(_ARROW_SIGNS[sign](self.values, literal))

    def same_as(self, other: BoundArray) -> Mask:
        """See :class:`BoundArray`."""
        assert isinstance(other, Texts)
        return mask_of(pc.equal(self.values, other.values))

    def places(self, values: SortedValues) -> tuple[Positions, Mask]:
        """See :class:`BoundArray`."""
        known, mine, wanted = self.known, self._objects(values.values[0]), _objects(values.values)
        found = np.searchsorted(wanted, mine, "left")
        return found, known & (wanted[np.minimum(found, len(values) - 1)] == mine).astype(np.bool_)

    def above(self, values: SortedValues, places: Positions) -> Mask:
        """See :class:`BoundArray`."""
        found: Mask = self.known & (_objects(values.values)[places] > self._objects(values.values[0])).astype(np.bool_)
        return found

    def starts_with(self, prefix: str) -> Mask:
        """Which bounds begin with ``prefix``."""
        return mask_of(pc.starts_with(self.values, prefix))

    def take(self, positions: Positions) -> Texts:
        """See :class:`BoundArray`."""
        places: Any = pa.array(positions, mask=positions < 0)
        return replace(self, values=self.values.take(places))

    def at(self, position: int) -> Value | None:
        """See :class:`BoundArray`."""
        value: Value | None = self.values[position].as_py()
        return value

    @property
    def nbytes(self) -> int:
        """See :class:`BoundArray`."""
        return self.values.nbytes

    def _objects(self, instead: Value) -> np.ndarray[Any, Any]:
        """The bounds as Python objects, with ``instead`` where the bound is unknown."""
        return _objects([instead if value is None else value for value in self.values.to_pylist()])


def bound_array(kind: Kind, values: Sequence[Value | None]) -> BoundArray:
    """An array of ``values`` of one ``kind`` (numbers and booleans do not mix); None means unknown."""
    if kind in (Kind.TEXT, Kind.BYTES):
        try:
            return Texts(kind, pa.array(values, pa.string() if kind is Kind.TEXT else pa.binary()))
        except UnicodeEncodeError:  # halves of characters, which JSON can spell and UTF-8 cannot
            return Numbers(kind, _mask_known(values), _objects(values))
    values = [value if _is_number(value) else None for value in values]
    known = _mask_known(values)
    if kind is Kind.NUMBER:
        types = {type(value) for value in values if value is not None}
        if types == {float}:
            return Numbers(kind, known, np.array([0.0 if value is None else value for value in values], np.float64))
        scale = max((-_exponent(value) for value in values if isinstance(value, Decimal)), default=0)
        if float in types or len(types) > 1 or scale > FAR:
            return Numbers(kind, known, _objects(values))
        scaled = [0 if value is None else _scale_to_integer(value, scale) for value in values]
        if scaled and not LONGS[0] <= min(scaled) <= max(scaled) <= LONGS[1]:
            return Numbers(kind, known, _objects(values))
        return Numbers(kind, known, np.array(scaled, np.int64), scale, Decimal in types)
    return Numbers(kind, known, np.array([0 if value is None else as_long(value) for value in values], np.int64))


def mask_of(values: Any) -> Mask:
    """Arrow booleans as a mask, with False for null."""
    found: Mask = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return found


def take_values(values: np.ndarray[Any, Any], positions: Positions) -> np.ndarray[Any, Any]:
    """``values`` at ``positions``; -1 gives a zero, False or None."""
    found = values[positions] if len(values) else np.zeros(len(positions), values.dtype)
    missing = positions < 0
    if missing.any():
        found[missing] = None if values.dtype == object else 0
    return found


def _is_number(value: object) -> bool:
    return not isinstance(value, Decimal) or value.is_finite()


def _mask_known(values: Sequence[Value | None]) -> Mask:
    return np.array([value is not None for value in values], np.bool_)


def _objects(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def _scale_to_integer(value: Any, scale: int) -> int:
    if not isinstance(value, Decimal):
        return int(value)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if exponent + scale > FAR:
        return LONGS[1] + 1  # beyond 64 bits, whatever its sign
    return (-1 if sign else 1) * int("".join(map(str, digits)) or 0) * int(10 ** (exponent + scale))


_SIGNS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_ARROW_SIGNS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "=": pc.equal,
}
