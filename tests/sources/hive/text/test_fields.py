"""Lines and fields of text as SerDes make them, where the tests have no engine to ask: headers, JSON, properties."""

from __future__ import annotations

import bz2
import gzip
from typing import Any

import pyarrow as pa
import pytest
from hive_metastore.ttypes import SerDeInfo, StorageDescriptor
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import FormatError
from metastore.sources.hive.text.fields import fields
from metastore.sources.hive.text.lines import decompress, lines
from metastore.sources.hive.text.serdes import SerdeKind, TextSerde, text_serde
from metastore.sources.hive.text.values import measure_column
from metastore.sources.hive.types import parse


def descriptor(library: str = SerdeKind.DELIMITED.value, **properties: str) -> StorageDescriptor:
    """What the service says of text; underscores stand for dots."""
    told = {name.replace("_", "."): value for name, value in properties.items()}
    return StorageDescriptor(serdeInfo=SerDeInfo(None, library, told), parameters={})


@given(st.text("ab\r\n", max_size=30), st.integers(1, 7), st.integers(0, 3), st.integers(0, 3))
def test_lines_are_cut_anywhere_into_blocks(text: str, block: int, header: int, footer: int) -> None:
    """Line breaks of all kinds, whatever block they fall into; header and footer are left out."""
    whole = io_lines(text)
    expected = whole[header : max(header, len(whole) - footer)]
    found = [line for batch in lines(pa.BufferReader(text.encode()), header, footer, block) for line in batch]
    assert found == [line.encode() for line in expected]


def io_lines(text: str) -> list[str]:
    """Python's own universal newlines."""
    found = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return found[:-1] if not found[-1] else found


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress)])
def test_compression_is_told_by_the_suffix(suffix: str, pack: Any) -> None:
    """And one that only Hadoop has is refused; a mark of byte order is no text."""
    data = pa.BufferReader(pack(b"\xef\xbb\xbfa\nb"))
    assert list(lines(decompress(data, f"/t/000000_0{suffix}"), 0, 0)) in ([[b"a", b"b"]], [[b"a"], [b"b"]])
    with pytest.raises(FormatError, match="Hadoop's snappy"):
        decompress(data, "/t/000000_0.snappy")


def test_properties_of_delimited_text() -> None:
    """Characters or their numbers; what is missing has Hive's default; others change what values mean."""
    assert text_serde(descriptor(), {}) == TextSerde(rows=SerdeKind.DELIMITED)
    serde = text_serde(
        descriptor(field_delim="|", escape_delim="\\", serialization_null_format="", serialization_encoding="GBK"),
        {"skip.header.line.count": "2"},
    )
    assert serde == TextSerde(
        rows=SerdeKind.DELIMITED, delimiter=b"|", escape=b"\\", quote=None, null=b"", encoding="gbk", header=2
    )
    assert text_serde(descriptor(serialization_format="9"), {}).delimiter == b"\t"
    assert text_serde(descriptor(field_delim=";", serialization_format="1"), {}).delimiter == b";"
    assert text_serde(descriptor(timestamp_formats="yyyy"), {}).odd
    for wrong, reason in (
        (descriptor("org.apache.hadoop.hive.serde2.RegexSerDe"), "RegexSerDe, which is not supported"),
        (descriptor(field_delim="é"), "no single byte"),
        (descriptor(line_delim=";"), "line breaks only"),
    ):
        with pytest.raises(FormatError, match=reason):
            text_serde(wrong, {})
    with pytest.raises(FormatError, match="no number of lines"):
        text_serde(descriptor(), {"skip.footer.line.count": "x"})


def test_the_default_escape_of_csv_is_the_parsers() -> None:
    """Its own default, the quote, is never passed on."""
    assert text_serde(descriptor(SerdeKind.CSV.value), {}) == TextSerde(
        rows=SerdeKind.CSV, delimiter=b",", escape=b"\\", quote=b'"'
    )
    assert text_serde(descriptor(SerdeKind.CSV.value, separatorChar=";", escapeChar="!"), {}).escape == b"!"


def test_json_by_names_in_any_case() -> None:
    """A value of another kind than its column's leaves that column open, broken JSON all of them; rows are counted."""
    names, types = ["id", "s", "x"], ["int", "string", "double"]
    serde = TextSerde(rows=SerdeKind.JSON)

    def known(*text: bytes) -> list[Any]:
        found = fields(list(text), names, serde)
        said = [measure_column(raw, parse(type_), serde, len(text)) for raw, type_ in zip(found, types, strict=True)]
        return [(each.min, each.max, each.nulls) for each in said]

    assert known(b'{"ID": 1, "s": "b", "x": 1}', b'{"id": 3, "S": null, "more": {}}') == [
        (1, 3, 0),
        ("b", "b", 1),
        (1.0, 1.0, 1),
    ]
    assert known(b'{"id": "1", "s": 2, "x": 1.5}') == [(None, None, None), (None, None, None), (1.5, 1.5, 0)]
    assert known(b'{"id": 99999999999, "x": NaN}') == [(None, None, None)] * 3
    too_deep = b'{"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for broken in (b"", b"[1]", b'{"id": 1, "ID": 2}', b"{", too_deep):
        assert known(broken) == [(None, None, None)] * 3


def test_fields_too_few_and_too_many() -> None:
    """Null, and passed over; or the last column takes them."""
    plain = TextSerde(rows=SerdeKind.DELIMITED, delimiter=b",")
    assert [column.to_pylist() for column in fields([b"1,2,3", b"", b"\\N"], ["a", "b"], plain)] == [  # type: ignore[union-attr]
        [b"1", b"", None],
        [b"2", None, None],
    ]
    for escape in (None, b"\\"):
        rest = TextSerde(rows=SerdeKind.DELIMITED, delimiter=b",", escape=escape, last_takes_rest=True)
        found = fields([b"1,2,3", b"x\\,y,z,"], ["a", "b"], rest)
        assert found[1] is not None
        assert found[1].to_pylist()[0] == b"2,3"
