"""A real Apache Drill on the metadata of ANALYZE: it finds it, prunes by it, and answers as it does without it.

And the other way round: what Drill's own ANALYZE wrote is read here, and either side makes anew what the other made.
"""

from __future__ import annotations

import datetime as dt
import re
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from services.drill import Drill

from metastore import MetadataType, Session, TableMetadataUnit
from metastore.config import Settings
from metastore.session import connect

pytestmark = [pytest.mark.drill, pytest.mark.integration]

MOMENT = dt.datetime(2020, 1, 1, 3, 4, 5, 678901)
Write = Callable[..., None]


@pytest.fixture
def lake(drill: Drill) -> Iterator[Write]:
    """Writes files below Drill's workspace; the tables and their metadata go afterwards."""
    tables = set()

    def write(path: str, **columns: Any) -> None:
        file = drill.folder / "lake" / path
        tables.add(path.split("/", maxsplit=1)[0])
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), file, row_group_size=50)

    yield write
    for table in tables:
        drill.query(f"ANALYZE TABLE dfs.lake.`{table}` DROP METADATA IF EXISTS")
        shutil.rmtree(drill.folder / "lake" / table)


@pytest.fixture
def session(drill: Drill) -> Iterator[Session]:
    """The same metastore, seen by us."""
    given = {
        "drill.metastore": {
            "iceberg.location": {"base_path": str(drill.folder), "relative_path": "metastore"},
            "storage.dfs.workspaces.lake.location": str(drill.folder / "lake"),
        }
    }
    with connect(Settings.from_mapping(given)) as session:
        yield session


def orders(write: Write) -> None:
    """Two levels of directories, columns of many types, one of which is constant in each file."""
    for year in (1994, 1995, 1996):
        for quarter in (1, 2):
            first = year * 1000 + quarter * 100
            ids = range(first, first + 100)
            write(
                f"orders/{year}/Q{quarter}/a.parquet",
                id=pa.array(ids, pa.int64()),
                i=pa.array([None if n % 5 == 0 else n % 100 - 5 for n in ids], pa.int32()),
                f=pa.array([n / 7 for n in ids], pa.float32()),
                d=[n / 3 for n in ids],
                s=[f"ä{n % 50}" for n in ids],
                b=[n % 2 == 0 for n in ids],
                day=[dt.date(year, 1, 1) + dt.timedelta(n % 100) for n in ids],
                at=pa.array([dt.datetime(year, quarter, 1, n % 24) for n in ids], pa.timestamp("ms")),
                c=pa.array([first] * 100, pa.int32()),
            )  # fmt: skip


ORDERS = {
    "id > 1996250": 1,
    "id IN (1994101, 1996201)": 2,
    "id BETWEEN 1994150 AND 1994160": 1,
    "i IS NULL": 6,
    "i > 93": 6,
    "i > 94": 0,
    "f > 285175": 1,
    "d < 664710": 1,
    "s = 'ä7'": 6,
    "s > 'ä98'": 0,
    "day < date '1995-01-01'": 2,
    "at >= timestamp '1996-02-01 00:00:00'": 1,
    "c = 1995200": 1,
    "dir0 = '1995' AND id > 1995150": 2,
    "dir0 = '1995' AND dir1 = 'Q2' AND id > 1995250": 1,
}
"""Conditions, and how many of the six files may hold rows for them."""


@pytest.mark.parametrize("condition", ORDERS)
def test_drill_prunes_by_our_metadata(drill: Drill, session: Session, lake: Write, condition: str) -> None:
    """It reads the files that it must, and finds the rows that it finds without a metastore."""
    orders(lake)
    session.analyze("dfs.lake.orders")
    text = f"SELECT id, i, s, c FROM dfs.lake.orders WHERE {condition} ORDER BY id"
    plan = drill.plan(text)
    assert "usedMetastore=true" in plan
    [files] = re.findall(r"numFiles=(\d+)", plan)
    assert int(files) == max(1, ORDERS[condition]), "one stays for its schema"
    assert drill.query(text) == without_metastore(drill, text)


def without_metastore(drill: Drill, text: str) -> list[dict[str, Any]]:
    """What Drill answers from the files alone."""
    drill.query("ALTER SYSTEM SET `metastore.enabled` = false")
    try:
        assert "usedMetastore=true" not in drill.plan(text)
        rows: list[dict[str, Any]] = drill.query(text)
    finally:
        drill.query("ALTER SYSTEM SET `metastore.enabled` = true")
    return rows


def avro(ids: list[int]) -> bytes:
    """A file of these ids, and their names."""
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]
    file = BytesIO()
    fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [{"id": n, "name": str(n)} for n in ids])
    return file.getvalue()


ODD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "decimals": (
        {
            "d9": pa.array([Decimal("1.25"), Decimal("-3.50")], pa.decimal128(9, 2)),
            "d38": pa.array([Decimal("1.25"), Decimal("-3.50")], pa.decimal128(38, 2)),
        },
        ["d9 > 0", "d38 < -3.4", "d9 = 1.25", "d38 IS NULL"],
    ),
    "bytes": (
        {"v": pa.array([b"\x01\xff", b"b", None, None]), "f": pa.array([b"ab", b"cd", None, None], pa.binary(2))},
        ["v IS NULL", "v = 'b'", "f > 'ab'"],
    ),
    "times": (
        {
            "t": pa.array([dt.time(1, 2, 3), dt.time(2, 3, 4, 5006), None], pa.time64("us")),
            "m": pa.array([MOMENT, MOMENT, None], pa.timestamp("us")),
            "z": pa.array([MOMENT, MOMENT, None], pa.timestamp("us", "UTC")),
        },
        ["t > time '02:00:00'", "m >= timestamp '2020-01-01 03:04:05.678'", "z < timestamp '2020-01-01 03:04:05'"],
    ),
    "numbers": (
        {
            "i8": pa.array([1, 3, None], pa.int8()),
            "u32": pa.array([1, 2**32 - 1, None], pa.uint32()),
            "u64": pa.array([1, 2**64 - 1, None], pa.uint64()),
            "nan": [1.0, float("nan"), 2.0],
            "inf": pa.array([float("inf"), 1.5, None], pa.float32()),
            "none": pa.nulls(3),
        },
        ["i8 > 1", "i8 = 3", "nan > 1", "inf > 2", "none IS NULL", "none IS NOT NULL"],
    ),
    "nested": (
        {
            "st": [{"a": 1, "b": {"c": "x"}}, {"a": 2, "b": {"c": "y"}}],
            "li": [[1, 2], []],
            "a.b": [1, 2],
            "grüße": [3, 4],
            "back`tick\\slash": [5, 6],
        },
        ["t.st.a > 1", "t.st.b.c = 'x'", "`a.b` > 1", "`grüße` = 3"],
    ),
}


@pytest.mark.parametrize("table", ODD)
def test_drill_answers_over_every_type(drill: Drill, session: Session, lake: Write, table: str) -> None:
    """What Drill cannot compare does not fail its queries, what it does not know does not hide the others' metadata."""
    columns, conditions = ODD[table]
    lake(f"{table}/1.parquet", **columns)
    session.analyze(f"dfs.lake.{table}", statistics=True)
    assert known_tables(drill) == {table: len(next(iter(columns.values())))}
    for condition in conditions:
        text = f"SELECT count(*) AS n FROM dfs.lake.{table} t WHERE {condition}"
        assert "usedMetastore=true" in drill.plan(text.replace("count(*) AS n", "*"))
        assert drill.query(text) == without_metastore(drill, text), condition


@pytest.mark.parametrize("condition", ["i > 93", "i IS NULL", "id > 1996250"])
def test_a_column_that_was_not_analyzed_prunes_nothing(
    drill: Drill, session: Session, lake: Write, condition: str
) -> None:
    """Drill takes integer columns without statistics for null, unless they are known as not interesting."""
    orders(lake)
    session.analyze("dfs.lake.orders", columns=["id"])
    text = f"SELECT id, i FROM dfs.lake.orders WHERE {condition} ORDER BY id"
    assert drill.query(text) == without_metastore(drill, text)


OF_FORMATS: dict[str, tuple[dict[str, bytes], list[str]]] = {
    "csv": (
        {"a/1.csv": b"id,name,day\n1,x,2020-01-01\n2,y,2021-01-01\n", "a/2.csv": b"id,name,day\n30,z,2022-01-01\n"},
        ["id > 10", "day > date '2021-06-01'", "name = 'z'"],
    ),
    "json": ({"1.json": b'{"id":1,"s":{"a":"x"}}', "2.json": b'{"id":50,"s":{"a":"y"}}'}, ["id > 10", "t.s.a = 'y'"]),
    "avro": ({"1.avro": avro([1, 2]), "2.avro": avro([50])}, ["id > 10", "name = '50'"]),
}


@pytest.mark.parametrize("table", OF_FORMATS)
def test_drill_prunes_files_without_footers(drill: Drill, session: Session, lake: Write, table: str) -> None:
    """One of two files is read, with the types that ANALYZE found."""
    files, conditions = OF_FORMATS[table]
    lake(f"{table}/none.parquet", id=[0])  # so that the table goes with the others
    folder = drill.folder / "lake" / table
    (folder / "none.parquet").unlink()
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    session.analyze(f"dfs.lake.{table}")
    for condition in conditions:
        text = f"SELECT id FROM dfs.lake.{table} t WHERE {condition}"
        plan = drill.plan(text)
        assert "usedMetastore=true" in plan
        assert "numFiles=1," in plan
        assert [int(row["id"]) for row in drill.query(text)] == [
            int(row["id"]) for row in without_metastore(drill, text)
        ]


def known_tables(drill: Drill) -> dict[str, int]:
    """The tables of the metastore in Drill's INFORMATION_SCHEMA, with their rows."""
    rows = drill.query("SELECT table_name, num_rows FROM information_schema.`tables` WHERE table_schema = 'dfs.lake'")
    return {row["table_name"]: row["num_rows"] for row in rows}


def test_drill_tells_what_is_known(drill: Drill, session: Session, lake: Write) -> None:
    """Its INFORMATION_SCHEMA has our statistics, and no columns of directories, which its files do not have."""
    orders(lake)
    session.analyze("dfs.lake.orders", statistics=True)
    assert known_tables(drill) == {"orders": 600}
    asked = "column_name, data_type, num_nulls, min_val, max_val, ndv, est_num_non_nulls"
    found = drill.query(f"SELECT {asked} FROM information_schema.columns WHERE table_name = 'orders'")
    told = {row.pop("column_name"): tuple(row.values()) for row in found}
    assert told["id"] == ("BIGINT", 0, "1994100", "1996299", 600.0, 600.0)
    assert told["i"] == ("INTEGER", 120, "-4", "94", 80.0, 480.0)
    assert told["day"][1:4] == (0, *(str(millis(day)) for day in (dt.date(1994, 1, 1), dt.date(1996, 4, 9))))
    assert list(told) == ["id", "i", "f", "d", "s", "b", "day", "at", "c"]
    partitions = drill.query("SELECT metadata_key FROM information_schema.`partitions` WHERE table_name = 'orders'")
    assert {row["metadata_key"] for row in partitions} == {"1994", "1995", "1996"}


def millis(day: dt.date) -> int:
    """Milliseconds since the epoch."""
    return (day - dt.date(1970, 1, 1)).days * 86_400_000


def test_drill_reads_files_that_no_constant_column_covers(drill: Drill, session: Session, lake: Write) -> None:
    """A column is constant in one directory only: Drill takes files in no partition for pruned, so there are none."""
    files = {"a/1": [1, 1], "a/2": [2, 2], "b/1": [1, 5], "b/2": [2, 2], "0": [9, 1]}
    for first, (path, c) in enumerate(files.items()):
        lake(f"mixed/{path}.parquet", c=pa.array(c, pa.int32()), id=[first * 2, first * 2 + 1])
    session.analyze("dfs.lake.mixed")
    for condition in ("c = 1", "c = 5", "c = 2", "c = 9", "id > 4", "id < 3", "id > 8", "dir0 = 'b' AND id > 5"):
        text = f"SELECT id FROM dfs.lake.mixed WHERE {condition} ORDER BY id"
        assert drill.query(text) == without_metastore(drill, text), condition


def test_we_read_what_drill_wrote(drill: Drill, session: Session, lake: Write) -> None:
    """Its units say what ours would, as far as it is right; ours trust no file of it, and start anew."""
    orders(lake)
    [row] = drill.query("ANALYZE TABLE dfs.lake.orders REFRESH METADATA")
    assert row["ok"]
    columns = session.sql(
        "SELECT column_name, num_nulls, min_val, max_val FROM information_schema.columns WHERE table_name = 'orders'"
    ).to_pylist()
    told = {row["COLUMN_NAME"]: tuple(row.values())[1:] for row in columns}
    assert told["id"] == (0, "1994100", "1996299")
    assert told["i"] == (120, "-4", "94")
    pruned = session.prune("dfs.lake.orders", "id > 1996250 AND day >= date '1996-01-01'")
    assert len(pruned.paths) == 6, "no fingerprint tells that a file is as it was"
    result = session.analyze("dfs.lake.orders")
    assert (result.reason, result.new) == ("another program analyzed the table", 6)
    assert len(session.prune("dfs.lake.orders", "id > 1996250 AND day >= date '1996-01-01'").paths) == 1


def test_either_side_goes_on_where_the_other_was(drill: Drill, session: Session, lake: Write) -> None:
    """Files change, each analyzes after the other: Drill loses no row, and no unit of ours is left beside its own."""
    orders(lake)
    session.analyze("dfs.lake.orders")
    lake("orders/1995/Q1/b.parquet", id=[7, 8], i=pa.array([95, None], pa.int32()), c=pa.array([0, 1], pa.int32()))
    [row] = drill.query("ANALYZE TABLE dfs.lake.orders REFRESH METADATA")
    assert row["ok"]
    units = session.tables.read().metadata_types(MetadataType.ALL).filter("tableName = 'orders'")
    assert not [unit for unit in units.execute() if unit.metadata_type == "PARTITION"]
    for condition in ("i > 93", "c < 2", "dir0 = '1995' AND i IS NULL"):
        text = f"SELECT id FROM dfs.lake.orders WHERE {condition} ORDER BY id"
        assert drill.query(text) == without_metastore(drill, text), condition
    assert session.analyze("dfs.lake.orders").rows == 602
    [row] = drill.query("ANALYZE TABLE dfs.lake.orders DROP METADATA")
    assert row["ok"]
    assert not session.tables.read().metadata_types(MetadataType.ALL).filter("tableName = 'orders'").execute()


def test_null_is_to_drill_filters_what_it_is_to_drill(drill: Drill, session: Session) -> None:
    """Drill's own code and ours find the same tables; by ``filter`` those differ where NULL passes with Drill."""
    units = [
        TableMetadataUnit("dfs", "lake", name, owner=owner, metadata_type="TABLE", metadata_key="GENERAL_INFO")
        for name, owner in (("of_a", "a"), ("of_b", "b"), ("of_none", None))
    ]
    session.tables.modify().overwrite(units).execute()
    try:
        told = [line.split("\t") for line in drill.told_by("MetastoreFilters").splitlines() if line.startswith("FOUND")]
        theirs = {text: sorted(filter(None, names.split(","))) for _, text, names in told}
        assert len(theirs) == 18
        assert {text: found(session, text, drills=True) for text in theirs} == theirs
        differing = {text for text in theirs if found(session, text, drills=False) != theirs[text]}
        assert differing == {text for text, names in theirs.items() if "of_none" in names} - {"owner IS NULL"}
    finally:
        session.tables.modify().delete("workspace = 'lake'").execute()


def found(session: Session, text: str, *, drills: bool) -> list[str]:
    """The tables that ``text`` finds by Drill's rule of NULL, or by SQL's."""
    read = session.tables.read().metadata_types(MetadataType.TABLE)
    read = read.drill_filter(text) if drills else read.filter(text)
    return sorted(unit.table_name or "" for unit in read.execute())
