"""Estimates the number of distinct values: the theta sketch, whose parts can be merged repeatedly without loss.

A sketch keeps its ``size`` smallest distinct hashes, and ``theta``, the bound below which it keeps all hashes. With
``n`` hashes below a bound that is the fraction ``f`` of the whole range, there are about ``n / f`` distinct values; the
standard error is ``1 / sqrt(size)``. Up to ``size`` values are counted exactly.

Keeping exactly the smallest hashes makes union associative and commutative to the last bit. So the sketch of a table
does not depend on how its files were grouped, or when they were read. DataSketches' own update rule does not have this
property; its readers accept these sketches.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from metastore.errors import FormatError
from metastore.model.sketches.hashing import Hashes

SIZE: Final = 1024
"""Standard error 3.1%, and 8 KB. Every column of every file has one, and a join order needs no better figure."""

TABLE_SIZE: Final = 4096
"""Standard error 1.6%, and 32 KB: the size in Iceberg's statistics of a table, as Spark and Trino write them."""

_EVERYTHING: Final = (1 << 63) - 1
_SEED_HASH: Final = 0x93CC
_READ_ONLY_COMPACT_ORDERED: Final = 0x1A
_EMPTY: Final = 0x04
_PENDING: Final = 8
"""A builder combines its hashes when it holds this many times its size."""


@dataclass(frozen=True, eq=False)
class Theta:
    """``hashes`` are all distinct ones below ``theta``, ascending.

    ``repeated`` marks those whose value occurred repeatedly. Repeated values matter for samples of rows
    (:func:`metastore.model.sketches.description.distinct_values`).
    """

    hashes: Hashes
    repeated: npt.NDArray[np.bool_]
    theta: int = _EVERYTHING

    @property
    def estimate(self) -> float:
        """The estimated number of distinct values."""
        return len(self.hashes) if self.theta == _EVERYTHING else len(self.hashes) * (_EVERYTHING / self.theta)

    @property
    def relative_error(self) -> float:
        """One standard error of :attr:`estimate`, relative to it; 0 where the number is exact."""
        return 0.0 if self.theta == _EVERYTHING else 1 / math.sqrt(max(1, len(self.hashes)))

    @classmethod
    def union(cls, parts: Iterable[Theta], size: int = SIZE) -> Theta:
        """Returns the sketch of ``size`` of the values of all ``parts``, which are no smaller.

        Without parts, it is the sketch of no values.
        """
        known = list(parts)
        theta = min((part.theta for part in known), default=_EVERYTHING)
        return cls._smallest([(part.hashes, part.repeated) for part in known], theta, size)

    @classmethod
    def _smallest(cls, parts: list[tuple[Hashes, npt.NDArray[np.bool_]]], theta: int, size: int) -> Theta:
        below = [(hashes[: (end := int(np.searchsorted(hashes, theta)))], flags[:end]) for hashes, flags in parts]
        every = np.concatenate([hashes for hashes, _ in below]) if below else np.empty(0, np.uint64)
        flags = np.concatenate([flags for _, flags in below]) if below else np.empty(0, np.bool_)
        hashes, places, counts = np.unique(every, return_inverse=True, return_counts=True)
        repeated = counts > 1
        np.logical_or.at(repeated, places, flags)
        if len(hashes) > size:
            theta = int(hashes[size])
            hashes, repeated = hashes[:size], repeated[:size]
        return cls(hashes.astype(np.uint64), repeated, theta)

    def to_bytes(self) -> bytes:
        """Returns DataSketches' compact form, ordered, without the marks."""
        exact = self.theta == _EVERYTHING
        count = len(self.hashes)
        longs = 1 if exact and count <= 1 else 2 if exact else 3
        flags = _READ_ONLY_COMPACT_ORDERED | (_EMPTY if exact and not count else 0)
        head = struct.pack("<BBBBBBH", longs, 3, 3, 0, 0, flags, _SEED_HASH)
        if longs > 1:
            head += struct.pack("<II", count, 0)
        if longs > 2:
            head += struct.pack("<Q", self.theta)
        return head + self.hashes.astype("<u8").tobytes()

    @classmethod
    def from_bytes(cls, content: bytes, repeated: npt.NDArray[np.bool_] | None = None) -> Theta:
        """Reads the result of :meth:`to_bytes`. Raises FormatError for anything else."""
        if len(content) < 8 or content[1:3] != b"\x03\x03" or content[6:8] != struct.pack("<H", _SEED_HASH):
            raise FormatError("these bytes are no theta sketch in DataSketches' compact form")
        longs = content[0]
        theta = int(struct.unpack_from("<Q", content, 16)[0]) if longs > 2 else _EVERYTHING
        hashes = np.frombuffer(content, "<u8", offset=8 * longs).astype(np.uint64)
        marks = np.zeros(len(hashes), np.bool_) if repeated is None else repeated[: len(hashes)]
        return cls(hashes, marks, theta)


class ThetaBuilder:
    """Makes one sketch from any number of hashes."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._known = Theta.union(())
        self._pending: list[Hashes] = []
        self._waiting = 0

    def add(self, hashes: Hashes) -> None:
        """Add hashes, in any order; hashes may repeat."""
        if self._known.theta != _EVERYTHING:
            # Most are not below it, and numpy skips them faster if their places are found first.
            hashes = hashes[np.flatnonzero(hashes < self._known.theta)]
        self._pending.append(hashes)
        self._waiting += len(hashes)
        if self._waiting > _PENDING * self._size:
            self._compress()

    def sketch(self) -> Theta:
        """Returns the sketch of all hashes so far."""
        self._compress()
        return self._known

    def _compress(self) -> None:
        if self._waiting:
            hashes, counts = np.unique(np.concatenate(self._pending), return_counts=True)
            # No further hashes can be among the smallest, or be the bound above them.
            fresh = (hashes[: self._size + 1], counts[: self._size + 1] > 1)
            self._known = Theta._smallest(  # noqa: SLF001 - the builder is the sketch's other half
                [(self._known.hashes, self._known.repeated), fresh], self._known.theta, self._size
            )
        self._pending, self._waiting = [], 0
