"""The comparison of analyzed and listed files equals a comparison file by file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from metastore.lake.formats.source_file import SourceFile
from metastore.model.bounds.portion_columns import PortionColumns, RowGroupUnits
from metastore.model.bounds.unit_columns import CodedTexts, FileUnits, UnitColumns
from metastore.model.mapping.recorded_numbers import UNKNOWN
from metastore.scan.pruning.known_files import KnownFiles
from metastore.scan.pruning.listed_files import ListedFiles

ROOT = "/t"


class Unit(NamedTuple):
    """One FILE unit: its path, folder, recorded size and time, and number of row groups."""

    path: str
    folder: str
    size: int
    time: int
    row_groups: int


NUMBERS = st.sampled_from([1, 2])
FOLDERS = st.sampled_from(["", "a", "b/c"])
PATHS = st.builds(lambda folder, name: "/".join(filter(None, (ROOT, folder, name))), FOLDERS, st.sampled_from("xyz"))
UNITS = st.builds(
    lambda path, size, time, row_groups: Unit(path, path[3:].rpartition("/")[0], size, time, row_groups),
    PATHS,
    NUMBERS | st.just(UNKNOWN),
    NUMBERS | st.just(UNKNOWN),
    st.integers(0, 3),
)


def columns(units: Sequence[Any]) -> UnitColumns:
    """Units without statistics."""
    return UnitColumns(CodedTexts.of_texts([""] * len(units)), {})


def portion(batches: Sequence[Sequence[Unit]], orphans: int) -> PortionColumns:
    """The units in their batches, all row groups in one batch; ``orphans`` are row groups without a file."""
    files = tuple(
        FileUnits(
            pa.array([unit.path for unit in batch], pa.string()),
            CodedTexts.of_texts([unit.folder for unit in batch]),
            np.array([unit.size for unit in batch], np.int64),
            np.array([unit.time for unit in batch], np.int64),
            columns(batch),
        )
        for batch in batches
    )
    units = [unit for batch in batches for unit in batch]
    owners = [place for place, unit in enumerate(units) for _ in range(unit.row_groups)] + [-1] * orphans
    row_groups = RowGroupUnits(np.array(owners, np.int64), np.zeros(len(owners), np.int64), columns(owners))
    return PortionColumns(files, (row_groups,), frozenset())


@given(
    st.lists(st.tuples(st.lists(st.lists(UNITS, max_size=4), max_size=3), st.integers(0, 1)), max_size=3),
    st.dictionaries(PATHS, st.tuples(NUMBERS, NUMBERS)),
)
def test_a_join_of_columns_equals_a_comparison_file_by_file(
    parts: list[tuple[list[list[Unit]], int]], listing: dict[str, tuple[int, int]]
) -> None:
    """Counts, changed, unknown and missing files and the mask of unchanged files, over doubled units as well."""
    portions = [portion(batches, orphans) for batches, orphans in parts]
    known = KnownFiles.compare(ListedFiles.of(listing), portions, ROOT)

    units = [unit for batches, _ in parts for batch in batches for unit in batch]
    times = Counter(unit.path for unit in units)
    unchanged = [unit for unit in units if times[unit.path] == 1 and listing.get(unit.path) == (unit.size, unit.time)]
    valid = {unit.path for unit in unchanged}
    alone = {unit.path for unit in units if times[unit.path] == 1 and unit.path in listing}
    assert known.unchanged == Counter(unit.folder for unit in unchanged)
    assert known.row_groups == sum(unit.row_groups for unit in unchanged) + sum(orphans for _, orphans in parts)
    assert sorted(known.listed_paths(known.changed)) == sorted(alone - valid)
    assert sorted(known.listed_paths(known.unknown)) == sorted(listing.keys() - alone)
    assert sorted(known.missing) == sorted(unit.path for unit in units if unit.path not in listing)
    assert known.count == len(listing)
    assert known.total_size() == sum(size for size, _ in listing.values())
    assert known.folders == {path[3:].rpartition("/")[0] for path in listing}
    for places, folders in ((known.changed, known.changed_folders), (known.unknown, known.unknown_folders)):
        named = [folders.names[code] for code in folders.codes]
        assert named == [path[3:].rpartition("/")[0] for path in known.listed_paths(places)]
    for each in portions:
        for files in each.files:
            assert known.are_unchanged(files).tolist() == [path in valid for path in files.paths.to_pylist()]


@given(st.lists(st.tuples(PATHS, NUMBERS, NUMBERS)))
def test_of_listed_files_with_one_path_the_last_counts(found: list[tuple[str, int, int]]) -> None:
    """Locations of a table may overlap, so a listing may name a file twice; it is one file."""
    listed = ListedFiles.of_files([SourceFile((), path, path, size, time) for path, size, time in found])
    rows = zip(listed.paths.to_pylist(), listed.sizes.tolist(), listed.times.tolist(), strict=True)
    assert {path: (size, time) for path, size, time in rows} == {path: (size, time) for path, size, time in found}
    assert len(listed) == len({path for path, _, _ in found})
    assert listed.times_by_path() == {path: time for path, _, time in found}
