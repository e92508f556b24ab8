"""INSERT, DELETE, UPDATE, MERGE and TRUNCATE change a table of a catalog as DuckDB changes its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StructType
from support.delete_files import delete_equal, delete_positions, with_ids
from support.row_statements import COLUMNS, PARTITIONINGS, REFUSED, ROWS, STATEMENTS

from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError, OutcomeUnknownError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.rows.scan_tasks import scan_tasks
from metastore.session import Session

TABLE = "lake.db.t"
TEXT: pa.DataType = pa.string()
INNER: list[pa.Field[Any]] = [pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.int32())]
PAIR: pa.DataType = pa.struct(INNER)


@pytest.fixture
def session(bare: Session) -> Session:
    """With the schema ``lake.db``, which is empty."""
    bare.sql("CREATE SCHEMA lake.db")
    return bare


def made(session: Session, clauses: str = "", name: str = "t") -> None:
    """Create the table."""
    session.sql(f"CREATE TABLE lake.db.{name} ({COLUMNS.replace('VARCHAR[]', 'ARRAY(VARCHAR)')}) {clauses}")


def modes(mode: str) -> str:
    """The properties that say how rows change."""
    return ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))


def change(session: Session, statement: str) -> dict[str, Any]:
    """What a statement says that it did."""
    [row] = session.sql(statement).to_pylist()
    return dict(row)


def loaded(session: Session, name: str = "t") -> Table:
    """The table as PyIceberg has it."""
    return session.catalogs.open("lake").load_table(f"db.{name}")


def texts(rows: pa.Table) -> list[str]:
    """Rows that compare whatever their order, NaN too."""
    return sorted(map(repr, rows.to_pylist()))


def files_of(folder: Path) -> set[Path]:
    """Every file of the lake, but those that only metadata of earlier versions may name."""
    return {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".db"}


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(PARTITIONINGS),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["copy-on-write", "merge-on-read"]),
    st.lists(STATEMENTS, min_size=1, max_size=4),
    st.integers(0, 1 << 60),
)
def test_a_table_changes_as_in_duckdb(
    session: Session, partitioned: str, version: int, mode: str, statements: list[str], number: int
) -> None:
    """Whatever partitioning, version and mode; rows and counts are equal, and PyIceberg reads the same."""
    name = f"t{number}"
    session.sql(f"DROP TABLE IF EXISTS lake.db.{name}")
    made(session, f"{partitioned} TBLPROPERTIES ('format-version' = {version}, {modes(mode)})", name)
    with duckdb.connect() as judge:
        judge.execute("SET TimeZone = 'UTC'")
        judge.execute(f"CREATE TABLE {name} ({COLUMNS})")
        for statement in [f"INSERT INTO {{t}} VALUES {ROWS}", *statements]:
            counts = judge.execute(statement.format(t=name, n=name)).fetchone()
            told = change(session, statement.format(t=f"lake.db.{name}", n=name))
            assert counts is not None
            assert told["inserted"] + told["updated"] + told["deleted"] == counts[0], statement
            expected = texts(judge.sql(f"SELECT * FROM {name}").to_arrow_table())
            assert texts(session.sql(f"SELECT * FROM lake.db.{name}")) == expected, statement
            assert loaded(session, name).scan().to_arrow().num_rows == len(expected)
            current = loaded(session, name).current_snapshot()
            assert current is not None
            assert current.summary is not None
            tasks = list(loaded(session, name).scan().plan_files())
            assert current.summary["total-records"] == str(sum(task.file.record_count for task in tasks))
            assert mode == "merge-on-read" or current.summary["total-records"] == str(len(expected))
            assert version > 1 or not any(task.delete_files for task in tasks)


@pytest.mark.parametrize(("statement", "message"), REFUSED)
def test_a_statement_that_fails_leaves_nothing(session: Session, tmp_path: Path, statement: str, message: str) -> None:
    """No file, no snapshot, and a message that says line and column."""
    made(session)
    change(session, f"INSERT INTO {TABLE} VALUES {ROWS}")
    before, files = loaded(session).metadata_location, files_of(tmp_path / "lake")
    with pytest.raises((InvalidRequestError, NotFoundError)) as refused:
        session.sql(statement.format(t=TABLE))
    assert message in str(refused.value)
    assert str(refused.value).startswith("line ")
    assert loaded(session).metadata_location == before
    assert files_of(tmp_path / "lake") == files


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {t} (k) VALUES ('x')",
        "INSERT INTO {t} (id, k, s) VALUES (1, 'x', {'a': NULL, 'b': 1})",
        "UPDATE {t} SET id = NULL WHERE k = 'a'",
        "MERGE INTO {t} USING (SELECT 5 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (k) VALUES ('x')",
    ],
)
def test_a_required_column_takes_no_null(session: Session, tmp_path: Path, statement: str) -> None:
    """At the top, and inside of a struct."""
    table = session.catalogs.open("lake").create_table(
        "db.t",
        pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("k", TEXT),
                pa.field("s", PAIR),
            ]
        ),
    )
    change(session, f"INSERT INTO {TABLE} VALUES (1, 'a', {{'a': 2, 'b': 3}}), (2, 'b', {{'a': 1, 'b': NULL}})")
    files = files_of(tmp_path / "lake")
    with pytest.raises(InvalidRequestError, match="is required: 1 rows have no value"):
        session.sql(statement.replace("{t}", TABLE))
    assert files_of(tmp_path / "lake") == files
    assert table.refresh().scan().to_arrow().num_rows == 2


def test_a_null_struct_may_have_required_fields(session: Session) -> None:
    """It is written by every statement, and by a rewrite of files that lack the column."""
    session.catalogs.open("lake").create_table("db.t", pa.schema([pa.field("id", pa.int64()), pa.field("s", PAIR)]))
    session.sql(f"INSERT INTO {TABLE} (id) VALUES (1)")
    session.sql(f"INSERT INTO {TABLE} VALUES (2, {{'a': 5, 'b': NULL}}), (3, NULL), (4, {{'a': 6, 'b': NULL}})")
    session.sql(f"UPDATE {TABLE} SET s = NULL WHERE id = 4")
    with loaded(session).update_schema() as update:
        update.add_column("late", StructType(NestedField(9, "a", LongType(), required=True)))
    session.sql(
        "CALL lake.system.rewrite_data_files(table => 'db.t', options => MAP(ARRAY['rewrite-all'], ARRAY['true']))"
    )
    found = loaded(session).scan().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": n, "s": {"a": 5, "b": None} if n == 2 else None, "late": None} for n in (1, 2, 3, 4)]


def test_only_files_with_changed_rows_are_written_anew(session: Session) -> None:
    """The others stay as they are; a file that loses all of its rows goes without a successor."""
    made(session, f"PARTITIONED BY (k) TBLPROPERTIES ({modes('copy-on-write')})")
    change(session, f"INSERT INTO {TABLE} VALUES {ROWS}")
    before = {task.file.file_path for task in loaded(session).scan().plan_files()}
    assert len(before) == 4
    assert change(session, f"DELETE FROM {TABLE} WHERE k = 'b'")["deleted"] == 1
    after = {task.file.file_path for task in loaded(session).scan().plan_files()}
    assert after < before
    assert len(after) == 3
    current = loaded(session).current_snapshot()
    assert current is not None
    assert current.summary is not None
    assert current.summary.operation.value == "delete"
    assert change(session, f"UPDATE {TABLE} SET n = 0 WHERE k = 'a' AND id = 1")["updated"] == 1
    assert len(after & {task.file.file_path for task in loaded(session).scan().plan_files()}) == 2


@pytest.mark.parametrize("statement", [f"DELETE FROM {TABLE}", f"TRUNCATE TABLE {TABLE}"])
def test_everything_goes_without_reading_a_data_file(session: Session, tmp_path: Path, statement: str) -> None:
    """The data files are gone from the disk before, and the statement does not notice."""
    made(session)
    change(session, f"INSERT INTO {TABLE} VALUES {ROWS}")
    for path in (tmp_path / "lake").rglob("*.parquet"):
        path.unlink()
    assert change(session, statement)["deleted"] == 5
    assert session.sql(f"SELECT count(*) AS n FROM {TABLE}").to_pylist() == [{"n": 0}]


def with_deletes(session: Session) -> list[str]:
    """A table with position and equality deletes, old columns, files of two specs; its rows by id."""
    session.sql(f"CREATE TABLE {TABLE} (id BIGINT, k VARCHAR, n INTEGER) PARTITIONED BY (k)")
    change(session, f"INSERT INTO {TABLE} SELECT i, ['a', 'b'][i % 2 + 1], i FROM range(20) r(i)")
    table = loaded(session)
    [first, _] = sorted(table.scan().plan_files(), key=lambda task: str(task.file.partition[0]))
    delete_positions(table, {first.file.file_path: [0, 3]}, first.file.partition)
    keys = with_ids(pa.table({"id": pa.array([4, 5], pa.int64())}), 1)
    delete_equal(table.refresh(), keys, [1], Record("a"))
    session.sql(f"ALTER TABLE {TABLE} RENAME COLUMN n TO m")
    session.sql(f"ALTER TABLE {TABLE} ADD COLUMN extra DOUBLE")
    session.sql(f"ALTER TABLE {TABLE} REPLACE PARTITION FIELD k WITH bucket(2, id)")
    change(session, f"INSERT INTO {TABLE} VALUES (4, 'a', 4, 0.5), (100, NULL, 1, NULL)")
    return [*map(str, session.sql(f"SELECT * FROM {TABLE}").to_pylist())]


MERGED = (
    "MERGE INTO {t} AS t USING (SELECT range AS id FROM range(3, 30, 5)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET extra = 1.5 WHEN NOT MATCHED THEN INSERT (id, m) VALUES (s.id, -1)"
)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {t} WHERE m % 3 = 0",
        "UPDATE {t} SET m = m + 1000, k = 'c' WHERE id > 3 AND id < 12",
        "UPDATE {t} SET extra = id",
        MERGED,
        "DELETE FROM {t}",
    ],
)
def test_rows_that_were_deleted_stay_so(session: Session, statement: str) -> None:
    """Deletes of both kinds, evolved columns and partitions: as DuckDB has it over the live rows."""
    assert len(with_deletes(session)) == 19
    with duckdb.connect() as judge:
        held = session.sql(f"SELECT * FROM {TABLE}")
        judge.from_arrow(held).create("t")
        judge.execute(statement.format(t="t"))
        change(session, statement.format(t=TABLE))
        assert texts(session.sql(f"SELECT * FROM {TABLE}")) == texts(judge.sql("FROM t").to_arrow_table())
    spec = loaded(session).spec().spec_id
    table = loaded(session)
    added = {task.file.spec_id for task in scan_tasks(table.metadata, table.io) if not task.delete_files}
    assert added <= {spec, 0}


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_of_a_large_file_are_found_by_their_numbers(session: Session, mode: str) -> None:
    """A file that is read in several batches: what goes, what changes, and the order of the rest."""
    session.sql(f"CREATE TABLE {TABLE} TBLPROPERTIES ({modes(mode)}) AS SELECT i AS id, i AS n FROM range(300000) r(i)")
    session.sql(
        f"MERGE INTO {TABLE} AS t USING (SELECT range AS id FROM range(0, 300000, 7)) s ON t.id = s.id "
        "WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET n = -s.id"
    )
    expected = [(i, -i if i % 7 == 0 else i) for i in range(300000) if i % 14]
    found = loaded(session).scan().to_arrow()
    found = found if mode == "copy-on-write" else found.sort_by("id")
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == expected


@pytest.mark.parametrize(
    ("column", "value"),
    [("a BIGINT", "-9223372036854775808"), ("a INTEGER", "-2147483648"), ("a DECIMAL(5, 4)", "-9.9999")],
)
def test_a_partition_value_that_does_not_fit_is_refused(
    session: Session, tmp_path: Path, column: str, value: str
) -> None:
    """Truncation of the smallest numbers leaves the range of the type; nothing is written, nor distributed to tasks."""
    session.sql(f"CREATE TABLE {TABLE} ({column}) PARTITIONED BY (truncate(10, a))")
    files = files_of(tmp_path / "lake")
    with pytest.raises(InvalidRequestError, match=rf"truncate\[10\] of {value} is below the smallest"):
        session.sql(f"INSERT INTO {TABLE} VALUES ({value})")
    assert files_of(tmp_path / "lake") == files


def test_new_files_are_sorted_as_the_table_says(session: Session) -> None:
    """By its sort order, which the entries name."""
    session.sql(f"CREATE TABLE {TABLE} (id BIGINT, k VARCHAR) WITH (sorted_by = ARRAY['id DESC NULLS LAST'])")
    session.sql(f"ALTER TABLE {TABLE} SET PROPERTIES {modes('copy-on-write')}")
    change(session, f"INSERT INTO {TABLE} SELECT (i * 7) % 11, 'x' FROM range(11) r(i)")
    change(session, f"UPDATE {TABLE} SET id = NULL WHERE id = 5")
    [task] = loaded(session).scan().plan_files()
    assert task.file.sort_order_id == 1
    ids = loaded(session).scan().to_arrow().column("id").to_pylist()
    assert ids == [10, 9, 8, 7, 6, 4, 3, 2, 1, 0, None]


@pytest.mark.integration
def test_statements_at_the_same_time_happen_one_after_another(session: Session) -> None:
    """No increment is lost, and no row that was inserted meanwhile."""
    made(session)
    change(session, f"INSERT INTO {TABLE} (id, n) VALUES (1, 0)")

    def increment(_: int) -> int:
        return int(change(session, f"UPDATE {TABLE} SET n = n + 1 WHERE id = 1")["updated"])

    def insert(number: int) -> int:
        return int(change(session, f"INSERT INTO {TABLE} (id, n) VALUES ({number + 10}, 0)")["inserted"])

    with ThreadPoolExecutor(4) as threads:
        done = [*threads.map(increment, range(6)), *threads.map(insert, range(6))]
    assert done == [1] * 12
    assert session.sql(f"SELECT max(n) AS n, count(*) AS c FROM {TABLE}").to_pylist() == [{"n": 6, "c": 7}]
    history = loaded(session).metadata.snapshots
    assert len(history) == 13


def test_an_insert_reads_the_version_that_it_began_with(session: Session) -> None:
    """A table may be doubled by itself; a version of before is read as such."""
    made(session)
    first = change(session, f"INSERT INTO {TABLE} VALUES {ROWS}")["snapshot_id"]
    for _ in range(2):
        change(session, f"INSERT INTO {TABLE} SELECT * FROM {TABLE}")
    change(session, f"DELETE FROM {TABLE} WHERE id NOT IN (SELECT id FROM {TABLE} FOR VERSION AS OF {first})")
    change(session, f"INSERT INTO {TABLE} SELECT * FROM {TABLE} FOR VERSION AS OF {first}")
    assert session.sql(f"SELECT count(*) AS n FROM {TABLE}").to_pylist() == [{"n": 25}]


def test_a_statement_that_changes_nothing_makes_no_snapshot(session: Session) -> None:
    """It says so by NULL."""
    made(session)
    change(session, f"INSERT INTO {TABLE} VALUES {ROWS}")
    for statement in (
        "DELETE FROM {t} WHERE id = 77",
        "UPDATE {t} SET n = 1 WHERE NULL",
        "INSERT INTO {t} FROM {t} LIMIT 0",
    ):
        told = change(session, statement.format(t=TABLE))
        assert told == {"inserted": 0, "updated": 0, "deleted": 0, "snapshot_id": None, "engine": "local"}
    assert len(loaded(session).metadata.snapshots) == 1


def test_types_are_widened(session: Session) -> None:
    """Whole numbers, decimals, days, times without a zone; a column that is not named is NULL."""
    session.sql(
        f"CREATE TABLE {TABLE} (l BIGINT, d DOUBLE, e DECIMAL(5, 3), t TIMESTAMP, z TIMESTAMPTZ, u UUID, b VARBINARY)"
    )
    change(
        session,
        f"INSERT INTO {TABLE} BY NAME SELECT 3::TINYINT AS l, 1.25 AS d, 7::BIGINT AS e, DATE '2020-01-01' AS t, "
        "TIMESTAMP '2020-01-01' AS z, '00000000-0000-0000-0000-000000000001'::UUID AS u",
    )
    [row] = session.sql(f"SELECT * EXCLUDE (z), epoch(z) AS z FROM {TABLE}").to_pylist()
    assert row["t"] == datetime(2020, 1, 1)
    assert (row["l"], row["d"], str(row["e"]), row["z"], row["b"]) == (3, 1.25, "7.000", 1577836800.0, None)
    assert str(row["u"]).endswith("0001")


FAILING = [
    f"INSERT INTO {TABLE} (id) SELECT error('no') FROM range(3)",
    f"UPDATE {TABLE} SET k = error('no')",
    f"DELETE FROM {TABLE} WHERE error('no')",
]


@pytest.mark.parametrize("statement", FAILING)
def test_a_query_that_fails_changes_nothing(session: Session, tmp_path: Path, statement: str) -> None:
    """The error names the place in the statement, and no file is left."""
    made(session)
    change(session, f"INSERT INTO {TABLE} VALUES {ROWS}")
    files = files_of(tmp_path / "lake")
    with pytest.raises(MetastoreError, match=r"^line 1, column \d+: .*no"):
        session.sql(statement)
    assert files_of(tmp_path / "lake") == files


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError, OutcomeUnknownError])
@pytest.mark.parametrize(
    ("statement", "ids"),
    [
        (f"INSERT INTO {TABLE} (id) VALUES (9)", "t"),
        (f"UPDATE {TABLE} SET k = 'z' WHERE id = 1", "t"),
        ("CREATE TABLE lake.db.made AS SELECT 9 AS id", "made"),
    ],
)
def test_what_may_have_been_committed_is_not_deleted(
    session: Session, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException], statement: str, ids: str
) -> None:
    """The commit lands, and an interruption or a fault comes before its answer: every file of the snapshot stands."""
    made(session)
    session.sql(f"INSERT INTO {TABLE} VALUES {ROWS}")
    commit = TargetTable.commit

    def landed_in_silence(*arguments: Any) -> Table:
        commit(*arguments)
        raise failure("after the commit")

    with monkeypatch.context() as patched:
        patched.setattr(TargetTable, "commit", landed_in_silence)
        with pytest.raises(failure, match="after the commit"):
            session.sql(statement)
    table = loaded(session, ids)
    assert len(table.metadata.snapshots) == (1 if ids == "made" else 2)
    assert table.scan().to_arrow().num_rows == session.sql(f"SELECT id FROM lake.db.{ids}").num_rows > 0


@pytest.mark.parametrize(
    ("condition", "unread"),
    [
        ("k = 'a'", "a"),
        ("k IN ('a', 'b') AND NOT (k = 'b')", "a"),
        ("k <> 'a'", "bc"),
        ("k < 'b' OR n = 3", "a"),
        ("NOT (k = 'b' AND n = 5)", "ac"),
        ("k = 'a' AND n = 1", ""),
        ("n IS NOT NULL", ""),
        ("lower(k) = 'a'", ""),
        ("try_cast(k AS INTEGER) IS NULL", ""),
        ("k = NULL OR k = 'a'", ""),
        ("k = (SELECT 'a')", ""),
    ],
)
def test_deleting_whole_partitions_reads_none_of_their_files(session: Session, condition: str, unread: str) -> None:
    """Their files may even be gone; whatever the condition, the rows are those that DuckDB would delete."""
    session.sql(f"CREATE TABLE {TABLE} (k VARCHAR, n INTEGER) PARTITIONED BY (k)")
    rows = "('a', 1), ('a', NULL), ('b', 5), ('b', NULL), ('c', 3), (NULL, 1), (NULL, NULL)"
    session.sql(f"INSERT INTO {TABLE} VALUES {rows}")
    table = loaded(session)
    for task in table.scan().plan_files():
        if task.file.partition[0] in list(unread):
            Path(task.file.file_path.removeprefix("file://")).unlink()
    [counts] = session.sql(f"DELETE FROM {TABLE} WHERE {condition}").to_pylist()
    with duckdb.connect() as judge:
        judge.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {rows}) v(k, n)")
        [(deleted,)] = judge.execute(f"DELETE FROM t WHERE {condition}").fetchall()
        left = judge.execute("SELECT * FROM t").fetchall()
    assert counts["deleted"] == deleted
    found = [tuple(row.values()) for row in session.sql(f"SELECT k, n FROM {TABLE}").to_pylist()]
    assert sorted(found, key=repr) == sorted(left, key=repr)


@pytest.mark.parametrize("transform", ["truncate(1, k)", "bucket(4, k)"])
def test_a_partition_that_a_condition_covers_in_part(session: Session, transform: str) -> None:
    """A transform that puts several values together covers only what all of them satisfy."""
    session.sql(f"CREATE TABLE {TABLE} (k VARCHAR, n INTEGER) PARTITIONED BY ({transform})")
    session.sql(f"INSERT INTO {TABLE} VALUES ('aa', 1), ('ab', 2), ('ba', 3)")
    session.sql(f"DELETE FROM {TABLE} WHERE k = 'aa'")
    session.sql(f"DELETE FROM {TABLE} WHERE k >= 'b'")
    assert session.sql(f"SELECT k FROM {TABLE}")["k"].to_pylist() == ["ab"]


def test_a_covered_file_with_position_deletes_is_read(session: Session) -> None:
    """How many rows it still has is not known otherwise."""
    session.sql(f"CREATE TABLE {TABLE} (k VARCHAR, n INTEGER) PARTITIONED BY (k)")
    session.sql(f"INSERT INTO {TABLE} VALUES ('a', 1), ('a', 2), ('b', 3)")
    table = loaded(session)
    [path] = [each.file.file_path for each in table.scan().plan_files() if each.file.partition[0] == "a"]
    for _ in range(2):
        delete_positions(loaded(session), {path: [0]}, Record("a"))
    [counts] = session.sql(f"DELETE FROM {TABLE} WHERE k = 'a'").to_pylist()
    assert counts["deleted"] == 1
    assert session.sql(f"SELECT n FROM {TABLE}")["n"].to_pylist() == [3]


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
def test_a_year_is_covered_by_all_of_its_days_only(session: Session, kind: str) -> None:
    """A condition on months deletes those months; the files of a year before them may be gone."""
    session.sql(f"CREATE TABLE {TABLE} (d {kind}, n INTEGER) PARTITIONED BY (years(d))")
    session.sql(f"INSERT INTO {TABLE} SELECT (DATE '2023-01-15' + to_months(i))::{kind}, i FROM range(24) r(i)")
    for task in loaded(session).scan().plan_files():
        if task.file.partition[0] == 2023 - 1970:
            Path(task.file.file_path.removeprefix("file://")).unlink()
    [counts] = session.sql(f"DELETE FROM {TABLE} WHERE d < '2024-03-01'").to_pylist()
    assert counts["deleted"] == 14
    left: list[Any] = session.sql(f"SELECT n FROM {TABLE}")["n"].to_pylist()
    assert sorted(left) == list(range(14, 24))
