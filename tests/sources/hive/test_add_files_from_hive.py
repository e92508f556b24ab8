"""add_files_from_hive: rows of a Hive table's files in an Iceberg table that was there before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType, StructType
from services.hive_tables import HiveMaker

from metastore.errors import ProcedureError
from metastore.procedures.hive.migration.reader_differences import HIDDEN_PARTITIONS
from metastore.session import Session

pytestmark = pytest.mark.integration

Add = Callable[..., dict[str, Any]]
SCHEMA = Schema(
    NestedField(10, "s", StructType(NestedField(11, "Inner", LongType())), required=False),
    NestedField(12, "id", LongType(), required=False),
    NestedField(13, "name", StringType(), required=False),
    NestedField(14, "day", DateType(), required=False),
)


@pytest.fixture
def target(session: Session, hive: HiveMaker) -> Table:
    """An Iceberg table by day, with columns in another order and a row of its own."""
    catalog = session.catalogs.open("lake")
    by_day = PartitionSpec(PartitionField(14, 1000, IdentityTransform(), "day"))
    table = catalog.create_table(
        (hive.database, "target"), SCHEMA, location=f"file:{hive.folder}/target", partition_spec=by_day
    )
    table.append(pa.table({"id": [100], "name": ["own"], "day": [date(2024, 1, 1)]}))
    return table


@pytest.fixture
def source(hive: HiveMaker) -> str:
    """A Hive table with two partitions, whose files write names in capitals."""
    name: str = hive.table({"id": "bigint", "name": "string", "s": "struct<inner:bigint>"}, {"day": "date"})
    for number, day in enumerate(("2024-01-01", "2024-01-02")):
        rows = {"ID": [number], "Name": [f"n{number}"], "S": [{"INNER": number}]}
        hive.write(hive.partition(name, day), rows)
    return name


@pytest.fixture
def add(session: Session, hive: HiveMaker) -> Add:
    """Call the procedure."""

    def run(source: str, **arguments: Any) -> dict[str, Any]:
        named = {"schema": hive.database, "table_name": "target", "source_schema": hive.database, **arguments}
        [row] = session.call("lake.system.add_files_from_hive", **named, source_table=source).to_pylist()
        return dict(row)

    return run


def rows(session: Session, hive: HiveMaker, **scan: Any) -> list[tuple[Any, ...]]:
    """All rows of the target."""
    found = session.catalogs.table("lake", hive.database, "target").load().scan(**scan).to_arrow().to_pylist()
    return sorted((row["id"], row["name"], (row["s"] or {}).get("Inner"), str(row["day"])) for row in found)


@pytest.mark.usefixtures("target")
def test_rows_come_beside_those_that_are_there(session: Session, hive: HiveMaker, source: str, add: Add) -> None:
    """By the Iceberg table's ids, whatever the files call their columns; bounds serve its predicates."""
    assert add(source) == {
        "added_files_count": 2,
        "added_records_count": 2,
        "skipped_files_count": 0,
        "warnings": [HIDDEN_PARTITIONS],
    }
    own = (100, "own", None, "2024-01-01")
    assert rows(session, hive) == [(0, "n0", 0, "2024-01-01"), (1, "n1", 1, "2024-01-02"), own]
    assert rows(session, hive, row_filter="id = 1") == [(1, "n1", 1, "2024-01-02")]
    assert rows(session, hive, row_filter="day = '2024-01-01'")[1:] == [own]
    assert rows(session, hive, row_filter="s.Inner = 1") == [(1, "n1", 1, "2024-01-02")]


@pytest.mark.usefixtures("target")
def test_some_partitions_and_no_file_twice(session: Session, hive: HiveMaker, source: str, add: Add) -> None:
    """A partition by its value; a file that is there already is an error, or is left out."""
    assert add(source, partition_filter={"DAY": "2024-01-02"})["added_files_count"] == 1
    with pytest.raises(ProcedureError, match="1 files are the table's already"):
        add(source)
    assert add(source, duplicate_file="skip") == {
        "added_files_count": 1,
        "added_records_count": 1,
        "skipped_files_count": 1,
        "warnings": [HIDDEN_PARTITIONS],
    }
    assert len(rows(session, hive)) == 3
    assert add(source, duplicate_file="allow")["added_files_count"] == 2
    assert len(rows(session, hive)) == 5
    with pytest.raises(ProcedureError, match="Cannot find any matching partitions"):
        add(source, partition_filter={"day": "2030-01-01"})


@pytest.mark.usefixtures("target")
def test_what_does_not_fit(hive: HiveMaker, add: Add) -> None:
    """Another partitioning, another type, a column that one has not: nothing is added."""
    plain = hive.table({"id": "bigint", "day": "date"})
    typed = hive.table({"id": "string"}, {"day": "date"})
    more = hive.table({"id": "bigint", "more": "int"}, {"day": "date"})
    wide = hive.table({"id": "bigint"}, {"day": "date"})
    hive.write(hive.partition(wide, "2024-01-01"), {"id": [1], "extra": [1]})
    for name, reason in (
        (plain, "partitioned by the same columns"),
        (typed, "column id of .* is string"),
        (more, "column more of .* has it not"),
        (wide, "columns that the table lacks: extra"),
    ):
        with pytest.raises(ProcedureError, match=reason):
            add(name)


def test_columns_without_nulls(session: Session, hive: HiveMaker, add: Add) -> None:
    """A null where the Iceberg table has none, in a file, a partition or a column that is missing: nothing is added."""
    names = (
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "day", DateType(), required=True),
        NestedField(3, "s", StringType(), required=False),
    )
    by_day = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
    catalog = session.catalogs.open("lake")
    catalog.create_table((hive.database, "strict"), Schema(*names), partition_spec=by_day)
    more = Schema(*names, NestedField(4, "must", LongType(), required=True))
    catalog.create_table((hive.database, "more"), more, partition_spec=by_day)

    def source(day: str, rows: dict[str, Any]) -> str:
        name: str = hive.table({"id": "bigint", "s": "string"}, {"day": "date"})
        hive.write(hive.partition(name, day), rows)
        return name

    whole = source("2024-01-01", {"ID": [1, 2]})
    for target, name, why in (
        ("strict", source("2024-01-01", {"id": [1, None]}), "column: id .*000000_0 has nulls"),
        ("strict", source("2024-01-01", {"s": ["x"]}), "column: id .*000000_0 has nulls"),
        ("strict", source("__HIVE_DEFAULT_PARTITION__", {"id": [1]}), "column: day .*is by null"),
        ("more", whole, "column: must .*has no such column"),
    ):
        with pytest.raises(ProcedureError, match=f"NULL value not allowed for NOT NULL {why}"):
            add(name, table_name=target)
        assert session.catalogs.table("lake", hive.database, target).load().current_snapshot() is None
    assert add(whole, table_name="strict")["added_records_count"] == 2
