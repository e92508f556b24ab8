"""Reads whole numbers in the ``metadataStatistics`` of units into a column."""

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


def recorded_numbers(holders: pa.Array[Any], name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns the whole number ``name`` in each unit's ``holders``, or :data:`UNKNOWN`; of several, the last."""
    found = np.full(len(holders), UNKNOWN, np.int64)
    lists: Any = holders
    texts = lists.flatten()
    named = pc.match_substring(texts, name)
    owners = pc.list_parent_indices(lists).filter(named).to_pylist()
    pattern = _pattern(name)
    for owner, text in zip(owners, texts.filter(named).to_pylist(), strict=True):
        match = pattern.fullmatch(text)
        if match is not None:
            found[owner] = int(match[1])
        elif name in (recorded := read_holders([text])):
            value = recorded[name]
            found[owner] = value if type(value) is int and abs(value) < -UNKNOWN else UNKNOWN
    return found


def exact_row_counts(holders: pa.Array[Any]) -> pa.Array[Any]:
    """Returns the number of rows of each unit if it is exact, else null.

    The result is the same as that of :func:`metastore.model.statistics_json.read_row_count` for each unit.
    """
    found = recorded_numbers(holders, Statistic.ROW_COUNT)
    lists: Any = holders
    texts = lists.flatten()
    named = pc.match_substring(texts, Statistic.ROW_COUNT)
    owners = pc.list_parent_indices(lists).filter(named).to_pylist()
    pattern = _pattern(Statistic.ROW_COUNT)
    for owner, text in zip(owners, texts.filter(named).to_pylist(), strict=True):
        if pattern.fullmatch(text) is None:
            count = read_row_count(lists[owner].as_py())
            found[owner] = UNKNOWN if count is None else count
    return with_nulls(found)


def with_nulls(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array[Any]:
    """Returns the numbers in Arrow, with null for :data:`UNKNOWN`."""
    found: pa.Array[Any] = pa.array(numbers, mask=numbers == UNKNOWN)
    return found


@lru_cache
def _pattern(name: str) -> re.Pattern[str]:
    """Returns a pattern for whole numbers that :func:`metastore.model.statistics_json.holder_json` wrote."""
    return re.compile(re.escape(holder_pattern(name) % 0).replace("0", "(-?[0-9]{1,18})"))
