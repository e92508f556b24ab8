"""Reads whole numbers in the ``metadataStatistics`` of units into columns."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.statistics_json import holder_pattern, read_holders, read_row_count
from metastore.model.vocabulary import Statistic

UNKNOWN: Final = -(2**63)
"""Marks a number that is not recorded."""

Recorded = np.ndarray[Any, np.dtype[np.int64]]


def recorded_numbers(holders: pa.Array[Any], *names: str) -> list[Recorded]:
    """Returns for each of ``names`` the whole number in each unit's ``holders``, or :data:`UNKNOWN`; the last counts.

    A number of rows is known only if it is exact (:func:`metastore.model.statistics_json.read_row_count`). Raises
    FormatError for a holder that is no JSON.
    """
    lists: Any = holders
    found = {name: np.full(len(holders), UNKNOWN, np.int64) for name in names}
    owners: list[Any] = pc.list_parent_indices(lists).to_pylist()
    usual = _pattern(names).fullmatch
    counted_otherwise: set[int] = set()
    for owner, text in zip(owners, lists.flatten().to_pylist(), strict=True):
        match = None if text is None else usual(text)
        if match is not None:
            found[match[2]][owner] = int(match[1])
            continue
        for name in names:
            if text is not None and name in text:
                if name == Statistic.ROW_COUNT:
                    counted_otherwise.add(owner)
                elif name in (recorded := read_holders([text])):
                    found[name][owner] = _whole(recorded[name])
    for owner in counted_otherwise:
        found[Statistic.ROW_COUNT][owner] = _whole(read_row_count(lists[owner].as_py()))
    return list(found.values())


def with_nulls(numbers: Recorded) -> pa.Array[Any]:
    """Returns the numbers in Arrow, with null for :data:`UNKNOWN`."""
    found: pa.Array[Any] = pa.array(numbers, mask=numbers == UNKNOWN)
    return found


def _whole(value: Any) -> int:
    return value if type(value) is int and abs(value) < -UNKNOWN else UNKNOWN


@lru_cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Returns a pattern for whole numbers that :func:`metastore.model.statistics_json.holder_json` wrote."""
    name = "|".join(names)
    usual = re.escape(holder_pattern("NAME") % 0)
    return re.compile(usual.replace("0", "(-?[0-9]{1,18})").replace("NAME", f"({name})"))
