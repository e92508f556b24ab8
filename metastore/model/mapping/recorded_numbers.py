"""Reads whole numbers in the ``metadataStatistics`` of units into columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    owners = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    texts: list[Any] = lists.flatten().to_pylist()
    usual = _usual_numbers(texts, names)
    if usual is not None:
        numbers, places = usual
        for place, name in enumerate(names):
            of_name = places == place
            found[name][owners[of_name]] = numbers[of_name]
        return list(found.values())
    counted_otherwise: set[int] = set()
    pattern = _pattern(names)
    for owner, text in zip(owners.tolist(), texts, strict=True):
        match = None if text is None else pattern.fullmatch(text)
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


def _usual_numbers(texts: Sequence[Any], names: tuple[str, ...]) -> tuple[Recorded, Recorded] | None:
    """Returns each text's number and the place of its name in ``names``; -1 for another name.

    Returns None if a text is not one that we write: each is then read by itself, which takes three times as long.
    """
    if None in texts:
        return None
    lines = "\n".join(texts)
    found = _ANY.findall(lines)
    if len(found) != len(texts) or lines.count("\n") != max(0, len(texts) - 1):
        return None
    place = {name: number for number, name in enumerate(names)}
    numbers, own = zip(*found, strict=True) if found else ((), ())
    places = [place.get(name, -1) for name in own]
    return np.array([*map(int, numbers)], np.int64), np.array(places, np.int64)


def with_nulls(numbers: Recorded) -> pa.Array[Any]:
    """Returns the numbers in Arrow, with null for :data:`UNKNOWN`."""
    found: pa.Array[Any] = pa.array(numbers, mask=numbers == UNKNOWN)
    return found


def _whole(value: Any) -> int:
    return value if type(value) is int and abs(value) < -UNKNOWN else UNKNOWN


def _usual(name: str) -> str:
    """Returns a pattern for whole numbers that :func:`metastore.model.statistics_json.holder_json` wrote."""
    usual = re.escape(holder_pattern("NAME") % 0)
    return usual.replace("0", "(-?[0-9]{1,18})").replace("NAME", f"({name})")


_ANY: Final = re.compile(rf"^{_usual('[A-Za-z]+')}$", re.MULTILINE)


@lru_cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(_usual("|".join(names)))
