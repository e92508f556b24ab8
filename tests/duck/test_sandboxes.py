"""A database that is used again is as empty as a new one, and no two queries have one at the same time."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from support.forked import in_child

from metastore.duck import sandboxes
from metastore.duck.queries import Duck, Failure
from metastore.duck.sandboxes import Sandbox

NUMBERS = pa.table({"x": [1, 2, 3]})


def one_row(duck: Duck, text: str) -> dict[str, object]:
    """The only row of a query."""
    [row] = duck.run(text).to_pylist()
    assert isinstance(row, dict)
    return row


@pytest.fixture
def settings() -> tuple[str, ...]:
    """Settings that no query has, so no other test has taken the databases of these."""
    return ("SET GLOBAL explain_output = 'optimized_only'",)


def test_a_database_is_used_again(settings: tuple[str, ...]) -> None:
    """And has nothing of what was left in it, whatever it was."""
    first = Sandbox.take(settings)
    for text in (
        "CREATE SCHEMA s",
        "CREATE TABLE s.t AS SELECT 1 AS x",
        "CREATE TEMP TABLE u AS SELECT 1 AS x",
        "CREATE MACRO twice(x) AS 2 * x",
        "SET VARIABLE v = 7",
        "PREPARE p AS SELECT 1",
        "BEGIN",
        "CREATE TABLE w AS SELECT 1 AS x",
    ):
        first.connection.execute(text)
    first.give_back(ended=True)
    again = Sandbox.take(settings)
    assert again is first
    for text in ("FROM s.t", "FROM u", "SELECT twice(1)", "EXECUTE p", "FROM w", "DROP SCHEMA s"):
        with pytest.raises(duckdb.Error):
            again.connection.execute(text)
    assert again.connection.execute("SELECT getvariable('v')").fetchall() == [(None,)]
    assert again.connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
    again.give_back(ended=True)


def test_a_seed_ends_with_its_query(settings: tuple[str, ...]) -> None:
    """The next query's numbers do not follow from it."""
    drawn = set()
    for seeded in (True, False, True, False):
        sandbox = Sandbox.take(settings)
        if seeded:
            sandbox.connection.execute("SELECT setseed(0.5)").fetchall()
        else:
            drawn.update(sandbox.connection.execute("SELECT random()").fetchall())
        sandbox.give_back(ended=True)
    assert len(drawn) == 2


def test_queries_at_the_same_time_share_nothing(settings: tuple[str, ...]) -> None:
    """Each has a database of its own."""
    first, second = Sandbox.take(settings), Sandbox.take(settings)
    first.connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    assert second.connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
    first.give_back(ended=True)
    second.give_back(ended=True)


def test_an_interrupted_query_takes_its_database_along(settings: tuple[str, ...]) -> None:
    """It might still run there."""
    first = Sandbox.take(settings)
    first.give_back(ended=False)
    again = Sandbox.take(settings)
    assert again is not first
    again.give_back(ended=True)


def test_settings_stay_locked() -> None:
    """In the second query as in the first, after an error too; times are UTC's."""
    for _ in range(3):
        with Duck() as duck:
            assert one_row(duck, "SELECT current_setting('TimeZone') AS zone") == {"zone": "UTC"}
            for text in ("SELECT * FROM read_csv('/etc/hosts')", "SET threads = 1", "SET TimeZone = 'Asia/Tokyo'"):
                with pytest.raises(Failure):
                    duck.run(text)
        with pytest.raises(Failure), Duck() as duck:
            duck.run("SELECT nothing")


def test_a_forked_child_runs_queries() -> None:
    """None of its parent's databases is there, so nothing waits for threads that only the parent has."""
    with Duck() as duck:
        duck.run("SELECT 1")
    child = os.fork()
    if child == 0:
        try:
            with Duck() as duck:
                place = duck.add("t", NUMBERS.schema, lambda: iter(NUMBERS.to_batches()))
                found = one_row(duck, f"SELECT sum(x) AS n FROM {place}")
            os._exit(0 if found == {"n": 6} else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with Duck() as duck:
        assert one_row(duck, "SELECT 1 AS one") == {"one": 1}


def test_a_forked_child_leaves_the_folder_into_which_its_parent_spills(tmp_path: Path) -> None:
    """The folder goes with the database of the process that made it, in no other process."""
    folder = tmp_path / "spilled"
    folder.mkdir()
    remove = partial(sandboxes._remove_own, str(folder), os.getpid())
    assert in_child(remove)() == 0
    assert folder.exists()
    remove()
    assert not folder.exists()
