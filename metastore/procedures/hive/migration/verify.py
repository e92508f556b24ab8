"""Verifies a migrated table: reads and measures each column in several ways, and compares the results.

One way is Hive's: it reads the files of the backup's partitions by their format, with the partitions' values from the
metastore. Another is Iceberg's: it reads the files of the migration's snapshot as Iceberg for Java does. A column is
right if both agree on each of its nested pieces. In addition, no value may lie outside of the bounds in the manifests.

PyIceberg also reads the columns in which it may differ (:mod:`metastore.procedures.hive.migration.reader_differences`).
A difference is a warning: the migration is right, but PyIceberg's writers would store the values that it reads. All
reading is done by an engine's tasks, on Spark or locally (:mod:`metastore.procedures.hive.migration.measuring`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyiceberg.conversions import from_bytes
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import PrimitiveType

from metastore.engines.engine import Engine
from metastore.errors import ProcedureError
from metastore.lake.iceberg.rows.scan_tasks import without_history
from metastore.procedures.hive.migration.backup import BACKUP_PROPERTY, Backup
from metastore.procedures.hive.migration.column_pieces import PieceMeasures, paths
from metastore.procedures.hive.migration.measuring import (
    FRAGMENT,
    Chunk,
    HiveChunk,
    HiveFile,
    IcebergChunk,
    Side,
    combine_results,
    measure_chunk,
)
from metastore.procedures.hive.migration.reader_differences import columns_to_read, is_read
from metastore.sources.hive.tables import HivePartition, HiveTable

_CHUNK_FILES: Final = 50
_INT96_FIRST: Final = "call rewrite_data_files before PyIceberg deletes or overwrites rows"
_BY_OTHERS: Final = "delete and overwrite rows by Spark or Trino"


@dataclass(frozen=True, kw_only=True)
class ColumnCheck:
    """One column in all ways; ``low`` and ``high`` are its bounds as text.

    ``problem`` is the difference between Hive and Iceberg, or None. ``warning`` is the difference of PyIceberg's own
    reader, or None.
    """

    column: str
    hive: PieceMeasures
    iceberg: PieceMeasures
    low: str | None = None
    high: str | None = None
    problem: str | None = None
    warning: str | None = None


def verify(iceberg: IcebergTable, properties: Mapping[str, str], engine: Callable[[int], Engine]) -> list[ColumnCheck]:
    """Returns the check of each column of the table at its migration.

    ``engine`` returns the engine for a number of files.

    Raises ProcedureError if no migration made the table, or if the migration's snapshot has expired. Raises
    StorageError and FormatError for unreadable files, EngineError for Avro files without the extra ``avro``.
    """
    name = ".".join(iceberg.name())
    place = iceberg.properties.get(BACKUP_PROPERTY)
    if place is None:
        raise ProcedureError(f"{name} was not made an Iceberg table by this package")
    backup = Backup.read(iceberg.io, place)
    snapshot = backup.snapshots[-1] if backup.snapshots else None
    if snapshot is not None and iceberg.metadata.snapshot_by_id(snapshot) is None:
        raise ProcedureError(f"the snapshot that the migration of {name} made has expired")
    table = HiveTable.of(backup.table)
    partitions = tuple(map(HivePartition.of, backup.partitions))
    scan = iceberg.scan(snapshot_id=snapshot)
    arrow = scan.projection().as_arrow()
    types = dict(zip(arrow.names, arrow.types, strict=True))
    files = list(_hive_files(table, partitions, backup.facts["files"]))
    chunks: list[Chunk] = [
        HiveChunk(table.columns, table.partition_columns, types, some, properties) for some in _cut(files)
    ]
    bounds: dict[str, tuple[Any, Any]] = {}
    by_pyiceberg = columns_to_read(types)
    if snapshot is not None:
        tasks = list(scan.plan_files())
        bare = without_history(iceberg.metadata)
        chunks += [IcebergChunk(bare, iceberg.io, scan.projection(), some) for some in _cut(tasks)]
        if all(is_read(task.file.file_format) for task in tasks) and by_pyiceberg:
            chosen = scan.projection().select(*by_pyiceberg)
            chunks += [IcebergChunk(bare, iceberg.io, chosen, some, Side.PYICEBERG) for some in _cut(tasks)]
        else:
            by_pyiceberg = []
        bounds = _bounds(scan, [task.file for task in tasks])
    measured = combine_results(engine(len(files)).run(chunks, measure_chunk, FRAGMENT))
    return [_check(column, type_, measured, bounds, column in by_pyiceberg) for column, type_ in types.items()]


def _check(
    column: str,
    type_: pa.DataType,
    measured: Mapping[tuple[Side, str], PieceMeasures],
    bounds: Mapping[str, tuple[Any, Any]],
    by_pyiceberg: bool,
) -> ColumnCheck:
    """The verdict on a column: a problem where Iceberg differs from Hive, a warning where only PyIceberg does."""
    hive, seen = measured[Side.HIVE, column], measured[Side.ICEBERG, column]
    problem = warning = None
    for piece, held in paths(column, type_):
        right, other = measured[Side.HIVE, piece], measured[Side.ICEBERG, piece]
        if problem is None and right != other:
            problem = f"{piece}: Hive's files have {right}, and Iceberg reads {other}"
        plain = measured[Side.PYICEBERG, piece]
        if by_pyiceberg and warning is None and other != plain:
            warning = (
                f"{piece}: PyIceberg by itself reads {plain} where the files have {other}, and its writers would store "
                f"that; {_INT96_FIRST if pt.is_timestamp(held) else _BY_OTHERS}"
            )
    problem = problem or _beyond(hive, bounds.get(column))
    low, high = (_text(bound, type_) for bound in (hive.low, hive.high))
    return ColumnCheck(column=column, hive=hive, iceberg=seen, low=low, high=high, problem=problem, warning=warning)


def _text(bound: Any, type_: pa.DataType) -> str | None:
    if bound is None:
        return None
    if not pt.is_temporal(type_):
        return str(bound)
    try:
        return str(pa.scalar(bound, type_).as_py())
    except (OverflowError, ValueError):  # a year outside of Python's range
        return f"{bound} as {type_}"


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
    """Yields the folders that contain a file, the nearest first."""
    place = file.rpartition("/")[0]
    while place:
        yield place
        place = place.rpartition("/")[0]


def _beyond(hive: PieceMeasures, bounds: tuple[Any, Any] | None) -> str | None:
    """Returns which values lie outside of the bounds in the manifests, or None."""
    if bounds is not None and hive.low is not None:
        low, high = bounds
        if (low is not None and low > hive.low) or (high is not None and high < hive.high):
            return f"the manifests say {low} to {high}, and there are values from {hive.low} to {hive.high}"
    return None


def _bounds(scan: Any, files: list[Any]) -> dict[str, tuple[Any, Any]]:
    """Returns the widest bounds of each column over all files; None if a file with values has no bound."""
    found: dict[str, tuple[Any, Any]] = {}
    for each in scan.projection().fields:
        type_ = each.field_type
        # Bounds of texts and bytes are truncated, and times are numbers in manifests: the tests of the metrics check
        # these.
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
