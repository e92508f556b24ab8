"""The operations of one transaction as values, and their combined effect.

Deletes and overwrites of existing partitions have the same result in any order. For partitions that the transaction
itself writes, the order matters: the later operation wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.expressions import AlwaysFalse, BooleanExpression, Or
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from metastore.components.storage.background_writer import Ahead
from metastore.model.mapping.filters import partition_schema, project_on_partitions
from metastore.model.mapping.rows import PartitionKey, PartitionRows

Written = PartitionRows | Ahead
"""The content of a partition: rows to write, or a file that is already being written."""


@dataclass(frozen=True)
class Overwrite:
    """Replace or add each of these partitions; the caller has merged groups with the same key."""

    partitions: Sequence[Written]


@dataclass(frozen=True)
class Delete:
    """Remove every partition that ``filter`` (over partition columns) matches."""

    filter: BooleanExpression


Operation = Overwrite | Delete


@dataclass(frozen=True)
class Outcome:
    """The combined effect of operations: partitions to write, keys to replace, and a filter of partitions to remove."""

    partitions: Sequence[Written]
    replaced: frozenset[PartitionKey]
    removed: BooleanExpression


def outcome_of(operations: Sequence[Operation], schema: Schema, spec: PartitionSpec) -> Outcome:
    """Combine ``operations`` in their order."""
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
                        partition_schema(schema, spec),
                        project_on_partitions(schema, spec, filter_),
                        case_sensitive=True,
                    )
                    written = {key: partition for key, partition in written.items() if not hit(Record(*key))}
    return Outcome(list(written.values()), frozenset(replaced), removed)
