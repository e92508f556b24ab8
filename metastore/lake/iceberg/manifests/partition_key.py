"""The one meaning of "the same partition": a key that files of one spec share if all of their values are equal. Pure.

As in Iceberg for Java, NaN equals NaN, and 0.0 is not -0.0. Python's own comparison of records has it the other way.
"""

from __future__ import annotations

from typing import TypeAlias

from pyiceberg.typedef import Record

SpecPartition: TypeAlias = tuple[object, ...]
"""Can be hashed; has no other use than to be compared."""


def partition_key(spec_id: int, partition: Record) -> SpecPartition:
    """Return the key of ``partition``, whose values are those of the spec ``spec_id``."""
    values = (partition[position] for position in range(len(partition)))
    return (spec_id, *(repr(value) if isinstance(value, float) else value for value in values))
