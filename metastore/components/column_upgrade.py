"""Rewrites partitions of the tables component that lack embedded columns or facts, so that they have them.

Partitions lack them if an older release or another program wrote them. Planning and lists then read their JSON, which
gives the same answers and takes several times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, In

from metastore.bounds.embedded_columns import embedded
from metastore.components.requests import of_table
from metastore.components.tables import Tables
from metastore.errors import ConflictError, NotFoundError, StorageError
from metastore.mapping.rows import PartitionKey
from metastore.model.identity import TableInfo
from metastore.model.vocabulary import GENERAL_INFO, MetadataType
from metastore.storage.file_groups import FileGroup

_ROWS: Final = 20_000
"""Approximate number of rows that one commit rewrites; partitions are not split."""
_ATTEMPTS: Final = 5


class _Partition(NamedTuple):
    """The rows of a partition, and whether its files have columns already."""

    rows: pa.Table
    has_columns: bool


@dataclass(frozen=True)
class Upgraded:
    """The number of rewritten partitions, and the version that is current afterwards."""

    partitions: int
    version: int


def write_columns(tables: Tables) -> Upgraded:
    """Rewrite partitions without columns with the same units, a few thousand files in each commit.

    Partitions that others write meanwhile are left as they are. Raises ConflictError if others win five times in a row,
    and the errors of reading and committing. Completed commits stay, and the next call continues.
    """
    done: set[PartitionKey] = set()
    written = failures = 0
    while True:
        version = tables.metadata.version
        try:
            # One plan serves all commits: each of them proves that its own partitions have not changed since.
            for batch in _batches(tables, version, done):
                written += _write(tables, version, batch)
                done |= batch.keys()
                failures = 0
            return Upgraded(written, tables.metadata.version)
        except (ConflictError, NotFoundError, StorageError):
            failures += 1
            if failures == _ATTEMPTS or tables.metadata.version == version:
                raise


def _write(tables: Tables, version: int, batch: Mapping[PartitionKey, _Partition]) -> int:
    """Rewrite partitions of one table, based on ``version``; returns how many of them can have more columns."""
    units = [partition.rows for partition in batch.values() if _gains(partition)]
    if units:
        modify = tables.modify().overwrite(pa.concat_tables(units))
        done = modify.execute_unless_changed(version, _within(batch))
        if isinstance(done, ConflictError):
            raise ConflictError(
                "partitions were changed by others while they were rewritten; run metastore upgrade again"
            ) from done
    return len(units)


def _batches(tables: Tables, version: int, done: set[PartitionKey]) -> Iterator[dict[PartitionKey, _Partition]]:
    """Yield partitions of one table that lack columns in ``version``, a few at a time, except those in ``done``."""
    partitions = tables.read().metadata_types(MetadataType.ALL).at(version).partitions()
    lacking = [key for key, group in partitions.items() if key not in done and _lacks_columns(key, group)]
    for _, keys in groupby(sorted(lacking), key=lambda key: key[:-1]):
        batch: dict[PartitionKey, _Partition] = {}
        for key in keys:
            group = partitions[key]
            has_columns = all(planned.columns is not None for planned in group.files)
            batch[key] = _Partition(pa.Table.from_batches(group.batches(), group.schema), has_columns)
            if sum(partition.rows.num_rows for partition in batch.values()) >= _ROWS:
                yield batch
                batch = {}
        if batch:
            yield batch


def _lacks_columns(key: PartitionKey, group: FileGroup) -> bool:
    return key[-1] != GENERAL_INFO and any(
        planned.columns is None or not planned.columns.has_facts for planned in group.files
    )


def _gains(partition: _Partition) -> bool:
    """Whether the partition has more columns when it is written anew."""
    made = embedded(partition.rows)
    return made is not None and (made.has_facts or not partition.has_columns)


def _within(keys: Mapping[PartitionKey, _Partition]) -> BooleanExpression:
    """Return a filter for the partitions ``keys``, all of one table."""
    [table] = {key[:-1] for key in keys}
    return And(of_table(TableInfo(*table)), In("metadataKey", {key[-1] for key in keys}))
