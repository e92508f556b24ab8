"""Deletion vectors as PyIceberg and a reader of the bitmaps alone read them."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap

from metastore.lake.iceberg.rows.deletion_vectors import vector_blob, vector_content
from metastore.lake.iceberg.rows.puffin import puffin_file

POSITIONS = st.lists(st.integers(0, (1 << 32) - 1), unique=True, min_size=1, max_size=200).map(sorted)


@given(st.lists(POSITIONS, min_size=1, max_size=3))
def test_pyiceberg_reads_every_vector_of_a_file(vectors: list[list[int]]) -> None:
    """Each with the data file that it is of; PyIceberg reads no vector without a position below 2^32."""
    blobs = [vector_blob(f"f{number}", np.array(each, np.int64)) for number, each in enumerate(vectors)]
    content, _ = puffin_file(blobs)
    found = deletion_vectors_from_puffin_file(PuffinFile(content))
    assert [each.referenced_data_file for each in found] == [f"f{number}" for number in range(len(vectors))]
    assert [each.to_vector().to_pylist() for each in found] == vectors


@pytest.mark.parametrize("positions", [[0], [7, 8, 9, 1 << 31, (1 << 32) + 1], list(range(100_000))])
def test_the_bytes_are_those_of_the_specification(positions: list[int]) -> None:
    """Length and checksum are big-endian, the rest is little-endian; runs are short."""
    content = vector_content(np.array(positions, np.int64))
    [length] = struct.unpack(">I", content[:4])
    body, [checksum] = content[4 : 4 + length], struct.unpack(">I", content[4 + length :])
    assert checksum == zlib.crc32(body)
    assert body[:4] == bytes.fromhex("d1d33964")
    [count] = struct.unpack("<Q", body[4:12])
    rest, found = body[12:], []
    for _ in range(count):
        [key] = struct.unpack("<I", rest[:4])
        bitmap: Any = BitMap.deserialize(rest[4:])
        found += [(key << 32) + position for position in bitmap]
        rest = rest[4 + len(bitmap.serialize()) :]
    assert (found, rest) == (positions, b"")
    assert len(content) < 100


def test_a_blob_says_what_it_is_of() -> None:
    """Fields, and the properties that the specification requires; id and number of the snapshot are not known yet."""
    blob = vector_blob("f", np.array([1, 2], np.int64))
    assert (blob.kind, list(blob.fields)) == ("deletion-vector-v1", [2147483645])
    assert (blob.snapshot_id, blob.sequence_number) == (-1, -1)
    assert blob.properties == {"referenced-data-file": "f", "cardinality": "2"}
