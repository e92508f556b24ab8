"""One pass decides which lines of a delimited file are records, for names and rows alike."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.opened_data import opened_data

Rows = tuple[list[str], list[tuple[Any, ...]]]


class Dribble(io.BytesIO):
    """A file that gives a few bytes at a time, as a slow stream does."""

    def __init__(self, content: bytes, step: int) -> None:
        super().__init__(content)
        self._step = step

    def read(self, size: int | None = -1) -> bytes:
        """At most ``step`` bytes."""
        return super().read(self._step if size is None or size < 0 else min(size, self._step))


def read(content: bytes, step: int = 1 << 20, **options: Any) -> Rows:
    """Names and rows of a file, all rows as texts."""
    data = opened_data("CSV", lambda: Dribble(content, step), **options)
    rows = [row for batch in data.batches(data.schema.names) for row in batch.to_pylist()]
    return data.schema.names, [tuple(None if value is None else str(value) for value in row.values()) for row in rows]


BLANK = st.sampled_from([b"", b" ", b"   "])


@given(
    st.lists(st.sampled_from([b"1,x", b'2,"a\n\n \nb"', b"3,", b'4,"\\" q"', b" 5, y"]), max_size=4),
    st.lists(st.lists(BLANK, max_size=2), min_size=5, max_size=5),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.integers(3, 12),
    st.sampled_from([{}, {"escape": '"'}, {"comment": "#"}]),
)
def test_blank_lines_change_nothing(
    records: list[bytes], blanks: list[list[bytes]], end: bytes, mark: bytes, step: int, options: dict[str, Any]
) -> None:
    """Wherever they stand between records, of either line end, after a byte order mark, in pieces of any size."""
    if options:
        records = [record for record in records if b"\\" not in record]
    lines, spaced = [b"id,v", *records], []
    for line, before in zip(lines, blanks, strict=False):
        spaced += [*before, line]
    plain, with_blanks = (mark + end.join([*found, b""]) for found in (lines, spaced))
    assert read(with_blanks, step, **options) == read(plain, **options)


@pytest.mark.parametrize(
    "content",
    [
        b"\nid,v\n1,x\n2,y\n",
        b"\r\n\r\nid,v\r\n1,x\r\n",
        b"\xef\xbb\xbf\n\nid,v\n1,x\n",
        b"   \nid,v\n1,x\n",
        b"id,v\n\n\n1,x\n\n2,y\n\n",
        b"\rid,v\r1,x\r",
        b'id,v\n1,"\n\n"\n2,y\n',
        b"\nid\n1\n",
        b"\n\nid,v\n",
    ],
)
def test_duckdb_agrees(tmp_path: Path, content: bytes) -> None:
    """On names and rows; Spark reads all of these in the same way."""
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with duckdb.connect() as engine:
        found = engine.read_csv(str(path), header=True, delimiter=",", all_varchar=True)
        assert read(content) == (found.columns, found.fetchall())


def test_only_blank_lines_have_no_columns() -> None:
    """As Spark reads them."""
    assert read(b"\n \r\n\n") == ([], [])


def test_comments_and_blanks_stand_in_any_order() -> None:
    """Before the header and between rows."""
    expected = (["id", "v"], [("1", "x")])
    for content in (b"#c\n\nid,v\n1,x\n", b"\n#c\nid,v\n1,x\n", b"\n#c\n  \n#d\n\nid,v\n#e\n\n1,x\n"):
        assert read(content, comment="#") == expected


def test_lines_to_skip_are_any_lines() -> None:
    """Blank ones count, as in DuckDB; those after them do not."""
    content = b"\njunk\r\n\nid,v\n1,x\n"
    assert [read(content, step, skip_lines=2) for step in (3, 7, 100)] == [(["id", "v"], [("1", "x")])] * 3
    assert read(content, skip_lines=3) == (["id", "v"], [("1", "x")])


def test_files_without_a_header_have_no_blank_rows() -> None:
    """Their first record decides the number of fields."""
    assert read(b"\n  \n1,x\n\n2,y\n", header=False)[1] == [("['1', 'x']",), ("['2', 'y']",)]
