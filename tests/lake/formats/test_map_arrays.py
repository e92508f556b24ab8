"""Maps whose keys come out of a filter: they are cast, compared and printed as any others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from metastore.lake.formats.map_arrays import map_array

TYPE = pa.map_(pa.string(), pa.int64())
ENTRIES: list[Any] = [None, [], [("k", None)], [("k", 1), ("l", 2)]]


@pytest.mark.parametrize("mask", [[True] * 4, [False, False, False, True], [True, False, False, False], [False] * 4])
def test_filtered_maps_are_maps(mask: list[bool]) -> None:
    """A filter leaves bits of validity on the keys. Arrow 25 ended the process when such a map was cast."""
    whole: Any = pa.array(ENTRIES, TYPE).filter(pa.array(mask))
    keys = whole.keys.filter(pa.array([True] * len(whole.keys), pa.bool_()))
    made = map_array(whole.offsets, keys, whole.items, TYPE, None)
    other = made.cast(pa.map_(pa.large_string(), pa.int64()))
    assert other.to_pylist() == [entry or [] for entry, kept in zip(ENTRIES, mask, strict=True) if kept]
    made.validate(full=True)
