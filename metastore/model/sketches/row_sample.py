"""A uniform sample of a column's rows that can be combined from samples of files, for histograms.

Every row of a file draws a number, which depends only on the file's name below the table and the row's place in the
file; the rows with the smallest numbers are the sample. As in theta sketches, keeping exactly the smallest numbers,
with the bound below which all are kept, makes union associative and reproducible to the last bit. Quantile sketches
(KLL, t-digest) are more precise for their size, but are random or depend on the order of merging. An incremental
ANALYZE would then differ from a full one.

Values are kept as doubles, as in Drill's histograms; text and bytes have no sample.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from metastore.ground.digests import digest
from metastore.model.sketches.hashing import ArrowValues

SIZE: Final = 512
"""A border of the histogram is wrong by at most 2.2% of the rows (standard error): a fifth of one of its buckets."""

BUCKETS: Final = 10
"""As many as in Drill."""

_DRAWN_FROM: Final = 1 << 32
_SLICE: Final = 1 << 16
_STEP: Final = 0x9E3779B97F4A7C15
_STEPS: Final = np.arange(_SLICE, dtype=np.uint64) * np.uint64(_STEP)
_DAY_MILLIS: Final = 86_400_000

Draws = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowSample:
    """``draws`` of the kept rows, ascending, all that are below ``bound``; and their ``values``, without nulls."""

    draws: Draws
    values: Numbers
    bound: int = _DRAWN_FROM

    @classmethod
    def union(cls, parts: Iterable[RowSample]) -> RowSample:
        """Returns the sample of all rows of ``parts``; without parts, the sample of no rows."""
        known = list(parts)
        bound = min((part.bound for part in known), default=_DRAWN_FROM)
        draws = np.concatenate([part.draws for part in known]) if known else np.empty(0, np.uint32)
        values = np.concatenate([part.values for part in known]) if known else np.empty(0)
        # By value if two rows drew the same number, so that the order of the parts has no effect.
        order = np.lexsort((values, draws))
        draws, values = draws[order], values[order]
        if len(draws) > SIZE:
            bound = min(bound, int(draws[SIZE]))
        kept = int(np.searchsorted(draws, bound))
        return cls(draws[:kept].astype(np.uint32), values[:kept], bound)

    @classmethod
    def of_nothing(cls, bound: int = _DRAWN_FROM) -> RowSample:
        """Returns the sample of no rows, of which all below ``bound`` are kept."""
        return cls(np.empty(0, np.uint32), np.empty(0), bound)

    def histogram(self, values: int, low: float | None, high: float | None) -> tuple[int, list[float]] | None:
        """Returns an equi-depth histogram of ``values`` values, between exact bounds if they are known.

        It consists of the number of values in each bucket, and the ascending borders of the buckets. Returns None for
        no values.
        """
        if not len(self.values) or not values:
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # values that include infinity have no borders
            borders = np.quantile(self.values, np.linspace(0, 1, BUCKETS + 1))
        low = borders[0] if low is None else low
        high = borders[-1] if high is None else high
        borders = np.clip(borders, low, high)  # as doubles, sampled values may exceed the bounds in the last bit
        borders[0], borders[-1] = low, high
        if not np.isfinite(borders).all():
            return None
        return max(1, round(values / BUCKETS)), borders.tolist()

    def to_text(self) -> str:
        """Returns a compact text form; :meth:`from_text` reads it."""
        draws, values = self.draws.astype("<u4").tobytes(), self.values.astype("<f8").tobytes()
        return json.dumps([self.bound, b64encode(draws).decode(), b64encode(values).decode()], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> RowSample:
        """Reads the result of :meth:`to_text`."""
        bound, draws, values = json.loads(text)
        return cls(
            np.frombuffer(b64decode(draws), "<u4").astype(np.uint32),
            np.frombuffer(b64decode(values), "<f8").astype(np.float64),
            bound,
        )


class RowDraw:
    """Draws the rows of one file; ``name`` distinguishes the file from the table's others."""

    def __init__(self, name: str) -> None:
        own = digest(name, 8)
        self._seed = int.from_bytes(own, "little")
        self._lowest = np.empty(0, np.uint32)
        self.bound = _DRAWN_FROM
        """Rows with this draw or a higher one are no longer in the sample."""

    def rows(self, first: int, count: int) -> tuple[ArrowValues, Draws]:
        """Returns the rows from ``first`` on that may be in the sample: their places among them, and their draws."""
        places, draws = [], []
        for start in range(0, count, _SLICE):
            drawn = self._draws(first + start, min(_SLICE, count - start))
            self._lower(drawn[drawn < self.bound] if self.bound < _DRAWN_FROM else drawn)
            chosen = np.flatnonzero(drawn < self.bound)
            places.append(chosen + start)
            draws.append(drawn[chosen])
        if not places:
            return pa.array([], pa.int64()), np.empty(0, np.uint32)
        return pa.array(np.concatenate(places)), np.concatenate(draws)

    def _draws(self, first: int, count: int) -> Draws:
        """Returns the draws of the rows from ``first`` on: splitmix64 of the row's number, seeded by the file."""
        start = np.uint64((first * _STEP + self._seed) % (1 << 64))
        mixed: npt.NDArray[np.uint64] = _STEPS[:count] + start
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        drawn: Draws = (mixed >> np.uint64(32)).astype(np.uint32)
        return drawn

    def _lower(self, draws: Draws) -> None:
        lowest = np.concatenate([self._lowest, draws])
        if len(lowest) > SIZE:
            lowest = np.partition(lowest, SIZE)[: SIZE + 1]
            self.bound = int(lowest[SIZE])
        self._lowest = lowest


def as_numbers(values: ArrowValues) -> Numbers | None:
    """Returns ``values``, without nulls, as numbers for a histogram: times in epoch milliseconds.

    Returns None for text and bytes.
    """
    type_ = values.type
    if pa.types.is_decimal(type_) or pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        return np.asarray(values.cast(pa.float64(), safe=False))
    if pa.types.is_floating(type_):
        numbers = np.asarray(values.cast(pa.float64()))
        return numbers + 0.0
    if pa.types.is_date(type_):
        return np.asarray(values.cast(pa.date32()).cast(pa.int32())) * float(_DAY_MILLIS)
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        ticks = {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}[type_.unit]
        counted = values.cast(pa.int32()) if pa.types.is_time32(type_) else values
        return np.asarray(pc.cast(counted, pa.int64())) / ticks
    return None
