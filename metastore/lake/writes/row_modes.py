"""How a statement changes rows of a table: its properties ``write.delete.mode``, ``write.update.mode`` and their like.

Copy-on-write writes files with changed rows anew. Merge-on-read leaves them, and writes deletes and the changed rows.
Statements merge on read unless the table's property says otherwise. Tables of format version 1 have no deletes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.rows.row_mode_values import (
    BY_FILE,
    GRANULARITY,
    MERGE_ON_READ,
    ROW_MODE_VALUES,
    SERIALIZABLE,
)

Kind = Literal["delete", "update", "merge"]


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

        def choose(key: str) -> str:
            first, second = ROW_MODE_VALUES[key]
            value = properties.get(key, first)
            if value.lower() not in (first, second):
                raise InvalidRequestError(
                    f"property {key} of {name} is {value!r}; {first} and {second} are supported: run ALTER TABLE "
                    f"{name} SET PROPERTIES {key} = '{first}'"
                )
            return value.lower()

        merges = choose(f"write.{kind}.mode") == MERGE_ON_READ
        isolation = choose(f"write.{kind}.isolation-level")
        return cls(merges and format_version > 1, isolation == SERIALIZABLE, choose(GRANULARITY) == BY_FILE)
