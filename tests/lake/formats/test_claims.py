"""What a writer states is believed only if its numbers agree: in every format, for every number that it states."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc
from support.tables_of_kinds import settings_of_kinds
from thrift.Thrift import TType

from metastore.errors import FormatError
from metastore.lake.formats.claims import believed_nans, check_claims, limits_of
from metastore.lake.formats.orc.orc_facts import read_orc
from metastore.lake.formats.orc.protobuf import varint
from metastore.lake.formats.parquet.thrift_structs import decode_struct, encode_struct
from metastore.session import Session, connect

ROWS: Final = pa.table(
    {
        "whole": pa.array([3, None, 9], pa.int8()),
        "amount": pa.array([Decimal("1.50"), None, Decimal("9.25")], pa.decimal128(4, 2)),
        "text": ["b", None, "y"],
    }
)
VALUES: Final = {"whole": ["3", "9"], "amount": ["1.50", "9.25"], "text": ["'b'", "'y'"]}
Lie = Callable[[Path], None]


@given(
    st.none() | st.integers(-5, 5), st.none() | st.integers(-5, 5), st.none() | st.integers(-2, 5), st.integers(0, 4)
)
def test_what_is_believed_agrees(low: int | None, high: int | None, nulls: int | None, rows: int) -> None:
    """Each number comes back unchanged or unknown, and those that come back can be true together."""
    found_low, found_high, found_nulls, values = check_claims(low, high, nulls, rows, (-3, 3))
    assert (found_low, found_high, found_nulls) == (
        found_low and low,
        found_high and high,
        None if found_nulls is None else nulls,
    )
    assert (found_nulls is None) == (values is None)
    assert found_nulls is None or found_nulls + (values or 0) == rows
    assert values != 0 or (found_low is None and found_high is None)
    assert found_low is None or found_high is None or found_low <= found_high
    assert all(bound is None or -3 <= bound <= 3 for bound in (found_low, found_high))


def test_nans_are_values_and_no_bounds() -> None:
    """More NaNs than values, bounds beside nothing but NaNs, and bounds that are NaN say nothing."""
    assert check_claims(math.nan, 1.0, 0, 3) == (None, None, 0, 3)
    assert [believed_nans(nans, None, None, 2) for nans in (-1, 0, 2, 3, None)] == [None, 0, 2, None, None]
    assert believed_nans(2, 1.0, 2.0, 2) is None


def test_limits_are_those_of_types() -> None:
    """Whole numbers and decimals have some; other types of the metastore have none."""
    assert limits_of("TINYINT") == (-128, 127)
    assert limits_of("DECIMAL(4, 2)") == (Decimal("-99.99"), Decimal("99.99"))
    assert limits_of("DOUBLE") is None


Field = tuple[int, int, Any]


def _fields(data: bytes) -> list[Field]:
    """The fields of a protocol buffer: number, kind, value."""
    found: list[Field] = []
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
            found.append((tag >> 3, 0, value))
        else:
            length, at = varint(data, at)
            found.append((tag >> 3, 2, data[at : at + length]))
            at += length
    return found


def _written(fields: list[Field]) -> bytes:
    out = bytearray()

    def number(value: int) -> None:
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)

    for field, kind, value in fields:
        number(field << 3 | kind)
        number(value if kind == 0 else len(value))
        if kind:
            out.extend(value)
    return bytes(out)


def _of_orc(change: Callable[[int, list[Field]], list[Field]]) -> Lie:
    """A footer in which the statistics of each column, by number, are changed."""

    def lie(folder: Path) -> None:
        path = folder / "a.orc"
        orc.write_table(ROWS, path, compression="UNCOMPRESSED")
        content = path.read_bytes()
        after = _fields(content[-1 - content[-1] : -1])
        length = next(value for number, _, value in after if number == 1)
        start = len(content) - 1 - content[-1] - length
        column, footer = 0, []
        for number, kind, value in _fields(content[start : start + length]):
            if number == 7:
                footer.append((number, kind, _written(change(column, _fields(value)))))
                column += 1
            else:
                footer.append((number, kind, value))
        new = _written(footer)
        ending = _written([(1, 0, len(new)) if number == 1 else (number, kind, value) for number, kind, value in after])
        path.write_bytes(content[:start] + new + ending + bytes([len(ending)]))

    return lie


def _counts_of_orc(count: int) -> Callable[[int, list[Field]], list[Field]]:
    return lambda _, own: [(n, k, count if n == 1 else value) for n, k, value in own]


def _columns_of_orc(count: int) -> Callable[[int, list[Field]], list[Field]]:
    return lambda column, own: [(n, k, count if n == 1 and column else value) for n, k, value in own]


def _without_nulls_in_orc(column: int, own: list[Field]) -> list[Field]:
    return [(n, k, (0 if n == 10 else 1 if n == 1 else value) if column else value) for n, k, value in own]


def _bounds_of_orc(low: bytes, high: bytes, whole: tuple[int, int]) -> Callable[[int, list[Field]], list[Field]]:
    def change(_: int, own: list[Field]) -> list[Field]:
        zigzag: list[Field] = [(1, 0, whole[0] << 1), (2, 0, whole[1] << 1)]
        texts: list[Field] = [(1, 2, low), (2, 2, high)]
        return [(n, k, _written(zigzag if n == 2 else texts) if n in (2, 6) else value) for n, k, value in own]

    return change


def _of_parquet(**changed: Callable[[Mapping[str, Any]], Any]) -> Lie:
    """A footer in which numbers of the statistics of each column are changed."""
    numbers = {"null_count": (3, TType.I64), "max_value": (5, TType.STRING), "min_value": (6, TType.STRING)}

    def lie(folder: Path) -> None:
        path = folder / "a.parquet"
        pq.write_table(ROWS, path, use_dictionary=False)
        content = path.read_bytes()
        length = int.from_bytes(content[-8:-4], "little")
        footer = decode_struct(content[-8 - length : -8])
        for group in footer[4][1][1]:
            for chunk in group[1][1][1]:
                statistics = chunk[3][1][12][1]
                own = {name: statistics[number][1] for name, (number, _) in numbers.items()}
                for old in (1, 2):
                    statistics.pop(old, None)
                for name, change in changed.items():
                    number, kind = numbers[name]
                    statistics[number] = (kind, change(own))
        new = encode_struct(footer)
        path.write_bytes(content[: -8 - length] + new + len(new).to_bytes(4, "little") + b"PAR1")

    return lie


def _of_delta(**changed: Callable[[Mapping[str, Any], str], Any]) -> Lie:
    """A log in which numbers of the statistics of each column are changed."""

    def lie(folder: Path) -> None:
        write_deltalake(str(folder), ROWS)
        log = folder / "_delta_log" / f"{0:020}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            if "add" in action:
                own = json.loads(action["add"]["stats"])
                new = {**own}
                for name, change in changed.items():
                    new[name] = {column: change(own, column) for column in own["nullCount"]}
                action["add"]["stats"] = json.dumps(new)
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))

    return lie


def _beyond(bound: bytes) -> bytes:
    """A bound that the type cannot hold, of a decimal in two bytes or of a byte in four; texts have none."""
    return {2: b"\x7f\xff", 4: b"\x00\x7f\x00\x00"}.get(len(bound), bound)


_BEYOND: Final = {"whole": 300, "amount": 12345.5, "text": "y"}
LIES: Final[Mapping[str, tuple[str, Lie]]] = {
    "orc: no statistics, as with a stride of 0": ("dfs.w.t", _of_orc(_counts_of_orc(0))),
    "orc: no values, beside bounds": ("dfs.w.t", _of_orc(_columns_of_orc(0))),
    "orc: more values than rows": ("dfs.w.t", _of_orc(_columns_of_orc(4))),
    "orc: fewer values than rows, and no nulls": ("dfs.w.t", _of_orc(_without_nulls_in_orc)),
    "orc: low above high": ("dfs.w.t", _of_orc(_bounds_of_orc(b"7.5", b"7.0", (8, 7)))),
    "orc: bounds outside of the type": ("dfs.w.t", _of_orc(_bounds_of_orc(b"123.5", b"124.0", (300, 301)))),
    "parquet: nothing but nulls, beside bounds": ("dfs.w.t", _of_parquet(null_count=lambda _: 3)),
    "parquet: more nulls than rows": ("dfs.w.t", _of_parquet(null_count=lambda _: 4)),
    "parquet: fewer nulls than none": ("dfs.w.t", _of_parquet(null_count=lambda _: -1)),
    "parquet: low above high": (
        "dfs.w.t",
        _of_parquet(min_value=lambda own: own["max_value"], max_value=lambda own: own["min_value"]),
    ),
    "parquet: bounds outside of the type": (
        "dfs.w.t",
        _of_parquet(min_value=lambda own: _beyond(own["min_value"]), max_value=lambda own: _beyond(own["max_value"])),
    ),
    "delta: nothing but nulls, beside bounds": ("delta.w.t", _of_delta(nullCount=lambda _, __: 3)),
    "delta: more nulls than rows": ("delta.w.t", _of_delta(nullCount=lambda _, __: 4)),
    "delta: fewer nulls than none": ("delta.w.t", _of_delta(nullCount=lambda _, __: -1)),
    "delta: low above high": (
        "delta.w.t",
        _of_delta(
            minValues=lambda own, name: own["maxValues"][name], maxValues=lambda own, name: own["minValues"][name]
        ),
    ),
    "delta: bounds outside of the type": (
        "delta.w.t",
        _of_delta(minValues=lambda _, name: _BEYOND[name], maxValues=lambda _, name: _BEYOND[name]),
    ),
}


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session with plugins over the folder."""
    with connect(settings_of_kinds(tmp_path)) as session:
        yield session


@pytest.mark.parametrize("bounds", ["auto", "footers"])
@pytest.mark.parametrize("name", LIES)
def test_a_contradiction_loses_no_row(tmp_path: Path, ms: Session, name: str, bounds: str) -> None:
    """Conditions find each value, and counts are those of the rows; smallest and largest values too."""
    table, lie = LIES[name]
    folder = tmp_path / ("delta" if table.startswith("delta") else "lake") / "t"
    folder.mkdir(parents=True)
    lie(folder)
    ms.analyze(table, bounds=None if table.startswith("delta") else bounds)
    for column, values in VALUES.items():
        for value in values:
            assert ms.tables.scan(table, f"{column} = {value}").count() == 1, (column, value)
        assert ms.tables.scan(table, f"{column} IS NULL").count() == 1
        own: list[Any] = ROWS[column].drop_null().to_pylist()
        asked = [f"count({column})", f"min({column})", f"max({column})"]
        [answer] = ms.tables.scan(table).aggregate(asked).to_pylist()
        assert list(answer.values()) == [2, min(own), max(own)], column


def test_rows_of_a_footer_and_of_its_stripes_are_compared(tmp_path: Path) -> None:
    """A footer that contradicts itself about its rows is not believed at all."""
    folder = tmp_path / "lake" / "t"
    folder.mkdir(parents=True)
    orc.write_table(ROWS, folder / "a.orc", compression="UNCOMPRESSED")
    content = (folder / "a.orc").read_bytes()
    after = content[-1]
    length = next(value for number, _, value in _fields(content[-1 - after : -1]) if number == 1)
    start = len(content) - 1 - after - length
    footer = [(n, k, 7 if n == 6 else value) for n, k, value in _fields(content[start : start + length])]
    (folder / "a.orc").write_bytes(content[:start] + _written(footer) + content[start + length :])
    with (
        pa.OSFile(str(folder / "a.orc"), "rb") as source,
        pytest.raises(FormatError, match="7 rows, and its stripes have 3"),
    ):
        read_orc(source, source.size())
