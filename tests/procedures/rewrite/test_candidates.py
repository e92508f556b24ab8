"""Which delete files may apply to a data file: by path, partition and sequence number, and never one too few."""

from __future__ import annotations

import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from metastore.lake.iceberg.columns.schemas import PATH_ID
from metastore.lake.iceberg.rows.delete_index import Deletes, only_path
from metastore.lake.iceberg.rows.live_files import LiveFile

DATA, POSITION, EQUALITY = DataFileContent


def live(
    content: DataFileContent,
    path: str,
    number: int,
    *,
    spec: int = 0,
    partition: str = "a",
    bounds: tuple[str, str] | None = None,
) -> LiveFile:
    """A file as a snapshot has it; ``bounds`` are those of the paths that a delete file names."""
    file = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(partition),
        record_count=1,
        file_size_in_bytes=1,
        lower_bounds={PATH_ID: bounds[0].encode()} if bounds else None,
        upper_bounds={PATH_ID: bounds[1].encode()} if bounds else None,
    )
    file.spec_id = spec
    return LiveFile(file, number, "m")


@pytest.mark.parametrize(
    ("delete", "applies"),
    [
        (live(POSITION, "d", 5), True),
        (live(POSITION, "d", 6), True),
        (live(POSITION, "d", 4), False),
        (live(POSITION, "d", 5, partition="b"), False),
        (live(POSITION, "d", 5, spec=1), False),
        (live(POSITION, "d", 5, bounds=("e", "g")), True),
        (live(POSITION, "d", 5, bounds=("g", "h")), False),
        (live(POSITION, "d", 5, bounds=("a", "e")), False),
        (live(POSITION, "d", 5, bounds=("f", "f"), partition="b"), True),
        (live(POSITION, "d", 5, bounds=("e", "e")), False),
        (live(POSITION, "d", 4, bounds=("f", "f")), False),
        (live(EQUALITY, "d", 6), True),
        (live(EQUALITY, "d", 5), False),
        (live(EQUALITY, "d", 6, partition="b"), False),
        (live(EQUALITY, "d", 6, spec=7, partition="b"), True),
        (live(POSITION, "d", 6, spec=7, partition="b"), False),
    ],
)
def test_a_delete_file_applies_as_the_format_says(delete: LiveFile, applies: bool) -> None:
    """To data file ``f`` with number 5 in partition a of spec 0; spec 7 divides nothing."""
    data = live(DATA, "f", 5)
    assert Deletes([delete], frozenset({7})).of(data) == ([delete] if applies else [])


def test_a_delete_file_is_of_one_file_when_its_bounds_are_equal() -> None:
    """Anything else may name several."""
    assert only_path(live(POSITION, "d", 1, bounds=("f", "f")).file) == "f"
    assert only_path(live(POSITION, "d", 1, bounds=("e", "f")).file) is None
    assert only_path(live(POSITION, "d", 1).file) is None
    assert only_path(live(EQUALITY, "d", 1, bounds=("f", "f")).file) is None
