"""Locates rows by their row ids, and proves that each id still means the row it was created for.

Unproven ids are refused. StaleRowIdError means that the partition was changed or removed, and names it;
InvalidRequestError means that the id never belonged to this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from metastore.errors import InvalidRequestError, StaleRowIdError
from metastore.model.identity import TableInfo
from metastore.model.partition_component import segment_prefix, table_prefix
from metastore.scan.partition_groups import PartitionGroups, refuse_mutated
from metastore.scan.pruning.row_id import RowIds, encode
from metastore.scan.rows import RowNumbers

Positions = np.ndarray[Any, np.dtype[np.intp]]


@dataclass(frozen=True)
class LocatedRows:
    """The requested rows of one row group: their row numbers, and the positions of their ids in the request."""

    path: str
    index: int
    rows: RowNumbers
    positions: Positions


def keys_named(table: TableInfo, ids: RowIds, keys: Iterable[str]) -> list[str]:
    """Return those of the segments' ``keys`` that ``ids`` can name, whatever the segments' states.

    Ids contain a digest of the key, so the segments' units are not needed.
    """
    prefixes = {component[: len(segment_prefix(table, ""))] for component in ids.components}
    return [key for key in keys if segment_prefix(table, key) in prefixes] if prefixes else []


def partitions_named(table: TableInfo, ids: RowIds, components: Mapping[str, bytes]) -> list[str]:
    """Return the keys of the partitions that ``ids`` name.

    ``components`` are the current ones of ``table`` by key, at least of the segments in :func:`keys_named`.

    Raises StaleRowIdError for an id of an earlier state of a partition, InvalidRequestError for one of another table.
    """
    keys = {component: key for key, component in components.items()}
    for component in ids.components:
        if component not in keys:
            raise _unknown(table, component, components)
    return [keys[component] for component in ids.components]


def locate(
    table: TableInfo, ids: RowIds, partitions: Mapping[str, PartitionGroups], mutated: Mapping[str, str]
) -> list[LocatedRows]:
    """Locate the rows of ``ids``, by row group. ``mutated`` has partitions changed since ANALYZE, with the change.

    ``partitions`` are at least those of :func:`keys_named`. Raises StaleRowIdError for an id of a changed partition,
    InvalidRequestError for an id that no row has.
    """
    components = {key: partition.component for key, partition in partitions.items()}
    refuse_mutated(table, partitions_named(table, ids, components), mutated)
    by_component = {partition.component: partition for partition in partitions.values()}
    located = []
    for component, positions in ids.positions():
        partition = by_component[component]
        groups = ids.groups[positions]
        for group in np.unique(groups):
            inside = positions[groups == group]
            rows = ids.rows[inside]
            found = partition.locate(int(group))
            if found is None or int(rows.max()) >= found.rows:
                forged = encode(component, int(group), int(rows.max()) % 2**63, 1)[0].as_py()
                raise InvalidRequestError(
                    f"X'{forged.hex()}' is no row id of {table}: partition {partition.key} has no such row"
                )
            located.append(LocatedRows(found.path, found.index, rows, inside))
    return located


def excluded_rows(located: Sequence[LocatedRows]) -> dict[tuple[str, int], RowNumbers]:
    """Return the row numbers to exclude, by file and row group."""
    return {(rows.path, rows.index): np.unique(rows.rows) for rows in located}


def in_order(parts: Sequence[pa.Table], located: Sequence[LocatedRows], schema: pa.Schema) -> pa.Table:
    """Return the rows of ``parts``, which were read by row group, in the order of the requested ids."""
    if not parts:
        return schema.empty_table()
    order = np.argsort(np.concatenate([rows.positions for rows in located]), kind="stable")
    return pa.concat_tables(parts).take(order)


def _unknown(
    table: TableInfo, component: bytes, components: Mapping[str, bytes]
) -> InvalidRequestError | StaleRowIdError:
    """The error for a row id: its partition changed or is gone, or it never belonged to ``table``."""
    if not component.startswith(table_prefix(table)):
        return InvalidRequestError(
            f"an id that ends with X'{component.hex()}' is no row id of {table}: it was made elsewhere, or by hand"
        )
    prefix = len(segment_prefix(table, ""))
    for key in components:
        if component[:prefix] == segment_prefix(table, key):
            return StaleRowIdError(
                f"partition {key} of {table} has changed since this row id was made (it ends with "
                f"X'{component.hex()}'); find the row again and take its new id"
            )
    return StaleRowIdError(
        f"the partition of {table} that a row id names (by X'{component.hex()}') is gone; find the row again"
    )
