"""Maps as Arrow arrays: the one maker, since Arrow 25 ends the process over keys that carry bits of validity."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def map_array(offsets: Any, keys: Any, items: Any, type_: Any, null: Any) -> Any:
    """Return maps of ``type_``.

    ``offsets`` has one more value than there are maps and says where each begins in ``keys`` and ``items``. ``null``
    says which maps are null, None if none is. No key is null.
    """
    from_arrays: Any = pa.MapArray.from_arrays  # the stubs know only one half of its signatures
    return from_arrays(offsets, _without_validity(keys), items, type_, mask=null)


def _without_validity(keys: Any) -> Any:
    """The same keys without bits that say that none is null: apache/arrow#51029, mended in Arrow 26."""
    validity, *rest = keys.buffers()
    if validity is None or keys.null_count or pa.types.is_nested(keys.type):
        return keys
    return pa.Array.from_buffers(keys.type, len(keys), [None, *rest], 0, keys.offset)
