"""Times in microseconds, cut off downwards, wherever they are in a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc
from support.tables_of_kinds import settings_of_kinds

from metastore.lake.formats.microseconds import in_microseconds, type_in_microseconds
from metastore.session import connect

NANOS = pa.timestamp("ns")
COUNTS = st.one_of(st.none(), st.integers(-(2**62), 2**62))


def micros(value: Any) -> Any:
    """Counts of nanoseconds in plain values, as microseconds by Python's own arithmetic."""
    if isinstance(value, int):
        return value // 1000
    if isinstance(value, dict):
        return {name: micros(each) for name, each in value.items()}
    return [micros(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("listed", [pa.list_, pa.large_list])
@given(
    rows=st.lists(st.one_of(st.none(), st.lists(st.one_of(st.none(), COUNTS.map(lambda count: {"t": count}))))),
    start=st.integers(0, 2),
)
def test_times_are_cut_wherever_they_are(listed: Any, rows: list[Any], start: int) -> None:
    """Within lists of structs, also of a slice, before 1970 as after it, nulls as they were."""
    counts = pa.array(rows, listed(pa.struct([("t", pa.int64())])))
    times = counts.cast(listed(pa.struct([("t", NANOS)]))).slice(start)
    cut = in_microseconds(times, type_in_microseconds(times.type))
    assert cut.type == listed(pa.struct([("t", pa.timestamp("us"))]))
    assert cut.cast(counts.type).to_pylist() == micros(rows[start:])


def test_maps_keep_their_keys() -> None:
    """Keys and values are cut."""
    times = pa.array([[("a", 1_999)], None, [("b", None), ("c", -1)]], pa.map_(pa.string(), pa.int64()))
    stored = times.cast(pa.map_(pa.string(), NANOS))
    cut = in_microseconds(stored, type_in_microseconds(stored.type))
    assert cut.cast(times.type).to_pylist() == [[("a", 1)], None, [("b", None), ("c", -1)]]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_every_door_reads_nanoseconds(zone: str | None, tmp_path: Path) -> None:
    """A table has microseconds: no door refuses a finer time, and conditions find it by what is left of it."""
    counts = [1_700_000_000_123_456_789, None, -1, 1_700_000_000_000_000_000]
    (tmp_path / "lake" / "t").mkdir(parents=True)
    orc.write_table(pa.table({"ts": pa.array(counts, pa.timestamp("ns", zone))}), tmp_path / "lake" / "t" / "a.orc")
    expected = [1_700_000_000_123_456, None, -1, 1_700_000_000_000_000]
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("dfs.w.t")
        scan = session.tables.scan("dfs.w.t")
        for rows in (scan.to_arrow(), session.sql("SELECT ts FROM dfs.w.t"), scan.to_polars().to_arrow()):
            assert rows["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist() == expected
        name = "TIMESTAMP_NTZ" if zone is None else "TIMESTAMP"
        literal = f"{name} '2023-11-14 22:13:20.123456{'' if zone is None else '+00:00'}'"
        assert session.tables.scan("dfs.w.t", f"ts = {literal}").count() == 1
        assert session.tables.scan("dfs.w.t", f"ts > {literal}").count() == 0
