"""Hive tables under ANALYZE, pruning and scans: partitions, types, owner and files are what the service says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from services.hive_tables import LIBRARY, HiveMaker

from metastore.errors import FormatError, InvalidRequestError, NotFoundError, StorageError
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import MetadataType
from metastore.session import Session
from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.discovery import discover
from metastore.sources.hive.text.serdes import SerdeKind

pytestmark = pytest.mark.integration


@pytest.fixture
def partitioned(hive: HiveMaker) -> str:
    """Three partitions by a text that looks like a number and a date, and a folder that is no partition."""
    name: str = hive.table({"id": "bigint"}, {"p": "string", "d": "date"})
    for number, value in enumerate(["1", "x/y", "__HIVE_DEFAULT_PARTITION__"]):
        hive.write(hive.partition(name, value, f"2024-01-0{number + 1}"), {"id": [number]})
    stray = hive.folder / name / "p=9" / "d=2024-01-09"
    stray.mkdir(parents=True)
    hive.write(stray, {"id": [99]})
    return name


def unit_of(session: Session, table: TableInfo) -> dict[str, Any]:
    """The TABLE unit."""
    [row] = (
        session.tables.read()
        .metadata_types(MetadataType.TABLE)
        .filter(f"tableName = '{table.name}'")
        .to_arrow()
        .to_pylist()
    )
    return dict(row)


def test_partitions_types_and_owner_are_the_services(session: Session, hive: HiveMaker, partitioned: str) -> None:
    """A folder that it does not know is no data, and a text that looks like a number stays a text."""
    table = TableInfo("hive", hive.database, partitioned)
    done = session.analyze(table)
    assert (done.rows, done.files) == (3, 3)
    unit = unit_of(session, table)
    types = {column.name: column.type for column in TupleSchema.from_json(unit["schema"]).columns}
    assert types == {"id": "BIGINT", "p": "VARCHAR", "d": "DATE"}
    assert (unit["owner"], unit["tableType"], dict(unit["partitionKeys"])) == (
        "somebody",
        "PARQUET",
        {"p": "dir0", "d": "dir1"},
    )
    assert session.analyze(table).status == "up to date"


def test_what_the_service_says_later_is_followed(session: Session, hive: HiveMaker, partitioned: str) -> None:
    """A partition that it drops goes, one that it gets comes, though no folder changed."""
    table = f"hive.{hive.database}.{partitioned}"
    session.analyze(table)
    hive.client.drop_partition(hive.database, partitioned, ["1", "2024-01-01"])
    hive.partition(partitioned, "9", "2024-01-09")
    done = session.analyze(table)
    assert (done.rows, done.new, done.removed) == (3, 1, 1)
    assert len(session.prune(table, "id = 99").files) == 1
    assert len(session.prune(table, "d = date '2024-01-02'").files) == 1


@pytest.mark.parametrize("format_", ["ORC", "AVRO"])
def test_other_formats_need_no_suffix(session: Session, hive: HiveMaker, format_: str) -> None:
    """The service says the format."""
    name = hive.table({"id": "bigint"}, format_=format_)
    if format_ == "ORC":
        hive.write(name, {"id": [1, 2]}, format_=format_)
    else:
        import fastavro  # noqa: PLC0415 - only the tests have it

        schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
        with (hive.folder / name / "000000_0").open("wb") as out:
            fastavro.writer(out, schema, [{"id": 1}, {"id": 2}])
    assert session.analyze(f"hive.{hive.database}.{name}").rows == 2


def test_what_cannot_be_analyzed(session: Session, hive: HiveMaker) -> None:
    """Views, formats and SerDes that are not known: each with its reason; nor are rows of text read or described."""
    sequence = hive.table({"id": "bigint"}, format_="org.apache.hadoop.mapred.SequenceFileInputFormat")
    view = hive.table({"id": "bigint"}, kind="VIRTUAL_VIEW")
    regex = hive.table({"id": "bigint"}, format_="TEXT", serde={LIBRARY: "org.apache.hadoop.hive.serde2.RegexSerDe"})
    union = hive.table({"u": "uniontype<int,string>"}, format_="TEXT", serde={})
    mixed = hive.table({"id": "bigint"}, {"p": "int"})
    hive.partition(mixed, "1")
    hive.partition(mixed, "2", format_="org.apache.hadoop.hive.ql.io.RCFileInputFormat")
    for name, reason in (
        (sequence, "SequenceFileInputFormat; Hive tables of"),
        (view, "virtual view"),
        (regex, "RegexSerDe, which is not supported"),
        (union, "column u of .*uniontype"),
        (mixed, "RCFileInputFormat; Hive tables of"),
    ):
        with pytest.raises(InvalidRequestError, match=reason):
            session.analyze(f"hive.{hive.database}.{name}")
    twice = hive.table({"id": "bigint"}, {"p": "int"}, format_="TEXT", serde={})
    (hive.partition(twice, "1", folder="same") / "000000_0").write_bytes(b"1")
    hive.partition(twice, "2", folder="same")
    with pytest.raises(InvalidRequestError, match="more than one of its partitions"):
        session.analyze(f"hive.{hive.database}.{twice}")
    text = f"hive.{hive.database}.{hive.table({'id': 'bigint'}, format_='TEXT', serde={})}"
    with pytest.raises(InvalidRequestError, match="none are computed"):
        session.analyze(text, statistics=True)
    with pytest.raises(InvalidRequestError, match="its files alone do not define"):
        session.tables.scan(text)


def test_text(session: Session, hive: HiveMaker) -> None:
    """Rows by the SerDe's delimiters without header lines, partitions in any folder; altered delimiters are noticed."""
    name = hive.table(
        {"id": "bigint", "s": "string", "l": "array<int>"},
        {"p": "string", "day": "date"},
        format_="TEXT",
        serde={"field.delim": "|"},
        parameters={"skip.header.line.count": "1"},
    )
    first = hive.partition(name, "a b", "2024-01-01")
    second = hive.partition(name, "__HIVE_DEFAULT_PARTITION__", "2024-01-02", folder="elsewhere")
    (first / "000000_0").write_bytes(b"id|s|l\n1|x|1\n2|\\N|2\n")
    (second / "000000_0").write_bytes(b"id|s|l\n30|z|1\n31|y\n")
    table = f"hive.{hive.database}.{name}"
    done = session.analyze(table)
    assert (done.rows, done.files) == (4, 2)
    assert unit_of(session, TableInfo.parse(table))["tableType"] == "TEXT"
    for where, files in (
        ("id = 2", [first]),
        ("id > 2", [second]),
        ("s >= 'y'", [second]),
        ("s is null", [first]),
        ("p = 'a b'", [first]),
        ("p is null", [second]),
        ("day = date '2024-01-02' and id < 5", []),
        ("id = 32", []),
    ):
        kept = [file.path for file in session.prune(table, where).files]
        assert kept == [f"{each}/000000_0" for each in files], where
    assert session.analyze(table).status == "up to date"
    (second / "000000_0").write_bytes(b"id|s|l\n300|z|1\n")
    again = session.analyze(table)
    assert (again.rows, again.new, again.changed) == (3, 0, 1)
    [altered] = [each for each in hive.client.partitions(hive.database, name) if each.values[0] == "a b"]
    altered.sd.serdeInfo.parameters["field.delim"] = ","
    hive.client.alter_partitions(hive.database, name, [altered])
    assert len(session.prune(table, "s = 'q'").files) == 1  # it may be anything by now
    assert session.analyze(table).changed == 1
    assert session.prune(table, "s = 'q'").files == []


@pytest.mark.parametrize("format_", ["PARQUET", "ORC"])
def test_texts_that_readers_pad(session: Session, hive: HiveMaker, format_: str) -> None:
    """A char is found by its text without spaces and with all of them, whichever the file has; so is a partition."""
    name = hive.table({"id": "bigint", "c": "char(4)"}, {"p": "char(4)"}, format_=format_)
    hive.write(hive.partition(name, "x"), {"id": [1], "c": ["ab  "]}, format_=format_)
    hive.write(hive.partition(name, "y"), {"id": [2], "c": ["cd"]}, format_=format_)
    table = f"hive.{hive.database}.{name}"
    assert session.analyze(table).rows == 2
    for where, file in (("c = 'ab'", "p=x"), ("c = 'ab  '", "p=x"), ("c = 'cd  '", "p=y"), ("p = 'x   '", "p=x")):
        assert any(file in each.path for each in session.prune(table, where).files)
    assert [file for each in session.prune(table, "id = 2").files for file in each.path.split("/")[-2:-1]] == ["p=y"]


def test_partitions_of_several_formats(session: Session, hive: HiveMaker) -> None:
    """Each is read by its own format and SerDe; names in files count in any case, columns that one lacks are null."""
    name = hive.table({"userid": "bigint", "s": "string", "x": "double", "st": "struct<a:int>"}, {"p": "string"})
    hive.write(hive.partition(name, "parquet"), {"userId": [1, 2], "S": ["a", "b"], "more": [1, 1]})
    hive.write(hive.partition(name, "orc", format_="ORC"), {"userid": [11, None], "s": ["c", "d"]}, format_="ORC")
    csv = hive.partition(name, "csv", format_="TEXT", serde={LIBRARY: SerdeKind.CSV.value})
    (csv / "000000_0").write_bytes(b'"21","a, b"\n22,c,\n')
    table = f"hive.{hive.database}.{name}"
    assert session.analyze(table).rows == 6
    assert unit_of(session, TableInfo.parse(table))["tableType"] == "HIVE"

    def kept(where: str) -> list[str]:
        return sorted(file.path.split("p=")[1].partition("/")[0] for file in session.prune(table, where).files)

    assert kept("userid = 2") == ["parquet"]
    assert kept("userid = 22") == ["csv"]
    assert kept("userid is null") == ["orc"]
    assert kept("s = 'b'") == ["csv", "parquet"]
    assert kept("s = 'd'") == ["orc"]
    assert kept("x is null") == ["csv", "orc", "parquet"]
    assert kept("x > 0") == []
    assert kept("x > 0 and p = 'orc'") == []
    assert kept("p >= 'orc'") == ["orc", "parquet"]
    both = hive.table({"id": "bigint"}, format_="TEXT", serde={LIBRARY: SerdeKind.CSV.value})
    (hive.folder / both / "000000_0").write_bytes(b"9\n10\n")
    session.analyze(f"hive.{hive.database}.{both}")
    assert len(session.prune(f"hive.{hive.database}.{both}", "id = '9'").files) == 1  # nothing but texts to its SerDe
    (csv / "000001_0.gz").write_bytes(b"this is no gzip")
    with pytest.raises(FormatError, match="000001_0.gz cannot be read"):
        session.analyze(table)


def test_names_that_are_not_there(session: Session, hive: HiveMaker, partitioned: str) -> None:
    """Near names are told; a database that is not there is."""
    with pytest.raises(NotFoundError, match=f"did you mean {partitioned}"):
        session.source(f"hive.{hive.database}.{partitioned}x")
    with pytest.raises(NotFoundError, match="no database nowhere"):
        session.source("hive.nowhere.t")


def test_a_migrated_table_is_no_hive_table(session: Session, hive: HiveMaker) -> None:
    """Its files may be stale; the catalog's name leads to the right ones."""
    name = hive.table({"id": "bigint"})
    hive.write(name, pa.table({"id": [1]}))
    session.call("lake.system.migrate", schema_name=hive.database, table_name=name)
    with pytest.raises(InvalidRequestError, match="is an Iceberg table"):
        session.source(f"hive.{hive.database}.{name}")


def test_discovery(hive: HiveMaker, partitioned: str) -> None:
    """Tables of every kind are told, with what is in their way."""
    hive.table({"u": "uniontype<int,string>"}, format_="TEXT")
    view = hive.table({"id": "bigint"}, kind="VIRTUAL_VIEW")
    found = {each.name: each for each in discover(hive.client, hive.database)}
    assert len(found) == 3
    assert (found[partitioned].format, found[partitioned].partition_columns) == ("PARQUET", ("p", "d"))
    assert found[partitioned].obstacles == ()
    assert found[view].obstacles == ("it is a virtual view, and has no files of its own",)
    assert {each.database for each in discover(hive.client)} >= {hive.database}
    with pytest.raises(NotFoundError):
        list(discover(hive.client, "nowhere"))


def test_the_service_may_be_gone(hive_metastore: str) -> None:
    """It is named with its address, and every one of several is tried."""
    with HiveClient("thrift://127.0.0.1:1") as client, pytest.raises(StorageError, match=r"127\.0\.0\.1:1"):
        client.databases()
    with HiveClient(f"thrift://127.0.0.1:1,{hive_metastore}") as client:
        assert "default" in client.databases()
    for wrong in ("", "http://x", "127.0.0.1:9083"):
        with pytest.raises(InvalidRequestError):
            HiveClient(wrong)


def test_a_connection_that_the_other_side_closed_is_opened_again(hive_metastore: str) -> None:
    """Nobody notices."""
    with HiveClient(hive_metastore) as client:
        client.databases()
        client._transport.close()
        assert "default" in client.databases()


def test_scans_and_queries_have_the_services_types(session: Session, hive: HiveMaker) -> None:
    """A partition column of texts that look like numbers stays one of texts, in Arrow and in SQL."""
    name = hive.table({"id": "bigint"}, {"p": "string", "k": "int"})
    for value, key in (("1", "7"), ("02", "8"), ("__HIVE_DEFAULT_PARTITION__", "9")):
        hive.write(hive.partition(name, value, key), {"id": [int(key)]})
    table = f"hive.{hive.database}.{name}"
    session.analyze(table)
    assert session.tables.scan(table, "p = '02'").to_arrow().to_pylist() == [{"id": 8, "p": "02", "k": 8}]
    found = session.sql(f"SELECT id, p FROM {table} ORDER BY id").to_pylist()
    assert [(row["id"], row["p"]) for row in found] == [(7, "1"), (8, "02"), (9, None)]
