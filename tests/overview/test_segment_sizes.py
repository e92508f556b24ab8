"""Sizes of tables from manifests: as the file system counts them, whatever the layout, and without opening units."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.served_lake import Lake

from metastore.model.identity import TableInfo
from metastore.overview.segment_sizes import TableSize, table_sizes

LAYOUT = st.lists(
    st.sampled_from(["", "a=1/", "a=2/", "a=2/b=1/", "a=2/b=2/", "c/", "c/d/e/"]), min_size=1, max_size=12
)


def analyzed(folder: Path, layout: list[str], rows: int = 3) -> tuple[Lake, TableInfo, dict[str, list[int]]]:
    """A lake with one table, and the sizes of its files by segment."""
    lake = Lake(folder, {})
    sizes: dict[str, list[int]] = {}
    for number, place in enumerate(layout):
        path = folder / "data" / "t" / place / f"f{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": list(range(number, number + rows))}), path)
        sizes.setdefault(place.partition("/")[0] or "DEFAULT_SEGMENT", []).append(path.stat().st_size)
    lake.session.analyze("dfs.w.t")
    return lake, TableInfo("dfs", "w", "t"), sizes


def size_of(lake: Lake, table: TableInfo) -> TableSize:
    """Its size at the newest version."""
    return table_sizes(lake.session, [table], lake.session.metastore.tables.metadata.version)[table]


@settings(max_examples=8)
@given(layout=LAYOUT)
def test_sizes_are_those_of_the_files(tmp_path_factory: pytest.TempPathFactory, layout: list[str]) -> None:
    """By segment, with nested folders and files in none; row groups too."""
    lake, table, sizes = analyzed(tmp_path_factory.mktemp("sizes"), layout)
    with lake.opened:
        found = size_of(lake, table)
        assert {each.segment: (each.files, each.bytes) for each in found.segments} == {
            segment: (len(of_segment), sum(of_segment)) for segment, of_segment in sizes.items()
        }
        assert (found.files, found.bytes, found.unknown) == (len(layout), sum(map(sum, sizes.values())), 0)
        assert sum(each.row_groups for each in found.segments) == len(layout)


def test_no_unit_is_opened_where_manifests_say_it(tmp_path: Path) -> None:
    """The stored units of segments can be gone: each segment of some files has a digest."""
    lake, table, sizes = analyzed(tmp_path, [f"a={number % 3}/" for number in range(12)])
    with lake.opened:
        stored = [path for path in (tmp_path / "m").rglob("*.parquet") if "GENERAL_INFO" not in str(path)]
        assert stored
        for path in stored:
            path.unlink()
        assert size_of(lake, table).bytes == sum(map(sum, sizes.values()))


def test_a_table_without_files_in_its_metadata_has_no_size(tmp_path: Path) -> None:
    """Analyzed to the level of the table alone; one that is not there has no size either."""
    lake, table, _ = analyzed(tmp_path, ["a=1/"])
    with lake.opened:
        lake.session.analyze("dfs.w.t", level="TABLE")
        assert (size_of(lake, table).files, size_of(lake, table).bytes) == (None, None)
        assert size_of(lake, TableInfo("dfs", "w", "none")) == TableSize()
