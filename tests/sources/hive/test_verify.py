"""verify_migration: silent when all is well, and loud when a file, a value or a bound is not what it was."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from services.hive_tables import HiveMaker
from support import odd_rows

from metastore.errors import FormatError, ProcedureError
from metastore.session import Session

pytestmark = pytest.mark.integration


@pytest.fixture
def migrated(hive: HiveMaker, session: Session) -> str:
    """A migrated table with two partitions of two formats, names in another case, a list, and NaNs."""
    name: str = hive.table({"id": "bigint", "x": "double", "l": "array<bigint>", "gone": "string"}, {"p": "date"})
    first = {"ID": [1, 2, None], "x": [1.5, float("nan"), None], "l": [[1], None, []]}
    hive.write(hive.partition(name, "2024-01-01", format_="PARQUET"), first)
    hive.write(hive.partition(name, "2024-01-02", format_="ORC"), {"id": [9], "x": [-1.0]}, format_="ORC")
    session.call("lake.system.migrate", schema_name=hive.database, table_name=name)
    return name


def verified(session: Session, hive: HiveMaker, name: str) -> dict[str, dict[str, Any]]:
    """The report by column."""
    rows = session.call("lake.system.verify_migration", schema_name=hive.database, table_name=name).to_pylist()
    return {row["column"]: row for row in rows}


def test_all_is_well(session: Session, hive: HiveMaker, migrated: str) -> None:
    """Both ways see the same rows, nulls and bounds; also after later commits."""
    session.catalogs.table("lake", hive.database, migrated).load().append(
        pa.table({"id": [5], "p": pa.array([date(2024, 1, 3)])})
    )
    found = verified(session, hive, migrated)
    assert all(row["ok"] for row in found.values()), found
    assert {(row["hive_rows"], row["iceberg_rows"]) for row in found.values()} == {(4, 4)}
    assert (found["id"]["hive_nulls"], found["id"]["min"], found["id"]["max"]) == (1, "1", "9")
    assert (found["x"]["min"], found["x"]["max"]) == ("-1.0", "1.5")
    assert (found["p"]["min"], found["p"]["max"]) == ("2024-01-01", "2024-01-02")
    assert found["gone"]["hive_nulls"] == 4


def test_a_file_that_is_not_what_it_was(session: Session, hive: HiveMaker, migrated: str) -> None:
    """Its values lie beyond the bounds that the manifests have: readers would skip them."""
    [file] = (hive.folder / migrated / "p=2024-01-01").iterdir()
    pq.write_table(pa.table({"ID": [1, 2, 1000], "x": [1.5, 2.5, None]}), str(file))
    found = verified(session, hive, migrated)
    assert not found["id"]["ok"]
    assert "1000" in found["id"]["problem"]


def test_a_file_that_became_another_type(session: Session, hive: HiveMaker, migrated: str) -> None:
    """It is named, and why it does not fit."""
    [file] = (hive.folder / migrated / "p=2024-01-01").iterdir()
    pq.write_table(pa.table({"ID": ["1"], "x": [1.5]}), str(file))
    with pytest.raises(FormatError, match=f"{file.name} cannot be read"):
        verified(session, hive, migrated)


@pytest.mark.parametrize("format_", ["PARQUET", "ORC", "AVRO"])
def test_a_right_migration_is_called_right(session: Session, hive: HiveMaker, format_: str) -> None:
    """Whatever is null or empty inside of lists, maps and structs, with NaNs, zeros below zero and days of any year."""
    name = hive.table(odd_rows.COLUMNS, format_=format_)
    odd_rows.write(hive.folder / name / "000000_0", odd_rows.TABLE, format_)
    session.call("lake.system.migrate", schema_name=hive.database, table_name=name)
    found = verified(session, hive, name)
    assert {column: row["problem"] for column, row in found.items()} == dict.fromkeys(odd_rows.TYPES)
    assert all(row["ok"] for row in found.values())
    assert (found["structs"]["hive_nulls"], found["day"]["min"]) == (1, "1500-03-01")
    # PyIceberg has no Avro; of the others it makes empty lists of null ones.
    warned = {column for column, row in found.items() if row["warning"]}
    assert warned == (set() if format_ == "AVRO" else {"structs", "by"})


def test_times_that_pyiceberg_reads_otherwise_are_a_warning(session: Session, hive: HiveMaker) -> None:
    """The migration is right; what PyIceberg's writers would store is said, and how to avoid it."""
    name = hive.table({"at": "timestamp", "near": "timestamp"})
    far = pa.array([datetime(9999, 12, 31), datetime(1500, 1, 1), None], pa.timestamp("us", "UTC"))
    near = pa.array([datetime(2024, 1, day) for day in (1, 2, 3)], pa.timestamp("us", "UTC"))
    hive.write(name, pa.table({"at": far, "near": near}), use_deprecated_int96_timestamps=True)
    session.call("lake.system.migrate", schema_name=hive.database, table_name=name)
    found = verified(session, hive, name)
    assert all(row["ok"] for row in found.values())
    assert found["near"]["warning"] is None
    assert "rewrite_data_files before PyIceberg deletes" in found["at"]["warning"]
    session.call(
        "lake.system.rewrite_data_files", schema=hive.database, table_name=name, options={"rewrite-all": "true"}
    )
    table = session.catalogs.table("lake", hive.database, name).load()
    table.delete("near = '2024-01-02T00:00:00+00:00'")
    assert table.refresh().scan().to_arrow()["at"].cast(far.type).to_pylist() == [far[0].as_py(), None]


def test_what_cannot_be_verified(session: Session, hive: HiveMaker) -> None:
    """A table of another origin."""
    name = hive.table({"id": "bigint"})
    session.call("lake.system.migrate", schema_name=hive.database, table_name=name)
    assert verified(session, hive, name)["id"]["hive_rows"] == 0
    table = session.catalogs.table("lake", hive.database, name).load()
    table.catalog.create_table((hive.database, "other"), table.schema(), location=f"file:{hive.folder}/other")
    with pytest.raises(ProcedureError, match="was not made an Iceberg table by this package"):
        verified(session, hive, "other")
