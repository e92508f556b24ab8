"""Changes of snapshots: replayed, they make each version of the table; as views, they are Spark's."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from support.delete_files import delete_equal, delete_positions, with_ids

from metastore.errors import InvalidRequestError, NotFoundError, StorageError
from metastore.session import Session

FULL = "lake.db.t"
BACK = {"INSERT": 1, "UPDATE_AFTER": 1, "DELETE": -1, "UPDATE_BEFORE": -1}


def create(session: Session, more: str = "") -> None:
    """An empty table of ids, texts and lists."""
    session.catalogs.open("lake").create_namespace_if_not_exists("db")
    session.sql(f"CREATE TABLE {FULL} (id BIGINT, v VARCHAR, tags ARRAY(BIGINT)) {more}")


def filled(session: Session) -> None:
    """Four snapshots with changes: two insertions, an update, a deletion."""
    create(session)
    for statement in (
        f"INSERT INTO {FULL} VALUES (1, 'a', [1]), (2, 'b', NULL)",
        f"INSERT INTO {FULL} VALUES (3, 'c', NULL)",
        f"UPDATE {FULL} SET v = 'B' WHERE id = 2",
        f"DELETE FROM {FULL} WHERE id = 1",
    ):
        session.sql(statement)


def view(session: Session, **arguments: Any) -> str:
    """The name of the view that the procedure makes."""
    found = session.call("lake.system.create_changelog_view", schema="db", table_name="t", **arguments)
    return str(found["changelog_view"][0])


def rows(session: Session, name: str) -> list[tuple[Any, ...]]:
    """Id, text, type and ordinal of each change, in order."""
    found = session.sql(f'SELECT id, v, _change_type AS kind, _change_ordinal AS number FROM "{name}"').to_pylist()
    return [tuple(row.values()) for row in found]


def snapshots(session: Session) -> list[int]:
    """The ids of the table's snapshots, oldest first."""
    return [each.snapshot_id for each in session.catalogs.table("lake", "db", "t").load().metadata.snapshots]


INSERTED = [(1, "a", "INSERT", 0), (2, "b", "INSERT", 0), (3, "c", "INSERT", 1)]


def test_changes_are_those_of_each_snapshot(session: Session) -> None:
    """A statement writes whole files anew; rows that it did not change are no changes."""
    filled(session)
    assert view(session) == "t_changes"
    assert rows(session, "t_changes") == [
        *INSERTED,
        (2, "b", "DELETE", 2),
        (2, "B", "INSERT", 2),
        (1, "a", "DELETE", 3),
    ]
    found = session.sql("SELECT DISTINCT _commit_snapshot_id AS id FROM t_changes ORDER BY ALL")
    assert found["id"].to_pylist() == sorted(snapshots(session))
    assert session.sql('SELECT * FROM lake.db."t$changes"').to_pylist() == session.sql("FROM t_changes").to_pylist()


def test_identifiers_make_updates(session: Session) -> None:
    """A removed and an added row of one snapshot are two states of one row."""
    filled(session)
    updates = [(2, "b", "UPDATE_BEFORE", 2), (2, "B", "UPDATE_AFTER", 2)]
    name = view(session, changelog_view="by id", identifier_columns=["id"])
    assert rows(session, name) == [*INSERTED, *updates, (1, "a", "DELETE", 3)]
    with pytest.raises(InvalidRequestError, match="identifier columns"):
        view(session, compute_updates=True)
    with pytest.raises(InvalidRequestError, match="nosuch does not exist"):
        view(session, identifier_columns=["nosuch"])
    assert rows(session, view(session, identifier_columns=["id"], compute_updates=False)) != rows(session, name)


def test_several_rows_of_one_identifier_are_refused(session: Session) -> None:
    """It would be a guess which row became which; the names of the columns are in the message."""
    create(session)
    session.sql(f"INSERT INTO {FULL} VALUES (1, 'a', NULL), (1, 'b', NULL)")
    session.sql(f"UPDATE {FULL} SET v = v || '!'")
    name = view(session, identifier_columns=["id"])
    with pytest.raises(InvalidRequestError, match="same values of id"):
        session.sql(f"SELECT * FROM {name}")


def test_net_changes_leave_out_what_came_and_went(session: Session) -> None:
    """Row 1 came and went; the first state of row 2 as well."""
    filled(session)
    assert rows(session, view(session, net_changes=True)) == [(3, "c", "INSERT", 1), (2, "B", "INSERT", 2)]
    first = snapshots(session)[0]
    since = view(session, net_changes=True, options={"start-snapshot-id": str(first)})
    net = [(3, "c", "INSERT", 0), (2, "b", "DELETE", 1), (2, "B", "INSERT", 1), (1, "a", "DELETE", 2)]
    assert rows(session, since) == net
    with pytest.raises(InvalidRequestError, match="exclude each other"):
        view(session, net_changes=True, identifier_columns=["id"])


def test_a_range_begins_behind_a_snapshot_or_a_time(session: Session) -> None:
    """The start is excluded, the end included, as in Spark."""
    filled(session)
    metadata = session.catalogs.table("lake", "db", "t").load().metadata
    ids, times = snapshots(session), {each.snapshot_id: each.timestamp_ms for each in metadata.snapshots}
    middle = [(3, "c", "INSERT", 0), (2, "b", "DELETE", 1), (2, "B", "INSERT", 1)]
    assert (
        rows(session, view(session, options={"start-snapshot-id": str(ids[0]), "end-snapshot-id": str(ids[2])}))
        == middle
    )
    by_time = {"start-timestamp": str(times[ids[0]]), "end-timestamp": str(times[ids[2]])}
    assert rows(session, view(session, options=by_time)) == middle
    assert rows(session, view(session, options={"start-timestamp": str(times[ids[3]])})) == []
    assert rows(session, view(session, options={"end-timestamp": str(times[ids[0]] - 1)})) == []
    older = f'SELECT count(*) AS n FROM lake.db."t$changes" FOR VERSION AS OF {ids[0]}'
    assert session.sql(older)["n"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"start": "1"}, "no option 'start'"),
        ({"start-snapshot-id": "x"}, "the id of a snapshot"),
        ({"end-timestamp": "2020-01-01"}, "milliseconds"),
        ({"start-snapshot-id": "1", "start-timestamp": "1"}, "exclude each other"),
        ({"start-snapshot-id": "1"}, "not an ancestor"),
        ({"end-snapshot-id": "1"}, "no snapshot 1"),
    ],
)
def test_options_that_do_not_fit_are_refused(session: Session, options: dict[str, str], text: str) -> None:
    """By name; no view is made."""
    filled(session)
    with pytest.raises(InvalidRequestError, match=text):
        view(session, options=options)
    with pytest.raises(NotFoundError, match="t_changes"):
        session.sql("SELECT * FROM t_changes")


def test_an_append_does_not_begin_the_history(session: Session) -> None:
    """It keeps the manifests of snapshots that have expired, whose rows it did not insert."""
    create(session)
    for row in ("(1, 'a', NULL)", "(2, 'b', NULL)", "(3, 'c', NULL)"):
        session.sql(f"INSERT INTO {FULL} VALUES {row}")
    now = datetime.now(timezone.utc)
    session.call("lake.system.expire_snapshots", schema="db", table_name="t", older_than=now, retain_last=2)
    assert len(snapshots(session)) == 2
    assert rows(session, view(session)) == [(3, "c", "INSERT", 0)]


def test_changes_begin_where_the_history_is_known(session: Session) -> None:
    """What the oldest snapshot changed is not known once its parent has expired."""
    filled(session)
    ids = snapshots(session)
    now = datetime.now(timezone.utc)
    session.call("lake.system.expire_snapshots", schema="db", table_name="t", older_than=now, retain_last=2)
    assert snapshots(session) == ids[2:]
    assert rows(session, view(session)) == [(1, "a", "DELETE", 0)]
    with pytest.raises(InvalidRequestError, match="one between them has expired"):
        view(session, options={"start-snapshot-id": str(ids[0])})
    with pytest.raises(InvalidRequestError, match="history begins at"):
        view(session, options={"start-timestamp": "1000"})


def test_a_view_keeps_its_range(session: Session) -> None:
    """Later commits do not change it, and a new view of the name takes its place."""
    filled(session)
    name = view(session)
    before = rows(session, name)
    session.sql(f"INSERT INTO {FULL} VALUES (9, 'z', NULL)")
    assert rows(session, name) == before
    assert len(rows(session, view(session))) == len(before) + 1
    with pytest.raises(InvalidRequestError, match="without dots"):
        view(session, changelog_view="a.b")
    with pytest.raises(InvalidRequestError, match="has no versions"):
        session.sql(f"SELECT * FROM {name} FOR VERSION AS OF 1")
    assert session.sql(f"DESCRIBE {name}")["COLUMN_NAME"].to_pylist()[-3:] == [
        "_change_type",
        "_change_ordinal",
        "_commit_snapshot_id",
    ]
    assert "snapshots: 5" in str(session.sql(f"EXPLAIN SELECT * FROM {name}")["plan"].to_pylist())


def test_a_file_that_is_gone_is_named(session: Session) -> None:
    """The error of a read, not rows that are missing."""
    filled(session)
    table = session.catalogs.table("lake", "db", "t").load()
    [path] = {task.file.file_path for task in table.scan(snapshot_id=snapshots(session)[0]).plan_files()}
    table.io.delete(path)
    with pytest.raises(StorageError, match=path.rpartition("/")[2]):
        session.sql("SELECT * FROM " + view(session))


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_changes_make_every_version_of_the_table(session: Session, version: int, seed: int) -> None:
    """Random statements, delete files of others, rewritten files; the changes up to a version add up to its rows."""
    chance = random.Random(f"{seed} {version}")
    create(session, "PARTITIONED BY (bucket(2, id))" if chance.random() < 0.5 and version < 3 else "")
    session.sql(f"ALTER TABLE {FULL} SET PROPERTIES format_version = {version}") if version > 1 else None
    for step in range(9):
        session.sql(statement(chance, step))
        if version == 2 and chance.random() < 0.4:
            deleted_by_others(session, chance)
        if chance.random() < 0.3:
            session.call(
                "lake.system.rewrite_data_files", schema="db", table_name="t", options={"min-input-files": "2"}
            )
    net = session.sql(f"SELECT id, v, tags FROM {view(session, net_changes=True)}").to_pylist()
    assert Counter(map(repr, net)) == Counter(map(repr, session.sql(f"SELECT id, v, tags FROM {FULL}").to_pylist()))
    changes = session.sql('SELECT id, v, tags, _change_type AS k, _commit_snapshot_id AS s FROM lake.db."t$changes"')
    by_snapshot: dict[int, Counter[str]] = {}
    for row in changes.to_pylist():
        kind, snapshot = row.pop("k"), row.pop("s")
        by_snapshot.setdefault(snapshot, Counter())[repr(row)] += BACK[kind]
    state: Counter[str] = Counter()
    for snapshot in snapshots(session):
        state.update(by_snapshot.get(snapshot, Counter()))
        then = session.sql(f"SELECT id, v, tags FROM {FULL} FOR VERSION AS OF {snapshot}").to_pylist()
        assert +state == Counter(map(repr, then)), snapshot
        assert min(state.values(), default=0) >= 0


def statement(chance: random.Random, step: int) -> str:
    """A statement on the table: rows repeat, so that equal ones are counted."""
    number = chance.randrange(4)
    return chance.choice(
        [
            f"INSERT INTO {FULL} (id, v, tags) VALUES ({number}, 'v{step % 2}', [{number}]), ({step}, NULL, NULL)",
            f"INSERT INTO {FULL} (id, v, tags) VALUES ({number}, 'v0', [{number}]), ({number}, 'v0', [{number}])",
            f"UPDATE {FULL} SET v = 'u{step}' WHERE id = {number}",
            f"DELETE FROM {FULL} WHERE id = {number}",
            f"UPDATE {FULL} SET v = v WHERE id <= {number}",
        ]
    )


def deleted_by_others(session: Session, chance: random.Random) -> None:
    """One more delete file: of a position, or of rows that equal one."""
    table = session.catalogs.open("lake").load_table("db.t")
    files = [task.file for task in table.scan().plan_files()] if not has_equality_deletes(table) else []
    if files and chance.random() < 0.5:
        file = chance.choice(files)
        delete_positions(table, {file.file_path: [chance.randrange(file.record_count)]}, file.partition)
    elif table.spec().is_unpartitioned() and table.current_snapshot() is not None:
        keys = pa.table({"id": pa.array([chance.randrange(4)], pa.int64())})
        delete_equal(table, with_ids(keys, table.schema().find_field("id").field_id), [1])


def has_equality_deletes(table: Any) -> bool:
    """PyIceberg plans no table that has such a file."""
    return (
        any(row["content"] == 2 for row in table.inspect.delete_files().to_pylist())
        if table.current_snapshot()
        else False
    )
