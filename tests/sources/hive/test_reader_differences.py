"""Each known difference of readers is still there, is said before a migration, and nothing of ours shows it.

When PyIceberg mends one, its test here fails: the entry in ``reader_differences`` then goes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.table import Table
from services.hive_tables import HiveMaker
from support import odd_rows

from metastore.errors import FormatError, ProcedureError
from metastore.procedures.hive.migration.reader_differences import HIDDEN_PARTITIONS, KNOWN, UNREAD
from metastore.session import Session

pytestmark = pytest.mark.integration

Call = Callable[..., dict[str, Any]]

UTC_MICROS: pa.DataType = pa.timestamp("us", "UTC")
FAR = [datetime(9999, 12, 31), datetime(1500, 3, 1), None, datetime(2024, 1, 1)]
MOMENTS = pa.table(
    {"id": pa.array([1, 2, 3, 4]), "at": pa.array(FAR, UTC_MICROS), "ats": pa.array([[each] for each in FAR])}
)


@pytest.fixture
def load(session: Session, hive: HiveMaker) -> Callable[[str], Table]:
    """The Iceberg table of a name."""
    return lambda name: session.catalogs.table("lake", hive.database, name).load()


@pytest.fixture
def moments(hive: HiveMaker) -> str:
    """A Hive table with times in INT96, also inside of lists, in one of two partitions."""
    name: str = hive.table({"id": "bigint", "at": "timestamp", "ats": "array<timestamp>"}, {"p": "string"})
    hive.write(hive.partition(name, "int96"), MOMENTS, use_deprecated_int96_timestamps=True)
    plain = MOMENTS.set_column(2, "ats", MOMENTS["ats"].cast(pa.list_(UTC_MICROS)))
    hive.write(hive.partition(name, "plain"), plain)
    return name


def ours(session: Session, hive: HiveMaker, name: str, columns: str = "*") -> list[dict[str, Any]]:
    """The rows of SELECT."""
    return session.sql(f"SELECT {columns} FROM lake.{hive.database}.{name} ORDER BY 1").to_pylist()


def test_times_of_int96(
    session: Session, hive: HiveMaker, call: Call, load: Callable[[str], Table], moments: str
) -> None:
    """PyIceberg reads another year; the preflight names column and file, and not the other file."""
    for report in (call("migrate", moments, dry_run=True), call("migrate", moments)):
        told = [warning for warning in report["warnings"] if "INT96" in warning]
        assert [warning.split(":")[0] for warning in told] == ["column at", "column ats"]
        assert all("p=int96/000000_0" in each and "p=plain" not in each for each in told)
        assert all("rewrite_int96 => true" in each for each in told)
    by_pyiceberg: list[Any] = load(moments).scan("id = 1", ("id", "at", "p")).to_arrow().to_pylist()
    assert {row["p"]: row["at"].year for row in by_pyiceberg} == {"int96": 1816, "plain": 9999}
    with pytest.raises(pa.ArrowInvalid, match="would lose data"):  # in a list it reads nothing at all
        load(moments).scan(selected_fields=("ats",)).to_arrow()
    found = session.call("lake.system.verify_migration", schema_name=hive.database, table_name=moments).to_pylist()
    assert all(row["ok"] for row in found)
    assert [row["column"] for row in found if row["warning"]] == ["at", "ats"]
    right = [None if each is None else each.replace(tzinfo=timezone.utc) for each in FAR]
    read = [row["at"] for row in ours(session, hive, moments, 'id, "at", p')]
    assert read == [each for one in right for each in (one, one)]


def test_conditions_on_partition_columns(
    session: Session, hive: HiveMaker, call: Call, load: Callable[[str], Table], moments: str
) -> None:
    """PyIceberg finds nothing where the column is not selected."""
    assert HIDDEN_PARTITIONS in call("migrate", moments)["warnings"]
    assert len(load(moments).scan("p = 'plain'", ("id",)).to_arrow()) == 0
    assert len(load(moments).scan("p = 'plain'", ("id", "p")).to_arrow()) == 4
    assert len(session.sql(f"SELECT id FROM lake.{hive.database}.{moments} WHERE p = 'plain'")) == 4


def test_files_with_int96_are_written_anew(
    session: Session, hive: HiveMaker, call: Call, load: Callable[[str], Table], moments: str
) -> None:
    """Then PyIceberg reads and stores the right times; the way back gives the very files and rows from before."""
    before = {path: path.read_bytes() for path in (hive.folder / moments).rglob("*_0")}
    done = call("migrate", moments, rewrite_int96=True)
    assert (done["status"], done["records"], done["warnings"][-1:]) == ("migrated", 8, done["warnings"][-1:])
    assert not any("INT96" in warning for warning in done["warnings"])
    table = load(moments)
    first, second = table.metadata.snapshots
    assert second.summary is not None
    assert (second.summary["deleted-data-files"], second.summary["total-records"]) == ("1", "8")
    files = {task.file.file_path for task in table.scan().plan_files()}
    assert len([path for path in files if "/_iceberg/" in path]) == 1
    found = session.call("lake.system.verify_migration", schema_name=hive.database, table_name=moments).to_pylist()
    assert [(row["problem"], row["warning"]) for row in found] == [(None, None)] * 4
    assert len(table.scan(snapshot_id=first.snapshot_id, selected_fields=("id",)).to_arrow()) == 8
    assert call("revert_migration", moments, dry_run=True)["discarded_snapshots"] == 0
    table.delete("id = 2")
    years = sorted(row["at"].year for row in load(moments).scan("id != 3").to_arrow().to_pylist())
    assert years == [2024, 2024, 9999, 9999]
    call("revert_migration", moments, discard_changes=True)
    left = {path: path.read_bytes() for path in (hive.folder / moments).rglob("*") if path.is_file()}
    assert left == before


def test_a_rewrite_that_fails_leaves_the_hive_table(hive: HiveMaker, call: Call, moments: str) -> None:
    """A file whose pages are damaged is named; nothing was changed, and nothing is left."""
    path = hive.folder / moments / "p=int96/000000_0"
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 40 + content[44:])
    before = hive.client.table(hive.database, moments)
    with pytest.raises(FormatError, match="p=int96/000000_0"):
        call("migrate", moments, rewrite_int96=True)
    assert hive.client.table(hive.database, moments) == before
    assert not [entry for entry in (hive.folder / moments / "_iceberg").glob("*") if any(entry.rglob("*"))]


def test_null_lists_and_maps_of_structs(
    session: Session, hive: HiveMaker, call: Call, load: Callable[[str], Table]
) -> None:
    """PyIceberg reads empty ones."""
    name = hive.table(odd_rows.COLUMNS)
    odd_rows.write(hive.folder / name / "000000_0", odd_rows.TABLE, "PARQUET")
    told = [each for each in call("migrate", name)["warnings"] if "null lists or maps of structs" in each]
    assert [each.split(":")[0] for each in told] == ["column structs", "column by"]
    by_pyiceberg = load(name).scan("id is null").to_arrow().to_pylist()
    assert (by_pyiceberg[0]["structs"], by_pyiceberg[0]["by"], by_pyiceberg[0]["texts"]) == ([], [], None)
    row = ours(session, hive, name, 'id, structs, "by"')[-1]
    assert (row["structs"], row["by"]) == (None, None)


def test_avro(session: Session, hive: HiveMaker, call: Call, load: Callable[[str], Table]) -> None:
    """PyIceberg refuses it; SELECT does not."""
    name = hive.table(odd_rows.COLUMNS, format_="AVRO")
    odd_rows.write(hive.folder / name / "000000_0", odd_rows.TABLE, "AVRO")
    assert UNREAD["AVRO"] in call("migrate", name)["warnings"]
    with pytest.raises(ValueError, match="Unsupported file format"):
        load(name).scan().to_arrow()
    assert len(ours(session, hive, name)) == 3


@pytest.mark.parametrize(("day", "warned"), [(date(1500, 3, 1), True), (date(1600, 3, 1), False)])
def test_the_calendar_of_spark_2(hive: HiveMaker, call: Call, day: date, warned: bool) -> None:
    """Spark shifts such days in a Hive table; bounds of the footer tell that a file has none."""
    name = hive.table({"day": "date"})
    table = pa.table({"day": [day]}).replace_schema_metadata({"org.apache.spark.version": "2.4.8"})
    path = hive.folder / name / "000000_0"
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"org.apache.spark.version": "2.4.8"})
    told = [each for each in call("migrate", name)["warnings"] if "the calendar of Spark 2" in each]
    assert bool(told) is warned


@pytest.mark.parametrize("procedure", ["migrate", "snapshot_table", "add_files_from_hive", "add_files"])
@pytest.mark.parametrize("kind", ["no names", "times"])
def test_orc_that_readers_refuse_or_read_by_position(
    session: Session, hive: HiveMaker, procedure: str, kind: str
) -> None:
    """Every door refuses it, and says why: Iceberg for Java takes one column for another, Arrow has not such times."""
    columns = {"no names": {"id": "bigint", "name": "string"}, "times": {"id": "bigint", "at": "timestamp"}}[kind]
    name = hive.table(columns, format_="ORC")
    far = pa.array([datetime(9999, 12, 31)], pa.timestamp("us"))
    rows = pa.table({"_col0": [1], "_col1": ["a"]} if kind == "no names" else {"id": [1], "at": far})
    path = hive.folder / name / "000000_0"
    orc.write_table(rows, str(path))
    own = {"schema": hive.database, "table_name": "target"}
    arguments: dict[str, dict[str, Any]] = {
        "migrate": {"schema_name": hive.database, "table_name": name},
        "snapshot_table": {
            "source_schema": hive.database,
            "source_table": name,
            "schema_name": hive.database,
            "table_name": "trial",
        },
        "add_files_from_hive": {**own, "source_schema": hive.database, "source_table": name},
        "add_files": {**own, "files": [f"file://{path}"], "format": "ORC"},
    }
    if "schema" in arguments[procedure]:
        type_ = pa.string() if kind == "no names" else pa.timestamp("us")
        names = rows.schema.names if procedure == "add_files" else list(columns)
        schema = pa.schema([(names[0], pa.int64()), (names[1], type_)])
        session.catalogs.open("lake").create_table((hive.database, "target"), schema)
    with pytest.raises(ProcedureError, match="by position" if kind == "no names" else "which Arrow does not read"):
        session.call(f"lake.system.{procedure}", **arguments[procedure])
    if procedure == "migrate":
        [report] = session.call("lake.system.migrate", **arguments[procedure], dry_run=True).to_pylist()
        assert report["status"] == "cannot be migrated"


def test_the_list_is_whole() -> None:
    """A new difference has a test here."""
    assert list(KNOWN) == [
        "INT96 times",
        "null lists or maps of structs",
        "days before 1582-10-15 or times before 1900 in the calendar of Spark 2",
        "times in milliseconds",
    ]
    assert list(UNREAD) == ["AVRO"]


def test_times_in_milliseconds(hive: HiveMaker, call: Call) -> None:
    """Iceberg in Spark reads 1970; a migration names column and file, but for lists, which Spark reads by rows."""
    name = hive.table({"at": "timestamp", "ats": "array<timestamp>"})
    times = pa.array([datetime(2024, 5, 6)] * 2, pa.timestamp("ms"))
    hive.write(name, pa.table({"at": times, "ats": pa.array([[each] for each in times], pa.list_(times.type))}))
    for report in (call("migrate", name, dry_run=True), call("migrate", name)):
        [told] = [each for each in report["warnings"] if "milliseconds" in each]
        assert told.startswith("column at: 1 file (")
        assert "times of 1970" in told
        assert "read.parquet.vectorization.enabled" in told
