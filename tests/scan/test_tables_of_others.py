"""Scans of Iceberg and Delta tables: the rows that PyIceberg and deltalake read, whatever became of the table."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import time, timedelta
from decimal import Decimal
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType
from services.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from support import delete_files, delta_log
from support.questions import FIELDS, LITERALS, Question, questions, rows, unsigned

from metastore.config.settings import Settings
from metastore.errors import FormatError, InvalidRequestError, NotFoundError
from metastore.ground.epoch import EPOCH_UTC
from metastore.overview import tables as explore
from metastore.scan.rows import read_rows
from metastore.session import Session, connect
from metastore.sources.iceberg_rows import IcebergRows

SCHEMA = pa.schema([field for field in FIELDS if field[0] not in ("u", "f")] + [("j", pa.int32())])
ASKED = [name for name in LITERALS if name not in ("u", "f", "k")]
MEASURED = ["count(*)", "min(i)", "max(d)", "count(s)", "max(dec)", "min(local)", "max(day)"]


@dataclass
class Others:
    """A session with an Iceberg catalog and a folder of Delta tables, one table of each kind: ``t``."""

    folder: Path
    session: Session

    @property
    def catalog(self) -> Catalog:
        """PyIceberg's own door."""
        return self.session.catalogs.open("prod")

    @property
    def delta(self) -> Path:
        """Where the Delta table lies; the name has to be escaped in a URI."""
        return self.folder / "delta tables" / "t"

    def iceberg(self) -> Table:
        """The Iceberg table as it is now."""
        return self.catalog.load_table("shop.t")

    def all_rows(self, name: str) -> pa.Table:
        """Every row, as the library reads it that is not ours."""
        if name == "lake.shop.t":
            return self.iceberg().scan().to_arrow()
        return pa.table(DeltaTable(str(self.delta)).scan().read_all())

    def agree(self, name: str, asked: list[Question]) -> None:
        """A scan has the rows, and an aggregate the values, that DuckDB finds among all of them."""
        truth = self.all_rows(name)
        with duckdb.connect() as engine:
            engine.execute("SET TimeZone = 'UTC'")
            engine.register("t", truth)
            whole = self.session.tables.scan(name).to_arrow()
            assert whole.column_names == truth.column_names
            assert listed(whole) == listed(truth)
            for spark, duck in asked:
                found = engine.execute(f"SELECT id FROM t WHERE {duck} ORDER BY id").fetchall()
                scan = self.session.tables.scan(name, spark, ["id"])
                assert ids(scan.to_arrow()) == [row for (row,) in found], spark
                expected = engine.execute(f"SELECT {', '.join(MEASURED)} FROM t WHERE {duck}").fetchone() or ()
                answer = self.session.tables.aggregate(name, MEASURED, spark).to_pylist()[0]
                assert repr(unsigned(answer.values())) == repr(unsigned(expected)), spark


def listed(found: pa.Table) -> list[str]:
    """The rows in no order."""
    return sorted(map(repr, found.to_pylist()))


def ids(found: pa.Table) -> list[Any]:
    """The ids in order."""
    values: list[Any] = found["id"].to_pylist()
    return sorted(values)


@pytest.fixture
def others(tmp_path: Path) -> Iterator[Others]:
    """No tables yet."""
    with opened(tmp_path) as session:
        yield Others(tmp_path, session)


def opened(folder: Path) -> Session:
    """A session over ``folder``."""
    storage = {
        "lake": {"type": "iceberg", "catalog": "prod"},
        "delta": {"type": "delta", "connection": "file:///", "workspaces.w.location": f"{folder}/delta tables"},
        "db": {"type": "jdbc", "connection": f"jdbc:sqlite:{folder}/shop.db"},
    }
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    session = connect(
        Settings.from_mapping(
            {
                "drill.metastore.iceberg.location": {"base_path": str(folder), "relative_path": "metastore"},
                "drill.metastore.catalogs.prod": catalog,
                "drill.metastore.storage": storage,
            },
            environ={},
        )
    )
    session.catalogs.open("prod").create_namespace("shop")
    return session


def numbered(data: pa.Table, first: int) -> pa.Table:
    """``data`` with ids from ``first``."""
    return data.set_column(0, "id", pa.array(range(first, first + data.num_rows), pa.int64()))


STEPS = st.sampled_from(["append", "append", "delete", "positions", "swap", "replace", "widen", "partition", "analyze"])


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=5)
@given(
    steps=st.lists(st.tuples(STEPS, rows(SCHEMA), st.integers(0, 5)), min_size=2, max_size=7),
    asked=st.lists(questions(ASKED), min_size=1, max_size=6),
)
def test_a_scan_of_an_iceberg_table_returns_what_pyiceberg_reads(
    steps: list[tuple[str, pa.Table, int]], asked: list[Question]
) -> None:
    """After any history of rows and columns, however long ago the last ANALYZE was in it."""
    with TemporaryDirectory() as folder, opened(Path(folder)) as session:
        others = Others(Path(folder), session)
        others.catalog.create_table("shop.t", SCHEMA, properties={"format-version": "2"}).append(
            numbered(steps[0][1], 0)
        )
        session.analyze("lake.shop.t")
        number = 100
        for step, data, choice in steps:
            table = others.iceberg()
            if step == "append":
                # In the order and the types that the table's columns have by now.
                table.append(numbered(data, number).select([f.name for f in table.schema().fields]).cast(of(table)))
                number += 100
            elif step == "delete":
                table.delete(f"id >= {choice * 50} and id < {choice * 50 + 2}")
            elif step == "positions":
                latest = [task for task in table.scan().plan_files() if task.file.spec_id == table.spec().spec_id]
                for task in latest[:choice]:
                    gone = [row for row in range(task.file.record_count) if row % 3 == choice % 3]
                    if gone:
                        delete_files.delete_positions(table, {task.file.file_path: gone}, task.file.partition)
                        table.refresh()
            else:
                evolve(table, step)
            if step == "analyze":
                session.analyze("lake.shop.t")
        others.agree("lake.shop.t", asked)
        session.analyze("lake.shop.t")
        others.agree("lake.shop.t", asked)


def of(table: Table) -> pa.Schema:
    """The table's columns as plain Arrow types."""
    return pa.schema([pa.field(f.name, plain(f.type), f.nullable) for f in table.schema().as_arrow()])


def plain(type_: Any) -> Any:
    """Without what only PyIceberg's Arrow types have."""
    if pa.types.is_struct(type_):
        return pa.struct([(type_.field(i).name, plain(type_.field(i).type)) for i in range(type_.num_fields)])
    small = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return small.get(type_, type_)


def evolve(table: Table, step: str) -> None:
    """Change the columns of ``table``, or its partitions, so that names stay and mean something else."""
    if step == "swap":
        for old, new in (("i", "was"), ("j", "i"), ("was", "j")):
            with table.update_schema() as update:
                update.rename_column(old, new)
    elif step == "replace":
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.delete_column("s")
        with table.update_schema() as update:
            update.add_column("s", StringType())
    elif step == "widen":
        with table.update_schema() as update:
            update.update_column("i", LongType())
    elif step == "partition" and not table.spec().fields:
        with table.update_spec() as update:
            update.add_identity("day")
            update.add_identity("dec")


DELTA_STEPS = st.sampled_from(["append", "append", "delete", "vector", "column", "analyze"])
PARTITIONS = ["k", "day"]
DELTA_SCHEMA = pa.schema([field for field in [*FIELDS, ("k", pa.string())] if field[0] not in ("u", "f", "größe.cm")])


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=5)
@given(
    steps=st.lists(st.tuples(DELTA_STEPS, rows(DELTA_SCHEMA), st.integers(0, 5)), min_size=2, max_size=6),
    asked=st.lists(questions([name for name in ASKED if name != "größe.cm"]), min_size=1, max_size=6),
)
def test_a_scan_of_a_delta_table_returns_what_deltalake_reads(
    steps: list[tuple[str, pa.Table, int]], asked: list[Question]
) -> None:
    """After any history of rows, deleted rows and columns, however long ago the last ANALYZE was in it."""
    with TemporaryDirectory() as folder, opened(Path(folder)) as session:
        others = Others(Path(folder), session)
        place = str(others.delta)
        write_deltalake(place, numbered(steps[0][1], 0), partition_by=PARTITIONS)
        session.analyze("delta.w.t")
        # With deletion vectors deltalake reads the table, and writes to it no more.
        in_order = sorted(steps, key=lambda step: step[0] == "vector")
        for number, (step, data, choice) in enumerate(in_order, 1):
            if step == "append":
                write_deltalake(place, numbered(data, number * 100), mode="append", schema_mode="merge")
            elif step == "column":
                wider = numbered(data, number * 100).append_column(f"new{number}", pa.array([choice] * data.num_rows))
                write_deltalake(place, wider, mode="append", schema_mode="merge")
            elif step == "delete":
                DeltaTable(place).delete(f"id % 100 = {choice}")
            elif step == "vector":
                live = pa.table(DeltaTable(place).get_add_actions()).select(["path", "num_records"]).to_pylist()
                for file in live[:choice]:
                    gone = [row for row in range(file["num_records"]) if row % 2 == choice % 2]
                    delta_log.delete_rows(others.delta, file["path"], gone)
            else:
                session.analyze("delta.w.t")
        others.agree("delta.w.t", asked)
        session.analyze("delta.w.t")
        others.agree("delta.w.t", asked)


def sales(start: int, kind: str = "c") -> pa.Table:
    """Four rows."""
    numbers = range(start, start + 4)
    return pa.table({"id": pa.array(numbers, pa.int64()), "n": [n * 2 for n in numbers], "kind": [kind] * 4})


@pytest.fixture
def shop(others: Others) -> Others:
    """An analyzed Iceberg table of two files in two partitions, after a history of one rename."""
    table = others.catalog.create_table("shop.t", sales(0).schema, properties={"format-version": "2"})
    with table.update_spec() as update:
        update.add_identity("kind")
    with table.update_schema() as update:
        update.rename_column("n", "twice")
    for start in (0, 10):
        table.append(sales(start, "cd"[start // 10]).rename_columns(["id", "twice", "kind"]))
    others.session.analyze("lake.shop.t")
    return others


def test_what_is_read_of_an_iceberg_table_is_told(shop: Others) -> None:
    """Files that statistics exclude are skipped; what came or changed since is read, what went is not."""
    scan = shop.session.tables.scan("lake.shop.t", "id > 11")
    told = scan.explain()
    assert (told.used_metastore, told.files.total, told.files.kept, told.read_in_doubt) == (True, 2, 1, [])
    assert scan.to_arrow()["id"].to_pylist() == [12, 13]
    table = shop.iceberg()
    table.append(sales(20).rename_columns(["id", "twice", "kind"]))
    [task] = list(table.scan("id = 10").plan_files())
    delete_files.delete_positions(table, {task.file.file_path: [0, 2]}, task.file.partition)
    scan = shop.session.tables.scan("lake.shop.t", "id < 2 OR id BETWEEN 10 AND 12 OR id = 23")
    assert sorted(scan.explain().read.values()) == ["changed since ANALYZE", "may match", "not analyzed"]
    assert ids(scan.to_arrow()) == [0, 1, 11, 23]
    assert scan.count() == 4
    shop.iceberg().delete("kind = 'c'")
    assert shop.session.tables.scan("lake.shop.t").to_arrow()["id"].to_pylist() == [11, 13]


def test_a_name_that_means_another_column_excludes_nothing(shop: Others) -> None:
    """Statistics of the column that had it are of no use to a question about the one that has it now."""
    table = shop.iceberg()
    for old, new in (("id", "was"), ("twice", "id"), ("was", "twice")):
        with table.update_schema() as update:
            update.rename_column(old, new)
    for _ in range(2):
        scan = shop.session.tables.scan("lake.shop.t", "id = 26")
        assert scan.to_arrow().to_pylist() == [{"twice": 13, "id": 26, "kind": "d"}]
        assert shop.session.tables.aggregate("lake.shop.t", ["max(id)"]).to_pylist() == [{"max(id)": 26}]
        shop.session.analyze("lake.shop.t")
    assert len(shop.session.tables.scan("lake.shop.t", "id = 26").files) == 1


def test_a_column_that_came_since_is_there(shop: Others) -> None:
    """Null where files are older; a column that went is none."""
    table = shop.iceberg()
    with table.update_schema() as update:
        update.add_column("note", StringType())
        update.delete_column("twice")
    table.append(pa.table({"id": [30], "kind": ["c"], "note": ["new"]}, schema=of(table)))
    scan = shop.session.tables.scan("lake.shop.t", "note IS NOT NULL OR id = 1")
    assert sorted(scan.to_arrow().to_pylist(), key=repr) == [
        {"id": 1, "kind": "c", "note": None},
        {"id": 30, "kind": "c", "note": "new"},
    ]
    with pytest.raises(InvalidRequestError, match="twice"):
        shop.session.tables.scan("lake.shop.t", "twice = 2")


def test_deletes_take_no_rows_of_a_file_that_came_after_them(others: Others) -> None:
    """A file that was deleted and added again has its rows back, though a neighbour's delete file names it still."""
    table = others.catalog.create_table("shop.t", sales(0).schema, properties={"format-version": "2"})
    for start in (0, 10):
        table.append(sales(start))
    [again, stays] = sorted((task.file for task in table.scan().plan_files()), key=lambda file: file.lower_bounds[1])
    delete_files.delete_positions(table, {again.file_path: [0, 1], stays.file_path: [3]})
    table.refresh().delete("id < 4")
    others.session.call("prod.system.add_files", schema="shop", table_name="t", files=[again.file_path])
    others.session.analyze("lake.shop.t")
    left = [0, 1, 2, 3, 10, 11, 12]
    assert ids(others.session.tables.scan("lake.shop.t").to_arrow()) == left
    assert ids(others.session.sql("SELECT id FROM prod.shop.t")) == left
    assert others.session.tables.scan("lake.shop.t").count() == 7


def test_deleted_rows_are_not_told_as_rows(shop: Others) -> None:
    """How many are left the metadata does not say: INFORMATION_SCHEMA and the command line leave the number out."""
    assert counts_told(shop.session) == ([8], [4, 4], [8])
    table = shop.iceberg()
    [task] = list(table.scan("id = 10").plan_files())
    delete_files.delete_positions(table, {task.file.file_path: [0, 2]}, task.file.partition)
    shop.session.analyze("lake.shop.t")
    assert counts_told(shop.session) == ([None], [4, None], [None])


def counts_told(session: Session) -> tuple[list[Any], list[Any], list[Any]]:
    """The numbers of rows of TABLES, FILES and `metastore tables`."""
    schema = session.information_schema
    tables = schema.tables(["num_rows"], "table_schema = 'lake.shop'")
    files = schema.files(["num_rows"], "table_schema = 'lake.shop'").sort_by("NUM_ROWS")
    listed_tables = [each.rows for each in explore.tables(session).tables]
    return tables["NUM_ROWS"].to_pylist(), files["NUM_ROWS"].to_pylist(), listed_tables


def test_statistics_answer_without_a_file(shop: Others) -> None:
    """Counts and bounds of whole files, also of text that the partition fixes; under delete files they do not."""
    place = Path(shop.iceberg().location().removeprefix("file://"))
    data = {path: path.read_bytes() for path in place.rglob("*.parquet")}
    for path in data:
        path.unlink()
    asked = ["count(*)", "min(id)", "max(kind)", "count(twice)"]
    found = shop.session.tables.aggregate("lake.shop.t", asked, "kind = 'd'").to_pylist()
    assert found == [{"count(*)": 4, "min(id)": 10, "max(kind)": "d", "count(twice)": 4}]
    with pytest.raises(NotFoundError, match=r"kind=d/.*is gone"):
        shop.session.tables.scan("lake.shop.t", "id > 11").to_arrow()
    for path, content in data.items():
        path.write_bytes(content)
    table = shop.iceberg()
    [task] = list(table.scan("id = 10").plan_files())
    delete_files.delete_positions(table, {task.file.file_path: [0]}, task.file.partition)
    for _ in range(2):
        found = shop.session.tables.aggregate("lake.shop.t", asked, "kind = 'd'").to_pylist()
        assert found == [{"count(*)": 3, "min(id)": 11, "max(kind)": "d", "count(twice)": 3}]
        shop.session.analyze("lake.shop.t")


@pytest.mark.parametrize("asked", ["count(*)", "count(id)", "count(kind)"])
@pytest.mark.parametrize("where", [None, "id >= 0", "kind = 'd'"])
def test_rows_that_are_deleted_elsewhere_are_not_counted(shop: Others, asked: str, where: str | None) -> None:
    """Also when the count is all that is asked, which the statistics of files that are whole answer alone."""
    table = shop.iceberg()
    [task] = list(table.scan("id = 10").plan_files())
    delete_files.delete_positions(table, {task.file.file_path: [0]}, task.file.partition)
    write_deltalake(shop.delta, pa.concat_tables([sales(0), sales(10, "d")]).combine_chunks())
    delta_log.delete_rows(shop.delta, delta_log.actions(shop.delta, "add")[0]["path"], [4])
    expected = 7 if where != "kind = 'd'" else 3
    for name in ("lake.shop.t", "delta.w.t"):
        shop.session.analyze(name)
        assert shop.session.tables.aggregate(name, [asked], where).to_pylist() == [{asked: expected}]
        assert shop.session.tables.scan(name, where).count() == expected


@pytest.mark.exhaustive
def test_every_library_gets_the_same_rows(shop: Others) -> None:
    """With questions that Arrow judges, and that DuckDB has to; in SQL, too."""
    for where, expected in (("id > 11", [12, 13]), ("abs(id) = 3 OR kind LIKE '%d'", [3, 10, 11, 12, 13])):
        scan = shop.session.tables.scan("lake.shop.t", where, ["id"], list_files=where == "id > 11")
        assert ids(scan.to_arrow()) == expected
        assert sorted(scan.to_duckdb().fetchall()) == [(n,) for n in expected]
        assert sorted(scan.to_polars()["id"].to_list()) == expected
        assert ids(scan.to_arrow_dataset().to_table()) == expected
        assert ids(scan.to_reader().read_all()) == expected
        told = shop.session.sql(f"SELECT id FROM lake.shop.t WHERE {where} ORDER BY id")
        assert told["id"].to_pylist() == expected


def test_rarer_types_keep_their_values(others: Others) -> None:
    """UUIDs and fixed bytes are bytes; lists, maps and times are what they are."""
    fields: list[tuple[str, pa.DataType]] = [
        ("u", pa.binary(16)),
        ("t", pa.time64("us")),
        ("l", pa.list_(pa.struct([("a", pa.int32())]))),
        ("m", pa.map_(pa.string(), pa.int64())),
    ]
    schema = pa.schema(fields)
    values: list[dict[str, Any]] = [
        {"u": b"\xff" * 16, "t": time(12, 30, 0, 1), "l": [{"a": 1}, None], "m": [("k", 1)]},
        {"u": None, "t": None, "l": None, "m": None},
        {"u": b"\x00" * 16, "t": time(0), "l": [], "m": []},
    ]
    table = others.catalog.create_table("shop.t", schema)
    table.append(pa.Table.from_pylist(values, schema))
    others.session.analyze("lake.shop.t")
    scan = others.session.tables.scan("lake.shop.t", "t > TIME '01:00:00' OR u IS NULL")
    assert listed(scan.to_arrow()) == listed(others.all_rows("lake.shop.t").slice(0, 2))
    assert scan.to_arrow()["u"].to_pylist() == [b"\xff" * 16, None]


def test_a_broken_file_is_named(shop: Others) -> None:
    """Also where files are read together."""
    table = shop.iceberg()
    with table.update_spec() as update:
        update.remove_field("kind")
    for start in (20, 30):
        table.append(sales(start).rename_columns(["id", "twice", "kind"]))
    latest = [task.file for task in table.scan("id >= 20").plan_files()]
    delete_files.delete_positions(table, {file.file_path: [0] for file in latest}, latest[0].partition)
    scan = shop.session.tables.scan("lake.shop.t", "id >= 20")
    assert ids(scan.to_arrow()) == [21, 22, 23, 31, 32, 33]
    broken = sorted(file.file_path.removeprefix("file://") for file in latest)[1]
    Path(broken).write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(FormatError, match=broken):
        shop.session.tables.scan("lake.shop.t", "id >= 20").to_arrow()


@pytest.mark.parametrize("which", [0, 1])
def test_a_broken_file_of_delta_is_named(others: Others, which: int) -> None:
    """By what is wrong: its content, or that it is gone."""
    for start in (10, 20):
        write_deltalake(others.delta, sales(start), mode="append")
    others.session.analyze("delta.w.t")
    paths = sorted(others.delta.glob("*.parquet"))
    assert len(others.session.tables.scan("delta.w.t").to_arrow()) == 2 * len(sales(0))
    broken = paths[which]
    broken.write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(FormatError, match=broken.name):
        others.session.tables.scan("delta.w.t").to_arrow()
    broken.unlink()
    with pytest.raises(NotFoundError, match=rf"{broken.name}.* is gone since the scan was planned"):
        others.session.tables.scan("delta.w.t").to_arrow()


def test_a_file_with_values_that_do_not_fit_is_named(shop: Others) -> None:
    """Of two that are read together: its ids are more than a byte holds."""
    table = shop.iceberg()
    table.append(sales(1000).rename_columns(["id", "twice", "kind"]))
    tasks = {task.file.file_path: task for task in table.scan().plan_files()}
    [large] = [task.file.file_path for task in table.scan("id >= 1000").plan_files()]
    reader = IcebergRows.of_tasks(table.metadata, table.io, tasks)
    with pytest.raises(FormatError, match=large):
        list(reader.rows(list(tasks), pa.schema([("id", pa.int8())]), threads=False))


@pytest.mark.exhaustive
def test_rows_that_cannot_be_had_in_the_types_asked_for_are_an_error(shop: Others) -> None:
    """Of the table, for its files are as they should be."""
    chunk = shop.session.tables.scan("lake.shop.t", columns=["kind"]).chunk
    with pytest.raises(FormatError, match=f"^rows of {chunk.location} cannot be read as requested"):
        list(read_rows(replace(chunk, types=pa.schema([("kind", pa.int64())]))))


def test_what_cannot_be_read_is_refused(shop: Others, tmp_path: Path) -> None:
    """With what to do: row ids, tables of databases."""
    tables = shop.session.tables
    for refused in (
        lambda: tables.scan("lake.shop.t", row_id=True),
        lambda: tables.scan("lake.shop.t", exclude=[]),
        lambda: tables.rows_by_id("lake.shop.t", []),
    ):
        with pytest.raises(InvalidRequestError, match="no row ids"):
            refused()
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS id")
    database.close()
    shop.session.analyze("db.main.t")
    with pytest.raises(InvalidRequestError, match="JDBC"):
        tables.scan("db.main.t")


def test_equality_deletes_of_an_iceberg_table(shop: Others) -> None:
    """Rows, counts and statistics are those that are left, before the table is analyzed anew and after."""
    before = shop.session.tables.scan("lake.shop.t").to_arrow().num_rows
    table = shop.iceberg()
    [task] = list(table.scan("id = 10").plan_files())
    keys = delete_files.with_ids(pa.table({"id": pa.array([10], pa.int64())}), table.schema().find_field("id").field_id)
    delete_files.delete_equal(table, keys, [table.schema().find_field("id").field_id], task.file.partition)
    for _ in range(2):
        found = shop.session.tables.scan("lake.shop.t").to_arrow()
        assert 10 not in found["id"].to_pylist()
        assert found.num_rows == before - 1
        assert shop.session.tables.scan("lake.shop.t", "id = 10").to_arrow().num_rows == 0
        shop.session.analyze("lake.shop.t")


def test_delta_columns_are_found_by_their_mapping(others: Others) -> None:
    """Names mean what the log says, in files, in statistics and inside structs and lists, and so do partitions."""
    content = pa.table(
        {
            "a": [1, 2, 3, 4],
            "b": [10, 20, 30, 40],
            "c": [{"x": 1, "y": "p"}, None, {"x": 3, "y": None}, {"x": 4, "y": "q"}],
            "e": [[{"z": 5}], None, [], [{"z": 6}, None]],
        }
    )
    others.delta.mkdir(parents=True)
    for name in ("1", "2"):
        pq.write_table(content, others.delta / f"{name}.parquet")
    columns = [
        delta_log.mapped("b", "a", 1, "long"),
        delta_log.mapped("a", "b", 2, "long"),
        delta_log.mapped("st", "c", 3, struct_of(("y", "x", 4, "long"), ("x", "y", 5, "string"))),
        delta_log.mapped(
            "c", "e", 6, {"type": "array", "elementType": struct_of(("q", "z", 7, "long")), "containsNull": True}
        ),
        delta_log.mapped("part", "col-8", 8, "integer"),
    ]
    known = {
        "numRecords": 4,
        "minValues": {"a": 1, "b": 10, "c": {"x": 1, "y": "p"}},
        "maxValues": {"a": 4, "b": 40, "c": {"x": 4, "y": "q"}},
        "nullCount": {"a": 0, "b": 0, "c": {"x": 1, "y": 2}},
    }
    mapping = delta_log.table_of(columns, ["part"], columnMapping_mode="name", columnMapping_maxColumnId="8")
    files = [
        delta_log.added(others.delta, f"{n}.parquet", known, **{"col-8": part}) for n, part in ((1, "7"), (2, None))
    ]
    delta_log.commit(others.delta, delta_log.upgraded("columnMapping", "deletionVectors"), mapping, *files)
    tables = others.session.tables
    others.session.analyze("delta.w.t")
    for _ in range(2):
        assert listed(tables.scan("delta.w.t").to_arrow()) == listed(others.all_rows("delta.w.t"))
        assert tables.scan("delta.w.t", "a = 40 AND part = 7", ["b"]).to_arrow()["b"].to_pylist() == [4]
        assert tables.scan("delta.w.t", "part IS NULL", ["part"]).count() == 4
        delta_log.delete_rows(others.delta, "1.parquet", [0, 2])
        others.session.analyze("delta.w.t")
    assert tables.scan("delta.w.t", "a = 4").files == []
    assert len(tables.scan("delta.w.t", "a = 40 AND st.y = 4").files) == 2
    assert tables.aggregate("delta.w.t", ["max(a)", "count(*)"]).to_pylist() == [{"max(a)": 40, "count(*)": 6}]
    delta_log.commit(others.delta, delta_log.table_of(columns, ["part"], columnMapping_mode="id"))
    with pytest.raises(FormatError, match="no field ids"):
        tables.scan("delta.w.t").to_arrow()
    delta_log.commit(others.delta, delta_log.upgraded("columnMapping", "deletionVectors", "typeWidening"), mapping)
    with pytest.raises(InvalidRequestError, match="TypeWidening"):
        tables.scan("delta.w.t").to_arrow()


def struct_of(*fields: tuple[str, str, int, str]) -> dict[str, Any]:
    """A struct of mapped columns."""
    return {"type": "struct", "fields": [delta_log.mapped(*field) for field in fields]}


def test_delta_keeps_decimals_as_doubles(others: Others) -> None:
    """Bounds that a writer has rounded exclude no row, and are not told as values."""
    values = [Decimal("1234567890123456.78"), Decimal("1234567890123456.79"), Decimal("-9876543210987654.32")]
    for value in values:
        data = pa.table({"dec": pa.array([value], pa.decimal128(18, 2))})
        write_deltalake(str(others.delta), data, mode="append")
    others.session.analyze("delta.w.t")
    for value in values:
        assert others.session.tables.scan("delta.w.t", f"dec = {value}").to_arrow()["dec"].to_pylist() == [value]
    found = others.session.tables.aggregate("delta.w.t", ["min(dec)", "max(dec)"]).to_pylist()
    assert found == [{"min(dec)": min(values), "max(dec)": max(values)}]


@pytest.mark.parametrize(("keys", "scheme"), [("deltalake", "s3"), ("hadoop", "s3a"), ("pyiceberg", "s3n")])
def test_tables_in_an_object_store_are_read(keys: str, scheme: str, s3_server: S3Server, tmp_path: Path) -> None:
    """PyIceberg opens the files by the keys of the catalog, deltalake those of Delta by the plugin's; in tasks, too."""
    bucket = f"lake-of-others-{keys}"
    s3_server.create(bucket)
    options = {
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    properties = {
        "s3.endpoint": s3_server.endpoint,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.region": "us-east-1",
    }
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"s3://{bucket}/w", **properties}
    spelled = {"deltalake": options, "hadoop": s3_server.hadoop(s3_server.endpoint), "pyiceberg": properties}[keys]
    quoted = {f'"{key}"': value for key, value in spelled.items()}
    place = {"connection": f"{scheme}://{bucket}", "workspaces.w.location": "/d", "config": quoted}
    given = {
        "drill.metastore.iceberg.location": {"base_path": str(tmp_path), "relative_path": "metastore"},
        "drill.metastore.catalogs.prod": catalog,
        "drill.metastore.storage": {
            "lake": {"type": "iceberg", "catalog": "prod"},
            "delta": {"type": "delta", **place},
        },
    }
    with connect(Settings.from_mapping(given, environ={})) as session:
        session.catalogs.open("prod").create_namespace("shop")
        session.catalogs.open("prod").create_table("shop.t", sales(0).schema).append(sales(0, "a b/ü"))
        url = f"s3://{bucket}/d/t"
        write_deltalake(url, sales(0, "a b/ü"), partition_by=["kind"], storage_options=options)
        for name in ("lake.shop.t", "delta.w.t"):
            session.analyze(name)
            scan = session.tables.scan(name, "id > 1 AND kind = 'a b/ü'")
            travelled = pickle.loads(pickle.dumps(scan.chunk))  # noqa: S301 - our own
            assert ids(scan.to_arrow()) == ids(pa.Table.from_batches(read_rows(travelled))) == [2, 3]
            assert SECRET_KEY not in repr(scan.chunk)


def test_files_of_delta_tables_have_the_times_of_its_log(others: Others) -> None:
    """At every door, with and without a listing; a condition on the time leaves the files of that time."""
    for start in (0, 10):
        write_deltalake(str(others.delta), pa.table({"id": [start, start + 1]}), mode="append")
    actions = pa.table(DeltaTable(str(others.delta)).get_add_actions()).to_pylist()
    moments = {action["path"]: EPOCH_UTC + timedelta(milliseconds=action["modification_time"]) for action in actions}
    assert len(moments) == 2
    others.session.analyze("delta.w.t")
    found = others.session.sql('SELECT filename, "$file_modified_time" AS t FROM delta.w.t').to_pylist()
    assert {row["filename"]: row["t"] for row in found} == moments
    name, last = max(moments.items(), key=lambda each: each[1])
    condition = f"`$file_modified_time` >= TIMESTAMP '{last:%Y-%m-%d %H:%M:%S.%f}'"
    kept = [path for path, moment in moments.items() if moment >= last]
    for listed in (True, False):
        scan = others.session.tables.scan("delta.w.t", condition, ["filename"], list_files=listed, time_zone="UTC")
        assert [PurePath(file.path).name for file in scan.files] == kept
        assert set(scan.to_arrow()["filename"].to_pylist()) == set(kept)
    assert [PurePath(path).name for path in others.session.prune("delta.w.t", condition, time_zone="UTC").paths] == kept
    assert name in kept


@pytest.mark.parametrize("name", ["lake.shop.t", "delta.w.t"])
def test_rows_have_the_paths_of_their_files(others: Others, name: str) -> None:
    """As many rows of each file as it has by itself, also where position deletes and neighbours are read together."""
    first, second = (pa.table({"id": [start, start + 1], "filepath": ["own", "own"]}) for start in (0, 10))
    if name == "lake.shop.t":
        table = others.session.catalogs.open("prod").create_table("shop.t", first.schema)
        for rows in (first, second):
            table.append(rows)
    else:
        for rows in (first, second):
            write_deltalake(str(others.delta), rows, mode="append")
    others.session.analyze(name)
    found = others.session.sql(f'SELECT id, "$path" AS p, filename, fqn, filepath FROM {name}').to_pylist()
    assert {row["filepath"] for row in found} == {"own"}, "a column of the table hides the pseudo column"
    by_file: dict[str, list[int]] = {}
    for row in found:
        assert row["fqn"] == row["p"].removeprefix("file://")
        assert row["fqn"].endswith(f"/{row['filename']}")
        by_file.setdefault(row["fqn"], []).append(row["id"])
    assert by_file == {path: pq.ParquetFile(path).read(["id"])["id"].to_pylist() for path in by_file}
    assert sorted(map(sorted, by_file.values())) == [[0, 1], [10, 11]]
    [path] = [row["filename"] for row in found if row["id"] == 11]
    scan = others.session.tables.scan(name, f"filename = '{path}'", ["id"])
    assert (len(scan.files), scan.count(), ids(scan.to_arrow())) == (1, 2, [10, 11])
    # What the file says alone: no column is read beside it, and there are as many rows.
    alone: list[Any] = others.session.sql(f"SELECT filename FROM {name}")["filename"].to_pylist()
    assert sorted(alone) == sorted(row["filename"] for row in found)
    untold = [("$file_modified_time", "the store")] if name == "lake.shop.t" else []
    for missing, hint in (("$partition", "its partition columns"), *untold):
        with pytest.raises(InvalidRequestError, match=f"there is no column .{missing[1:]}.*{hint}"):
            others.session.sql(f'SELECT "{missing}" FROM {name}')
        with pytest.raises(InvalidRequestError, match=f"there is no column .{missing[1:]}.*{hint}"):
            others.session.tables.scan(name, f"`{missing}` IS NULL")
