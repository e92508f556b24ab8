"""Small tables on disk with the metadata that their own footers give, made without the package's ANALYZE."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.table_on_disk import TableOnDisk

from metastore.model.column_path import quote
from metastore.model.drill_types import minor_type
from metastore.model.statistics import ColumnStatistics, holder_json, merge
from metastore.model.tuple_schema import TIME_ZONE, SchemaColumn, TupleSchema

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("metadataType", pa.string()),
    ("metadataIdentifier", pa.string()),
    ("location", pa.string()),
    ("path", pa.string()),
    ("rowGroupIndex", pa.int32()),
    ("schema", pa.string()),
    ("columnsStatistics", pa.map_(pa.string(), pa.string())),
    ("metadataStatistics", pa.list_(pa.string())),
]
UNITS = pa.schema(_FIELDS)

_DRILL: Sequence[tuple[Callable[[pa.DataType], bool], str]] = (
    (pa.types.is_int32, "INT"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_float32, "FLOAT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_string, "VARCHAR"),
    (pa.types.is_binary, "VARBINARY"),
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_timestamp, "TIMESTAMP"),
)

Statistics = dict[tuple[str, ...], ColumnStatistics]


def drill_type(type_: pa.DataType) -> str:
    """Drill's spelling of an Arrow type."""
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if pa.types.is_struct(type_):
        return f"STRUCT<{', '.join(f'`{f.name}` {drill_type(f.type)}' for f in type_)}>"
    return next(name for matches, name in _DRILL if matches(type_))


def tuple_schema(schema: pa.Schema) -> TupleSchema:
    """The table's schema as ANALYZE would store it."""
    zoned = {TIME_ZONE: "UTC"}
    return TupleSchema(
        tuple(
            SchemaColumn(f.name, drill_type(f.type), properties=zoned if getattr(f.type, "tz", None) else {})
            for f in schema
        )
    )


def row_group_statistics(metadata: pq.FileMetaData, group: int, table: pa.Table, *, count_nans: bool) -> Statistics:
    """What the footer says of one row group's leaves; NaNs are counted in the data, which footers do not."""
    found: Statistics = {}
    for i in range(metadata.num_columns):
        chunk = metadata.row_group(group).column(i)
        known, column = chunk.statistics, metadata.schema.column(i)
        path = tuple(column.path.split(".")) if column.max_definition_level > 1 else (column.path,)
        values = pc.struct_field(table[path[0]], list(path[1:])) if len(path) > 1 else table[path[0]]
        is_float = pa.types.is_floating(values.type)
        nans = pc.is_nan(values).to_pylist().count(True) if is_float and count_nans else None
        assert known is not None
        assert known.null_count is not None
        low, high = (known.min, known.max) if known.has_min_max else (None, None)
        rows, nulls = metadata.row_group(group).num_rows, known.null_count
        found[path] = ColumnStatistics(
            minor_type(drill_type(values.type)), low, high, nulls=nulls, non_nulls=rows - nulls, rows=rows, nans=nans
        )
    return found


def _unit(kind: str, identifier: str, statistics: Statistics, **more: Any) -> dict[str, Any]:
    stored = [(quote(path), known.to_json()) for path, known in statistics.items()]
    return {"metadataType": kind, "metadataIdentifier": identifier, "columnsStatistics": stored, **more}


def _merged(parts: Sequence[Statistics]) -> Statistics:
    return {path: merge([part[path] for part in parts]) for path in parts[0]}


def write_table(root: Path, files: dict[str, pa.Table], *, row_group_size: int, count_nans: bool) -> TableOnDisk:
    """Write ``files`` (name below ``root`` -> rows with a unique ``id``) and describe them."""
    schema = tuple_schema(next(iter(files.values())).schema).to_json()
    units = [_unit("TABLE", "GENERAL_INFO", {}, location=str(root), schema=schema)]
    by_folder: dict[str, list[Statistics]] = {}
    listing: dict[str, tuple[int, int]] = {}
    places: dict[int, tuple[str, int]] = {}
    for name, rows in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path, row_group_size=row_group_size)
        metadata = pq.read_metadata(path)
        groups = []
        for group in range(metadata.num_row_groups):
            inside = rows.slice(group * row_group_size, row_group_size)
            identifiers: list[Any] = inside["id"].to_pylist()
            places.update(dict.fromkeys(identifiers, (str(path), group)))
            groups.append(row_group_statistics(metadata, group, inside, count_nans=count_nans))
            more = {"path": str(path), "rowGroupIndex": group, "schema": schema}
            units.append(_unit("ROW_GROUP", f"{name}/{group}", groups[-1], **more))
        stat = os.stat(path)
        listing[str(path)] = (stat.st_size, stat.st_mtime_ns)
        holders = [holder_json("length", stat.st_size), holder_json("modificationTimeNanos", stat.st_mtime_ns)]
        units.append(_unit("FILE", name, _merged(groups), path=str(path), schema=schema, metadataStatistics=holders))
        by_folder.setdefault(name.rpartition("/")[0], []).extend(groups)
    for folder, parts in by_folder.items():
        units.append(_unit("SEGMENT", folder or "DEFAULT_SEGMENT", _merged(parts), schema=schema))
    return TableOnDisk(str(root), list(listing), pa.Table.from_pylist(units, UNITS), listing, places)


@pytest.fixture(scope="session")
def table_on_disk() -> Callable[..., TableOnDisk]:
    """The builder above, for tests that make their own rows."""
    return write_table
