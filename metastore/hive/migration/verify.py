"""Whether a migrated table is what its files are: each column counted and measured twice, by two ways to the rows.

One way is Hive's: the files of the backup's partitions, opened by their format alone, with the partitions' values as
the metastore had them. The other is Iceberg's: PyIceberg's reading of the files that the metadata names, in the
snapshot that the migration made. Both are work for an engine's tasks, on Spark or here
(:mod:`metastore.hive.migration.measuring`). A third look goes to the manifests: no value may lie beyond a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from pyiceberg.conversions import from_bytes
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import PrimitiveType

from metastore.engine import Engine
from metastore.errors import ProcedureError
from metastore.hive.migration.backup import BACKUP_PROPERTY, Backup
from metastore.hive.migration.measuring import (
    FRAGMENT,
    Chunk,
    HiveChunk,
    HiveFile,
    IcebergChunk,
    Measured,
    Side,
    gathered,
    measure_chunk,
)
from metastore.hive.tables import FileFormat, HivePartition, HiveTable

_CHUNK_FILES: Final = 50


@dataclass(frozen=True)
class ColumnCheck:
    """One column by both ways; ``problem`` says what differs, None for nothing."""

    column: str
    hive: Measured
    iceberg: Measured
    problem: str | None = None


def verify(iceberg: IcebergTable, properties: Mapping[str, str], engine: Callable[[int], Engine]) -> list[ColumnCheck]:
    """Each column of the table by both ways, as it was migrated; ``engine`` reads so many files.

    ProcedureError for a table that no migration made, whose snapshot of then has expired, or of a format that PyIceberg
    does not read; StorageError and FormatError for what cannot be read.
    """
    name = ".".join(iceberg.name())
    place = iceberg.properties.get(BACKUP_PROPERTY)
    if place is None:
        raise ProcedureError(f"{name} was made an Iceberg table by no migration of this package")
    backup = Backup.read(iceberg.io, place)
    snapshot = backup.facts["snapshot-id"]
    if snapshot is not None and iceberg.metadata.snapshot_by_id(snapshot) is None:
        raise ProcedureError(f"the snapshot that the migration of {name} made has expired")
    table = HiveTable.of(backup.table)
    partitions = tuple(map(HivePartition.of, backup.partitions))
    if FileFormat.AVRO in {each.format for each in partitions or (table,)}:
        raise ProcedureError(
            f"{name} has Avro files, which PyIceberg cannot read; compare its counts by another engine"
        )
    scan = iceberg.scan(snapshot_id=snapshot)
    names = scan.projection().as_arrow().names
    types = dict(zip(names, scan.projection().as_arrow().types, strict=True))
    files = list(_hive_files(table, partitions, backup.facts["files"]))
    chunks: list[Chunk] = [
        HiveChunk(table.columns, table.partition_columns, types, some, properties) for some in _cut(files)
    ]
    bounds: dict[str, tuple[Any, Any]] = {}
    if snapshot is not None:
        tasks = list(scan.plan_files())
        bare = iceberg.metadata.model_copy(
            update={"snapshots": [], "current_snapshot_id": None, "snapshot_log": [], "metadata_log": [], "refs": {}}
        )
        chunks += [IcebergChunk(bare, iceberg.io, scan.projection(), some) for some in _cut(tasks)]
        bounds = _bounds(scan, [task.file for task in tasks])
    measured = gathered(engine(len(files)).run(chunks, measure_chunk, FRAGMENT))
    return [
        ColumnCheck(column, hive, seen, _problem(hive, seen, bounds.get(column)))
        for column in names
        for hive, seen in [(measured[Side.HIVE, column], measured[Side.ICEBERG, column])]
    ]


def _cut(items: list[Any]) -> Iterator[list[Any]]:
    left = iter(items)
    while some := list(islice(left, _CHUNK_FILES)):
        yield some


def _hive_files(table: HiveTable, partitions: tuple[HivePartition, ...], files: list[str]) -> Iterator[HiveFile]:
    by_place = {each.location: each for each in partitions}
    for file in files:
        partition = next((by_place[place] for place in _folders(file) if place in by_place), None)
        format_ = table.format if partition is None else partition.format
        yield HiveFile(file, format_, () if partition is None else partition.values)


def _folders(file: str) -> Iterator[str]:
    """The folders that a file lies in, the nearest first."""
    place = file.rpartition("/")[0]
    while place:
        yield place
        place = place.rpartition("/")[0]


def _problem(hive: Measured, iceberg: Measured, bounds: tuple[Any, Any] | None) -> str | None:
    if hive != iceberg:
        return f"Hive's files have {hive}, and Iceberg reads {iceberg}"
    if bounds is not None and hive.low is not None:
        low, high = bounds
        if (low is not None and low > hive.low) or (high is not None and high < hive.high):
            return f"the manifests say {low} to {high}, and there are values from {hive.low} to {hive.high}"
    return None


def _bounds(scan: Any, files: list[Any]) -> dict[str, tuple[Any, Any]]:
    """The widest bounds of each column over all files; None where a file with values has none."""
    found: dict[str, tuple[Any, Any]] = {}
    for each in scan.projection().fields:
        type_ = each.field_type
        # Texts and bytes are cut, and times are numbers in manifests: these are measured by the tests of the metrics.
        if not isinstance(type_, PrimitiveType) or str(type_) not in ("int", "long", "float", "double"):
            continue
        lows = [file.lower_bounds.get(each.field_id) for file in files if _has_values(file, each.field_id)]
        highs = [file.upper_bounds.get(each.field_id) for file in files if _has_values(file, each.field_id)]
        found[each.name] = (
            min((from_bytes(type_, low) for low in lows), default=None) if None not in lows else None,
            max((from_bytes(type_, high) for high in highs), default=None) if None not in highs else None,
        )
    return found


def _has_values(file: Any, field_id: int) -> bool:
    return bool((file.null_value_counts or {}).get(field_id) != file.record_count)
