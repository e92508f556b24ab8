"""Deletion that waits: nothing goes before its time, nor what came into use meanwhile, nor what was taken back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.table import Table
from support.catalog_lake import Lake, lake_in

from metastore.engines.engine import LocalEngine
from metastore.lake.iceberg.snapshots.sweep import statistics_files
from metastore.procedures.expire.expire import expire_snapshots
from metastore.procedures.files.due_deletions import DueDeletions, delete_all_due
from metastore.procedures.orphans.old_metadata import remove_old_metadata
from metastore.procedures.orphans.remove_orphans import remove_orphan_files
from metastore.procedures.tables.drop_stats import drop_stats
from metastore.procedures.tables.table_stats import compute_table_stats
from metastore.session import Session


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake in which deletion waits for ten days."""
    yield from lake_in(tmp_path, **{"deletion.delay": "10 days", "min_orphan_age": "0 s"})


@pytest.fixture
def written(lake: Lake, rows: Callable[..., pa.Table]) -> Table:
    """Ids 2 and 3 in the end; id 1 was deleted, with its file. Only the newest metadata is in the log."""
    keep = {"write.metadata.previous-versions-max": "1"}
    table: Table = lake.table(properties=keep)
    for each in (1, 2, 3):
        table.append(rows(each))
    table.delete("id = 1")
    stray = Path(table.metadata.location.removeprefix("file://")) / "data/stray.parquet"
    stray.write_bytes(b"PAR1")
    os.utime(stray, (0, 0))
    lake.call(compute_table_stats)
    return lake.table()


def data(lake: Lake) -> set[str]:
    """The files of the table's folder, without lists of work left over."""
    return {path for path in lake.files() if not path.endswith(".quarantine.parquet")}


def listed(lake: Lake) -> set[str]:
    """Plain paths of the entries."""
    return {each.path.removeprefix("file://") for each in lake.metastore.deletions.entries()}


def expire(lake: Lake) -> Any:
    """All snapshots but the newest."""
    [row] = lake.call(expire_snapshots, older_than=lake.now + timedelta(days=30))
    return row


def delete_due(lake: Lake) -> DueDeletions:
    """The pass over the list alone, which finds one table due."""
    with LocalEngine(1) as engine:
        [(name, outcome)] = delete_all_due(lake.catalogs, lambda _: engine)
    assert name == "lake.default.t"
    assert isinstance(outcome, DueDeletions)
    return outcome


PASSES: dict[str, Callable[[Lake], Any]] = {
    "expire_snapshots": expire,
    "remove_orphan_files": lambda lake: lake.call(remove_orphan_files),
    "remove_old_metadata": lambda lake: lake.call(remove_old_metadata, older_than=lake.now),
    "drop_stats": lambda lake: lake.call(drop_stats),
}


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("name", PASSES)
def test_nothing_goes_before_its_time(lake: Lake, name: str) -> None:
    """Files of the first pass are on the list, with their bytes; a pass at the time deletes these, and no other."""
    lake.later(1)
    before = data(lake)
    said = PASSES[name](lake)
    waiting = listed(lake)
    assert waiting
    assert data(lake) >= before
    entries = lake.metastore.deletions.entries()
    assert [each.bytes for each in entries] == [os.path.getsize(each.path.removeprefix("file://")) for each in entries]
    assert {(each.table, each.reason) for each in entries} == {("lake.default.t", name)}
    rows = said if isinstance(said, list) else []
    assert sum(row["put_off"] is not None for row in rows) or said["put_off_files_count"] == len(waiting)
    assert not any(row["deleted"] or row["error"] for row in rows)
    lake.later(9.9)
    PASSES[name](lake)
    assert data(lake) >= before
    lake.later(0.2)
    PASSES[name](lake)
    assert before - data(lake) == waiting
    assert not waiting & listed(lake)
    files = [task.file.file_path.removeprefix("file://") for task in lake.table().scan().plan_files()]
    assert duckdb.read_parquet(files).project("id").order("id").fetchall() == [(2,), (3,)]


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("again", [delete_due, expire])
def test_a_rollback_between_the_passes_keeps_every_file(lake: Lake, again: Callable[[Lake], Any]) -> None:
    """The entry of the catalog goes back to the metadata of before; what it reaches leaves the list and stays."""
    before = lake.table().metadata_location
    expire(lake)
    assert listed(lake)
    go_back(lake, before)
    files = data(lake)
    lake.later(11)
    again(lake)
    assert files <= data(lake)
    first = min(lake.catalog.load_table("default.t").snapshots(), key=lambda each: each.timestamp_ms, default=None)
    if again is delete_due:
        assert listed(lake) == set()
        assert first is not None
        assert lake.table().scan(snapshot_id=first.snapshot_id).to_arrow()["id"].to_pylist() == [1]
    else:
        # The snapshots expired once more: their delay begins anew.
        assert {each.since_ms for each in lake.metastore.deletions.entries()} == {lake.clock.ms}


def go_back(lake: Lake, metadata_location: str) -> None:
    """The entry of the catalog names this version of the metadata."""
    if lake.catalog.table_exists("default.t"):
        lake.catalog.drop_table("default.t")
    lake.catalog.register_table("default.t", metadata_location)


@pytest.mark.usefixtures("written")
def test_what_is_given_up_once_more_waits_once_more(lake: Lake) -> None:
    """A rollback and a second expiration before the first one's time: the time counts from the second."""
    before = lake.table().metadata_location
    expire(lake)
    waiting = listed(lake)
    lake.later(5)
    go_back(lake, before)
    expire(lake)
    lake.later(9)
    expire(lake)
    assert waiting <= data(lake)
    lake.later(1.1)
    expire(lake)
    assert not waiting & data(lake)


def test_a_purged_table_that_is_registered_again_keeps_its_files(lake: Lake, written: Table) -> None:
    """An operator undoes a DROP TABLE PURGE within the delay, without a word to the list."""
    with LocalEngine(1) as engine, Session(lake.metastore, engine) as session:
        session.sql("DROP TABLE lake.default.t PURGE")
        go_back(lake, written.metadata_location)
        files = data(lake)
        lake.later(11)
        [outcome] = session.delete_due().values()
    assert "needed again" in str(outcome)
    assert data(lake) == files
    assert set(lake.table().scan().to_arrow()["id"].to_pylist()) == {2, 3}


def test_a_file_that_another_table_took_in_stays(lake: Lake, written: Table, rows: Callable[..., pa.Table]) -> None:
    """An import between the passes, into the same table and into another one."""
    location = f"{written.metadata.location}/data/stray.parquet"
    gone = next(task.file.file_path for task in written.scan(snapshot_id=written.history()[0].snapshot_id).plan_files())
    lake.call(remove_orphan_files)
    expire(lake)
    pa.parquet.write_table(rows(7), location.removeprefix("file://"))
    lake.table().add_files([location])
    lake.table("other").add_files([gone])
    lake.later(11)
    expire(lake)
    lake.call(remove_orphan_files)
    assert set(lake.table().scan().to_arrow()["id"].to_pylist()) == {2, 3, 7}
    assert lake.table("other").scan().to_arrow()["id"].to_pylist() == [1]


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("name", PASSES)
def test_what_was_taken_back_stays_until_it_is_released(lake: Lake, name: str) -> None:
    """However often the procedure runs; once released it waits for the whole delay again."""
    lake.later(1)
    PASSES[name](lake)
    entries = lake.metastore.deletions.keep("lake.default.t")
    waiting = {each.path.removeprefix("file://") for each in entries}
    for _ in range(2):
        lake.later(11)
        PASSES[name](lake)
        assert waiting <= data(lake)
    lake.metastore.deletions.release("lake.default.t")
    lake.later(9.9)
    PASSES[name](lake)
    assert waiting <= data(lake)
    lake.later(0.2)
    PASSES[name](lake)
    assert not waiting & data(lake)


@pytest.mark.usefixtures("written")
def test_old_metadata_goes_in_its_order(lake: Lake) -> None:
    """A version that was taken back holds every later one back, since versions go oldest first."""
    found = lake.call(remove_old_metadata, older_than=lake.now + timedelta(0), dry_run=True)
    lake.later(1)
    found = lake.call(remove_old_metadata, older_than=lake.now)
    oldest, second, *later = [row["metadata_file"] for row in found]
    assert later
    lake.metastore.deletions.keep(second)
    lake.later(11)
    rows = lake.call(remove_old_metadata, older_than=lake.now)
    assert [row["metadata_file"] for row in rows if row["deleted"]] == [oldest]
    assert rows[-1]["put_off"] == "until the older files are deleted"


def test_a_purge_waits_and_the_list_alone_ends_it(lake: Lake, written: Table) -> None:
    """The table is dropped at once; its files go by the list, but for those that a new entry reaches."""
    written_files = data(lake)
    with LocalEngine(1) as engine, Session(lake.metastore, engine) as session:
        [row] = session.sql("DROP TABLE lake.default.t PURGE").to_pylist()
        assert "0 files are deleted" in row["summary"]
        assert "are put off" in row["summary"]
        waiting = listed(lake)
        assert waiting < written_files
        assert not [path for path in written_files if not os.path.exists(path)]
        assert session.delete_due() == {}
        lake.later(11)
        [outcome] = session.delete_due().values()
        assert str(outcome) == f"{len(waiting)} files that were put off are deleted"
        assert [path for path in waiting if os.path.exists(path)] == []
        assert session.deletions.entries() == []
    assert written.catalog.table_exists("default.t") is False


@pytest.mark.usefixtures("written")
def test_if_it_is_unknown_who_needs_files_none_goes(lake: Lake) -> None:
    """Another table's metadata is missing: what is due stays on the list, and the reason names the table."""
    expire(lake)
    other = lake.table("other")
    Path(other.metadata_location.removeprefix("file://")).unlink()
    before = data(lake)
    lake.later(11)
    outcome = delete_due(lake)
    assert "default.other" in str(outcome)
    assert data(lake) == before
    assert listed(lake)


def test_statistics_that_are_attached_again_stay(lake: Lake, written: Table) -> None:
    """A rollback of drop_stats keeps the file for readers."""
    [statistics] = statistics_files(written.metadata)
    lake.call(drop_stats)
    go_back(lake, written.metadata_location)
    lake.later(11)
    assert [each.path for each in delete_due(lake).needed] == [statistics]
    assert os.path.exists(statistics.removeprefix("file://"))
