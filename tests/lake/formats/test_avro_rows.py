"""Rows of Avro data files are those that were written, of every type that Iceberg has, with and without column ids."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.opened_data import opened_data

from metastore.errors import FormatError
from metastore.lake.formats.avro.avro_rows import AvroRows

MICROS = st.integers(-62_135_596_800_000_000, 9 * 10**18)
DECIMALS = st.integers(-(10**9) + 1, 10**9 - 1).map(lambda unscaled: Decimal(unscaled).scaleb(-2))
TYPES: dict[str, tuple[Any, Any, st.SearchStrategy[Any]]] = {
    "boolean": ("boolean", pa.bool_(), st.booleans()),
    "int": ("int", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": ("float", pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": ("double", pa.float64(), st.floats(allow_nan=False)),
    "string": ("string", pa.string(), st.text()),
    "bytes": ("bytes", pa.binary(), st.binary()),
    "fixed": ({"type": "fixed", "name": "f4", "size": 4}, pa.binary(4), st.binary(min_size=4, max_size=4)),
    "date": ({"type": "int", "logicalType": "date"}, pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    "time": ({"type": "long", "logicalType": "time-micros"}, pa.time64("us"), st.integers(0, 86_399_999_999)),
    "moment": ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC"), MICROS),
    "clock": (
        {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
        pa.timestamp("us"),
        MICROS,
    ),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        pa.decimal128(9, 2),
        DECIMALS,
    ),
    "fixed decimal": (
        {"type": "fixed", "name": "d5", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2},
        pa.decimal128(9, 2),
        DECIMALS,
    ),
}
"""By a name: the Avro schema, Arrow's type, and values as Arrow takes them."""


def wrapped(avro: Any, arrow: Any, values: st.SearchStrategy[Any], how: str) -> tuple[Any, Any, st.SearchStrategy[Any]]:
    """A type inside of others; maps in the form of Avro and in that of Iceberg."""
    optional = st.none() | values
    match how:
        case "plain":
            return avro, arrow, values
        case "list":
            return {"type": "array", "items": ["null", avro]}, pa.list_(arrow), st.lists(optional, max_size=3)
        case "map":
            held = st.dictionaries(st.text(max_size=3), optional, max_size=3)
            return {"type": "map", "values": ["null", avro]}, pa.map_(pa.string(), arrow), held
        case "pairs":
            fields = [{"name": "key", "type": "long"}, {"name": "value", "type": ["null", avro]}]
            items = {"type": "record", "name": "pair", "fields": fields}
            pairs = st.lists(st.tuples(st.integers(0, 9), optional), max_size=3)
            whole = {"type": "array", "items": items, "logicalType": "map"}
            return whole, pa.map_(pa.int64(), arrow), pairs
        case _:
            record = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": ["null", avro]}]}
            return record, pa.struct([("x", arrow)]), st.fixed_dictionaries({"x": optional})


def stored(value: Any, arrow: Any) -> Any:
    """A value as fastavro writes it where the schema has no logical types."""
    if value is None:
        return None
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(2))
        return unscaled.to_bytes(5, "big", signed=True)
    if pa.types.is_list(arrow):
        return [stored(each, arrow.value_type) for each in value]
    if isinstance(value, list):
        return [{"key": key, "value": stored(each, arrow.item_type)} for key, each in value]
    if pa.types.is_map(arrow):
        return {key: stored(each, arrow.item_type) for key, each in value.items()}
    return {"x": stored(value["x"], arrow.field(0).type)} if pa.types.is_struct(arrow) else value


def file_of(avro: Any, rows: Sequence[Any], own_id: int | None) -> io.BytesIO:
    """A file with the column ``a``; the header has the logical types, which fastavro is not shown."""
    plain: Any = {"type": "record", "name": "row", "fields": [{"name": "a", "type": ["null", bare(avro)]}]}
    said = {"type": "record", "name": "row", "fields": [{"name": "a", "type": ["null", avro]}]}
    if own_id is not None:
        said["fields"][0]["field-id"] = own_id  # type: ignore[index]
    made = io.BytesIO()
    fastavro.writer(made, plain, [{"a": row} for row in rows], codec="deflate", sync_interval=200)
    content = made.getvalue()
    reader = fastavro.block_reader(io.BytesIO(content))
    return with_schema(content, reader.metadata["avro.schema"], json.dumps(said))


def bare(avro: Any) -> Any:
    """A schema without logical types."""
    if isinstance(avro, list):
        return [bare(each) for each in avro]
    if isinstance(avro, dict):
        return {key: bare(value) for key, value in avro.items() if key != "logicalType"}
    return avro


def with_schema(content: bytes, old: str, new: str) -> io.BytesIO:
    """The file with another schema text in its header."""

    def length(count: int) -> bytes:
        rest, written = count << 1, b""
        while rest >= 0x80:
            written += bytes([rest & 0x7F | 0x80])
            rest >>= 7
        return written + bytes([rest])

    before, after = (length(len(text.encode())) + text.encode() for text in (old, new))
    assert content.count(before) == 1
    return io.BytesIO(content.replace(before, after))


@pytest.mark.parametrize("how", ["plain", "list", "map", "pairs", "struct"])
@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_rows_are_those_that_were_written(name: str, how: str, data: st.DataObject) -> None:
    """Over several blocks; times and days of any year, which Python's own types do not hold."""
    avro, arrow, values = wrapped(*TYPES[name], how)
    rows = data.draw(st.lists(st.none() | values, max_size=8))
    own_id = data.draw(st.none() | st.just(7))
    read = AvroRows(file_of(avro, [stored(row, arrow) for row in rows], own_id))
    assert (read.schema.field("a").metadata or {}).get(b"PARQUET:field_id") == (None if own_id is None else b"7")
    expected = [list(row.items()) if isinstance(row, dict) and how == "map" else row for row in rows]
    found = pa.Table.from_batches(read.batches(), read.schema)
    assert found["a"].combine_chunks().cast(arrow).equals(pa.array(expected, arrow))


def test_more_rows_than_a_batch() -> None:
    """None is lost where a batch ends."""
    batches = list(AvroRows(file_of("long", list(range(40_000)), None)).batches())
    assert len(batches) == 3
    assert [n for batch in batches for n in batch["a"].to_pylist()] == list(range(40_000))


@pytest.mark.parametrize("damage", ["cut", "text", "block"])
def test_damaged_files_are_format_errors(damage: str) -> None:
    """Wherever the damage is."""
    content = file_of("string", ["some text"] * 1_000, None).getvalue()
    spoiled = {"cut": content[:-40], "text": b"not Avro at all", "block": content[:120] + b"\xff" * 200 + content[320:]}
    with pytest.raises(FormatError):
        list(AvroRows(io.BytesIO(spoiled[damage])).batches())


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy", "zstandard", "lz4"])
def test_every_codec_is_read(codec: str) -> None:
    """The codecs of Avro's specification, and lz4, with what the extra installs."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [{"a": number} for number in range(3)], codec=codec)
    rows = pa.Table.from_batches(AvroRows(io.BytesIO(sink.getvalue())).batches())
    assert rows.to_pylist() == [{"a": 0}, {"a": 1}, {"a": 2}]
    batches = opened_data("AVRO", lambda: io.BytesIO(sink.getvalue())).batches
    assert [batch.to_pylist() for batch in batches(["a"])] == [rows.to_pylist()]


UNIONS: dict[str, tuple[Any, list[Any], Any, list[Any]]] = {
    "int and long": (["int", "long"], [1, 2**40], pa.int64(), [1, 2**40]),
    "float and double": (["null", "float", "double"], [1.5, None], pa.float64(), [1.5, None]),
    "int and text": (
        ["null", "int", "string"],
        [1, "x", None],
        pa.struct([("member0", pa.int32()), ("member1", pa.string())]),
        [{"member0": 1, "member1": None}, {"member0": None, "member1": "x"}, None],
    ),
    "two records": (
        [{"type": "record", "name": name, "fields": [{"name": "n", "type": "int"}]} for name in "AB"],
        [("A", {"n": 1}), ("B", {"n": 2})],
        pa.struct([(f"member{place}", pa.struct([pa.field("n", pa.int32(), nullable=False)])) for place in (0, 1)]),
        [{"member0": {"n": 1}, "member1": None}, {"member0": None, "member1": {"n": 2}}],
    ),
}


@pytest.mark.parametrize("name", UNIONS)
def test_unions_are_what_they_are_in_spark(name: str) -> None:
    """The wider of two numbers, or a struct with a field for each type but null."""
    union, values, type_, expected = UNIONS[name]
    schema = {"type": "record", "name": "r", "fields": [{"name": "u", "type": union}, {"name": "i", "type": "int"}]}
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [{"u": value, "i": 1} for value in values])
    data = opened_data("AVRO", lambda: io.BytesIO(sink.getvalue()))
    assert data.schema.field("u").type == type_
    assert [row["u"] for batch in data.batches(["u"]) for row in batch.to_pylist()] == expected


def test_header_values_are_bytes() -> None:
    """What is no UTF-8 in a header, and of no use to a reader, stops nothing."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [{"a": 7}], metadata={"icon": "?" * 300})
    content = sink.getvalue().replace(b"?" * 300, b"\xff\x00" * 150)
    assert AvroRows(io.BytesIO(content)).schema.names == ["a"]
    assert pa.Table.from_batches(AvroRows(io.BytesIO(content)).batches()).to_pylist() == [{"a": 7}]
    batches = opened_data("AVRO", lambda: io.BytesIO(content)).batches
    assert [batch.to_pylist() for batch in batches(["a"])] == [[{"a": 7}]]
