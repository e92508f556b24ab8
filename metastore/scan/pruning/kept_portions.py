"""Decoded portions, kept for later queries within the metastore's memory budget.

A portion's data files never change, so a kept portion is never out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa

from metastore.lake.iceberg.catalogs.open_tables import FileCache
from metastore.model.bounds.portion_columns import PortionColumns
from metastore.model.bounds.unit_columns import UnitColumns


@dataclass(frozen=True)
class KeptPortions:
    """Portions by a name that identifies their data files; columns are added as queries need them."""

    cache: FileCache

    def get(self, name: str, columns: Collection[str], read: Callable[[], PortionColumns]) -> PortionColumns:
        """The portion ``name`` with ``columns``; ``read`` is called if some of them are missing."""
        known = self.find(name)
        if known is not None and known.asked.issuperset(columns):
            return known
        found = read()
        if known is not None:
            found = found.beside(known)
        self.cache.put(_key(name), found, found.nbytes)
        return found

    def segments(self, name: str, columns: Collection[str], units: pa.Table) -> UnitColumns:
        """``units``, the segments of the portion ``name``, decoded with ``columns``.

        Decoded segments are kept per order of segments, since the order depends on how they were read.
        """
        order = sha256("\n".join(map(str, units["metadataIdentifier"].to_pylist())).encode()).hexdigest()
        key = f"segments of {name} in {order}"
        known = self.cache.find(key)
        if isinstance(known, UnitColumns) and known.by_column.keys() >= set(columns):
            return known
        found = UnitColumns.of(units, columns)
        if isinstance(known, UnitColumns):
            found = found.beside(known)
        self.cache.put(key, found, found.nbytes)
        return found

    def find(self, name: str) -> PortionColumns | None:
        """The portion ``name`` if it is kept, else None."""
        found = self.cache.find(_key(name))
        return found if isinstance(found, PortionColumns) else None


def _key(name: str) -> str:
    return f"portion {name}"
