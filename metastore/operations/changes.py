"""Operations of one transaction as values, and what they come to when run one after another.

The result over existing partitions does not depend on order (what goes, goes); over the partitions that the
transaction itself writes it does: the later of two operations wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.expressions import AlwaysFalse, BooleanExpression, Or
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from metastore.mapping.filters import partition_schema, projected
from metastore.mapping.rows import PartitionKey, PartitionRows
from metastore.storage.background_writer import Ahead

Written = PartitionRows | Ahead
"""What a partition is to hold: rows still to be written, or a file that is being written already."""


@dataclass(frozen=True)
class Overwrite:
    """Replace each of these partitions, or add it; two groups of one key were merged by the caller."""

    partitions: Sequence[Written]


@dataclass(frozen=True)
class Delete:
    """Remove every partition that ``filter`` (over partition columns) matches."""

    filter: BooleanExpression


Operation = Overwrite | Delete


@dataclass(frozen=True)
class Outcome:
    """What the operations come to: partitions to write, keys to replace, and a filter of partitions to remove."""

    partitions: Sequence[Written]
    replaced: frozenset[PartitionKey]
    removed: BooleanExpression


def outcome_of(operations: Sequence[Operation], schema: Schema, spec: PartitionSpec) -> Outcome:
    """Fold ``operations`` in their order."""
    written: dict[PartitionKey, Written] = {}
    replaced: set[PartitionKey] = set()
    removed: BooleanExpression = AlwaysFalse()
    for operation in operations:
        match operation:
            case Overwrite(partitions):
                for partition in partitions:
                    written[partition.key] = partition
                    replaced.add(partition.key)
            case Delete(filter_):
                removed = Or(removed, filter_)
                if written:
                    hit = expression_evaluator(
                        partition_schema(schema, spec), projected(schema, spec, filter_), case_sensitive=True
                    )
                    written = {key: partition for key, partition in written.items() if not hit(Record(*key))}
    return Outcome(list(written.values()), frozenset(replaced), removed)
