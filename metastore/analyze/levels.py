"""Levels of ANALYZE: how deep the stored metadata goes. A level stores its own units and those of the levels above."""

from __future__ import annotations

from typing import Final

from metastore.errors import InvalidRequestError
from metastore.model.vocabulary import MetadataType

LEVELS: Final = (
    MetadataType.TABLE,
    MetadataType.SEGMENT,
    MetadataType.PARTITION,
    MetadataType.FILE,
    MetadataType.ROW_GROUP,
)


def level_named(name: str) -> MetadataType:
    """The level called ``name``, in any case; ALL means the deepest. Raises InvalidRequestError for another name."""
    if name.upper() == MetadataType.ALL.value:
        return LEVELS[-1]
    level = next((level for level in LEVELS if level.value == name.upper()), None)
    if level is None:
        known = ", ".join(map(str, LEVELS))
        raise InvalidRequestError(f"there is no ANALYZE level {name!r}; the levels are {known} and ALL")
    return level


def reaches(level: MetadataType, wanted: MetadataType) -> bool:
    """Whether ``level`` stores units of the level ``wanted``."""
    return LEVELS.index(level) >= LEVELS.index(wanted)
