"""Tables of version 3 that Iceberg for Java made keep rows, ids of rows and deletes through changes made here."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.typedef import Record
from services.hive_tables import HiveMaker
from services.iceberg_java import IcebergJava
from support.delete_files import delete_equal, with_ids

from metastore.session import Session

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]


def test_metadata_that_was_changed_here(session: Session, hive: HiveMaker, iceberg_java: IcebergJava) -> None:
    """Java reads what it read before, also at tags, and goes on to write; deletion vectors are read here."""
    name = f"{hive.database}.{hive.new_name()}"
    full, table = f"lake.{name}", name.split(".")[1]
    iceberg_java.run(
        f"CREATE TABLE {full} (id BIGINT, k STRING) USING iceberg TBLPROPERTIES "
        "('format-version'='3', 'write.delete.mode'='merge-on-read')"
    )
    iceberg_java.run(f"INSERT INTO {full} SELECT id, 'a' FROM range(0, 100)")
    iceberg_java.run(f"INSERT INTO {full} SELECT id, 'b' FROM range(100, 200)")
    iceberg_java.run(f"DELETE FROM {full} WHERE id % 10 = 3")

    def call(procedure: str, **arguments: Any) -> None:
        session.call(f"lake.system.{procedure}", schema=hive.database, table_name=table, **arguments)

    def theirs(version: str = "") -> list[str]:
        query = f"SELECT id, k, _row_id, _last_updated_sequence_number FROM {full} {version}"
        return sorted(map(repr, iceberg_java.rows(query).to_pylist()))

    before = theirs()
    assert len(before) == 180
    assert session.sql(f"SELECT id FROM {full}").num_rows == 180
    call("create_tag", tag="kept")
    call("create_branch", branch="other")
    session.sql(f"ALTER TABLE {full} SET PROPERTIES a = 'b'")
    call("compute_table_stats")
    assert theirs() == theirs("VERSION AS OF 'kept'") == before
    call("expire_snapshots", older_than=datetime.now(timezone.utc) + timedelta(minutes=1))
    assert theirs() == theirs("VERSION AS OF 'kept'") == before
    session.sql(f"ALTER TABLE {full} ADD COLUMN late BIGINT")
    iceberg_java.run(f"REFRESH TABLE {full}")
    iceberg_java.run(f"INSERT INTO {full} VALUES (1000, 'c', 5)")
    found = iceberg_java.rows(f"SELECT _row_id FROM {full} WHERE late = 5")["_row_id"].to_pylist()
    assert found == [200]
    assert session.sql(f"SELECT late FROM {full} WHERE id = 1000").to_pylist() == [{"late": 5}]
    call(
        "rollback_to_snapshot",
        snapshot_id=session.sql(f"SELECT snapshot_id FROM {name_of(full, 'refs')} WHERE name = 'kept'").to_pylist()[0][
            "snapshot_id"
        ],
    )
    iceberg_java.run(f"REFRESH TABLE {full}")
    assert theirs() == before


class Judged:
    """A table that both change: Java says which rows it has, with their ids and the commits that changed them last."""

    def __init__(self, session: Session, hive: HiveMaker, java: IcebergJava) -> None:
        self.session, self.java = session, java
        self.schema, self.table = hive.database, hive.new_name()
        self.full = f"lake.{self.schema}.{self.table}"

    def ours(self, *statements: str) -> None:
        """Run statements here."""
        for statement in statements:
            self.session.sql(statement.format(t=self.full))

    def theirs(self, *statements: str) -> None:
        """Run statements there, on what is newest."""
        for statement in statements:
            with suppress(RuntimeError):  # there may be no table yet
                self.java.run(f"REFRESH TABLE {self.full}")
            self.java.run(statement.format(t=self.full))

    def call(self, procedure: str, **arguments: Any) -> dict[str, Any]:
        """Call a procedure here."""
        found = self.session.call(f"lake.system.{procedure}", schema=self.schema, table_name=self.table, **arguments)
        [row] = found.to_pylist()
        return dict(row)

    def lineage(self, version: str = "") -> dict[int, tuple[Any, ...]]:
        """Each row's id in the table, its other column, row id and sequence number, as Java reads it."""
        self.java.run(f"REFRESH TABLE {self.full}")
        query = f"SELECT id, k, _row_id, _last_updated_sequence_number FROM {self.full} {version}"
        rows = [tuple(row.values()) for row in self.java.rows(query).to_pylist()]
        found = {row[0]: row[1:] for row in rows}
        assert len(found) == len(rows)
        assert len({row[1] for row in found.values()}) == len(found) or version
        return found

    @property
    def rows(self) -> dict[int, str]:
        """Each row's id and its other column, as Java reads them."""
        self.java.run(f"REFRESH TABLE {self.full}")
        return {row["id"]: row["k"] for row in self.java.rows(f"SELECT id, k FROM {self.full}").to_pylist()}

    def assert_both_read_the_same(self) -> None:
        """Rows by this package's SELECT."""
        rows = self.session.sql(f"SELECT id, k FROM {self.full}").to_pylist()
        assert {row["id"]: row["k"] for row in rows} == self.rows


@pytest.fixture
def judged(session: Session, hive: HiveMaker, iceberg_java: IcebergJava) -> Judged:
    """A name for a table."""
    return Judged(session, hive, iceberg_java)


CREATE_THERE = (
    "CREATE TABLE {t} (id BIGINT, k STRING) USING iceberg PARTITIONED BY (bucket(2, id)) TBLPROPERTIES "
    "('format-version'='3', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')"
)
MADE_THERE = (
    CREATE_THERE,
    "INSERT INTO {t} SELECT id, 'a' FROM range(0, 60)",
    "INSERT INTO {t} SELECT id, 'b' FROM range(60, 100)",
    "DELETE FROM {t} WHERE id % 10 = 3",
    "ALTER TABLE {t} CREATE TAG early",
    "UPDATE {t} SET k = 'u' WHERE id % 10 = 4",
    "DELETE FROM {t} WHERE id % 10 = 5",
)


def test_statements_here_write_vectors(judged: Judged) -> None:
    """Java reads the same rows, row ids and versions, counts one vector for each data file, and merges its own in."""
    judged.theirs(*MADE_THERE[:2])
    before = judged.lineage()
    judged.ours("DELETE FROM {t} WHERE id % 10 = 3", "UPDATE {t} SET k = 'u' WHERE id % 10 = 4")
    expected = {i: row for i, row in before.items() if i % 10 != 3}
    after = judged.lineage()
    assert {i: row[1] for i, row in after.items()} == {i: row[1] for i, row in expected.items()}
    assert {row[2] for i, row in after.items() if i % 10 == 4} == {3}
    assert {i: row for i, row in after.items() if i % 10 != 4} == {i: row for i, row in expected.items() if i % 10 != 4}
    query = f"SELECT count(*) AS n, sum(record_count) AS s FROM {judged.full}.delete_files"
    assert judged.java.rows(query).to_pylist() == [{"n": 2, "s": 12}]
    [first, *_] = judged.java.rows(f"SELECT snapshot_id FROM {judged.full}.snapshots ORDER BY committed_at").to_pylist()
    assert judged.lineage(f"VERSION AS OF {first['snapshot_id']}") == before
    judged.theirs("DELETE FROM {t} WHERE id % 10 = 5")
    assert judged.lineage() == {i: row for i, row in after.items() if i % 10 != 5}
    judged.ours("DELETE FROM {t} WHERE id % 10 = 6")
    assert judged.lineage() == {i: row for i, row in after.items() if i % 10 not in (5, 6)}
    judged.assert_both_read_the_same()


def test_rewriting_keeps_rows_and_their_lineage(judged: Judged) -> None:
    """Data files with deletion vectors, then manifests; at the tag too. Java goes on to write, and rewrites itself."""
    judged.theirs(*MADE_THERE)
    before, early = judged.lineage(), judged.lineage("VERSION AS OF 'early'")
    assert len(before) == 80
    done = judged.call("rewrite_data_files", options={"rewrite-all": "true"})
    assert done["removed_delete_files_count"] > 0
    assert judged.lineage() == before
    assert judged.call("rewrite_manifests")["rewritten_manifests_count"] > 0
    assert judged.lineage() == before
    assert judged.lineage("VERSION AS OF 'early'") == early
    judged.assert_both_read_the_same()
    judged.theirs("DELETE FROM {t} WHERE id % 10 = 6", "INSERT INTO {t} VALUES (1000, 'new')")
    after = judged.lineage()
    assert {key: row for key, row in before.items() if key % 10 != 6} == {
        key: row for key, row in after.items() if key != 1000
    }
    judged.call("rewrite_data_files", options={"rewrite-all": "true"}, sorted_by=["id DESC"])
    assert judged.lineage() == after
    name = f"{judged.schema}.{judged.table}"
    judged.theirs(f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    assert judged.lineage() == after


def test_statements_keep_the_lineage_of_rows(judged: Judged) -> None:
    """A row that stays keeps both; an updated one keeps its id, and its number is that of the commit."""
    judged.theirs(*MADE_THERE)
    before = judged.lineage()
    judged.ours("DELETE FROM {t} WHERE id < 20")
    before = {key: row for key, row in before.items() if key >= 20}
    assert judged.lineage() == before
    judged.ours(
        "MERGE INTO {t} AS t USING (SELECT range AS id FROM range(96, 102)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET k = 'm' WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, 'n')"
    )
    after = judged.lineage()
    changed = {key for key in after if before.get(key) != after[key]}
    assert changed == {96, 97, 98, 99, 100, 101}
    assert all(after[key][1] == before[key][1] for key in changed & before.keys())
    assert len({after[key][2] for key in changed}) == 1
    assert min(after[key][2] for key in changed) > max(row[2] for row in before.values())
    judged.assert_both_read_the_same()
    judged.theirs("UPDATE {t} SET k = 'x' WHERE id = 50")
    judged.ours("UPDATE {t} SET k = 'y' WHERE id = 51", "TRUNCATE TABLE {t}", "INSERT INTO {t} VALUES (1, 'last')")
    assert [row[0] for row in judged.lineage().values()] == ["last"]


def test_tables_made_or_raised_here(judged: Judged) -> None:
    """Created in version 3, or raised to it, and filled here; files added, snapshots picked; Java reads and writes."""
    judged.ours(
        "CREATE TABLE {t} (id BIGINT, k VARCHAR) WITH (format_version = 2)",
        "INSERT INTO {t} SELECT i, 'a' FROM range(5) r(i)",
    )
    assert judged.call("upgrade_format_version")["current_version"] == 3
    judged.theirs("DELETE FROM {t} WHERE id = 2")
    judged.ours("UPDATE {t} SET k = 'b' WHERE id = 3")
    before = judged.lineage()
    assert sorted(before) == [0, 1, 3, 4]
    assert all(row[1] is not None for row in before.values())
    judged.call("rewrite_data_files", options={"rewrite-all": "true"})
    assert judged.lineage() == before
    judged.theirs("ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled'='true')", "SET spark.wap.id = w1")
    try:
        judged.theirs("INSERT INTO {t} VALUES (70, 'staged')")
    finally:
        judged.theirs("RESET spark.wap.id")
    judged.ours("INSERT INTO {t} VALUES (80, 'c')")
    judged.call("publish_changes", wap_id="w1")
    after = judged.lineage()
    assert {key: after[key] for key in before} == before
    assert sorted(after.keys() - before.keys()) == [70, 80]
    judged.assert_both_read_the_same()


def test_files_of_others_in_a_table_made_here(judged: Judged, tmp_path: Path) -> None:
    """add_files and INSERT on a new table; every row has an id of its own, which a rewrite keeps."""
    judged.ours(
        "CREATE TABLE {t} (id BIGINT, k VARCHAR) WITH (format_version = 3, partitioning = ARRAY['bucket(3, id)'])"
    )
    judged.ours(
        "INSERT INTO {t} SELECT i, 'a' FROM range(5) r(i)", "ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY[]"
    )
    pq.write_table(pa.table({"id": [10, 11], "k": ["f", None]}), tmp_path / "f.parquet")
    judged.call("add_files", files=[f"file://{tmp_path}/f.parquet"])
    before = judged.lineage()
    assert sorted(before) == [0, 1, 2, 3, 4, 10, 11]
    judged.call("rewrite_data_files", options={"rewrite-all": "true"})
    assert judged.lineage() == before
    judged.assert_both_read_the_same()


def test_deletes_that_become_vectors(judged: Judged) -> None:
    """Equality deletes and position deletes of before an upgrade; Java reads the vectors, and writes the next ones."""
    judged.theirs(
        "CREATE TABLE {t} (id BIGINT, k STRING) USING iceberg PARTITIONED BY (bucket(2, id)) TBLPROPERTIES "
        "('format-version'='2', 'write.delete.mode'='merge-on-read')",
        "INSERT INTO {t} SELECT id, 'a' FROM range(0, 60)",
        "DELETE FROM {t} WHERE id % 10 = 3",
        "DELETE FROM {t} WHERE id % 10 = 4",
    )
    call = judged.call
    plain = judged.rows
    assert call("rewrite_position_delete_files", options={"rewrite-all": "true"})["added_delete_files_count"] == 2
    assert judged.rows == plain
    table = judged.session.catalogs.open("lake").load_table((judged.schema, judged.table))
    keys = with_ids(pa.table({"id": [0, 7, 13, 1000]}), 1)
    for bucket in (0, 1):
        delete_equal(table.refresh(), keys, [1], Record(bucket))
    call("upgrade_format_version")
    judged.ours("INSERT INTO {t} VALUES (7, 'again')")
    before = judged.lineage()
    assert before[7][0] == "again"
    assert 0 not in before
    done = call("convert_equality_deletes")
    assert (done["deleted_rows_count"], done["rewritten_delete_files_count"]) == (2, 2)
    assert judged.lineage() == before
    assert call("rewrite_position_delete_files")["rewritten_delete_files_count"] > 0
    assert judged.lineage() == before
    judged.assert_both_read_the_same()
    judged.theirs("DELETE FROM {t} WHERE id % 10 = 6")
    assert judged.lineage() == {key: row for key, row in before.items() if key % 10 != 6}
    judged.assert_both_read_the_same()


def name_of(full: str, kind: str) -> str:
    """The name of a metadata table."""
    catalog, database, table = full.split(".")
    return f'{catalog}.{database}."{table}${kind}"'


@pytest.mark.parametrize("procedure", ["migrate", "snapshot_table"])
def test_a_hive_table_becomes_one_of_version_3(
    session: Session, hive: HiveMaker, iceberg_java: IcebergJava, procedure: str
) -> None:
    """Java reads its rows, with ids in the order of files, and goes on to delete and insert; both read the result."""
    source = hive.table({"id": "bigint"}, {"p": "string"})
    for partition, ids in (("a", [1, 2]), ("b", [3])):
        hive.write(hive.partition(source, partition), {"id": ids})
    name = f"{source}_made" if procedure == "snapshot_table" else source
    given: dict[str, Any] = {"schema_name": hive.database, "table_name": name}
    if procedure == "snapshot_table":
        given |= {"source_schema": hive.database, "source_table": source}
    session.call(
        f"lake.system.{procedure}", **given, properties={"format-version": "3", "write.delete.mode": "merge-on-read"}
    )
    full = f"lake.{hive.database}.{name}"
    query = f"SELECT id, p, _row_id, _last_updated_sequence_number AS number FROM {full} ORDER BY id"
    rows = iceberg_java.rows(query).to_pylist()
    assert [(row["id"], row["p"], row["number"]) for row in rows] == [(1, "a", 1), (2, "a", 1), (3, "b", 1)]
    assert {row["_row_id"] for row in rows} == {0, 1, 2}
    iceberg_java.run(f"DELETE FROM {full} WHERE id = 1")
    iceberg_java.run(f"INSERT INTO {full} VALUES (4, 'c')")
    query = f"SELECT id, p FROM {full} ORDER BY id"
    assert session.sql(query).to_pylist() == iceberg_java.rows(query).to_pylist()
    assert iceberg_java.rows(f"SELECT _row_id FROM {full} WHERE id = 4")["_row_id"].to_pylist() == [3]
