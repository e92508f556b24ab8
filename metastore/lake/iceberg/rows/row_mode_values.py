"""The properties of a table that say how DELETE, UPDATE and MERGE change rows, with the values that they take.

Place in the flow: whatever sets properties checks values here, and statements read the properties by the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from metastore.errors import InvalidRequestError

MERGE_ON_READ: Final = "merge-on-read"
SERIALIZABLE: Final = "serializable"
BY_FILE: Final = "file"
GRANULARITY: Final = "write.delete.granularity"

ROW_MODE_VALUES: Final[Mapping[str, tuple[str, str]]] = {
    **{f"write.{kind}.mode": (MERGE_ON_READ, "copy-on-write") for kind in ("delete", "update", "merge")},
    **{f"write.{kind}.isolation-level": (SERIALIZABLE, "snapshot") for kind in ("delete", "update", "merge")},
    GRANULARITY: ("partition", BY_FILE),
}
"""The values of each property, the default of this package first. Their case does not matter."""


def require_row_mode_value(key: str, value: str) -> None:
    """Raise InvalidRequestError if ``key`` is such a property and does not take ``value``."""
    known = ROW_MODE_VALUES.get(key)
    if known is not None and value.lower() not in known:
        raise InvalidRequestError(f"property {key} is {value!r}; {known[0]} and {known[1]} are supported")
