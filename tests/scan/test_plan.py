"""Plans of tables with very many units: made level by level, they are the plans made in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo
from support.scan_lake import Lake

from metastore.components.storage import data_files, reader
from metastore.components.storage.file_groups import FileGroup
from metastore.model.vocabulary import MetadataType
from metastore.scan.pruning.stored_units import StoredUnits


@pytest.fixture
def many(lake: Lake) -> Iterator[Lake]:
    """Twenty segments with two files, of which a plan holds four segments' units at a time and caches none."""
    for number in range(20):
        for file in range(2):
            first = number * 10 + file * 5
            lake.write(f"part={number}/{file}.parquet", {"n": range(first, first + 4)}, row_group_size=2)
    lake.analyze()
    many = lake.reading(small_files=0, part_rows=28, memory_size=10)
    yield many
    many.session.close()


@pytest.mark.parametrize("where", [None, "n = 63", "n >= 95", "n < 7 or n > 190", "part = 4 and n > 44", "n is null"])
def test_a_plan_level_by_level_is_the_plan_in_memory(many: Lake, where: str | None) -> None:
    """Files, row groups, rows, ids and aggregates; with a listing and without one."""
    asked = ["count(*)", "min(n)", "max(part)"]
    at_once = many.reading(memory_size=10_000_000)
    for options in ({}, {"list_files": False}, {"row_id": True}):
        found = []
        for lake in (many, at_once):
            scan = lake.scan(where, **options)
            files = sorted(scan.files, key=lambda file: file.path)
            answer = scan.aggregate(asked).to_pylist() if not options.get("row_id") else None
            found.append((files, [file.schema for file in files], scan.to_arrow().sort_by("n"), answer))
        assert found[0] == found[1]
    at_once.session.close()


def test_a_plan_reads_files_of_segments_that_are_left(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds come from the columns beside the rows of one data file of the metastore; no unit's JSON is read."""
    for part in range(8):
        lake.write(f"part={part}/a.parquet", {"n": range(part * 100, part * 100 + 40)}, row_group_size=1)
    lake.analyze()
    many = lake.reading(small_files=0, part_rows=60, memory_size=10)
    read: list[FileGroup] = []
    batches = FileGroup.batches

    def noted(group: FileGroup) -> Any:
        read.append(group)
        return batches(group)

    monkeypatch.setattr(FileGroup, "batches", noted)
    scan = many.scan("n = 605")
    assert [path.rsplit("/", 2)[1] for path in scan.paths] == ["part=6"]
    assert sum(len(group.files.paths) for group in read if "columnsStatistics" in group.columns) == 0
    assert many.scan().count() == 320
    many.session.close()


def test_a_count_outlives_the_version_that_was_planned_by(many: Lake) -> None:
    """Its metadata is gone, so the rows are read."""
    scan = many.scan("n >= 95")
    gone = StoredUnits(many.tables, many.session.table_info("dfs.tmp.t"), 12345)
    assert replace(scan, plan=replace(scan.plan, units=gone)).count() == scan.count() == 84


def test_an_empty_directory_does_not_change_the_type_of_a_column(lake: Lake) -> None:
    """``'100' > '20'`` is not so as text, which the name of a directory without files would make of the column."""
    for part in (*range(20), 100):
        lake.write(f"part={part}/a.parquet", {"n": [part]})
    lake.analyze()
    (lake.root / "part=x").mkdir()
    assert lake.scan("part > '20'").to_arrow()["n"].to_pylist() == [100]


def test_names_of_directories_keep_files_that_no_segment_is_known_of(many: Lake) -> None:
    """Without a listing the metadata of the files tells which directories there are."""
    rows = EqualTo("metadataKey", "part=17")
    units = many.tables.read().metadata_types(MetadataType.ALL).filter(rows).execute()
    files = [unit for unit in units if unit.metadata_type != "SEGMENT"]
    assert len(files) < len(units)
    many.tables.modify().overwrite(files).execute()
    assert many.scan("part = 17", list_files=False).to_arrow().num_rows == 8
    assert many.scan("part = 16", list_files=False).to_arrow().num_rows == 8


def test_a_scan_of_trusted_metadata_opens_what_digests_leave(many: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table's unit, and the file of one segment, with row ids as well; so few units are read as rows."""
    opened: list[str] = []
    batches = data_files.batches_of

    def noted(io: Any, unit_type: Any, files: data_files.FilesToRead, *more: Any) -> Any:
        opened.extend(files.paths)
        return batches(io, unit_type, files, *more)

    monkeypatch.setattr(reader, "batches_of", noted)
    monkeypatch.setattr("metastore.components.storage.file_groups.batches_of", noted)
    assert many.scan("n = 63", list_files=False).to_arrow()["n"].to_pylist() == [63]
    assert len(opened) <= 3
    assert many.scan("n = 63", list_files=False, row_id=True).to_arrow()["n"].to_pylist() == [63]
    assert len(opened) <= 4
