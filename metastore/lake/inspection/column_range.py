"""Bounds and counts of one column over several data files; what one of the files does not say is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.types import PrimitiveType

from metastore.lake.inspection.column_metrics import as_text, decode_bound, shown_value


class ColumnRange:
    """Adds up the metrics of the column ``field_id`` of type ``kind``.

    A bound may lie beyond all values: writers cut long texts. Deleted rows count.
    """

    def __init__(self, field_id: int, kind: PrimitiveType) -> None:
        self._field_id = field_id
        self._kind = kind
        self._low: Any = None
        self._high: Any = None
        self._has_bounds = True
        self._nulls: int | None = 0
        self._nans: int | None = 0

    def add(self, file: DataFile) -> None:
        """Take in the metrics of a data file."""
        values, nulls = (
            (file.value_counts or {}).get(self._field_id),
            (file.null_value_counts or {}).get(self._field_id),
        )
        self._nulls = _sum(self._nulls, nulls)
        self._nans = _sum(self._nans, (file.nan_value_counts or {}).get(self._field_id))
        if values is not None and values == nulls:
            return
        low = decode_bound(self._kind, (file.lower_bounds or {}).get(self._field_id))
        high = decode_bound(self._kind, (file.upper_bounds or {}).get(self._field_id))
        self._has_bounds = self._has_bounds and low is not None and high is not None
        if self._has_bounds:
            self._low, self._high = _choose_bound(min, self._low, low), _choose_bound(max, self._high, high)

    @property
    def low_text(self) -> str | None:
        """The least value as people write it; None if it is unknown."""
        return self._text(self._low)

    @property
    def high_text(self) -> str | None:
        """The greatest value, as :attr:`low_text`."""
        return self._text(self._high)

    def _text(self, value: Any) -> str | None:
        if value is None or not self._has_bounds:
            return None
        return as_text(self._kind, to_bytes(self._kind, value))

    def row(self) -> dict[str, Any]:
        """Returns ``min``, ``max``, ``null_count`` and ``nan_count``; None for what is unknown."""
        low, high = (self._low, self._high) if self._has_bounds else (None, None)
        return {
            "min": shown_value(self._kind, low),
            "max": shown_value(self._kind, high),
            "null_count": self._nulls,
            "nan_count": self._nans,
        }


def _sum(known: int | None, more: int | None) -> int | None:
    return None if known is None or more is None else known + more


def _choose_bound(choose: Callable[[Any, Any], Any], known: Any, more: Any) -> Any:
    return more if known is None else choose(known, more)
