"""Row lineage and deletion vectors read as the specification says, without the package and PyIceberg."""

from __future__ import annotations

import json
import struct
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow.parquet as pq
from pyroaring import BitMap64

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


def vectors(manifests: list[dict[str, Any]]) -> dict[str, set[int]]:
    """The deleted positions of each data file. AssertionError for two vectors of a file, or one that is not whole."""
    found: dict[str, set[int]] = {}
    for manifest in manifests:
        for entry in records(manifest["manifest_path"]):
            file = entry["data_file"]
            if entry["status"] == 2:
                continue
            assert (file["content"], file["file_format"].lower()) == (1, "puffin")
            whole = local(file["file_path"]).read_bytes()
            assert (whole[:4], whole[-4:], len(whole)) == (b"PFA1", b"PFA1", file["file_size_in_bytes"])
            [size] = struct.unpack("<i", whole[-12:-8])
            footer = json.loads(whole[-12 - size : -12])
            first, length = file["content_offset"], file["content_size_in_bytes"]
            [blob] = [each for each in footer["blobs"] if each["offset"] == first]
            assert (blob["type"], blob["length"], blob["fields"]) == ("deletion-vector-v1", length, [2147483645])
            content = whole[first : first + length]
            assert struct.unpack(">I", content[:4])[0] == length - 8
            assert content[4:8] == b"\xd1\xd3\x39\x64"
            assert struct.unpack(">I", content[-4:])[0] == zlib.crc32(content[4:-4])
            positions = set(BitMap64.deserialize(content[8:-4]))
            named = blob["properties"]
            assert (named["referenced-data-file"], int(named["cardinality"])) == (
                file["referenced_data_file"],
                len(positions),
            )
            assert file["record_count"] == len(positions)
            assert file["referenced_data_file"] not in found
            found[file["referenced_data_file"]] = positions
    return found


def version_3(metadata_location: str) -> Version3:
    """Read a table whose deletes are vectors. AssertionError for ids that are given twice, or not counted."""
    metadata = json.loads(local(metadata_location).read_text())
    snapshot = next(each for each in metadata["snapshots"] if each["snapshot-id"] == metadata["current-snapshot-id"])
    rows: dict[int, Row] = {}
    manifests = records(snapshot["manifest-list"])
    deleted = vectors([each for each in manifests if each["content"] == 1])
    files = set()
    for manifest in (each for each in manifests if each["content"] == 0):
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
            files.add(file["file_path"])
            gone = deleted.get(file["file_path"], set())
            for position, row in enumerate(pq.read_table(local(file["file_path"])).to_pylist()):
                if position in gone:
                    continue
                own, last = row.get("_row_id"), row.get("_last_updated_sequence_number")
                assert row["id"] not in rows
                rows[row["id"]] = (first + position if own is None else own, number if last is None else last)
        assert next_id <= metadata["next-row-id"]
    assert deleted.keys() <= files
    assert len({row_id for row_id, _ in rows.values()}) == len(rows)
    numbers = [each["sequence-number"] for each in metadata["snapshots"] if each.get("sequence-number")]
    assert numbers == sorted(set(numbers))
    assert metadata["last-sequence-number"] == numbers[-1]
    given = [(each["first-row-id"], each["added-rows"]) for each in metadata["snapshots"] if "first-row-id" in each]
    assert all(first + added == following for (first, added), (following, _) in pairwise(given))
    assert sum(given[-1]) == metadata["next-row-id"]
    return Version3(rows, metadata)
