"""The decision over a table: levels, files that changed since ANALYZE, directories, and the reasons."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import EqualTo
from support.table_on_disk import TableOnDisk

from metastore.errors import InvalidRequestError
from metastore.scan.pruning.listed_files import ListedFiles
from metastore.scan.pruning.prune import CHANGED, UNKNOWN, prune

Names = Callable[..., set[str]]


@pytest.fixture(scope="module")
def table(table_on_disk: Callable[..., TableOnDisk], tmp_path_factory: pytest.TempPathFactory) -> TableOnDisk:
    """Three months of two files each; day 1 to 4 in the first file, 5 to 8 in the second, two row groups per file."""
    files, identifier = {}, 0
    for month in (1, 2, 3):
        for number in (0, 1):
            days = [number * 4 + i for i in (1, 2, 3, 4)]
            ids = list(range(identifier, identifier + 4))
            files[f"month={month}/{number}.parquet"] = pa.table(
                {"id": ids, "day": days, "big": [i + month * 100 for i in days]}
            )
            identifier += 4
    return table_on_disk(tmp_path_factory.mktemp("flights"), files, row_group_size=2, count_nans=False)


def names(table: Any, paths: list[str]) -> list[str]:
    """Paths below the table, sorted."""
    return sorted(str(Path(path).relative_to(table.root)) for path in paths)


def test_levels_narrow_from_segment_to_row_group(table: TableOnDisk) -> None:
    """One segment, one file of it, one of its row groups: everything else is skipped, and the counts say so."""
    result = prune("big = 203", table.units, listing=ListedFiles.of(table.listing))
    assert [(s.identifier, s.may_match) for s in result.segments] == [
        ("month=1", False),
        ("month=2", True),
        ("month=3", False),
    ]
    assert names(table, [f.path for f in result.files]) == ["month=2/0.parquet"]
    assert result.files[0].row_groups == (1,)
    assert (result.files_count.total, result.files_count.kept) == (6, 1)
    assert (result.row_groups_count.total, result.row_groups_count.kept) == (12, 1)
    assert result.bytes_count is not None
    assert result.bytes_count.total == sum(size for size, _ in table.listing.values())
    assert result.bytes_count.kept == table.listing[result.files[0].path][0]


def test_every_decision_has_a_reason(table: TableOnDisk) -> None:
    """Reasons name the column and the bounds; skipped files are counted by the part that excluded them."""
    result = prune("big = 203", table.units, listing=ListedFiles.of(table.listing))
    assert result.segments[0].reason == "big: min 101, max 108; asked: = 203"
    assert [skipped.reason for skipped in result.skipped_files] == ["big: min 205, max 208; asked: = 203"]
    assert str(result.files[0].skipped_row_groups[0]) == "big: min 201, max 202; asked: = 203"
    assert result.skipped_by == {"big = 203": 5}


def test_a_changed_file_is_read_whatever_its_segment_says(table: TableOnDisk) -> None:
    """Statistics say nothing of a file that was written again, be it that its size or its time alone tells so."""
    path = table.paths[0]
    size, time = table.listing[path]
    for now in ((size + 1, time), (size, time + 1)):
        result = prune("big = 203", table.units, listing=ListedFiles.of({**table.listing, path: now}))
        kept = {f.path: f for f in result.files}
        assert (kept[path].row_groups, kept[path].reason) == (None, CHANGED)
        assert len(kept) == 2
        assert list(result.changed) == [path]


def test_a_new_file_is_read_unless_its_directory_excludes_it(table: TableOnDisk) -> None:
    """A file that ANALYZE never saw is kept inside a skipped segment, but not where its directory rules it out."""
    new = [f"{table.root}/month={month}/new.parquet" for month in (1, 2, 9)]
    listing = table.listing | dict.fromkeys(new, (7, 7))
    by_statistics = prune("big = 203", table.units, listing=ListedFiles.of(listing))
    assert [f.path for f in by_statistics.files if f.reason == UNKNOWN] == new
    by_directory = prune("month = 9", table.units, listing=ListedFiles.of(listing))
    assert [f.path for f in by_directory.files] == [new[2]]
    assert list(by_directory.unknown) == new


def test_a_missing_file_is_gone(table: TableOnDisk) -> None:
    """A file that no longer exists is not read, and not counted."""
    listing = {path: now for path, now in table.listing.items() if path != table.paths[2]}
    result = prune("big = 203", table.units, listing=ListedFiles.of(listing))
    assert list(result.files) == []
    assert list(result.missing) == [table.paths[2]]
    assert result.files_count.total == 5


def test_a_file_with_several_units_is_read(table: TableOnDisk) -> None:
    """Two units of one file may contradict each other, so neither excludes it."""
    is_first = pc.equal(table.units["path"], pa.scalar(table.paths[0]))
    doubled = pa.concat_tables([table.units, table.units.filter(is_first)])
    result = prune("big = 203", doubled, listing=ListedFiles.of(table.listing))
    assert names(table, result.paths) == ["month=1/0.parquet", "month=2/0.parquet"]
    assert result.files_count.total == 6


def test_without_a_listing_the_metadata_is_trusted(table: TableOnDisk) -> None:
    """No listing gives what an unchanged one gives, sizes included."""
    files = ListedFiles.of(table.listing)
    trusted, checked = (prune("big > 203", table.units, listing=listing) for listing in (None, files))
    assert list(trusted.files) == list(checked.files)
    assert trusted.bytes_count == checked.bytes_count


def test_a_file_without_fingerprint_counts_as_changed(table: TableOnDisk) -> None:
    """What cannot be compared cannot be trusted."""
    at = table.units.schema.get_field_index("metadataStatistics")
    blind = table.units.set_column(at, "metadataStatistics", pa.nulls(table.units.num_rows, pa.list_(pa.string())))
    result = prune("big = 203", blind, listing=ListedFiles.of(table.listing))
    assert len(result.files) == len(result.changed) == 6


def test_directories_prune_without_statistics(table: TableOnDisk) -> None:
    """A directory column needs no statistics, by its Hive name or by its level."""
    at = table.units.schema.get_field_index("columnsStatistics")
    empty = pa.nulls(table.units.num_rows, table.units.schema.field(at).type)
    bare = table.units.set_column(at, "columnsStatistics", empty)
    for question in (
        "month = 2",
        "MONTH BETWEEN 2 AND 2",
        "dir0 = 'month=2'",
        "month NOT IN (1, 3)",
        EqualTo("month", 2),
    ):
        result = prune(question, bare, listing=ListedFiles.of(table.listing))
        assert names(table, [f.path for f in result.files]) == ["month=2/0.parquet", "month=2/1.parquet"]


def test_a_kept_file_says_what_was_not_known(table: TableOnDisk) -> None:
    """A column without statistics keeps the file, and the reason names it."""
    day = pc.map_lookup(table.units["columnsStatistics"], pa.scalar("`day`"), "first").to_pylist()
    stored = [None if text is None else [("`day`", text)] for text in day]
    at = table.units.schema.get_field_index("columnsStatistics")
    only_day = table.units.set_column(at, "columnsStatistics", pa.array(stored, table.units.schema.field(at).type))
    result = prune("big = 203", only_day, listing=ListedFiles.of(table.listing))
    assert {f.reason for f in result.files} == {"may match; no statistics for big"}
    assert len(result.files) == 6


def test_a_column_that_no_file_of_a_segment_has_is_null_there(table: TableOnDisk) -> None:
    """A column that only later files have excludes the earlier ones, but IS NULL finds them."""
    at = table.units.schema.get_field_index("schema")
    old = [s.as_py() for s in table.units["schema"]]
    wider = old[0].replace('{"name":"day"', '{"name":"late","type":"INT","mode":"OPTIONAL"},{"name":"day"')
    units = table.units.set_column(at, "schema", pa.array([wider, *old[1:]]))
    assert list(prune("late = 1", units).files) == []
    assert len(prune("late IS NULL", units).files) == 6
    spelled = table.units.set_column(at, "schema", pa.array([wider, *[s.replace('"day"', '"LATE"') for s in old[1:]]]))
    assert len(prune("late = 1", spelled).files) == 6


def test_a_table_must_have_been_analyzed(table: TableOnDisk) -> None:
    """Without the TABLE unit there is nothing to go by."""
    with pytest.raises(InvalidRequestError, match="TABLE unit"):
        prune("big = 1", table.units.slice(1))


def test_nothing_is_read_for_what_is_never_true(table: TableOnDisk) -> None:
    """A comparison with NULL and FALSE skip all; TRUE keeps all."""
    assert [len(prune(q, table.units).files) for q in ("big = NULL", "FALSE", "big NOT IN (1, NULL)", "TRUE")] == [
        0,
        0,
        0,
        6,
    ]


def test_alternatives_are_judged_by_each_files_own_bounds(table_on_disk: Callable[..., Any], tmp_path: Path) -> None:
    """Though the parts of the first alternative exclude the files in another order than they stand in."""
    files = {
        "0.parquet": pa.table({"id": [0], "a": [9], "b": [1]}),
        "1.parquet": pa.table({"id": [1], "a": [0], "b": [2]}),
    }
    table = table_on_disk(tmp_path, files, row_group_size=1, count_nans=False)
    # `a >= 5` excludes the second file, and then `a <= 6` the first one.
    kept = prune("(a >= 5 and a <= 6) or b = 2", table.units, listing=ListedFiles.of(table.listing))
    assert names(table, [f.path for f in kept.files]) == ["1.parquet"]
