"""The columns of Hive tables are those of the descriptor, at every door, whatever the files have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from services.hive_tables import LIBRARY, HiveMaker
from services.spark_hive import SparkHive

from metastore.errors import FormatError, InvalidRequestError
from metastore.session import Session

pytestmark = pytest.mark.integration


def int32(*values: int | None) -> Any:
    """A column of Hive's int."""
    return pa.array(values, pa.int32())


@dataclass(frozen=True)
class Situation:
    """Columns of the descriptor, one file or none, and the rows that Hive and Spark read."""

    columns: Mapping[str, str]
    file: Mapping[str, Any] | None
    rows: list[dict[str, Any]]
    format: str = "PARQUET"
    parameters: Mapping[str, str] = field(default_factory=dict)


SITUATIONS: dict[str, Situation] = {
    "renamed": Situation({"a": "int", "bb": "string"}, {"a": int32(1), "b": ["x"]}, [{"a": 1, "bb": None}]),
    "dropped": Situation({"a": "int"}, {"a": int32(1), "b": int32(2)}, [{"a": 1}]),
    "added": Situation({"a": "int", "more": "int"}, {"a": int32(1)}, [{"a": 1, "more": None}]),
    "other order": Situation({"b": "int", "a": "int"}, {"a": int32(1), "b": int32(2)}, [{"b": 2, "a": 1}]),
    "other case": Situation({"id": "int", "st": "struct<inner:bigint>"}, {"ID": int32(1), "St": [{"Inner": 7}]}, []),
    "swapped names": Situation({"b": "int", "c": "int"}, {"a": int32(1), "b": int32(2)}, [{"b": 2, "c": None}]),
    "widened": Situation({"d": "double", "n": "bigint"}, {"d": pa.array([0.1], pa.float32()), "n": int32(7)}, []),
    "binary as text": Situation({"s": "string"}, {"s": pa.array([b"x"], pa.binary())}, [{"s": "x"}]),
    "no files": Situation({"id": "int", "s": "string"}, None, []),
    "orc by position": Situation(
        {"id": "int", "s": "string", "more": "int"},
        {"_col0": int32(1), "_col1": ["x"]},
        [{"id": 1, "s": "x", "more": None}],
        "ORC",
    ),
    "orc by name": Situation({"s": "string", "id": "int"}, {"id": int32(1), "S": ["x"]}, [{"s": "x", "id": 1}], "ORC"),
    "orc, dropped": Situation({"id": "int"}, {"_col0": int32(1), "_col1": ["x"]}, [{"id": 1}], "ORC"),
    "orc, no names": Situation({"x": "int"}, {"y": int32(1)}, [{"x": None}], "ORC"),
    "parquet by position": Situation(
        {"x": "int", "y": "string"},
        {"a": int32(1), "b": ["t"]},
        [{"x": 1, "y": "t"}],
        parameters={"parquet.column.index.access": "true"},
    ),
}
SITUATIONS["other case"].rows.append({"id": 1, "st": {"inner": 7}})
SITUATIONS["widened"].rows.append({"d": 0.10000000149011612, "n": 7})


def ids_of(table: pa.Table) -> list[int]:
    """The values of column ``id``, sorted."""
    return sorted(int(value) for value in table["id"].to_pylist() if value is not None)


def made(hive: HiveMaker, one: Situation) -> str:
    """The table of a situation; its name here."""
    serde = {LIBRARY: "org.apache.hadoop.hive.ql.io.orc.OrcSerde"} if one.format == "ORC" else None
    name = hive.table(one.columns, format_=one.format, parameters=one.parameters, serde=serde)
    if one.file is not None:
        hive.write(name, one.file, format_=one.format)
    return f"hive.{hive.database}.{name}"


@pytest.mark.parametrize("one", SITUATIONS.values(), ids=SITUATIONS)
def test_every_door_has_the_columns_of_the_descriptor(session: Session, hive: HiveMaker, one: Situation) -> None:
    """Names, order and types; rows, also those that a condition on each column leaves; statistics that agree."""
    table = made(hive, one)
    session.analyze(table)
    names = list(one.columns)
    scan = session.tables.scan(table)
    assert scan.schema.names == names
    assert scan.to_arrow().to_pylist() == one.rows
    assert scan.to_arrow_dataset().to_table().to_pylist() == one.rows
    assert session.sql(f"SELECT * FROM {table}").to_pylist() == one.rows
    assert [row["COLUMN_NAME"] for row in session.sql(f"DESCRIBE {table}").to_pylist()] == names
    for name, value in (one.rows[0] if one.rows else dict.fromkeys(names)).items():
        if isinstance(value, dict):
            continue
        where = f"{name} IS NULL" if value is None else f"{name} = {value!r}"
        assert session.tables.scan(table, where).to_arrow().to_pylist() == one.rows
        assert session.sql(f"SELECT * FROM {table} WHERE {where}").to_pylist() == one.rows
        assert len(session.prune(table, where).files) == len(one.rows)
        other = f"{name} IS NOT NULL" if value is None else f"{name} IS NULL"
        assert session.prune(table, other).files == []
        aggregate = [f"count({name})", f"max({name})"]
        assert session.tables.aggregate(table, aggregate).to_pylist() == [
            {aggregate[0]: int(value is not None), aggregate[1]: value}
        ]
    assert session.analyze(table).status == "up to date"


@pytest.mark.parametrize("columns", [{"new": "int"}, {"id": "bigint"}, {"other": "int", "s": "string"}, {}])
def test_altered_columns_are_there_before_and_after_the_next_run(
    session: Session, hive: HiveMaker, columns: dict[str, str]
) -> None:
    """A scan reads by the columns of now; what an earlier run found by other columns excludes nothing."""
    name = hive.table({"id": "int", "s": "string"})
    hive.write(name, {"id": int32(1), "s": ["x"]})
    table = f"hive.{hive.database}.{name}"
    session.analyze(table)
    described = hive.client.table(hive.database, name)
    if columns:
        described.sd = hive.descriptor(hive.folder / name, columns, "PARQUET")
        hive.client._change("alter a table", "alter_table", hive.database, name, described)
    rows = [{"id": 1, "s": "x", "new": None, "other": None}]
    now = list(columns or {"id": "int", "s": "string"})
    expected = [{name: row[name] for name in now} for row in rows]
    for _ in range(2):
        assert session.tables.scan(table).to_arrow().to_pylist() == expected
        first = now[0]
        where = f"{first} IS NULL" if expected[0][first] is None else f"{first} = 1"
        assert session.tables.scan(table, where).to_arrow().to_pylist() == expected
        assert len(session.prune(table, where).files) == 1
        session.analyze(table)
    assert session.sql(f"SELECT * FROM {table}").to_pylist() == expected


def test_columns_of_an_empty_table_are_followed(session: Session, hive: HiveMaker) -> None:
    """No file tells that the table was altered; its descriptor does."""
    name = hive.table({"id": "int"})
    table = f"hive.{hive.database}.{name}"
    session.analyze(table)
    described = hive.client.table(hive.database, name)
    described.sd = hive.descriptor(hive.folder / name, {"a": "int", "b": "string"}, "PARQUET")
    hive.client._change("alter a table", "alter_table", hive.database, name, described)
    assert session.analyze(table).status == "analyzed"
    assert session.sql(f"SELECT * FROM {table}").column_names == ["a", "b"]
    assert session.analyze(table).status == "up to date"


def test_partition_columns_have_the_types_of_the_descriptor(session: Session, hive: HiveMaker) -> None:
    """A text that looks like a number is compared as text, at every door."""
    name = hive.table({"id": "int"}, {"p": "string"})
    for value in ("1", "2", "10"):
        hive.write(hive.partition(name, value), {"id": int32(int(value))})
    table = f"hive.{hive.database}.{name}"
    session.analyze(table)
    for where, ids in (("p < '2'", [1, 10]), ("p = '10'", [10]), ("p > '10'", [2]), ("p >= '1'", [1, 2, 10])):
        assert ids_of(session.tables.scan(table, where).to_arrow()) == ids
        assert len(session.prune(table, where).files) == len(ids)
        assert ids_of(session.sql(f"SELECT id FROM {table} WHERE {where}")) == ids


def test_a_type_that_does_not_fit_names_file_column_and_types(session: Session, hive: HiveMaker) -> None:
    """Readers of Hive disagree on such values, or refuse them as Spark does; another column can be read."""
    name = hive.table({"a": "boolean", "b": "int"})
    path = hive.write(name, {"a": ["x"], "b": int32(1)})
    table = f"hive.{hive.database}.{name}"
    session.analyze(table)
    with pytest.raises(FormatError, match=rf"{path}.*column a is string in it, and the table says bool"):
        session.tables.scan(table).to_arrow()
    assert session.tables.scan(table, columns=["b"]).to_arrow().to_pylist() == [{"b": 1}]


def test_two_columns_for_one_are_refused(session: Session, hive: HiveMaker) -> None:
    """Hive knows no case: which of them it reads is an accident."""
    name = hive.table({"id": "int"})
    hive.write(name, {"id": int32(1), "ID": int32(2)})
    with pytest.raises(FormatError, match="column id may be any of id, ID"):
        session.analyze(f"hive.{hive.database}.{name}")


@pytest.mark.exhaustive
@pytest.mark.spark
def test_rows_are_those_of_spark(session: Session, hive: HiveMaker, spark_hive: SparkHive) -> None:
    """Spark over the same service reads the same columns and rows, of tables and of partitions in any case.

    By its own readers. By Hive's where its own cannot: Parquet by position, ORC of more columns than the table.
    """
    wrong = []
    by_hive = {"spark.sql.hive.convertMetastoreParquet": "false", "spark.sql.hive.convertMetastoreOrc": "false"}
    for what, one in SITUATIONS.items():
        table = made(hive, one)
        if by_hive_alone := one.parameters or what == "orc, dropped":
            table = f"hive.{hive.database}.by_hive_{one.format.lower()}"
            columns = ", ".join(f"{name} {type_}" for name, type_ in one.columns.items())
            said = ", ".join(f"'{key}' = '{value}'" for key, value in {"x": "y", **one.parameters}.items())
            spark_hive.sql(
                f"create table {table.removeprefix('hive.')} ({columns}) stored as {one.format} tblproperties ({said})"
            )
            hive.write(table.rpartition(".")[2], one.file, format_=one.format)
        session.analyze(table)
        conf = by_hive if by_hive_alone else dict.fromkeys(by_hive, "true")
        told = spark_hive.sql(f"select * from {table.removeprefix('hive.')}", **conf)
        ours = session.tables.scan(table).to_arrow()
        if told != ours.to_pylist() or (told and list(told[0]) != ours.column_names):
            wrong.append((what, told, ours.to_pylist()))
    assert wrong == []
    name = f"{hive.database}.parted"
    spark_hive.sql(f"create table {name} (Id int) partitioned by (Part string, day date) stored as parquet")
    spark_hive.sql(f"insert into {name} values (1, '01', date'2024-01-05'), (2, null, date'2024-01-06')")
    session.analyze(f"hive.{name}")
    order = "order by id"
    for where in ("part = '01'", "PART is null", "day > date'2024-01-05'", "id = 1", "true"):
        told = spark_hive.sql(f"select id from {name} where {where} {order}")
        scan = session.tables.scan(f"hive.{name}", where)
        assert ids_of(scan.to_arrow()) == [row["id"] for row in told], where


def test_altered_columns_are_not_passed_over_without_a_listing(session: Session, hive: HiveMaker) -> None:
    """Statistics may be those of another column of the same name."""
    name = hive.table({"a": "int", "b": "int"})
    hive.write(name, {"a": int32(1), "b": int32(2)})
    table = f"hive.{hive.database}.{name}"
    session.analyze(table)
    assert session.tables.scan(table, "a = 1", list_files=False).count() == 1
    described = hive.client.table(hive.database, name)
    described.sd = hive.descriptor(hive.folder / name, {"b": "int", "a": "int"}, "PARQUET")
    hive.client._change("alter a table", "alter_table", hive.database, name, described)
    with pytest.raises(InvalidRequestError, match="altered since ANALYZE"):
        session.tables.scan(table, "a = 1", list_files=False)


def test_folders_spell_partition_columns_in_any_case(session: Session, hive: HiveMaker) -> None:
    """Hive keeps names in lower case, and writers of folders may not."""
    name = hive.table({"id": "int"}, {"part": "string"})
    hive.write(hive.partition(name, "a", folder="Part=a"), {"id": int32(1)})
    hive.write(hive.partition(name, "b"), {"id": int32(2)})
    table = f"hive.{hive.database}.{name}"
    session.analyze(table)
    assert session.tables.scan(table).schema.names == ["id", "part"]
    for where, ids in (("part = 'a'", [1]), ("PART = 'b'", [2]), ("part IS NOT NULL", [1, 2])):
        scan = session.tables.scan(table, where)
        assert (ids_of(scan.to_arrow()), len(scan.paths)) == (ids, len(ids))
        assert ids_of(session.sql(f"SELECT id FROM {table} WHERE {where}")) == ids
