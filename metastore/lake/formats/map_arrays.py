"""Creates maps as Arrow arrays. All code must use it, since Arrow 25 ends the process for keys with validity bits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def map_array(offsets: Any, keys: Any, items: Any, type_: Any, null: Any) -> Any:
    """Return maps of ``type_``.

    ``offsets`` has one more value than there are maps: the place of each map's first entry in ``keys`` and ``items``.
    ``null`` marks the maps that are null; None if none is. No key is null.
    """
    from_arrays: Any = pa.MapArray.from_arrays  # the stubs know only half of its signatures
    return from_arrays(offsets, _without_validity(keys), items, type_, mask=null)


def _without_validity(keys: Any) -> Any:
    """Returns the same keys without validity bits, which only say that no key is null.

    They cause the fault apache/arrow#51029, fixed in Arrow 26.
    """
    validity, *rest = keys.buffers()
    if validity is None or keys.null_count or pa.types.is_nested(keys.type):
        return keys
    return pa.Array.from_buffers(keys.type, len(keys), [None, *rest], 0, keys.offset)
