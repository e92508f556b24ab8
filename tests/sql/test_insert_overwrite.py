"""INSERT OVERWRITE replaces partitions of a table, or the rows that match its PARTITION clause; judged by DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import FileFormat
from pyiceberg.typedef import Record
from support.delete_files import delete_equal, delete_positions, with_ids
from support.lake_table import TABLE, Lake
from support.row_lineage import version_3

from metastore.errors import InvalidRequestError, MetastoreError

PARTITIONINGS = {
    "k": ["k"],
    "k, truncate(3, id)": ["k", "id - id % 3"],
    "truncate(4, id)": ["id - id % 4"],
    "days(ts)": ["date_trunc('day', ts)"],
    "": [],
}
"""Partitionings, each with DuckDB's expressions of the same partitions."""

ROWS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.sampled_from(["a", "b", None]),
        st.sampled_from(
            ["2021-01-01 10:00:00", "2021-01-01 23:59:59", "2021-01-02 00:00:00", "1969-12-31 23:59:59", None]
        ),
    ),
    min_size=1,
    max_size=4,
)
COLUMNS = "id BIGINT, k VARCHAR, ts TIMESTAMP"


def values(rows: list[tuple[Any, ...]]) -> str:
    """Rows as VALUES."""

    def text(value: Any, kind: str) -> str:
        return f"CAST({'NULL' if value is None else repr(value)} AS {kind})"

    kinds = ("BIGINT", "VARCHAR", "TIMESTAMP")
    return "VALUES " + ", ".join(
        f"({', '.join(text(value, kind) for value, kind in zip(row, kinds, strict=True))})" for row in rows
    )


@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([1, 2, 3]),
    st.lists(st.tuples(st.sampled_from(sorted(PARTITIONINGS)), ROWS), min_size=2, max_size=4),
    st.sampled_from(["copy-on-write", "merge-on-read"]),
)
def test_partitions_of_new_rows_are_replaced(
    lake: Lake, version: int, steps: list[tuple[str, list[Any]]], mode: str
) -> None:
    """Whatever the partitioning of today and of the files before: old rows of these partitions go, and no others."""
    lake.sql(f"DROP TABLE IF EXISTS {TABLE}")
    lake.sql(f"CREATE TABLE {TABLE} ({COLUMNS}) TBLPROPERTIES ('format-version' = {version})")
    lake.modes(mode)
    with duckdb.connect() as judge:
        judge.execute(f"CREATE TABLE t ({COLUMNS})")
        for partitioning, rows in steps:
            terms = ", ".join(f"'{each}'" for each in partitioning.split(", ")) if partitioning else ""
            terms = "'k', 'truncate(3, id)'" if partitioning.startswith("k,") else terms
            terms = f"'{partitioning}'" if partitioning.startswith("truncate") else terms
            lake.sql(f"ALTER TABLE {TABLE} SET PROPERTIES partitioning = ARRAY[{terms}]")
            key = f"({', '.join(['0', *PARTITIONINGS[partitioning]])},)"
            judge.execute(f"CREATE OR REPLACE TABLE new AS SELECT * FROM ({values(rows)}) v(id, k, ts)")
            packed = f"struct_pack(k := {key})::VARCHAR"
            condition = f"list_contains((SELECT list({packed}) FROM new), {packed})"
            [(gone,)] = judge.execute(f"DELETE FROM t WHERE {condition}").fetchall()
            judge.execute("INSERT INTO t FROM new")
            told = lake.sql(f"INSERT OVERWRITE {TABLE} {values(rows)}")
            assert (told["inserted"], told["deleted"]) == (len(rows), gone)
            found = lake.session.sql(f"SELECT id, k, ts FROM {TABLE}")
            expected = judge.execute("SELECT id, k, ts FROM t").fetchall()
            assert sorted(map(repr, (tuple(row.values()) for row in found.to_pylist()))) == sorted(map(repr, expected))
            theirs = lake.load().scan().to_arrow().to_pylist()
            assert sorted(map(repr, (tuple(row.values()) for row in theirs))) == sorted(map(repr, expected))


KINDS = [
    ("BOOLEAN", "true", "false"),
    ("INTEGER", "1", "2"),
    ("REAL", "1.1::REAL", "'nan'::REAL"),
    ("DOUBLE", "0.0::DOUBLE", "-2.5::DOUBLE"),
    ("DECIMAL(9, 2)", "1.5", "-20"),
    ("DECIMAL(30, 3)", "1.500", "1.501"),
    ("VARCHAR", "''", "'é/=%'"),
    ("VARBINARY", "'\\xAA'::BLOB", "''::BLOB"),
    ("UUID", "'00000000-0000-0000-0000-000000000001'::UUID", "'f0000000-0000-0000-0000-000000000001'::UUID"),
    ("DATE", "DATE '1969-12-31'", "DATE '2021-02-03'"),
    ("TIME", "TIME '10:00:00.5'", "TIME '00:00:00'"),
    ("TIMESTAMP", "TIMESTAMP '1969-12-31 23:59:59.5'", "TIMESTAMP '2021-02-03 00:00:00'"),
    ("TIMESTAMPTZ", "TIMESTAMPTZ '1969-12-31 23:59:59.5Z'", "TIMESTAMPTZ '2021-02-03 00:00:00Z'"),
]


@pytest.mark.parametrize(("kind", "one", "other"), KINDS)
def test_a_partition_value_of_any_type_is_found_again(lake: Lake, kind: str, one: str, other: str) -> None:
    """As the manifest has it, as it is computed from rows of another spec, and as PARTITION names it."""
    lake.sql(f"CREATE TABLE {TABLE} (p {kind}, n INTEGER) PARTITIONED BY (p)")
    rows = f"VALUES ({one}, 1), ({other}, 2), (NULL, 3)"
    lake.sql(f"INSERT INTO {TABLE} {rows}")
    assert lake.sql(f"INSERT OVERWRITE {TABLE} {rows}")["deleted"] == 3
    assert lake.sql(f"INSERT OVERWRITE {TABLE} VALUES ({one}, 4)")["deleted"] == 1
    assert lake.sql(f"INSERT OVERWRITE {TABLE} PARTITION (p = {other}) VALUES (5)")["deleted"] == 1
    assert lake.sql(f"INSERT OVERWRITE {TABLE} PARTITION (p = NULL) VALUES (6)")["deleted"] == 1
    lake.sql(f"ALTER TABLE {TABLE} SET PROPERTIES partitioning = ARRAY['n']")
    lake.sql(f"INSERT INTO {TABLE} VALUES ({one}, 9)")
    lake.sql(f"ALTER TABLE {TABLE} SET PROPERTIES partitioning = ARRAY['p']")
    assert lake.sql(f"INSERT OVERWRITE {TABLE} VALUES ({one}, 7)")["deleted"] == 2
    found: list[Any] = lake.session.sql(f"SELECT n FROM {TABLE}")["n"].to_pylist()
    assert sorted(found) == [5, 6, 7]


def test_zeros_of_both_signs_are_one_partition(lake: Lake) -> None:
    """They are equal in SQL, in rows and in the values that other writers put into manifests."""
    lake.sql(f"CREATE TABLE {TABLE} (p DOUBLE, n INTEGER) PARTITIONED BY (p)")
    lake.sql(f"INSERT INTO {TABLE} VALUES (-0.0::DOUBLE, 1)")
    assert lake.sql(f"INSERT OVERWRITE {TABLE} VALUES (0.0::DOUBLE, 2)")["deleted"] == 1
    assert lake.sql(f"INSERT OVERWRITE {TABLE} PARTITION (p = -0.0::DOUBLE) VALUES (3)")["deleted"] == 1


CLAUSES = [
    # partitioning, clause and query, the condition of the rows that go, the new rows
    ("k", "PARTITION (k = 'a') VALUES (50, 1)", "k = 'a'", [(50, "a", 1)]),
    ("k", "TABLE_ PARTITION (K = 'a') (n, id) SELECT 1, 50", "k = 'a'", [(50, "a", 1)]),
    ("k", "PARTITION (k = lower('A')) BY NAME SELECT 1 AS n, 50::INTEGER AS id", "k = 'a'", [(50, "a", 1)]),
    ("k", "PARTITION (k = 'a') SELECT id, n FROM {t} WHERE false", "k = 'a'", []),
    ("k", "PARTITION (k = 'new') VALUES (50, 1)", "false", [(50, "new", 1)]),
    ("k", "PARTITION (k) VALUES (50, 'b', 1)", "k = 'b'", [(50, "b", 1)]),
    ("k", "SELECT id, k, n FROM {t} WHERE false", "false", []),
    ("", "SELECT id, k, n FROM {t} WHERE false", "true", []),
    ("k, truncate(5, id)", "PARTITION (k = 'a') VALUES (50, 1)", "k = 'a'", [(50, "a", 1)]),
    ("k, truncate(5, id)", "VALUES (3, 'a', 1)", "k = 'a' AND id < 5", [(3, "a", 1)]),
    ("k, n", "PARTITION (k = 'a', n) SELECT 50, 1", "k = 'a'", [(50, "a", 1)]),
    ("k, n", "PARTITION (n = 0, k = 'b') SELECT 50", "k = 'b'", [(50, "b", 0)]),
    ("truncate(5, id)", "(k, id) VALUES ('z', 7)", "id >= 5", [(7, "z", None)]),
    ("k", "SELECT id + 100, k, n FROM {t} WHERE k = 'a'", "k = 'a'", [(i + 100, "a", 0) for i in range(0, 10, 2)]),
]


@pytest.mark.parametrize(
    ("version", "partitioned", "text", "gone", "new"), [(1 + number % 3, *each) for number, each in enumerate(CLAUSES)]
)
def test_rows_that_match_the_clause_are_replaced(
    lake: Lake, version: int, partitioned: str, text: str, gone: str, new: list[Any]
) -> None:
    """All of them, with one snapshot; without values, the partitions of the new rows."""
    lake.create(version, f"PARTITIONED BY ({partitioned})" if partitioned else "")
    with duckdb.connect() as judge:
        judge.execute("CREATE TABLE t AS SELECT id, ['a', 'b'][id % 2 + 1] AS k, 0 AS n FROM range(10) r(id)")
        [(total,)] = judge.execute(f"DELETE FROM t WHERE {gone}").fetchall()
        left = judge.execute("FROM t").fetchall()
    expected = sorted([*left, *new], key=repr)
    table = "TABLE " if text.startswith("TABLE_") else ""
    told = lake.sql(f"INSERT OVERWRITE {table}{TABLE} {text.removeprefix('TABLE_').format(t=TABLE)}")
    assert (told["inserted"], told["deleted"], told["updated"]) == (len(new), total, 0)
    assert lake.rows == expected
    changed = bool(new) or bool(total)
    assert len(lake.load().metadata.snapshots) == 2 + changed
    if new and total:
        assert lake.operation == "overwrite"


def test_insert_into_takes_the_clause_too(lake: Lake) -> None:
    """It adds rows, and replaces none."""
    lake.create(2, "PARTITIONED BY (k)", files=1)
    assert lake.sql(f"INSERT INTO {TABLE} PARTITION (k = 'a') VALUES (50, 1)")["inserted"] == 1
    assert [row for row in lake.rows if row[0] == 50] == [(50, "a", 1)]
    assert len(lake.rows) == 6


def test_a_day_may_be_written_as_a_text(lake: Lake) -> None:
    """Everybody writes it so in PARTITION; a text that is no number is refused, as is a fraction."""
    lake.sql(f"CREATE TABLE {TABLE} (d DATE, n INTEGER) PARTITIONED BY (d, n)")
    lake.sql(f"INSERT INTO {TABLE} VALUES ('2021-01-01'::DATE, 1), ('2021-01-02'::DATE, 2)")
    told = lake.sql(f"INSERT OVERWRITE {TABLE} PARTITION (d = '2021-01-01') VALUES (3)")
    assert (told["inserted"], told["deleted"]) == (1, 1)
    for value, problem in (("'x'", "Could not convert string 'x' to INT32"), ("1.5", "column n is int")):
        with pytest.raises(InvalidRequestError, match=problem):
            lake.sql(f"INSERT OVERWRITE {TABLE} PARTITION (n = {value}) VALUES ('2021-01-01'::DATE)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PARTITION (id = 1) VALUES ('a', 1)", "line 1, column 39: the table is not partitioned by id itself"),
        ("PARTITION (nope = 1) VALUES (1, 1)", "nope is no column of the table"),
        ("PARTITION (k = 'a', K = 'b') VALUES (1, 1)", "column K is given twice"),
        ("PARTITION (k = 'a') VALUES (1, 'a', 1)", "the query has 3 columns, and values are expected for 2: id, n"),
        ("PARTITION (k = 'a') (id, k) VALUES (1, 'a')", "column k has its value in PARTITION"),
        ("PARTITION (k = 'a') BY NAME SELECT 1 AS id, 'b' AS k", "column k has its value in PARTITION"),
        ("PARTITION (k = 'a') IF NOT EXISTS VALUES (1, 1)", "IF NOT EXISTS is not supported after PARTITION"),
        ("PARTITION (k = 1) VALUES (1, 1)", "line 1, column 43: column k is string"),
        ("PARTITION (k = nope) VALUES (1, 1)", 'line 1, column 43: Referenced column "nope" was not found'),
        ("PARTITION (k = ) VALUES (1, 1)", "a value is expected, not )"),
        ("PARTITION k = 'a' VALUES (1, 1)", "( is expected, not k"),
        ("SELECT error('no'), 'a', 1", "no"),
    ],
)
def test_what_is_refused_changes_nothing(lake: Lake, text: str, message: str) -> None:
    """No file, no snapshot, and a message that says line and column."""
    lake.create(2, "PARTITIONED BY (k, truncate(5, id))", files=1)
    before, written = lake.load().metadata_location, lake.written
    with pytest.raises(MetastoreError) as refused:
        lake.sql(f"INSERT OVERWRITE {TABLE} {text}")
    assert message in str(refused.value)
    assert str(refused.value).startswith("line 1, column ")
    assert (lake.load().metadata_location, lake.written) == (before, written)


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_of_replaced_files_go(lake: Lake, version: int) -> None:
    """Position deletes, vectors and equality deletes of the partition; those of others stay, and so do their rows."""
    lake.create(2, "PARTITIONED BY (k)", files=1)
    files = {live.file.partition[0]: live.path for live in lake.live.data}
    delete_equal(lake.load(), with_ids(pa.table({"id": pa.array([0], pa.int64())}), 1), [1], Record("a"))
    delete_positions(lake.load(), {files["a"]: [1]}, Record("a"))
    delete_equal(lake.load(), with_ids(pa.table({"id": pa.array([1], pa.int64())}), 1), [1], Record("b"))
    lake.call("upgrade_format_version", format_version=version)
    lake.sql(f"DELETE FROM {TABLE} WHERE id = 3")
    assert lake.session.sql(f"SELECT id FROM {TABLE}")["id"].to_pylist() == [4]
    told = lake.sql(f"INSERT OVERWRITE {TABLE} VALUES (0, 'a', 1), (8, 'a', 1)")
    assert (told["inserted"], told["deleted"]) == (2, 1)
    assert {live.file.partition[0] for live in lake.live.deletes} <= {"b"}
    found: list[Any] = lake.session.sql(f"SELECT id FROM {TABLE}")["id"].to_pylist()
    assert sorted(found) == [0, 8]
    lake.sql(f"ALTER TABLE {TABLE} SET PROPERTIES partitioning = ARRAY[]")
    assert lake.sql(f"INSERT OVERWRITE {TABLE} VALUES (3, 'b', 1)")["deleted"] == 2
    assert (lake.live.deletes, lake.ids) == ((), [3])
    if version == 3:
        assert sorted(version_3(lake.load().metadata_location).rows) == [3]


@pytest.mark.parametrize("version", [2, 3])
def test_files_of_another_spec_keep_their_other_rows(lake: Lake, version: int) -> None:
    """They are marked as DELETE marks them; rows that stay keep their ids."""
    lake.create(version, "PARTITIONED BY (truncate(5, id))", files=2)
    before, ids = lake.data, version_3(lake.load().metadata_location).rows if version == 3 else {}
    lake.sql(f"ALTER TABLE {TABLE} SET PROPERTIES partitioning = ARRAY['k']")
    told = lake.sql(f"INSERT OVERWRITE {TABLE} VALUES (100, 'a', 1)")
    assert (told["deleted"], lake.operation) == (5, "overwrite")
    assert lake.data > before
    kind = FileFormat.PUFFIN if version == 3 else FileFormat.PARQUET
    assert {each for each, _ in lake.deletes} == {kind}
    assert lake.ids == [1, 3, 5, 7, 9, 100]
    if version == 3:
        now = version_3(lake.load().metadata_location).rows
        assert {i: now[i][0] for i in (1, 3, 5, 7, 9)} == {i: ids[i][0] for i in (1, 3, 5, 7, 9)}


INTERLEAVED = [
    # statement, meanwhile, isolation level, what was written is kept, the ids afterwards without 0 to 9
    ("VALUES (20, 'a', 1)", "INSERT INTO {t} VALUES (30, 'b', 0)", "", True, [20, 30]),
    ("VALUES (20, 'a', 1)", "INSERT INTO {t} VALUES (30, 'a', 0)", "", False, [20]),
    ("VALUES (20, 'a', 1)", "INSERT INTO {t} VALUES (30, 'a', 0)", "snapshot", True, [20, 30]),
    ("VALUES (20, 'a', 1)", "DELETE FROM {t} WHERE id = 2", "", False, [20]),
    ("VALUES (20, 'a', 1)", "DELETE FROM {t} WHERE id = 1", "", True, [20]),
    ("VALUES (20, NULL, 1)", "INSERT INTO {t} VALUES (30, NULL, 0)", "", False, [20]),
    ("PARTITION (k = 'a') VALUES (20, 1)", "INSERT OVERWRITE {t} VALUES (30, 'a', 0)", "", False, [20]),
    ("SELECT id + 20, k, n FROM {t} WHERE id IN (0, 30)", "INSERT INTO {t} VALUES (30, 'b', 0)", "", False, [20, 50]),
]


@pytest.mark.parametrize(
    ("version", "statement", "meanwhile", "level", "kept", "expected"),
    [(1 + number % 3, *each) for number, each in enumerate(INTERLEAVED)],
)
def test_others_commit_meanwhile(
    lake: Lake, version: int, statement: str, meanwhile: str, level: str, kept: bool, expected: list[int]
) -> None:
    """Files that still fit are committed; if the other commit concerns the replaced rows, the statement begins anew."""
    lake.create(version, "PARTITIONED BY (k)")
    if level:
        lake.set_properties(write_delete_isolation__level=level)
    written: set[str] = set()
    old = lake.written

    def between() -> None:
        written.update(lake.written - old)
        lake.sql(meanwhile.format(t=TABLE))

    lake.meanwhile = between
    lake.sql(f"INSERT OVERWRITE {TABLE} {statement.format(t=TABLE)}")
    assert written
    assert (written <= lake.written) is kept
    assert [i for i in lake.ids if i >= 10] == expected
    if version == 3:
        assert len(version_3(lake.load().metadata_location).rows) == len(lake.rows)
