"""Segments made by the tasks that read them: what the driver would have made of the same footers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import PyArrowFileIO
from support.lake_folder import Lake
from support.watched_engine import WatchedEngine

from metastore.analyze.changes import WantedMetadata
from metastore.analyze.request import AnalyzeRequest
from metastore.analyze.run import analyze
from metastore.analyze.tasks.chunks import Cutting, Limits
from metastore.components.metastore import Metastore
from metastore.components.storage.data_files import FilesToRead
from metastore.components.storage.file_groups import FileGroup
from metastore.components.storage.partition_encoder import ENCODED, PartitionEncoder, encoded_or_stored
from metastore.engines.engine import Engine, LocalEngine
from metastore.lake.formats.source_file import SourceFile
from metastore.model.identity import TableInfo
from metastore.model.mapping.rows import PartitionRows
from metastore.model.mapping.schema import iceberg_schema, partition_spec
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.sources.source_table import SourceTable

TABLE = TableInfo("dfs", "tmp", "t")
COLUMNS = ("storagePlugin", "workspace", "tableName", "metadataKey")


@pytest.fixture
def mixed(lake: Lake) -> Lake:
    """Segments of one to three files: nested ones, files in no directory, several schemas, row groups, no rows."""
    lake.write("year=2020/a.parquet", {"x": [1, 2, 3], "s": ["a", None, "é"]}, row_group_size=1)
    lake.write("year=2020/b.parquet", {"x": [4.5, None], "s": ["b", "b"]})
    lake.write("year=2020/month=1/c.parquet", {"x": [7]})
    lake.write("year=2021/a.parquet", {"x": [5], "k": [1]})
    lake.write("year=2021/b.parquet", {"x": [6], "k": [1]})
    lake.write("year=2022/a.parquet", {"x": pa.array([], pa.int64())})
    lake.write("top.parquet", {"x": [0], "y.z": [{"w": 1}]})
    return lake


def stored(
    metastore: Metastore, engine: Engine, lake: Lake, level: str, limits: Limits | None = None
) -> tuple[Any, list[dict[str, Any]]]:
    """What an ANALYZE says of itself, and all units that it stores, in one order."""
    source, request = SourceTable(TABLE, str(lake.root)), AnalyzeRequest(level=level)
    result = analyze(metastore.tables, source, engine, request, limits=limits)
    found = metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow().to_pylist()
    rows = sorted(found, key=lambda row: (row["metadataKey"], row["metadataType"], row["metadataIdentifier"]))
    return (result.units, result.segments_written, result.rows, result.new), rows


def at(folder: Path) -> dict[str, Any]:
    """Where another metastore is to be."""
    return {"location": {"base_path": str(folder), "relative_path": "metastore"}}


@pytest.mark.parametrize("level", ["TABLE", "SEGMENT", "PARTITION", "FILE", "ROW_GROUP"])
@pytest.mark.parametrize("limits", [Limits(stored_bytes=-1), Limits(chunk_files=(1, 1)), Limits(chunk_files=(2, 2))])
def test_it_does_not_matter_who_makes_a_segment(
    mixed: Lake,
    open_metastore: Callable[..., Metastore],
    tmp_path: Path,
    limits: Limits,
    level: str,
) -> None:
    """Tasks, or the driver, which makes all, or those of over one or two files; the units are the same."""
    with LocalEngine(1) as engine:
        by_tasks = stored(open_metastore(**at(tmp_path / "tasks")), engine, mixed, level)
        assert stored(open_metastore(**at(tmp_path / "driver")), engine, mixed, level, limits) == by_tasks
    assert by_tasks[1]


def test_tasks_leave_little_to_send(mixed: Lake, metastore: Metastore) -> None:
    """Whole segments come as rows of their own, one for each, however many units they hold."""
    with LocalEngine(1) as engine:
        watched = WatchedEngine(engine)
        (units, *_), _ = stored(metastore, watched, mixed, "ROW_GROUP")
    assert watched.rows == 4
    assert units > 20


@given(
    sizes=st.lists(st.integers(1, 9), max_size=30),
    most=st.integers(9, 20),
    parallelism=st.integers(1, 8),
    most_bytes=st.none() | st.integers(1, 40),
)
def test_every_segment_is_in_one_chunk_whole(
    sizes: list[int], most: int, parallelism: int, most_bytes: int | None
) -> None:
    """In order, never above the most files and bytes that a task may get, and no more chunks than that asks for."""
    segments = {
        f"k={number}": [
            SourceFile((f"k={number}",), f"{n}.parquet", f"/t/k={number}/{n}.parquet", 1, 1) for n in range(size)
        ]
        for number, size in enumerate(sizes)
    }
    fresh = {key: f"state of {key}" for key in segments}
    sizes_stored = {} if most_bytes is None else {key: 2 * len(own) for key, own in segments.items()}
    limits = Limits(chunk_files=(4, most), chunks_per_task=1, stored_bytes=most_bytes or 0)
    cutting = Cutting(SourceTable(TABLE, "/t"), WantedMetadata(MetadataType.FILE), parallelism, limits)
    stored_units = {key: group_of(size) for key, size in sizes_stored.items()}
    found = cutting.segments(segments, fresh, stored_units, anew=False, encoder=ENCODER)
    assert [file for chunk in found for file in chunk.footers.files] == [f for own in segments.values() for f in own]
    assert {key: state for chunk in found for key, state in chunk.states.items()} == fresh
    assert sum(len(chunk.states) for chunk in found) == len(segments)
    for chunk in found:
        assert {file.directories[0] for file in chunk.footers.files} == set(chunk.states)
        assert len(chunk.footers.files) <= most
        assert most_bytes is None or len(chunk.states) == 1 or 2 * len(chunk.footers.files) <= most_bytes
    if most_bytes is None and sizes and max(sizes) * 2 <= 4:
        assert len(found) <= 1 + sum(sizes) // 4


def group_of(size: int) -> FileGroup:
    """Stored units of so many bytes, which nobody reads."""
    files = FilesToRead((), 0, size, tiny=False)
    return FileGroup("tables", TableMetadataUnit, PyArrowFileIO(), files, (), AlwaysTrue())


SCHEMA = iceberg_schema(TableMetadataUnit)
ENCODER = PartitionEncoder.of(TableMetadataUnit, SCHEMA, {})


def test_what_is_encoded_comes_through_arrow(unit: Callable[..., Any], metastore: Metastore) -> None:
    """Content, counts and bounds, those of columns without a value included."""
    metastore.tables.modify().overwrite([unit("t"), unit("t", path="other")]).execute()
    rows = metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow()
    key = tuple(rows[name][0].as_py() for name in COLUMNS)
    assert [field.name for field in partition_spec(TableMetadataUnit).fields] == list(COLUMNS)
    encoded = ENCODER.encode(PartitionRows(key, rows))
    assert 0 in encoded.bounds.null_value_counts.values()
    assert 2 in encoded.bounds.null_value_counts.values()
    there_and_back: Any = pa.array([encoded.to_arrow()], ENCODED)[0]
    assert encoded_or_stored(there_and_back) == encoded
