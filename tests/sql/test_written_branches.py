"""Branches are written by SQL, and published: write, audit, publish. PyIceberg reads every branch beside us."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.lake_table import TABLE, Lake
from support.task_engine import TaskEngine

from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError

CHANGES: list[tuple[str, list[int]]] = [
    ("INSERT INTO {b} VALUES (9, 'a', 1)", [0, 1, 2, 3, 4, 7, 9]),
    ("INSERT INTO {b} SELECT id + 10, k, n FROM {t} WHERE id < 2", [0, 1, 2, 3, 4, 7, 10, 11]),
    ("INSERT OVERWRITE {b} SELECT id + 10, k, n FROM {b} WHERE id > 3", [14, 17]),
    ("INSERT INTO {b} REPLACE WHERE id > 2 SELECT id + 10, k, n FROM {b} WHERE id = 7", [0, 1, 2, 17]),
    ("UPDATE {b} SET id = id + 10 WHERE id > 3", [0, 1, 2, 3, 14, 17]),
    ("UPDATE {b} b SET id = m.id + 20 FROM {t} m WHERE b.id = m.id AND m.id = 4", [0, 1, 2, 3, 7, 24]),
    ("DELETE FROM {b} WHERE id IN (SELECT id FROM {t})", [7]),
    ("DELETE FROM {b} USING {t} m WHERE branch_dev.id = m.id", [7]),
    ("TRUNCATE TABLE {b}", []),
    (
        """MERGE INTO {b} b USING (FROM {t} UNION ALL SELECT 8, '', 0) m ON b.id = m.id WHEN MATCHED THEN DELETE WHEN
        NOT MATCHED THEN INSERT (id) VALUES (m.id) WHEN NOT MATCHED BY SOURCE THEN UPDATE SET id = 70""",
        [8, 70],
    ),
]
"""Each on a branch with the ids 0 to 4 and 7, beside ``main`` with 0 to 4; and the ids afterwards."""


def with_branch(lake: Lake) -> Lake:
    """The table with five rows in ``main``, and one more in the branch ``dev``."""
    lake.create(2, files=1)
    lake.sql(f"ALTER TABLE {TABLE} CREATE BRANCH dev")
    lake.sql("INSERT INTO lake.db.t.branch_dev VALUES (7, 'b', 0)")
    return lake


@pytest.fixture
def branched(lake: Lake) -> Lake:
    """As :func:`with_branch`."""
    return with_branch(lake)


def ids(lake: Lake, ref: str) -> list[Any]:
    """The ids at a branch or tag, as SELECT and PyIceberg have them."""
    ours = [row["id"] for row in lake.session.sql(f'SELECT id FROM lake.db."t@{ref}"').to_pylist()]
    table = lake.load()
    theirs: list[Any] = table.scan(snapshot_id=table.refs()[ref].snapshot_id).to_arrow().column("id").to_pylist()
    assert sorted(ours) == sorted(theirs)
    return sorted(ours)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(("statement", "expected"), CHANGES)
def test_a_statement_changes_the_branch_alone(
    branched: Lake, statement: str, expected: Sequence[int], mode: str
) -> None:
    """It reads the branch's rows under the branch's name, and those of ``main`` under the table's."""
    branched.modes(mode)
    branched.sql(statement.format(b="lake.db.t.branch_dev", t=TABLE))
    assert ids(branched, "dev") == expected
    assert branched.ids == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("statement", "expected"), [CHANGES[1], CHANGES[4], CHANGES[6], CHANGES[9]])
def test_tasks_change_the_branch(tmp_path: Path, statement: str, expected: Sequence[int]) -> None:
    """The branch is the one that tasks read, too."""
    engine = TaskEngine()
    lake = Lake(tmp_path, engine)
    with lake.session:
        with_branch(lake).sql(statement.format(b="lake.db.t.branch_dev", t=TABLE))
        assert ids(lake, "dev") == expected
        assert lake.ids == [0, 1, 2, 3, 4]
    assert engine.tasks


@pytest.mark.parametrize(
    "name", ["lake.db.t.branch_dev", 'lake.db."t@dev"', "lake.db.t.BRANCH_dev", "t.branch_dev", '"t.branch_dev"']
)
def test_every_spelling_of_a_branch(branched: Lake, name: str) -> None:
    """Spark's and Trino's, and short names after USE."""
    branched.sql("USE lake.db")
    branched.sql(f"DELETE FROM {name} WHERE id < 4")
    assert branched.session.sql(f"SELECT id FROM {name} ORDER BY id").to_pylist() == [{"id": 4}, {"id": 7}]


@pytest.mark.parametrize("name", ["t.tag_old", '"t@old"', "t.snapshot_id_{id}", '"t@{id}"', "t.at_timestamp_{ms}"])
def test_versions_are_read_and_not_written(branched: Lake, name: str) -> None:
    """A tag, a snapshot and a time stay what they are."""
    branched.sql(f"ALTER TABLE {TABLE} CREATE TAG old")
    current = branched.load().metadata.current_snapshot()
    assert current is not None
    branched.sql(f"DELETE FROM {TABLE}")
    table = "lake.db." + name.format(id=current.snapshot_id, ms=current.timestamp_ms)
    assert branched.session.sql(f"SELECT count(*) AS n FROM {table}").to_pylist() == [{"n": 5}]
    with pytest.raises(InvalidRequestError, match=r"stays at its snapshot|cannot change"):
        branched.sql(f"DELETE FROM {table}")


def test_an_empty_table_has_a_main_branch(lake: Lake) -> None:
    """Although no ref is written before the first snapshot."""
    lake.create(2, files=0)
    assert lake.session.sql('SELECT * FROM lake.db."t@main"').num_rows == 0
    lake.sql("INSERT INTO lake.db.t.branch_main VALUES (1, 'a', 0)")
    assert lake.ids == [1]


def test_a_table_of_that_name_wins(branched: Lake) -> None:
    """The whole name is looked for first."""
    branched.sql('CREATE TABLE lake.db."t@dev" (id BIGINT)')
    branched.sql('INSERT INTO lake.db."t@dev" VALUES (1)')
    assert branched.session.sql('SELECT id FROM lake.db."t@dev"').to_pylist() == [{"id": 1}]


def test_a_branch_that_is_missing_is_not_made(branched: Lake) -> None:
    """The error says how it is made."""
    with pytest.raises(NotFoundError, match=r"has no branch deb; did you mean dev\?.* CREATE BRANCH deb makes it"):
        branched.sql("INSERT INTO lake.db.t.branch_deb VALUES (1, 'a', 0)")


@pytest.mark.parametrize("other", [TABLE, "lake.db.t.branch_dev"])
def test_a_statement_loses_no_row_of_another_writer(branched: Lake, other: str) -> None:
    """Whether the other one writes the same branch, or ``main``."""
    branched.meanwhile = lambda: branched.session.sql(f"INSERT INTO {other} VALUES (5, 'a', 0)")
    row = branched.sql("UPDATE lake.db.t.branch_dev SET n = 1")
    on_branch = other != TABLE
    assert row["updated"] == 6 + on_branch
    assert ids(branched, "dev") == sorted([0, 1, 2, 3, 4, 7] + [5] * on_branch)
    assert branched.ids == sorted([0, 1, 2, 3, 4] + [5] * (not on_branch))


def test_published_by_fast_forward(branched: Lake) -> None:
    """``main`` gets the branch's rows, and the branch's retention stays."""
    branched.sql(f"ALTER TABLE {TABLE} CREATE OR REPLACE BRANCH dev RETAIN 7 DAYS")
    branched.sql("INSERT INTO lake.db.t.branch_dev VALUES (7, 'b', 0)")
    branched.call("fast_forward", branch="main", to="dev")
    assert branched.ids == [0, 1, 2, 3, 4, 7]
    assert branched.load().refs()["dev"].max_ref_age_ms == 7 * 24 * 3600 * 1000


def test_expire_keeps_the_branch(branched: Lake) -> None:
    """Its snapshots and files are still read after ``main`` has moved on."""
    branched.sql(f"DELETE FROM {TABLE}")
    branched.sql("UPDATE lake.db.t.branch_dev SET n = 2 WHERE id > 3")
    branched.call("expire_snapshots", older_than="2999-01-01 00:00:00", retain_last=1)
    branched.session.call("lake.system.remove_orphan_files", schema="db", table_name="t")
    assert ids(branched, "dev") == [0, 1, 2, 3, 4, 7]


def test_staged_by_wap_id_and_published(branched: Lake) -> None:
    """A staged snapshot is in no branch, and is published once."""
    branched.set_properties(write_wap_enabled="true")
    branched.sql("SET spark.wap.id = load-1")
    staged = branched.sql(f"INSERT INTO {TABLE} VALUES (8, 'a', 0)")["snapshot_id"]
    assert branched.ids == [0, 1, 2, 3, 4]
    found = branched.load().metadata.snapshot_by_id(staged)
    assert found is not None
    assert found.summary is not None
    assert found.summary["wap.id"] == "load-1"
    branched.sql("RESET spark.wap.id")
    branched.sql(f"DELETE FROM {TABLE} WHERE id = 0")
    branched.call("publish_changes", wap_id="load-1")
    assert branched.ids == [1, 2, 3, 4, 8]
    with pytest.raises(MetastoreError, match="already picked"):
        branched.call("publish_changes", wap_id="load-1")


def test_a_branch_for_every_statement_of_the_session(branched: Lake) -> None:
    """It is made by the first write, and read from then on; RESET shows ``main`` again."""
    branched.set_properties(write_wap_enabled="true")
    branched.sql("SET spark.wap.branch = 'audit'")
    assert branched.ids == [0, 1, 2, 3, 4]
    branched.sql(f"DELETE FROM {TABLE} WHERE id < 3")
    branched.sql(f"MERGE INTO {TABLE} t USING {TABLE} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = s.id + 10")
    assert branched.session.sql(f"SELECT id FROM {TABLE} ORDER BY id").to_pylist() == [{"id": 13}, {"id": 14}]
    with pytest.raises(InvalidRequestError, match=r"names branch dev .* spark.wap.branch is audit"):
        branched.sql("DELETE FROM lake.db.t.branch_dev")
    assert branched.sql("RESET spark.wap.branch") == {"key": "spark.wap.branch", "value": None}
    assert branched.ids == [0, 1, 2, 3, 4]
    assert ids(branched, "audit") == [13, 14]


def test_settings_of_audits_are_for_tables_that_ask_for_them(branched: Lake) -> None:
    """A table without ``write.wap.enabled`` is written as ever."""
    branched.sql("SET spark.wap.branch = audit")
    branched.sql("SET write.wap.id = x")
    branched.sql(f"DELETE FROM {TABLE} WHERE id = 0")
    assert branched.ids == [1, 2, 3, 4]
    branched.set_properties(write_wap_enabled="true")
    with pytest.raises(InvalidRequestError, match="RESET one of them"):
        branched.sql(f"DELETE FROM {TABLE}")
    shown = branched.session.sql("SET").to_pylist()
    assert shown == [{"key": "spark.wap.branch", "value": "audit"}, {"key": "spark.wap.id", "value": "x"}]


def test_the_first_write_of_a_table_goes_to_a_branch(lake: Lake) -> None:
    """``main`` is empty until the branch is published, and a write into it begins on its own."""
    lake.sql(f"CREATE TABLE {TABLE} (id BIGINT) TBLPROPERTIES ('write.wap.enabled' = 'true')")
    lake.sql("SET spark.wap.branch = 'audit'")
    lake.sql(f"INSERT INTO {TABLE} VALUES (1), (2)")
    lake.sql(f"DELETE FROM {TABLE} WHERE id = 1")
    lake.sql("RESET spark.wap.branch")
    assert ids(lake, "audit") == [2]
    assert lake.session.sql(f"SELECT id FROM {TABLE}").num_rows == 0
    assert lake.load().current_snapshot() is None
    lake.sql(f"INSERT INTO {TABLE} VALUES (9)")
    assert ids(lake, "main") == [9]
    assert ids(lake, "audit") == [2]
