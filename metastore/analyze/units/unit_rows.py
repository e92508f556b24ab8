"""Unit rows on their way into Arrow: collected as plain tuples, converted to columns once.

One row is one metadata unit in the on-disk columns. An object per unit would cost more than the footers that the units
come from; a tuple per unit does not. The caller passes the schema, so executors that make rows need no Iceberg.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.identity import TableInfo
from metastore.model.mapping.runs import runs
from metastore.model.vocabulary import MetadataType

_LONG_RUN: Final = 16
"""Runs of at least this many units are sliced; shorter runs are cheaper to copy."""


class UnitRow(NamedTuple):
    """One unit by its on-disk column names, without the table's; statistics are two aligned sequences."""

    metadataType: MetadataType  # noqa: N815 - the names are the columns'
    metadataKey: str  # noqa: N815
    metadataIdentifier: str  # noqa: N815
    schema: str | None
    statistics_keys: Sequence[str]
    statistics_texts: Sequence[str]
    metadataStatistics: Sequence[str]  # noqa: N815
    lastModifiedTime: int  # noqa: N815
    location: str | None = None
    path: str | None = None
    rowGroupIndex: int | None = None  # noqa: N815
    column: str | None = None
    locations: Sequence[str] | None = None
    partitionValues: Sequence[str | None] | None = None  # noqa: N815
    additionalMetadata: str | None = None  # noqa: N815
    owner: str | None = None
    tableType: str | None = None  # noqa: N815
    interestingColumns: Sequence[str] | None = None  # noqa: N815
    partitionKeys: Mapping[str, str] | None = None  # noqa: N815
    hostAffinity: Mapping[str, float] | None = None  # noqa: N815


def to_batch(schema: pa.Schema, table: TableInfo, rows: Sequence[UnitRow]) -> pa.RecordBatch:
    """The rows of one table as a batch of ``schema``, the component's on-disk columns."""
    columns = dict(zip(UnitRow._fields, zip(*rows, strict=True), strict=True)) if rows else {}
    count = len(rows)
    constants = {"storagePlugin": table.storage_plugin, "workspace": table.workspace, "tableName": table.name}
    arrays = []
    for field in schema:
        if field.name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[field.name], field.type), count))
        elif field.name == "columnsStatistics" and rows:
            arrays.append(_statistics(columns["statistics_keys"], columns["statistics_texts"], field.type))
        elif field.name == "lastModifiedTime" and rows:
            arrays.append(pa.array([time or None for time in columns[field.name]], field.type))
        elif (values := columns.get(field.name)) is None or values.count(None) == count:
            arrays.append(pa.nulls(count, field.type))
        else:
            arrays.append(pa.array(_pairs(values) if pa.types.is_map(field.type) else values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def of_kind(units: pa.Table, *kinds: MetadataType) -> pa.Table:
    """The units of some metadata types: slices if units of a type are adjacent, as stored ones are; else copies."""
    found = list(runs(units, "metadataType"))
    if len(found) * _LONG_RUN > units.num_rows:
        return units.filter(pc.is_in(units["metadataType"], pa.array([kind.value for kind in kinds])))
    return pa.Table.from_batches([rows for kind, rows in found if kind in kinds], units.schema)


def values(units: pa.Table | pa.RecordBatch, column: str) -> list[Any]:
    """The Python values of one column."""
    return units[column].to_pylist()


def modified_times(units: pa.Table) -> list[int]:
    """When units were last modified, in epoch ms; 0 means unknown, which is stored as null."""
    times: Any = units["lastModifiedTime"]
    known: list[int] = times.fill_null(0).to_pylist()
    return known


def _statistics(keys: Sequence[Sequence[str]], texts: Sequence[Sequence[str]], type_: Any) -> Any:
    offsets = pa.array(accumulate(map(len, keys), initial=0), pa.int32())
    flat = [pa.array(chain.from_iterable(lists), pa.string()) for lists in (keys, texts)]
    from_arrays: Any = pa.MapArray.from_arrays  # the stubs know only one of its signatures
    return from_arrays(offsets, *flat, type_)


def _pairs(values: Sequence[Any]) -> list[list[tuple[str, Any]] | None]:
    return [None if value is None else list(value.items()) for value in values]
