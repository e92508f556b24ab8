"""The range of partition keys that a manifest holds, as its summary gives it; read once for each listed manifest.

Every commit looks at the range of every manifest, so what it costs to read one must not come again with each commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestFile
from pyiceberg.types import StringType

from metastore.mapping.rows import PartitionKey

_NOTE: Final = "key_range"


@dataclass(frozen=True)
class KeyRange:
    """Lowest and highest value of each partition column in a manifest."""

    lower: PartitionKey
    upper: PartitionKey


def range_of(manifest: ManifestFile) -> KeyRange | None:
    """The key range that a manifest's summary gives; None when the summary leaves it open."""
    notes = vars(manifest)
    if _NOTE not in notes:
        notes[_NOTE] = _read(manifest)
    known: KeyRange | None = notes[_NOTE]
    return known


def _read(manifest: ManifestFile) -> KeyRange | None:
    summaries = manifest.partitions
    if not summaries or any(s.contains_null or s.lower_bound is None or s.upper_bound is None for s in summaries):
        return None
    text = StringType()
    return KeyRange(
        tuple(from_bytes(text, s.lower_bound) for s in summaries if s.lower_bound is not None),
        tuple(from_bytes(text, s.upper_bound) for s in summaries if s.upper_bound is not None),
    )
