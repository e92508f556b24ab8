"""Partition keys: the range of keys in a manifest, and the keys that a filter requires.

Every commit and every read look at the range of every manifest, so the range is decoded once for each listed manifest.
Every read names a table, and most name a metadata key. All rows of a file share these columns, so such terms of a
filter are compared directly with the keys. Binding, projecting and compiling an expression takes hundreds of times as
long, and is done only for the rest of the filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionSpec

from metastore.model.mapping.filters import allowed_strings, conjuncts
from metastore.model.mapping.rows import PartitionKey

_NOTE: Final = "key_range"


@dataclass(frozen=True)
class KeyRange:
    """Lowest and highest value of each partition column in a manifest."""

    lower: PartitionKey
    upper: PartitionKey


Required = tuple[frozenset[str] | None, ...]
"""For each partition column, the set of allowed values; None where any value is allowed."""


@dataclass(frozen=True)
class SplitFilter:
    """A split filter: a row matches if its key has the required values of ``keys`` and ``rest`` holds."""

    keys: Required
    rest: BooleanExpression

    def among(self, keys: Sequence[PartitionKey]) -> list[int]:
        """Return the positions of the ``keys`` that have the required values."""
        hits = list(range(len(keys)))
        # The last columns are the most selective, and testing one column at a time is the fastest loop in Python.
        for column, values in reversed([*enumerate(self.keys)]):
            if values is not None:
                hits = [position for position in hits if keys[position][column] in values]
        return hits


def split(expression: BooleanExpression, spec: PartitionSpec) -> SplitFilter:
    """Split ``expression`` by ``spec``, whose fields are identity partitions of string columns."""
    columns = [field.name for field in spec.fields]
    found: dict[str, frozenset[str]] = {}
    rest: BooleanExpression = AlwaysTrue()
    for term in conjuncts(expression):
        name, values = allowed_strings(term)
        if values is None or name not in columns:
            rest = And(rest, term)
        else:
            found[name] = found[name] & values if name in found else values
    return SplitFilter(tuple(found.get(column) for column in columns), rest)


def may_hold(keys: KeyRange | None, required: Required) -> bool:
    """Return False only if no key of the range has the values ``required``."""
    if keys is None:
        return True
    return all(
        values is None or any(low <= value <= high for value in values)
        for low, values, high in zip(keys.lower, required, keys.upper, strict=True)
    )


def range_of(manifest: ManifestFile) -> KeyRange | None:
    """Return the key range in a manifest's summary; None if the summary does not have it."""
    notes = vars(manifest)
    if _NOTE not in notes:
        notes[_NOTE] = _range_in_summaries(manifest)
    known: KeyRange | None = notes[_NOTE]
    return known


def _range_in_summaries(manifest: ManifestFile) -> KeyRange | None:
    summaries = manifest.partitions
    if not summaries or any(s.contains_null or s.lower_bound is None or s.upper_bound is None for s in summaries):
        return None
    # Partition columns are strings; their bounds are UTF-8.
    return KeyRange(
        tuple(s.lower_bound.decode() for s in summaries if s.lower_bound is not None),
        tuple(s.upper_bound.decode() for s in summaries if s.upper_bound is not None),
    )
