"""DELETE, UPDATE and MERGE leave data files as they are; judged by PyIceberg and by the specification itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import FileFormat
from support.delete_files import delete_equal, delete_positions, with_ids
from support.lake_table import TABLE, Lake
from support.row_lineage import version_3

from metastore.errors import InvalidRequestError, StorageError

MODES = ("copy-on-write", "merge-on-read")


@pytest.mark.parametrize(("version", "kind"), [(2, FileFormat.PARQUET), (3, FileFormat.PUFFIN)])
def test_data_files_stay(lake: Lake, version: int, kind: FileFormat) -> None:
    """DELETE writes deletes alone, UPDATE the changed rows beside them; a time before reads as before."""
    lake.create(version)
    before = lake.data
    told = lake.sql(f"DELETE FROM {TABLE} WHERE id IN (1, 7)")
    assert (told["deleted"], lake.operation, lake.data) == (2, "delete", before)
    assert lake.deletes == ([(kind, 2)] if version == 2 else [(kind, 1), (kind, 1)])
    assert lake.ids == [0, 2, 3, 4, 5, 6, 8, 9]
    told = lake.sql(f"UPDATE {TABLE} SET n = n + id, k = 'u' WHERE id IN (2, 8)")
    assert (told["updated"], lake.operation, len(lake.data - before)) == (2, "overwrite", 1)
    assert lake.data > before
    assert [row for row in lake.rows if row[1] == "u"] == [(2, "u", 2), (8, "u", 8)]
    assert sum(rows for _, rows in lake.deletes) == 4
    merged = lake.sql(
        f"MERGE INTO {TABLE} AS t USING (SELECT unnest([2, 3, 20]) AS id) s ON t.id = s.id WHEN MATCHED AND t.id = 3 "
        "THEN DELETE WHEN MATCHED THEN UPDATE SET n = 50 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 0)"
    )
    assert [merged[name] for name in ("inserted", "updated", "deleted")] == [1, 1, 1]
    assert lake.ids == [0, 2, 4, 5, 6, 8, 9, 20]
    then = lake.load().metadata.snapshots[1].snapshot_id
    assert lake.sql(f"SELECT count(*) AS n FROM {TABLE} FOR VERSION AS OF {then}") == {"n": 10}


def test_a_data_file_has_one_vector(lake: Lake) -> None:
    """A new one has what the one before deleted, whose entry goes; so have position deletes of format version 2."""
    lake.create(2)
    [first, _] = [live.path for live in sorted(lake.live.data, key=lambda live: live.sequence_number)]
    for position in (0, 1):
        delete_positions(lake.load(), {first: [position]})
    lake.call("upgrade_format_version", format_version=3)
    for row in (2, 3):
        lake.sql(f"DELETE FROM {TABLE} WHERE id = {row}")
    assert lake.deletes == [(FileFormat.PUFFIN, 4)]
    assert lake.ids == [4, 5, 6, 7, 8, 9]
    assert sorted(version_3(lake.load().metadata_location).rows) == lake.ids


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_without_rows_goes(lake: Lake, version: int) -> None:
    """With its own deletes, whether its last rows were deleted or updated."""
    lake.create(version, files=3)
    lake.sql(f"DELETE FROM {TABLE} WHERE id IN (0, 1, 5)")
    lake.sql(f"DELETE FROM {TABLE} WHERE id < 5")
    lake.sql(f"UPDATE {TABLE} SET n = 1 WHERE id < 10")
    assert sum(live.file.record_count for live in lake.live.data) == 9
    assert lake.ids == list(range(6, 15))
    if version == 3:
        assert lake.deletes == []
        assert sorted(version_3(lake.load().metadata_location).rows) == lake.ids


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_file_that_names_no_rows_hides_no_others(lake: Lake, version: int) -> None:
    """Positions behind the end of a data file, and positions twice: the file still has the other rows."""
    lake.create(version, files=1)
    [path] = lake.data
    lake.call("upgrade_format_version", format_version=version)
    if version == 2:
        for _ in range(2):
            delete_positions(lake.load(), {path: [0, 7, 8, 9]})
        assert lake.sql(f"DELETE FROM {TABLE} WHERE id = 4")["deleted"] == 1
        assert lake.ids == [1, 2, 3]
    else:
        lake.sql(f"DELETE FROM {TABLE} WHERE id IN (0, 4)")
        assert lake.ids == [1, 2, 3]


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_equality_deletes_removed_are_counted(lake: Lake, version: int) -> None:
    """Addresses count live rows, deletes all rows; equality deletes stay, and apply to old rows only."""
    lake.create(2, files=1)
    delete_equal(lake.load(), with_ids(pa.table({"id": pa.array([0, 2], pa.int64())}), 1), [1])
    lake.call("upgrade_format_version", format_version=version)
    lake.sql(f"UPDATE {TABLE} SET id = 2 WHERE id = 3")
    lake.sql(f"DELETE FROM {TABLE} WHERE id = 1")
    assert lake.session.sql(f"SELECT id FROM {TABLE} ORDER BY id")["id"].to_pylist() == [2, 4]
    assert lake.deletes == ([(FileFormat.PUFFIN, 2)] if version == 3 else [(FileFormat.PARQUET, 1)] * 2)
    lake.call("convert_equality_deletes")
    assert lake.ids == [2, 4]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_file_that_is_there_twice_is_written_anew(lake: Lake, version: int, mode: str) -> None:
    """A position means a row of both entries, and a path can have one vector only."""
    lake.create(version, files=1)
    lake.modes(mode)
    [path] = lake.data
    lake.call("add_files", files=[path], duplicate_file="ALLOW")
    lake.sql(f"DELETE FROM {TABLE} WHERE id = 1")
    assert lake.deletes == []
    lake.sql(f"INSERT INTO {TABLE} VALUES (9, 'z', 0)")
    lake.sql(f"UPDATE {TABLE} SET n = 1 WHERE id IN (2, 9)")
    assert Counter(row[0] for row in lake.rows) == {0: 2, 2: 2, 3: 2, 4: 2, 9: 1}
    assert [row[2] for row in lake.rows if row[0] in (2, 9)] == [1, 1, 1]


@pytest.mark.parametrize(("granularity", "files"), [("partition", 2), ("file", 4)])
def test_position_deletes_are_of_a_partition_or_of_a_file(lake: Lake, granularity: str, files: int) -> None:
    """As the table's property says; each is in the partition of its data files."""
    lake.create(2, "PARTITIONED BY (k)")
    lake.set_properties(write_delete_granularity=granularity)
    lake.sql(f"DELETE FROM {TABLE} WHERE n = 0 AND id NOT IN (0, 1, 6, 7)")
    assert len(lake.deletes) == files
    assert {live.file.partition[0] for live in lake.live.position_deletes} == {"a", "b"}
    assert lake.ids == [0, 1, 6, 7]


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("DELETE FROM {t} WHERE id = 1", "delete"),
        ("UPDATE {t} SET n = 1 WHERE id = 1", "update"),
        ("MERGE INTO {t} AS t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE", "merge"),
    ],
)
def test_each_statement_has_its_own_properties(lake: Lake, statement: str, kind: str) -> None:
    """In any case of letters; another value is an error that changes nothing and names the property."""
    lake.create(2, files=1)
    other = "delete" if kind == "merge" else "merge"
    lake.set_properties(**{f"write_{other}_mode": "Copy-On-Write", f"write_{kind}_mode": "MERGE-on-read"})
    before = lake.data
    lake.sql(statement.format(t=TABLE))
    assert lake.data >= before
    for name in (f"write.{kind}.mode", f"write.{kind}.isolation-level", "write.delete.granularity"):
        with pytest.raises(InvalidRequestError, match=f"^line 1, .*: property {name} is 'mor'; .* are supported"):
            lake.sql(f"ALTER TABLE {TABLE} SET PROPERTIES {name} = 'mor'")
        with pytest.raises(InvalidRequestError, match=f"property {name} is 'mor'"):
            lake.call("set_table_property", key=name, value="mor")
        with lake.load().transaction() as other_writer:
            other_writer.set_properties({name: "mor"})
        version, written = lake.load().metadata_location, lake.written
        with pytest.raises(
            InvalidRequestError, match=f"property {name} of {TABLE} is 'mor'; .* are supported: run ALTER"
        ):
            lake.sql(statement.format(t=TABLE))
        assert (lake.load().metadata_location, lake.written) == (version, written)
        lake.sql(f"ALTER TABLE {TABLE} UNSET PROPERTIES {name}")


def test_format_version_1_has_no_deletes(lake: Lake) -> None:
    """Its files are written anew, whatever its properties say."""
    lake.create(1, files=1)
    lake.modes("merge-on-read")
    before = lake.data
    lake.sql(f"DELETE FROM {TABLE} WHERE id = 1")
    lake.sql(f"UPDATE {TABLE} SET n = 1 WHERE id = 2")
    assert (lake.ids, lake.deletes, lake.data & before) == ([0, 2, 3, 4], [], set())


@pytest.mark.parametrize("failure", [StorageError, KeyboardInterrupt])
@pytest.mark.parametrize("version", [2, 3])
def test_a_statement_that_fails_before_its_commit_leaves_nothing(
    lake: Lake, version: int, failure: type[BaseException]
) -> None:
    """Neither new rows nor deletes, which were written before."""
    lake.create(version, "PARTITIONED BY (k)")
    before, seen = lake.written, []

    def fail() -> None:
        seen.append(len(lake.written - before))
        raise failure("no more")

    lake.meanwhile = fail
    with pytest.raises(failure, match="no more"):
        lake.sql(f"UPDATE {TABLE} SET n = 1 WHERE id IN (1, 2)")
    assert seen == [4 if version == 2 else 3]
    assert (lake.written, len(lake.load().metadata.snapshots)) == (before, 2)


MERGED = (
    "MERGE INTO {t} AS t USING (SELECT 50 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = n + 1 "
    "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 5)"
)
INTERLEAVED = [
    # statement, meanwhile, isolation level, what was written is kept, (id, k, n) of rows with n > 0 or id 1 afterwards
    ("DELETE FROM {t} WHERE k = 'b' AND id = 1", "INSERT INTO {t} VALUES (1, 'a', 0)", "", True, [(1, "a", 0)]),
    ("DELETE FROM {t} WHERE id = 1", "INSERT INTO {t} VALUES (1, 'a', 0)", "", False, []),
    ("DELETE FROM {t} WHERE id = 1", "INSERT INTO {t} VALUES (1, 'a', 0)", "snapshot", True, [(1, "a", 0)]),
    ("DELETE FROM {t} WHERE id = 1", "INSERT INTO {t} VALUES (100, 'a', 0)", "", True, []),
    ("DELETE FROM {t} WHERE id = 1", "DELETE FROM {t} WHERE id = 3", "snapshot", False, []),
    ("DELETE FROM {t} WHERE id = 1", "DELETE FROM {t} WHERE id = 6", "", True, []),
    ("DELETE FROM {t} WHERE id = 1", "ALTER TABLE {t} ADD COLUMN late BIGINT", "", True, []),
    ("DELETE FROM {t} WHERE id = 1", "CALL lake.system.rewrite_manifests('db', 't')", "", True, []),
    ("UPDATE {t} SET n = n + 1 WHERE id = 1", "UPDATE {t} SET n = n + 1 WHERE id = 1", "", False, [(1, "b", 2)]),
    (
        "UPDATE {t} SET n = (SELECT count(*) FROM {t}) WHERE id = 1",
        "INSERT INTO {t} VALUES (100, 'a', 0)",
        "",
        False,
        [(1, "b", 11)],
    ),
    (
        "UPDATE {t} SET n = (SELECT count(*) FROM {t}) WHERE id = 1",
        "INSERT INTO {t} VALUES (100, 'a', 0)",
        "snapshot",
        True,
        [(1, "b", 10)],
    ),
    (
        MERGED,
        "INSERT INTO {t} VALUES (50, 'a', 0)",
        "",
        False,
        [(1, "b", 0), (50, "a", 1)],
    ),
]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(("statement", "meanwhile", "level", "kept", "expected"), INTERLEAVED)
def test_others_commit_meanwhile(
    lake: Lake, version: int, statement: str, meanwhile: str, level: str, kept: bool, expected: list[Any]
) -> None:
    """Files that still fit are committed; a statement that may depend on the other commit is planned again."""
    lake.create(version, "PARTITIONED BY (k)")
    if level:
        lake.set_properties(
            write_delete_isolation__level=level, write_update_isolation__level=level, write_merge_isolation__level=level
        )
    written: set[str] = set()
    old = lake.written

    def between() -> None:
        written.update(lake.written - old)
        lake.sql(meanwhile.format(t=TABLE))

    lake.meanwhile = between
    lake.sql(statement.format(t=TABLE))
    assert written
    assert (written <= lake.written) is kept
    assert kept or not written & lake.written
    rows = [row[:3] for row in lake.rows if row[0] == 1 or row[2]]
    assert rows == expected
    if version == 3:
        assert len(version_3(lake.load().metadata_location).rows) == len(lake.rows)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("statement", ["DELETE FROM {t} WHERE id = 1", "INSERT INTO {t} VALUES (20, 'a', 0)"])
def test_a_table_that_was_raised_meanwhile(lake: Lake, version: int, statement: str) -> None:
    """Deletes become vectors, and new rows get ids, though no snapshot came between."""
    lake.create(version)
    lake.meanwhile = lambda: lake.call("upgrade_format_version", format_version=3)
    lake.sql(statement.format(t=TABLE))
    assert lake.ids == ([0, *range(2, 10)] if "DELETE" in statement else [*range(10), 20])
    assert sorted(version_3(lake.load().metadata_location).rows) == lake.ids


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_that_was_rewritten_meanwhile(lake: Lake, version: int) -> None:
    """Its row is deleted where it is now; nothing that the first attempt wrote is left."""
    lake.create(version)
    written = lake.written

    def between() -> None:
        assert lake.call("rewrite_data_files", options={"rewrite-all": "true"})["rewritten_data_files_count"] == 2

    lake.meanwhile = between
    lake.sql(f"DELETE FROM {TABLE} WHERE id = 1")
    assert lake.ids == [0, *range(2, 10)]
    assert len(lake.written - written) == 2
    assert len(lake.deletes) == 1


def test_appends_do_not_starve_a_statement(lake: Lake) -> None:
    """Each of its commits loses to an append, five times; it was planned once, and lands."""
    lake.create(3, "PARTITIONED BY (k)")
    left = list(range(100, 105))

    def append() -> None:
        lake.sql(f"INSERT INTO {TABLE} VALUES ({left.pop()}, 'c', 0)")
        if left:
            lake.meanwhile = append

    lake.meanwhile = append
    before = lake.written
    lake.sql(f"UPDATE {TABLE} SET n = 1 WHERE id < 3")
    assert len(lake.written - before) == 5 + 2 + 1
    assert [row[0] for row in lake.rows if row[2]] == [0, 1, 2]


IDS = st.integers(0, 12)
STEPS = st.one_of(
    st.tuples(st.just("insert"), IDS),
    st.tuples(st.just("delete"), IDS),
    st.tuples(st.just("delete_k"), st.sampled_from("abu")),
    st.tuples(st.just("update"), IDS),
    st.tuples(st.just("merge"), IDS),
    st.tuples(st.just("mode"), st.sampled_from(MODES)),
    st.tuples(st.just("rewrite"), st.booleans()),
    st.tuples(st.just("rewrite_deletes"), st.just(0)),
)


class Model:
    """Rows by id, as the steps leave them."""

    def __init__(self) -> None:
        self.rows = {i: ("ab"[i % 2], 0) for i in range(5)}

    def apply(self, lake: Lake, step: str, value: Any) -> set[int]:
        """Do the step to both; returns the ids whose rows are new."""
        if step == "insert":
            fresh = {i for i in (value, value + 1) if i not in self.rows}
            self.rows |= dict.fromkeys(fresh, ("b", 7))
            for i in fresh:
                lake.sql(f"INSERT INTO {TABLE} VALUES ({i}, 'b', 7)")
            return fresh
        if step == "delete":
            self.rows = {i: row for i, row in self.rows.items() if i % 4 != value % 4}
            lake.sql(f"DELETE FROM {TABLE} WHERE id % 4 = {value % 4}")
        elif step == "delete_k":
            self.rows = {i: row for i, row in self.rows.items() if row[0] != value}
            lake.sql(f"DELETE FROM {TABLE} WHERE k = '{value}'")
        elif step == "update":
            self.rows = {i: ("u", n + 1) if i > value else (k, n) for i, (k, n) in self.rows.items()}
            lake.sql(f"UPDATE {TABLE} SET k = 'u', n = n + 1 WHERE id > {value}")
        elif step == "merge":
            lake.sql(
                f"MERGE INTO {TABLE} AS t USING (SELECT unnest([{value}, {value + 3}]) AS id) s ON t.id = s.id "
                "WHEN MATCHED AND t.n > 1 THEN DELETE WHEN MATCHED THEN UPDATE SET n = n + 5 "
                "WHEN NOT MATCHED THEN INSERT (id, k, n) VALUES (s.id, 'a', 0)"
            )
            new = {i for i in (value, value + 3) if i not in self.rows}
            for i in (value, value + 3):
                k, n = self.rows.pop(i, ("a", -5))
                if n <= 1:
                    self.rows[i] = (k, n + 5)
            return new
        elif step == "mode":
            lake.modes(value)
        elif step == "rewrite":
            lake.call("rewrite_data_files", options={"rewrite-all": str(value).lower()})
        else:
            lake.call("rewrite_position_delete_files", options={"rewrite-all": "true"})
        return set()


@pytest.mark.exhaustive
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["", "PARTITIONED BY (k)", "PARTITIONED BY (bucket(2, id))"]),
    st.lists(STEPS, min_size=2, max_size=8),
)
def test_any_order_of_statements_and_procedures(
    lake: Lake, version: int, partitioned: str, steps: list[tuple[str, Any]]
) -> None:
    """Rows are those of a model, every version stays readable, and in format version 3 rows keep their ids."""
    lake.create(version, partitioned, files=1)
    model = Model()
    ids: dict[int, int] = {}
    history: dict[int, int] = {}
    for step, value in steps:
        fresh = model.apply(lake, step, value)
        expected = sorted(((i, k, n) for i, (k, n) in model.rows.items()), key=repr)
        assert lake.rows == expected, (step, value)
        current = lake.load().metadata.current_snapshot()
        assert current is not None
        history[current.snapshot_id] = len(expected)
        if version == 3:
            now = version_3(lake.load().metadata_location).rows
            assert now.keys() == model.rows.keys()
            kept = ids.keys() & now.keys() - fresh
            assert {i: now[i][0] for i in kept} == {i: ids[i] for i in kept}
            ids = {i: row_id for i, (row_id, _) in now.items()}
    for snapshot, rows in history.items():
        assert lake.sql(f"SELECT count(*) AS n FROM {TABLE} FOR VERSION AS OF {snapshot}") == {"n": rows}
