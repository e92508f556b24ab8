"""Files as requests: what is read by pieces is the file, what is written is sent once or not at all."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.lake.stores.whole_files import RangedFile, WholeFile


@given(content=st.binary(max_size=40), moves=st.lists(st.tuples(st.integers(-1, 12), st.none() | st.integers(0, 50))))
def test_reads_by_ranges_are_those_of_a_file_in_memory(content: bytes, moves: list[tuple[int, int | None]]) -> None:
    """However it is read on and wherever to; nothing is asked of the store beyond the end."""
    asked: list[tuple[int, int]] = []

    def fetch(start: int, end: int) -> bytes:
        asked.append((start, end))
        return content[start:end]

    ranged, memory = RangedFile(len(content), fetch), io.BytesIO(content)
    for size, place in moves:
        if place is not None:
            assert ranged.seek(place) == memory.seek(place)
        assert ranged.read(size) == memory.read(size)
        assert ranged.tell() == memory.tell()
    assert all(start < end <= len(content) for start, end in asked)


def test_a_whole_file_is_sent_once() -> None:
    """At its close, all of it; a second close sends nothing."""
    sent: list[bytes] = []
    file = WholeFile(sent.append)
    assert (file.write(b"ab"), file.write(b"c"), file.tell(), sent) == (2, 1, 3, [])
    file.close()
    file.close()
    assert sent == [b"abc"]


def test_a_file_whose_writing_fails_is_not_sent() -> None:
    """The exception goes on, and the file is closed."""
    sent: list[bytes] = []
    file = WholeFile(sent.append)

    def write_half() -> None:
        with file:
            file.write(b"ab")
            raise ValueError("halfway")

    with pytest.raises(ValueError, match="halfway"):
        write_half()
    assert (sent, file.closed) == ([], True)
