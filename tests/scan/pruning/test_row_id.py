"""The layout of row ids: pinned byte by byte, read back as made, and nothing else taken for one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import InvalidRequestError
from metastore.scan.pruning.row_id import LENGTH, TYPE, decode, encode

COMPONENT = bytes(range(1, 13))


def test_version_1_is_pinned() -> None:
    """Row number, row group id, component: 8, 4 and 12 bytes, big-endian."""
    ids = encode(COMPONENT, 0x01020304, 0x0A0B, 2)
    assert ids.type == TYPE == pa.binary()
    assert ids.to_pylist() == [
        bytes.fromhex("0000000000000a0b") + bytes.fromhex("01020304") + COMPONENT,
        bytes.fromhex("0000000000000a0c") + bytes.fromhex("01020304") + COMPONENT,
    ]
    assert len(ids[0].as_py()) == LENGTH == 24


@given(
    st.lists(
        st.tuples(
            st.binary(min_size=12, max_size=12), st.integers(0, 2**32 - 1), st.integers(0, 2**63), st.integers(0, 4)
        ),
        max_size=5,
    )
)
def test_what_is_made_is_read_back(parts: list[tuple[bytes, int, int, int]]) -> None:
    """Every id gives its row number, its row group and its component, in any mix of them, at any size of number."""
    made: Any = pa.chunked_array([encode(*part) for part in parts], TYPE)
    expected = [(part[2] + n, part[1], part[0]) for part in parts for n in range(part[3])]
    for ids in (made, made.combine_chunks(), made.to_pylist(), made.cast(pa.large_binary())):
        pieces = decode(ids)
        found = list(zip(pieces.rows.tolist(), pieces.groups.tolist(), pieces.component_of.tolist(), strict=True))
        assert [(row, group, pieces.components[index]) for row, group, index in found] == expected


@pytest.mark.parametrize(
    "wrong", [[None], [b""], [b"x" * 23], [b"x" * 25], [b"x" * 24, b"y"], ["x" * 24], [7], pa.array([1])]
)
def test_nothing_else_is_a_row_id(wrong: object) -> None:
    """A null, another length, another type."""
    with pytest.raises(InvalidRequestError, match="row id"):
        decode(wrong)  # type: ignore[arg-type]
