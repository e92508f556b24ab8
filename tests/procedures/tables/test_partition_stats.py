"""compute_partition_stats: counts are those of the rows and of the manifests, in a file of the specification's form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.typedef import Record
from support.delete_files import delete_positions, delete_where_equal

from metastore.errors import FormatError, InvalidRequestError, ProcedureError, StorageError
from metastore.session import Session

BOTH = ["data_record_count", "data_file_count", "total_data_file_size_in_bytes"]
NAME: dict[str, Any] = {"schema": "db", "table_name": "t"}


@pytest.fixture(params=["lake", "folder"])
def catalog(request: pytest.FixtureRequest) -> str:
    """A catalog in SQLite, and one that is a folder."""
    return str(request.param)


def made(session: Session, catalog: str, version: int) -> Any:
    """A table of 3 partitions, of which one has no live file, with a second spec; as PyIceberg has it."""
    session.catalogs.open(catalog).create_namespace("db")
    full = f"{catalog}.db.t"
    session.sql(f"CREATE TABLE {full} (k VARCHAR, u UUID, id BIGINT) PARTITIONED BY (k)")
    session.sql(f"ALTER TABLE {full} SET PROPERTIES format_version = {version}")
    session.sql(f"INSERT INTO {full} VALUES ('a', NULL, 1), ('a', NULL, 2), (NULL, NULL, 3), ('gone', NULL, 4)")
    session.sql(f"INSERT INTO {full} VALUES ('a', NULL, 5)")
    session.sql(f"ALTER TABLE {full} ADD PARTITION FIELD u")
    session.sql(f"INSERT INTO {full} VALUES ('b', '00000000-0000-0000-0000-000000000007', 6)")
    session.sql(f"DELETE FROM {full} WHERE k = 'gone'")
    return session.catalogs.open(catalog).load_table("db.t")


def computed(session: Session, catalog: str, **arguments: Any) -> pa.Table:
    """The rows of the file that the procedure makes."""
    [row] = session.call(f"{catalog}.system.compute_partition_stats", **NAME, **arguments).to_pylist()
    return pq.read_table(row["partition_statistics_file"].removeprefix("file://"))


@pytest.mark.parametrize("version", [2, 3])
def test_counts_are_those_of_the_table(session: Session, catalog: str, version: int) -> None:
    """As ``$partitions`` has them, with rows of removed partitions; PyIceberg reads the entry in the metadata."""
    table = made(session, catalog, version)
    found = computed(session, catalog)
    rows = found.to_pylist()
    shown = session.sql(f'SELECT * FROM {catalog}.db."t$partitions"').to_pylist()
    expected = {
        (each["partition"]["k"], each["spec_id"]): [
            each["record_count"],
            each["file_count"],
            each["total_data_file_size_in_bytes"],
        ]
        for each in shown
    }
    live = {(row["partition"]["k"], row["spec_id"]): [row[name] for name in BOTH] for row in rows}
    assert live.pop(("gone", 0)) == [0, 0, 0]
    assert live == expected
    assert [row["partition"]["k"] for row in rows] == [None, "a", "b", "gone"]
    assert rows[2]["partition"]["u"] == bytes(15) + b"\7"
    assert {row["total_record_count"] for row in rows} == {None}
    newest = table.refresh().metadata.snapshots[-1]
    assert (rows[3]["last_updated_at"], rows[3]["last_updated_snapshot_id"]) == (
        newest.timestamp_ms,
        newest.snapshot_id,
    )
    ids = [int((field.metadata or {})[b"PARQUET:field_id"]) for field in found.schema]
    assert ids == list(range(1, 14 if version == 3 else 13))
    [file] = table.refresh().metadata.partition_statistics
    assert file.snapshot_id == newest.snapshot_id
    path = Path(file.statistics_path.removeprefix("file://"))
    assert path.stat().st_size == file.file_size_in_bytes


def test_a_snapshot_has_one_file(session: Session, catalog: str) -> None:
    """A second call gives the same one; an older snapshot gets its own, which goes with it."""
    table = made(session, catalog, 2)
    first = session.call(f"{catalog}.system.compute_partition_stats", **NAME).to_pylist()
    assert session.call(f"{catalog}.system.compute_partition_stats", **NAME).to_pylist() == first
    oldest = table.refresh().metadata.snapshots[0].snapshot_id
    assert [row["data_record_count"] for row in computed(session, catalog, snapshot_id=oldest).to_pylist()] == [1, 2, 1]
    files = {each.snapshot_id: each.statistics_path for each in table.refresh().metadata.partition_statistics}
    assert len(files) == 2
    session.call(f"{catalog}.system.expire_snapshots", **NAME, snapshot_ids=[oldest])
    kept = [each.snapshot_id for each in table.refresh().metadata.partition_statistics]
    assert kept == [first[0]["snapshot_id"]]
    assert not Path(files[oldest].removeprefix("file://")).exists()
    session.call(f"{catalog}.system.drop_stats", **NAME)
    assert table.refresh().metadata.partition_statistics == []


def test_deletes_are_counted_by_kind(session: Session) -> None:
    """In their own partition."""
    table = made(session, "lake", 2)
    session.sql("ALTER TABLE lake.db.t DROP PARTITION FIELD u")
    [path] = [each.file.file_path for each in table.refresh().scan("id = 5").plan_files()]
    delete_positions(table.refresh(), {path: [0]}, Record("a"))
    delete_where_equal(table.refresh(), Record(None))
    rows = [row for row in computed(session, "lake").to_pylist() if row["partition"]["k"] in ("a", None)]
    names = ("position_delete_record_count", "position_delete_file_count", "equality_delete_record_count")
    assert {tuple(row[name] for name in names) for row in rows} >= {(1, 1, 0), (0, 0, 1)}


def test_what_cannot_be_counted_is_an_error(session: Session) -> None:
    """An unpartitioned table, an unknown snapshot, a damaged or missing manifest; the table is as it was."""
    table = made(session, "lake", 2)
    session.sql("CREATE TABLE lake.db.plain (id BIGINT)")
    session.sql("CREATE TABLE lake.db.empty (id BIGINT) PARTITIONED BY (id)")
    call = "lake.system.compute_partition_stats"
    with pytest.raises((InvalidRequestError, ProcedureError), match="lake.db.plain is not partitioned"):
        session.call(call, schema="db", table_name="plain")
    with pytest.raises((InvalidRequestError, ProcedureError), match="has no snapshot 7"):
        session.call(call, **NAME, snapshot_id=7)
    assert session.call(call, schema="db", table_name="empty").num_rows == 0
    [manifest, *_] = table.refresh().current_snapshot().manifests(table.io)
    path = Path(manifest.manifest_path.removeprefix("file://"))
    path.write_bytes(b"garbage")
    with pytest.raises(FormatError, match="cannot be decoded"):
        session.call(call, **NAME)
    path.unlink()
    with pytest.raises(StorageError, match="cannot read the manifests of lake.db.t"):
        session.call(call, **NAME)
    assert table.refresh().metadata.partition_statistics == []


COUNTED = (
    "partition, spec_id, record_count, file_count, total_data_file_size_in_bytes, position_delete_record_count, "
    "position_delete_file_count, equality_delete_record_count, equality_delete_file_count, total_size"
)


@pytest.mark.parametrize("version", [2, 3])
def test_partitions_are_read_from_the_file(session: Session, version: int) -> None:
    """Counts need no manifest then: they are moved away. Bounds need them, and so do times after a deletion."""
    session.catalogs.open("lake").create_namespace("db")
    session.sql("CREATE TABLE lake.db.t (k VARCHAR, id BIGINT) WITH (partitioning = ARRAY['k'])")
    session.sql(f"ALTER TABLE lake.db.t SET PROPERTIES format_version = {version}")
    for rows in ("('a', 1), ('a', 2), (NULL, 3)", "('a', 4), ('b', 5), ('b', 6)", "('gone', 7)"):
        session.sql(f"INSERT INTO lake.db.t VALUES {rows}")
    session.sql("DELETE FROM lake.db.t WHERE k = 'gone' OR id IN (1, 5)")
    session.sql("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(2, id)")
    session.sql("INSERT INTO lake.db.t VALUES ('a', 8)")
    query = f'SELECT {COUNTED} FROM lake.db."t$partitions" ORDER BY ALL'
    expected = session.sql(query).to_pylist()
    assert len(expected) == 4
    computed(session, "lake")
    table = session.catalogs.target("lake", "db", "t").load()
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    moved = [Path(each.manifest_path.removeprefix("file://")) for each in snapshot.manifests(table.io)]
    for path in moved:
        path.rename(path.with_suffix(".away"))
    assert session.sql(query).to_pylist() == expected
    assert session.sql('SELECT count(*) AS n FROM lake.db."t$partitions"').to_pylist() == [{"n": 4}]
    for column in ("last_updated_at", "data"):
        with pytest.raises(StorageError):
            session.sql(f'SELECT {column} FROM lake.db."t$partitions"')
    for path in moved:
        path.with_suffix(".away").rename(path)
    [file] = table.metadata.partition_statistics
    Path(file.statistics_path.removeprefix("file://")).write_bytes(b"damaged")
    assert session.sql(query).to_pylist() == expected


def manifests(session: Session) -> dict[str, Path]:
    """The manifests of the current snapshot."""
    table = session.catalogs.target("lake", "db", "t").load()
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    paths = [each.manifest_path for each in snapshot.manifests(table.io)]
    return {path: Path(path.removeprefix("file://")) for path in paths}


def test_times_are_those_of_appends(session: Session) -> None:
    """If the last change of every partition is an append, no manifest is read. Spark has the same values."""
    session.catalogs.open("lake").create_namespace("db")
    session.sql("CREATE TABLE lake.db.t (k VARCHAR, id BIGINT) WITH (partitioning = ARRAY['k'])")
    for rows in ("('a', 1), ('gone', 2)", "('b', 3)", "('a', 4)"):
        session.sql(f"INSERT INTO lake.db.t VALUES {rows}")
    session.sql("DELETE FROM lake.db.t WHERE k = 'gone'")
    query = 'SELECT partition, last_updated_at, last_updated_snapshot_id FROM lake.db."t$partitions" ORDER BY 1'
    expected = session.sql(query).to_pylist()
    assert [row["partition"]["k"] for row in expected] == ["a", "b"]
    computed(session, "lake")
    moved = manifests(session).values()
    for path in moved:
        path.rename(path.with_suffix(".away"))
    assert session.sql(query).to_pylist() == expected
    for path in moved:
        path.with_suffix(".away").rename(path)
    session.sql("DELETE FROM lake.db.t WHERE id = 4")  # its file goes, and the first one of the partition stays
    first = session.sql(query).to_pylist()
    computed(session, "lake")
    assert session.sql(query).to_pylist() == first
    assert first[0]["last_updated_at"] < expected[0]["last_updated_at"]


ADD_FIELD = "ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(2, id)"
CHANGES = (
    "INSERT INTO lake.db.t VALUES ('a', 10), ('new', 11)",
    "DELETE FROM lake.db.t WHERE id = 2",
    "DELETE FROM lake.db.t WHERE k = 'b'",
    "INSERT OVERWRITE lake.db.t VALUES ('a', 12)",
    "CALL lake.system.rewrite_data_files(table => 'db.t', options => MAP(ARRAY['rewrite-all'], ARRAY['true']))",
    "CALL lake.system.rewrite_manifests(table => 'db.t')",
    "ALTER TABLE lake.db.t SET PROPERTIES format_version = 3",
    ADD_FIELD,
    "UPDATE lake.db.t SET k = 'moved' WHERE id = 5",
    "TRUNCATE TABLE lake.db.t",
)
IN_FILES = """SELECT partition, spec_id, sum(record_count) FILTER (content = 'DATA') AS record_count,
    count(*) FILTER (content = 'DATA') AS file_count, count(*) FILTER (content <> 'DATA') AS deletes
    FROM lake.db."t$files" GROUP BY ALL ORDER BY ALL"""


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.sampled_from(CHANGES), min_size=2, max_size=5), manifest_size=st.sampled_from([1, 8 << 20]))
def test_counts_by_statistics_of_an_older_snapshot(session: Session, changes: list[str], manifest_size: int) -> None:
    """Whatever has happened since, they are the counts of the live files."""
    session.catalogs.open("lake").create_namespace_if_not_exists("db")
    session.sql("DROP TABLE IF EXISTS lake.db.t")
    session.sql("CREATE TABLE lake.db.t (k VARCHAR, id BIGINT) WITH (partitioning = ARRAY['k'])")
    session.sql(f"ALTER TABLE lake.db.t SET PROPERTIES 'commit.manifest.target-size-bytes' = {manifest_size}")
    for rows in ("('a', 1), ('a', 2), (NULL, 3)", "('a', 4), ('b', 5)", "('b', 6), ('c', 7)"):
        session.sql(f"INSERT INTO lake.db.t VALUES {rows}")
    computed(session, "lake")
    for place, change in enumerate(changes):
        if change == ADD_FIELD and ADD_FIELD in changes[:place]:
            continue
        session.sql(change)
        expected = session.sql(IN_FILES).to_pylist()
        deletes = "position_delete_file_count + equality_delete_file_count AS deletes"
        found = session.sql(
            f'SELECT partition, spec_id, record_count, file_count, {deletes} FROM lake.db."t$partitions" ORDER BY ALL'
        ).to_pylist()
        assert found == [{**row, "record_count": row["record_count"] or 0} for row in expected]


def test_only_manifests_of_one_snapshot_are_read(session: Session) -> None:
    """Those that both snapshots have are moved away. Statistics that cannot be used cost a warning only."""
    session.catalogs.open("lake").create_namespace("db")
    session.sql("CREATE TABLE lake.db.t (k VARCHAR, id BIGINT) WITH (partitioning = ARRAY['k'])")
    for rows in ("('a', 1), ('b', 2)", "('a', 3)", "('c', 4)"):
        session.sql(f"INSERT INTO lake.db.t VALUES {rows}")
    computed(session, "lake")
    before = manifests(session)
    session.sql("INSERT INTO lake.db.t VALUES ('b', 5), ('d', 6)")
    session.sql("INSERT INTO lake.db.t VALUES ('a', 7)")
    query = f'SELECT {COUNTED} FROM lake.db."t$partitions" ORDER BY ALL'
    expected = session.sql(query).to_pylist()
    assert [(row["partition"]["k"], row["file_count"]) for row in expected] == [("a", 3), ("b", 2), ("c", 1), ("d", 1)]
    both = [path for name, path in manifests(session).items() if name in before]
    assert len(both) == 3
    for path in both:
        path.rename(path.with_suffix(".away"))
    assert session.sql(query).to_pylist() == expected
    for path in both:
        path.with_suffix(".away").rename(path)
    oldest = session.catalogs.target("lake", "db", "t").load().metadata.snapshots[2]
    Path(oldest.manifest_list.removeprefix("file://")).unlink()
    assert session.sql(query).to_pylist() == expected


@pytest.mark.parametrize("fault", ["a partition less", "a negative count", "partitions added up by Java"])
def test_wrong_statistics_of_others_are_not_believed(session: Session, fault: str) -> None:
    """The totals of the snapshot tell, and several specs in a file of Java."""
    session.catalogs.open("lake").create_namespace("db")
    session.sql("CREATE TABLE lake.db.t (k VARCHAR, id BIGINT) WITH (partitioning = ARRAY['k'])")
    session.sql("INSERT INTO lake.db.t VALUES ('a', 1), ('b', 2)")
    session.sql("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(4, id)")
    session.sql("INSERT INTO lake.db.t VALUES ('a', 3), ('c', 4)")
    query = f'SELECT {COUNTED} FROM lake.db."t$partitions" ORDER BY ALL'
    expected = session.sql(query).to_pylist()
    found = computed(session, "lake")
    table = session.catalogs.target("lake", "db", "t").load()
    [file] = table.metadata.partition_statistics
    wrong = found.slice(1)
    if fault != "a partition less":
        counts: list[Any] = found["data_file_count"].to_pylist()
        counts = [-1, *counts[1:]] if fault == "a negative count" else [0, counts[1] + 1, *counts[2:]]
        place = found.schema.get_field_index("data_file_count")
        wrong = found.set_column(place, found.schema.field(place), pa.array(counts, pa.int32()))
    path = Path(file.statistics_path.removeprefix("file://"))
    pq.write_table(wrong, path)
    if fault == "partitions added up by Java":
        content = path.read_bytes()
        created = f"parquet-cpp-arrow version {pa.__version__}".encode()
        assert created in content
        path.write_bytes(content.replace(created, b"parquet-mr".ljust(len(created))))
    assert session.sql(query).to_pylist() == expected
