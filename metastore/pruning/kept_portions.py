"""Portions that were decoded, kept for later questions within the metastore's budget of memory.

What a portion is made of (data files of the metastore) never changes, so what is kept is never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa

from metastore.bounds.portion_columns import PortionColumns
from metastore.bounds.unit_columns import UnitColumns
from metastore.iceberg.open_tables import FileCache


@dataclass(frozen=True)
class KeptPortions:
    """Portions by a name that tells what they are made of; columns are added to them as questions ask for them."""

    cache: FileCache

    def get(self, name: str, asked: Collection[str], read: Callable[[], PortionColumns]) -> PortionColumns:
        """The portion ``name`` with the columns ``asked`` for, which ``read`` gets where they are not here."""
        known = self.find(name)
        if known is not None and known.asked.issuperset(asked):
            return known
        found = read()
        if known is not None:
            found = found.beside(known)
        self.cache.put(_key(name), found, found.nbytes)
        return found

    def segments(self, name: str, asked: Collection[str], units: pa.Table) -> UnitColumns:
        """``units``, the segments of what is called ``name``, with the columns ``asked`` for.

        What is kept is of segments in one order: how they were read decides in which they stand.
        """
        order = sha256("\n".join(map(str, units["metadataIdentifier"].to_pylist())).encode()).hexdigest()
        key = f"segments of {name} in {order}"
        known = self.cache.find(key)
        if isinstance(known, UnitColumns) and known.by_column.keys() >= set(asked):
            return known
        found = UnitColumns.of(units, asked)
        if isinstance(known, UnitColumns):
            found = found.beside(known)
        self.cache.put(key, found, found.nbytes)
        return found

    def find(self, name: str) -> PortionColumns | None:
        """The portion ``name`` if it is here."""
        found = self.cache.find(_key(name))
        return found if isinstance(found, PortionColumns) else None


def _key(name: str) -> str:
    return f"portion {name}"
