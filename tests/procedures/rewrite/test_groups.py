"""Which files are rewritten together, and how the work is cut: laws over any sizes, and the rules one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from metastore.lake.iceberg.rows.live_files import LiveFile
from metastore.lake.writes.limits import RewriteOptions
from metastore.lake.writes.pieces import Candidate, Choice, Group, choose, output_files, pieces

MB = 1 << 20
OPTIONS = RewriteOptions(target_bytes=100 * MB, min_bytes=75 * MB, max_bytes=180 * MB)


def candidate(
    size: int, rows: int = 100, *, spec: int = 0, partition: int = 0, deletes: tuple[int, ...] = ()
) -> Candidate:
    """A file of ``size`` bytes; ``deletes`` are the records of delete files of its own."""
    own = tuple(LiveFile(file(count, count), 2, "m") for count in deletes)
    return Candidate(LiveFile(file(size, rows, spec, partition), 1, "m"), own, own)


def file(size: int, rows: int, spec: int = 0, partition: int = 0) -> DataFile:
    """A data file's entry."""
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{size}-{rows}",
        file_format=FileFormat.PARQUET,
        partition=Record(partition),
        record_count=rows,
        file_size_in_bytes=size,
    )
    made.spec_id = spec
    return made


def sizes(choice: Choice) -> list[list[int]]:
    """Sizes in megabytes of the files of each group."""
    return [[each.size // MB for each in group.candidates] for group in choice.groups]


def chosen(*candidates: Candidate, **options: Any) -> list[list[int]]:
    """Groups of an unchanged set of options but for ``options``."""
    return sizes(choose(candidates, 0, RewriteOptions(**{**vars(OPTIONS), **options})))


SMALL = candidate(10 * MB)


@pytest.mark.parametrize(
    ("files", "options", "expected"),
    [
        ([SMALL] * 5, {}, [[10] * 5]),
        ([SMALL] * 4, {}, []),
        ([SMALL] * 2, {"min_input_files": 2}, [[10, 10]]),
        ([SMALL], {"min_input_files": 1}, []),
        ([candidate(100 * MB)] * 9, {}, []),
        ([candidate(75 * MB)] * 9, {}, []),
        ([candidate(74 * MB)] * 2, {}, [[74, 74]]),
        ([candidate(181 * MB)], {}, [[181]]),
        ([candidate(180 * MB)], {}, []),
        ([candidate(100 * MB), *[SMALL] * 5], {}, [[10] * 5]),
        ([candidate(100 * MB)], {"rewrite_all": True}, [[100]]),
        ([candidate(100 * MB, deletes=(30,))], {}, [[100]]),
        ([candidate(100 * MB, deletes=(29,))], {}, []),
        ([candidate(100 * MB, deletes=(1, 1))], {"delete_file_threshold": 2}, [[100]]),
        ([candidate(100 * MB, deletes=(1,))], {"delete_file_threshold": 2}, []),
        ([SMALL] * 5 + [candidate(10 * MB, partition=1)] * 5, {}, [[10] * 5, [10] * 5]),
        ([SMALL] * 4 + [candidate(10 * MB, partition=1)] * 4, {}, []),
        ([candidate(10 * MB, spec=1, partition=number) for number in range(5)], {}, [[10] * 5]),
        ([SMALL] * 10, {"max_group_files": 5}, [[10] * 5, [10] * 5]),
        ([SMALL] * 10, {"max_group_bytes": 50 * MB}, [[10] * 5, [10] * 5]),
        ([SMALL] * 10, {"max_files": 7}, [[10] * 7]),
        ([SMALL] * 10, {"max_files": 7, "max_group_files": 5}, [[10] * 5, [10] * 2]),
        (
            [SMALL] * 5 + [candidate(20 * MB, partition=1)] * 5,
            {"job_order": "bytes-desc"},
            [[20] * 5, [10] * 5],
        ),
        ([SMALL] * 6 + [candidate(MB, partition=1)] * 5, {"job_order": "files-asc"}, [[1] * 5, [10] * 6]),
    ],
)
def test_a_file_and_a_group_qualify_by_size_count_and_deletes(
    files: list[Candidate], options: dict[str, Any], expected: list[list[int]]
) -> None:
    """As Spark's procedure has it, option by option."""
    assert chosen(*files, **options) == expected


def test_files_that_are_left_are_counted_with_the_reason() -> None:
    """So that nobody wonders why nothing happened."""
    left = choose([candidate(100 * MB), *[SMALL] * 4], 0, OPTIONS).left
    assert left == {"of a good size and with few deletes": 1, "in a group of fewer than 5 files": 4}
    assert choose([SMALL], 0, replace(OPTIONS, min_input_files=1)).left == {"in a group of fewer than 2 files": 1}


def test_rows_of_other_specs_find_their_partition() -> None:
    """A pool of files of old specs has no partition of its own; files of the output spec keep theirs."""
    old = [candidate(10 * MB, spec=1)] * 5
    here = [candidate(10 * MB, partition=3)] * 5
    assert [group.partition for group in choose([*old, *here], 0, OPTIONS).groups] == [Record(3), None]


@pytest.mark.parametrize(
    ("megabytes", "files"),
    [(1, 1), (99, 1), (100, 1), (109, 1), (111, 2), (176, 2), (200, 2), (215, 2), (230, 3), (1000, 10), (1050, 10)],
)
def test_a_small_remainder_is_spread(megabytes: int, files: int) -> None:
    """A last file that would be small is not made when the others can take its rows within a tenth."""
    assert output_files(megabytes * MB, OPTIONS) == files


GROUPS = st.lists(st.tuples(st.integers(1, 400 * MB), st.integers(1, 5_000)), min_size=1, max_size=40)


@given(GROUPS, st.booleans(), st.booleans())
def test_pieces_hold_every_row_once_in_order(files: list[tuple[int, int]], moved: bool, whole: bool) -> None:
    """Whatever is cut where: slices of a file follow each other without gap or overlap, files stay in order."""
    members = tuple(candidate(size, rows) for size, rows in files)
    group = Group(7, members, None if moved else Record(0))
    cut = pieces(group, OPTIONS, whole=whole)
    assert [piece.number for piece in cut] == list(range(len(cut)))
    slices = [each for piece in cut for each in piece.slices]
    expected = []
    for number, each in enumerate(slices):
        assert each.first < each.end
        if each.first:
            assert slices[number - 1].end == each.first
        if each.end == each.file_rows:
            expected.append((each.file_size, each.file_rows))
    assert expected == files
    assert len(cut) == 1 or not whole


@given(GROUPS)
def test_pieces_that_keep_their_partition_become_a_file_each(files: list[tuple[int, int]]) -> None:
    """Of about the wanted size, as far as rows can be cut."""
    group = Group(0, tuple(candidate(size, rows) for size, rows in files), Record(0))
    cut = pieces(group, OPTIONS, whole=False)
    wanted = output_files(group.size, OPTIONS)
    assert len(cut) <= wanted
    row = max(size / rows for size, rows in files)
    for piece in cut:
        rows = sum(each.end - each.first for each in piece.slices)
        assert rows <= piece.file_rows
        assert piece.size <= group.size / wanted + 2 * row + len(piece.slices)
