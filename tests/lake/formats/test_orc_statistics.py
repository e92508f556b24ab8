"""ANALYZE takes statistics of ORC from footers where these say exactly what the data says, and reads the rest."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from support.corpus import make_corpus
from support.tables_of_kinds import settings_of_kinds

from metastore.errors import FormatError
from metastore.lake.formats.arrow_schema import tuple_schema
from metastore.lake.formats.orc.orc_facts import read_orc
from metastore.lake.formats.orc.orc_statistics import orc_statistics
from metastore.lake.formats.parquet.leaf_measures import LeafMeasure, leaf_array
from metastore.model.column_path import ColumnPath
from metastore.model.statistics import ColumnStatistics
from metastore.session import connect

ROWS = pa.table(
    {
        "whole": pa.array([3, None, -(2**63), 7], pa.int64()),
        "small": pa.array([3, 4, -128, 127], pa.int8()),
        "text": ["b", "", None, "\u4e2d"],
        "day": [date(2024, 2, 29), None, date(1999, 1, 1), date(2030, 5, 5)],
        "amount": pa.array([Decimal("1.50"), None, Decimal("-2.00"), Decimal("0.25")], pa.decimal128(9, 2)),
        "flag": [True, None, False, True],
        "nothing": pa.nulls(4, pa.int32()),
        "struct": [{"x": 1, "t": "a"}, None, {"x": None, "t": "b"}, {"x": 5, "t": None}],
    }
)


def measured(path: Path) -> dict[ColumnPath, ColumnStatistics]:
    """What the data says, by column."""
    file = orc.ORCFile(str(path))
    measures = {leaf.path: LeafMeasure(leaf) for leaf in tuple_schema(file.schema)[1]}
    for stripe in range(file.nstripes):
        batch = file.read_stripe(stripe)
        for column, measure in measures.items():
            measure.add(leaf_array(batch, column), batch.num_rows)
    return {column: measure.statistics() for column, measure in measures.items()}


def known(path: Path) -> dict[ColumnPath, ColumnStatistics]:
    """What is taken from the footer."""
    with pa.OSFile(str(path), "rb") as source:
        found = orc_statistics(source)
    assert found is not None
    assert found.rows == orc.ORCFile(str(path)).nrows
    return dict(found.columns)


def test_footers_say_what_the_data_says(tmp_path: Path) -> None:
    """Of each type and pattern of nulls, in the very text that is stored."""
    make_corpus(tmp_path / "corpus", ["arrow_orc"])
    orc.write_table(ROWS, tmp_path / "corpus" / "rows.orc")
    taken = 0
    for path in (tmp_path / "corpus").rglob("*.orc"):
        if path.stem.startswith("moment_ms"):  # beyond what Arrow reads
            continue
        data = measured(path)
        for column, statistics in known(path).items():
            assert statistics.to_json() == data[column].to_json(), (path.name, column)
            taken += 1
    assert taken > 150


def test_only_what_is_certain_is_taken(tmp_path: Path) -> None:
    """Whole numbers, texts, days, decimals and booleans; not floats, times, bytes and texts that may be shortened."""
    more: dict[str, Any] = {
        "float": [1.5, None, 2.5, 0.0],
        "time": pa.array([1, None, 2, 3], pa.timestamp("us")),
        "bytes": [b"a", None, b"b", b"c"],
        "list": [[1], None, [], [2]],
    }
    rows = ROWS
    for name, values in more.items():
        rows = rows.append_column(name, pa.array(values))
    orc.write_table(rows, tmp_path / "a.orc")
    assert set(known(tmp_path / "a.orc")) == {
        *((name,) for name in ROWS.column_names if name != "struct"),
        ("struct", "x"),
        ("struct", "t"),
    }


def test_null_structs_in_structs_count_as_nulls(tmp_path: Path) -> None:
    """Arrow's footers count zeros there: what they say of fields is not believed, by ANALYZE and by migrations."""
    column = pa.array(
        [{"s": {"n": 5}}, {"s": None}, {"s": {"n": 7}}], pa.struct([("s", pa.struct([("n", pa.int32())]))])
    )
    (tmp_path / "lake" / "t").mkdir(parents=True)
    path = tmp_path / "lake" / "t" / "a.orc"
    orc.write_table(pa.table({"v": column}), path)
    with pa.OSFile(str(path), "rb") as source:
        [leaf] = read_orc(source, source.size()).leaves
    assert leaf.nulls is None
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("dfs.w.t")
        scan = session.tables.scan("dfs.w.t")
        assert scan.aggregate(["count(v.s.n)"]).to_pylist() == [{"count(v.s.n)": 2}]
        assert session.tables.scan("dfs.w.t", "v.s.n IS NULL").count() == 1


def test_analyze_reads_only_columns_that_footers_do_not_tell(tmp_path: Path) -> None:
    """Data that is damaged is noticed by who reads it: ANALYZE of a float does, of a whole number it does not."""
    wholes = [each**3 % 1009 for each in range(1000)]
    rows = pa.table({"whole": wholes, "float": [float(each) for each in wholes]})
    for name, columns in (("wholes", ["whole"]), ("floats", ["whole", "float"])):
        place = tmp_path / "lake" / name
        place.mkdir(parents=True)
        orc.write_table(rows.select(columns), place / "a.orc", compression="ZLIB")
        content = (place / "a.orc").read_bytes()
        damaged = len(content) // 2
        (place / "a.orc").write_bytes(content[:3] + b"\xff" * damaged + content[3 + damaged :])
    with connect(settings_of_kinds(tmp_path)) as session:
        assert session.analyze("dfs.w.wholes").rows == 1000
        answer = session.tables.scan("dfs.w.wholes").aggregate(["min(whole)", "max(whole)", "count(whole)"])
        assert answer.to_pylist() == [{"min(whole)": min(wholes), "max(whole)": max(wholes), "count(whole)": 1000}]
        with pytest.raises(FormatError, match=r"floats/a\.orc"):
            session.analyze("dfs.w.floats")
        result = session.analyze("dfs.w.floats", bounds="footers")
        assert result.rows == 1000
        assert result.without_bounds == {
            "float": "a footer lacks bounds that can be trusted; ANALYZE … BOUNDS (float) reads its data"
        }
        with pytest.raises(FormatError, match=r"floats/a\.orc"):
            session.analyze("dfs.w.floats", bounds=["float"])
        with pytest.raises(FormatError, match=r"floats/a\.orc"):
            session.analyze("dfs.w.floats", bounds="data")


def test_footers_alone_say_what_holds_of_every_column(tmp_path: Path) -> None:
    """Counts are exact, bounds wide enough, and a later run with another setting reads the data."""
    place = tmp_path / "lake" / "t"
    place.mkdir(parents=True)
    moments: list[Any] = [datetime(2024, 1, 1, 12, 0, 0, 123456), None, datetime(1969, 12, 31, 23, 59, 59, 500), None]
    more: dict[str, Any] = {
        "time": pa.array(moments, pa.timestamp("us")),
        "float": [1.5, None, float("nan"), 2.0],
        "list": [[1]] * 4,
    }
    rows = ROWS
    for name, values in more.items():
        rows = rows.append_column(name, pa.array(values))
    orc.write_table(rows, place / "a.orc")
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("dfs.w.t", bounds="footers")
        asked = ["count(time)", "count(float)", "min(whole)", "max(amount)", "max(time)", "min(float)"]
        found = session.tables.scan("dfs.w.t").aggregate(asked).to_pylist()
        assert session.tables.scan("dfs.w.t", "time > TIMESTAMP '2030-01-01'").plan.files == []
        assert session.tables.scan("dfs.w.t", "float > 1.0", ["float"]).count() == 3  # NaN is the largest
        for moment in filter(None, moments):
            assert session.tables.scan("dfs.w.t", f"time = TIMESTAMP '{moment}'", ["whole"]).count() == 1
        assert session.analyze("dfs.w.t", bounds="auto").without_bounds == {}
        assert session.tables.scan("dfs.w.t").aggregate(asked).to_pylist() == found
