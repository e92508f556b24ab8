"""Manifests that state what is not so: every fault of a writer that is known loses no row, at any door."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, ManifestFile, PartitionFieldSummary
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BinaryType, IntegerType, PrimitiveType, StringType, TimestampType

from metastore.config.settings import Settings
from metastore.lake.iceberg.manifests.believed_metrics import Bounds, Metrics, believed_manifest
from metastore.session import Session, connect

LONG = "0123456789abcdef0123"
AT = datetime(2026, 8, 10, 20, 4, 53, 80758)
ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "text": ["fifteen letters", "z"],
        "cut": ["AAAAAAAAAAAAAAA• cut", "zzzzzzzzzzzzzzzz"],
        "moment": pa.array([datetime(2026, 8, 9), AT], pa.timestamp("us")),
        "key": [LONG, LONG],
        "few": ["a", None],
    }
)
"""Ids of the columns are their places, from 1."""


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session with a catalog."""
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/wh"}
    given_ = {
        "drill.metastore.iceberg.location.base_path": f"{tmp_path}/store",
        "drill.metastore.catalogs.prod": catalog,
        "drill.metastore.storage.lake": {"type": "iceberg", "catalog": "prod"},
    }
    with connect(Settings.from_mapping(given_, environ={})) as session:
        session.catalogs.open("prod").create_namespace("db")
        yield session


class Fault(NamedTuple):
    """What a writer put into the entry of the file, and a condition that one row satisfies."""

    change: Callable[[dict[str, Any]], None]
    where: str
    found: list[int]
    properties: Mapping[str, str] = MappingProxyType({})


def _bounds(number: int, *, low: bytes | None = None, high: bytes | None = None) -> Callable[[dict[str, Any]], None]:
    def change(file: dict[str, Any]) -> None:
        for name, bound in (("lower_bounds", low), ("upper_bounds", high)):
            for each in file[name]:
                if each["key"] == number and bound is not None:
                    each["value"] = bound

    return change


def _counts(name: str, number: int, count: int) -> Callable[[dict[str, Any]], None]:
    def change(file: dict[str, Any]) -> None:
        for each in file[name]:
            if each["key"] == number:
                each["value"] = count

    return change


MILLIS = to_bytes(TimestampType(), int(AT.timestamp()) * 1_000_000 + 80_000)
FAULTS = {
    "delta#7444": Fault(_bounds(4, high=MILLIS), f"moment = TIMESTAMP '{AT}'", [2], {"delta-version": "3"}),
    "beam#38580": Fault(_bounds(2, low=b"fifteen letters\0"), "text = 'fifteen letters'", [1]),
    "duckdb-iceberg#1334": Fault(_bounds(3, low=b"AAAAAAAAAAAAAAA\xe2"), "cut < 'B'", [1]),
    "duckdb-iceberg#1136": Fault(_bounds(3, high=b"zzzzzzzzzzzzzzz\xe2"), "cut >= 'zzzzzzzzzzzzzzzz'", [2]),
    "ClickHouse#116499": Fault(_bounds(1, low=b"\7" + bytes(7), high=b"\0" * 8), "id = 1", [1]),
    "starrocks#50699": Fault(_counts("value_counts", 6, 1), "few = 'a'", [1]),
    "nothing but nulls, beside bounds": Fault(_counts("null_value_counts", 6, 2), "few = 'a'", [1]),
    "more nulls than rows": Fault(_counts("null_value_counts", 6, 9), "few IS NOT NULL", [1]),
}


def rewrite(path: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Let ``change`` edit each record of an Avro file in place."""
    place = Path(path.removeprefix("file://"))
    with place.open("rb") as file:
        reader: Any = fastavro.reader(file)
        schema, metadata, records = reader.writer_schema, dict(reader.metadata), list(reader)
    for record in records:
        change(record)
    with place.open("wb") as file:
        fastavro.writer(file, schema, records, metadata={k: v for k, v in metadata.items() if not k.startswith("avro")})


@pytest.mark.parametrize("report", FAULTS)
def test_a_fault_in_a_manifest_loses_no_row(ms: Session, report: str) -> None:
    """A scan after ANALYZE, an aggregate and SQL over the catalog find what is in the file."""
    fault = FAULTS[report]
    table = ms.catalogs.open("prod").create_table("db.t", ROWS.schema, properties=dict(fault.properties))
    table.append(ROWS)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    [manifest] = snapshot.manifests(table.io)
    rewrite(manifest.manifest_path, lambda record: fault.change(record["data_file"]))
    assert ms.sql(f"SELECT id FROM prod.db.t WHERE {fault.where}")["id"].to_pylist() == fault.found
    ms.analyze("lake.db.t")
    assert ms.tables.scan("lake.db.t", fault.where, ["id"]).to_arrow()["id"].to_pylist() == fault.found
    assert ms.sql(f"SELECT id FROM lake.db.t WHERE {fault.where}")["id"].to_pylist() == fault.found
    [highest] = ms.sql("SELECT max(moment) AS high, count(few) AS few FROM lake.db.t").to_pylist()
    assert highest == {"high": AT, "few": 1}


def test_a_manifest_whose_partitions_are_cut_is_read(ms: Session) -> None:
    """As DuckDB wrote the bounds of long keys until 2026 (duckdb-iceberg#1047)."""
    table = ms.catalogs.open("prod").create_table("db.t", ROWS.schema)
    with table.update_spec() as spec:
        spec.add_field("key", IdentityTransform())
    table.append(ROWS)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    rewrite(snapshot.manifest_list, lambda record: record["partitions"][0].update(upper_bound=LONG[:16].encode()))
    assert ms.sql(f"SELECT id FROM prod.db.t WHERE key = '{LONG}'")["id"].to_pylist() == [1, 2]


def summary(upper: bytes | None) -> ManifestFile:
    """A manifest of one partition field."""
    made = PartitionFieldSummary.from_args(contains_null=False, contains_nan=None, lower_bound=b"0", upper_bound=upper)
    return ManifestFile.from_args(partitions=[made])


def test_bounds_of_partitions_are_rounded_up_where_they_may_be_cut() -> None:
    """Shorter ones, and those of numbers, stay as they are."""
    for type_, upper, found in (
        (StringType(), b"short", b"short"),
        (StringType(), LONG[:16].encode(), b"0123456789abcdeg"),
        (StringType(), b"AAAAAAAAAAAAAAA\xe2", b"AAAAAAAAAAAAAAB"),
        (BinaryType(), b"\1" * 15 + b"\xff", b"\1" * 14 + b"\2\xff"),
        (IntegerType(), b"\1\0\0\0", b"\1\0\0\0"),
        (StringType(), None, None),
    ):
        known = believed_manifest(summary(upper), [type_])
        assert known is not None
        assert known.partitions is not None
        assert known.partitions[0].upper_bound == found
    assert believed_manifest(summary(b"\xff" * 16), [BinaryType()]) is None


@given(st.text(max_size=24), st.binary(max_size=24), st.integers(0, 20), st.integers(0, 20))
def test_a_bound_that_is_cut_or_padded_holds(text: str, content: bytes, cut: int, zeros: int) -> None:
    """Whatever the text and wherever it is cut."""
    metrics = Metrics()
    whole = text.encode()
    for stored in (whole[:cut], whole + b"\0" * zeros):
        low = metrics.bounds(StringType(), stored, None).low
        assert low <= text
    lowest = metrics.bounds(BinaryType(), content + b"\0" * zeros, None).low
    assert lowest <= content
    known = believed_manifest(summary(whole[:16]), [StringType()])
    if known is not None and len(whole) > 16:
        assert known.partitions is not None
        upper = known.partitions[0].upper_bound
        assert upper is not None
        assert upper.decode() > text


def test_what_says_nothing_wrong_is_left_as_it_is() -> None:
    """The very entry is judged; bounds of other tables keep their times."""
    types: list[tuple[PrimitiveType, Any]] = [(StringType(), "a"), (IntegerType(), 3), (TimestampType(), 5000)]
    for type_, value in types:
        stored = to_bytes(type_, value)
        assert Metrics().bounds(type_, stored, stored) == Bounds(value, value)
    stored = to_bytes(TimestampType(), 5000)
    assert Metrics(of_delta=True).bounds(TimestampType(), stored, stored) == Bounds(5000, 5999, is_exact=False)
    exact = to_bytes(TimestampType(), 5001)
    assert Metrics(of_delta=True).bounds(TimestampType(), stored, exact) == Bounds(5000, 5001)
    file = DataFile.from_args(record_count=2, value_counts={1: 2}, null_value_counts={1: 1}, lower_bounds={})
    assert Metrics().file(file, []) is file
    assert Metrics().bounds(IntegerType(), b"\1", b"\1\0\0\0") == Bounds(None, 1)
