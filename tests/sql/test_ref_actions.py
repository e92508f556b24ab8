"""Branches and tags by ALTER TABLE do what the procedures do; a column may be called ``branch``."""

from __future__ import annotations

from typing import Any

import pytest

from metastore.errors import InvalidRequestError, MetastoreError
from metastore.session import Session

DAY = 86_400_000


@pytest.fixture
def session(bare: Session) -> Session:
    """With ``lake.db.t``, which has two snapshots, and the branch ``old`` at the first of them."""
    bare.sql("CREATE SCHEMA lake.db")
    bare.sql("CREATE TABLE lake.db.t (id INT, branch INT, tag INT)")
    bare.sql("INSERT INTO lake.db.t (id) VALUES (1)")
    bare.sql("ALTER TABLE lake.db.t CREATE BRANCH old RETAIN 9 DAYS")
    bare.sql("INSERT INTO lake.db.t (id) VALUES (2)")
    return bare


def refs(session: Session) -> dict[str, tuple[Any, ...]]:
    """Kind, snapshot and retention of each ref but main, by name; the snapshot is its position in the history."""
    table = session.catalogs.open("lake").load_table("db.t")
    order = [snapshot.snapshot_id for snapshot in table.snapshots()]
    return {
        name: (
            str(ref.snapshot_ref_type),
            order.index(ref.snapshot_id),
            ref.max_ref_age_ms,
            ref.min_snapshots_to_keep,
            ref.max_snapshot_age_ms,
        )
        for name, ref in table.refs().items()
        if name != "main"
    }


OLD = ("branch", 0, 9 * DAY, None, None)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("CREATE BRANCH b", {"b": ("branch", 1, None, None, None)}),
        ("create tag `v 1` as of version {first}", {"v 1": ("tag", 0, None, None, None)}),
        ("CREATE TAG t RETAIN 365 DAYS", {"t": ("tag", 1, 365 * DAY, None, None)}),
        (
            "CREATE BRANCH b AS OF VERSION {first} RETAIN 1 DAY WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 HOURS",
            {"b": ("branch", 0, DAY, 2, 3 * 3_600_000)},
        ),
        ("CREATE BRANCH b WITH SNAPSHOT RETENTION 2 SNAPSHOTS", {"b": ("branch", 1, None, 2, None)}),
        ("CREATE BRANCH b WITH SNAPSHOT RETENTION 5 MINUTES", {"b": ("branch", 1, None, None, 300_000)}),
        ("CREATE BRANCH IF NOT EXISTS old RETAIN 1 DAY", {}),
        ("CREATE OR REPLACE BRANCH old WITH SNAPSHOT RETENTION 3 SNAPSHOTS", {"old": ("branch", 1, 9 * DAY, 3, None)}),
        ("CREATE OR REPLACE TAG new", {"new": ("tag", 1, None, None, None)}),
        ("REPLACE BRANCH old RETAIN 1 DAY", {"old": ("branch", 1, DAY, None, None)}),
        ("DROP TAG IF EXISTS nope", {}),
    ],
)
def test_a_ref_is_made(session: Session, action: str, expected: dict[str, tuple[Any, ...]]) -> None:
    """Kind, snapshot and retention; EXPLAIN makes none."""
    first = session.catalogs.open("lake").load_table("db.t").snapshots()[0].snapshot_id
    session.sql("EXPLAIN ALTER TABLE lake.db.t " + action.format(first=first))
    assert refs(session) == {"old": OLD}
    session.sql("ALTER TABLE lake.db.t " + action.format(first=first))
    assert refs(session) == {"old": OLD} | expected


def test_a_ref_is_dropped(session: Session) -> None:
    """Columns of these names are dropped as before."""
    session.sql("ALTER TABLE lake.db.t DROP BRANCH old")
    assert refs(session) == {}
    session.sql("ALTER TABLE lake.db.t DROP branch, DROP COLUMN tag")
    assert session.sql("SELECT * FROM lake.db.t").column_names == ["id"]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("CREATE BRANCH old", "Ref old already exists"),
        ("CREATE TAG IF NOT EXISTS old", "Ref old is a branch not a tag"),
        ("CREATE OR REPLACE TAG old", "Ref old is a branch not a tag"),
        ("CREATE OR REPLACE BRANCH IF NOT EXISTS old", "exclude each other"),
        ("REPLACE TAG nope", "nope"),
        ("DROP BRANCH main", "Cannot remove main branch"),
        ("DROP TAG old", "Ref old is a branch not a tag"),
        ("CREATE BRANCH b AS OF VERSION 5", "unknown snapshot: 5"),
        ("CREATE BRANCH b AS OF VERSION x", "line 1, column 53: a whole number is expected, not x"),
        ("CREATE BRANCH b RETAIN 5 YEARS", "DAYS, HOURS or MINUTES is expected, not YEARS"),
        ("CREATE BRANCH b RETAIN 0 DAYS", "max_ref_age_ms must be at least 1"),
        ("CREATE TAG b WITH SNAPSHOT RETENTION 5 DAYS", "the end of the statement is expected, not WITH"),
        ("CREATE TAG b, DROP COLUMN id", "the end of the statement is expected, not ,"),
    ],
)
def test_what_is_refused_changes_nothing(session: Session, action: str, message: str) -> None:
    """With the message of the procedure, or the place in the text."""
    with pytest.raises(MetastoreError) as error:
        session.sql(f"ALTER TABLE lake.db.t {action}")
    assert message in str(error.value)
    assert refs(session) == {"old": OLD}


def test_a_call_says_what_happens_to_a_ref_that_exists(session: Session) -> None:
    """The procedures have the same two arguments."""
    session.call("lake.system.create_branch", schema="db", table_name="t", branch="old", if_not_exists=True)
    assert refs(session) == {"old": OLD}
    both: dict[str, Any] = {"if_not_exists": True, "or_replace": True}
    with pytest.raises(InvalidRequestError, match="exclude each other"):
        session.call("lake.system.create_tag", schema="db", table_name="t", tag="x", **both)
