"""Row lineage read as the specification says, by fastavro and pyarrow alone: without the package and PyIceberg."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow.parquet as pq

Row = tuple[int, int]
"""Row id, and the sequence number of the commit that changed the row last."""


class Version3(NamedTuple):
    """What a version of a table has: each row's lineage by its column ``id``, and its metadata."""

    rows: dict[int, Row]
    metadata: dict[str, Any]


def local(location: str) -> Path:
    """The file at a location of the local disk."""
    return Path(location.removeprefix("file://"))


def records(location: str) -> list[dict[str, Any]]:
    """The records of an Avro file."""
    with local(location).open("rb") as stream:
        found: Any = fastavro.reader(stream)
        return list(found)


def version_3(metadata_location: str) -> Version3:
    """Read a table without delete files. AssertionError for ids that are given twice, or not counted."""
    metadata = json.loads(local(metadata_location).read_text())
    snapshot = next(each for each in metadata["snapshots"] if each["snapshot-id"] == metadata["current-snapshot-id"])
    rows: dict[int, Row] = {}
    for manifest in records(snapshot["manifest-list"]):
        assert manifest["content"] == 0
        assert manifest["first_row_id"] is not None
        next_id = manifest["first_row_id"]
        for entry in records(manifest["manifest_path"]):
            if entry["status"] == 2:
                continue
            file = entry["data_file"]
            first = file.get("first_row_id")
            assert entry["status"] != 1 or first is None
            if first is None:
                first, next_id = next_id, next_id + file["record_count"]
            number = entry.get("file_sequence_number")
            number = manifest["sequence_number"] if number is None else number
            for position, row in enumerate(pq.read_table(local(file["file_path"])).to_pylist()):
                own, last = row.get("_row_id"), row.get("_last_updated_sequence_number")
                assert row["id"] not in rows
                rows[row["id"]] = (first + position if own is None else own, number if last is None else last)
        assert next_id <= metadata["next-row-id"]
    assert len({row_id for row_id, _ in rows.values()}) == len(rows)
    numbers = [each["sequence-number"] for each in metadata["snapshots"] if each.get("sequence-number")]
    assert numbers == sorted(set(numbers))
    assert metadata["last-sequence-number"] == numbers[-1]
    given = [(each["first-row-id"], each["added-rows"]) for each in metadata["snapshots"] if "first-row-id" in each]
    assert all(first + added == following for (first, added), (following, _) in pairwise(given))
    assert sum(given[-1]) == metadata["next-row-id"]
    return Version3(rows, metadata)
