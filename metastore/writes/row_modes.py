"""How a statement changes rows of a table: its properties ``write.delete.mode``, ``write.update.mode`` and their like.

Copy-on-write writes files with changed rows anew. Merge-on-read leaves them, and writes deletes and the changed rows.
Statements merge on read unless the table's property says otherwise. Tables of format version 1 have no deletes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from metastore.errors import InvalidRequestError

Kind = Literal["delete", "update", "merge"]

_COPY: Final = "copy-on-write"
_MERGE: Final = "merge-on-read"
_SERIALIZABLE: Final = "serializable"
_SNAPSHOT: Final = "snapshot"
_GRANULARITY: Final = "write.delete.granularity"
_PARTITION: Final = "partition"
_FILE: Final = "file"


@dataclass(frozen=True)
class RowMode:
    """The mode of one statement.

    ``merges_on_read``: write deletes instead of new data files. ``is_serializable``: files of concurrent commits that
    may have a row of the condition are a conflict. ``by_file``: a position delete file is about one data file.
    """

    merges_on_read: bool = False
    is_serializable: bool = True
    by_file: bool = False

    @classmethod
    def of(cls, name: str, properties: Mapping[str, str], format_version: int, kind: Kind) -> RowMode:
        """Read the properties of table ``name``. Raises InvalidRequestError for an unknown value of one of them."""

        def chosen(key: str, first: str, second: str) -> str:
            value = properties.get(key, first)
            if value.lower() not in (first, second):
                raise InvalidRequestError(
                    f"property {key} of {name} is {value!r}; {first} and {second} are supported: run ALTER TABLE "
                    f"{name} SET PROPERTIES {key} = '{first}'"
                )
            return value.lower()

        mode = chosen(f"write.{kind}.mode", _MERGE, _COPY)
        isolation = chosen(f"write.{kind}.isolation-level", _SERIALIZABLE, _SNAPSHOT)
        granularity = chosen(_GRANULARITY, _PARTITION, _FILE)
        return cls(mode == _MERGE and format_version > 1, isolation == _SERIALIZABLE, granularity == _FILE)
