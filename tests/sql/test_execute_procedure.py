"""``ALTER TABLE … EXECUTE``: the statements of Trino's documentation run, on the table that they name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.session import Session


@pytest.fixture
def session(bare: Session) -> Session:
    """With the table ``lake.db.t`` of three small files, in two partitions."""
    bare.sql("CREATE SCHEMA lake.db")
    bare.sql("CREATE TABLE lake.db.t (id BIGINT, day DATE) WITH (partitioning = ARRAY['day'])")
    for number, day in enumerate(("2024-01-01", "2024-01-01", "2024-01-02")):
        bare.sql(f"INSERT INTO lake.db.t VALUES ({number}, DATE '{day}')")
    return bare


def executed(session: Session, action: str) -> list[dict[str, Any]]:
    """The rows of a statement."""
    return session.sql(f"ALTER TABLE lake.db.t EXECUTE {action}").to_pylist()


def files(session: Session) -> int:
    """The number of live data files."""
    return session.sql('SELECT * FROM lake.db."t$data_files"').num_rows


@pytest.mark.parametrize(
    ("action", "left"),
    [
        ("optimize", 2),
        ("optimize WHERE day >= CAST('2024-01-01 00:00:00+00' AS timestamp(6) with time zone)", 2),
        ("optimize(file_size_threshold => '128MB')", 2),
        ("optimize('128MB')", 2),
        ("optimize(file_size_threshold => '1B')", 3),
        ("optimize(file_size_threshold => '128MB') WHERE day = DATE '2024-01-02'", 3),
        ("optimize(file_size_threshold => '128MB') WHERE \"day\" < DATE '2024-01-02'", 2),
        ("optimize(file_size_threshold => '128MB') WHERE \"$partition\" = 'day=2024-01-02'", 3),
        (
            "optimize(file_size_threshold => '128MB') WHERE \"$partition\" LIKE '%01-0%' AND day > DATE '2023-01-01'",
            2,
        ),
        ("optimize(file_size_threshold => '128MB') WHERE \"$path\" LIKE '%nothing%'", 3),
        ("optimize(file_size_threshold => '128MB') WHERE \"$path\" IS NOT NULL AND \"$partition\" <> ''", 2),
        ("rewrite_data_files(options => MAP(ARRAY['rewrite-all'], ARRAY['true']))", 2),
    ],
)
def test_optimize(session: Session, action: str, left: int) -> None:
    """Small files of a partition are merged; the rows stay."""
    before = session.sql("SELECT * FROM lake.db.t ORDER BY id")
    executed(session, action)
    assert files(session) == left
    assert session.sql("SELECT * FROM lake.db.t ORDER BY id").equals(before)


@pytest.mark.parametrize(
    "action",
    [
        "optimize_manifests",
        "expire_snapshots(retention_threshold => '7d')",
        "expire_snapshots(retention_threshold => '7d', retain_last => 2)",
        "remove_orphan_files(retention_threshold => '7d')",
        "drop_extended_stats",
        "rewrite_delete_files",
    ],
)
def test_statements_as_they_are_printed(session: Session, action: str) -> None:
    """They change no row."""
    before = session.sql("SELECT * FROM lake.db.t ORDER BY id")
    executed(session, action)
    assert session.sql("SELECT * FROM lake.db.t ORDER BY id").equals(before)


def test_a_snapshot_by_position(session: Session) -> None:
    """As in Trino, the table is not an argument."""
    first = session.sql('SELECT snapshot_id FROM lake.db."t$snapshots" ORDER BY committed_at')["snapshot_id"][0]
    executed(session, f"rollback_to_snapshot({first})")
    assert session.sql("SELECT count(*) AS n FROM lake.db.t").equals(pa.table({"n": [1]}))


@pytest.mark.parametrize(
    ("action", "error", "said"),
    [
        ("vacuum", NotFoundError, "line 1, column 31: Procedure not registered: lake.system.vacuum"),
        ("optimize(x => 1)", InvalidRequestError, "Unknown argument name: x"),
        ("optimize(1, 2)", InvalidRequestError, "takes at most 1 arguments by position"),
        ("optimize_manifests WHERE id = 1", InvalidRequestError, "takes no condition"),
        ("optimize WHERE", InvalidRequestError, "a condition is expected"),
        ("optimize WHERE id +", InvalidRequestError, "is not a condition"),
        ("optimize WHERE nothing = 1", InvalidRequestError, "nothing"),
        ("optimize WHERE \"$path\" = 'x' OR id = 1", InvalidRequestError, "compares facts of files with columns"),
        ('optimize WHERE "$path" = 1', InvalidRequestError, "cannot choose files"),
    ],
)
def test_what_is_wrong_is_said(session: Session, action: str, error: type[Exception], said: str) -> None:
    """With the place in the text; nothing changes."""
    before = session.catalogs.target("lake", "db", "t").load().metadata_location
    with pytest.raises(error, match=said):
        executed(session, action)
    assert session.catalogs.target("lake", "db", "t").load().metadata_location == before
