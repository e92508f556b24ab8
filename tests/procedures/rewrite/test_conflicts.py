"""A rewrite beside other writers: what harms it not, what makes it fail clean, and what partial progress saves."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType
from support.rewriting_lake import Lake
from support.snapshots import current, operations

import metastore
from metastore.engines.engine import LocalEngine
from metastore.errors import ConflictError, FormatError, OutcomeUnknownError
from metastore.lake.iceberg.catalogs.target import TargetTable

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "city", StringType(), required=False))
BY_CITY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))


class Meanwhile(LocalEngine):
    """The local engine, at whose side ``act`` is done once: after the first tasks are through, before any commit."""

    def __init__(self) -> None:
        super().__init__(1)
        self.act: Callable[[], object] | None = None

    def run(
        self, chunks: Sequence[Any], task: Callable[[Any], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """As the local engine does."""
        found = super().run(chunks, task, schema)
        act, self.act = self.act, None
        if act is not None:
            found = iter(list(found))
            act()
        yield from found


@pytest.fixture
def meanwhile() -> Meanwhile:
    """An engine to hang an act on."""
    return Meanwhile()


@pytest.fixture
def lake(open_lake: Callable[[Any], Lake], meanwhile: Meanwhile) -> Lake:
    """A lake on that engine."""
    return open_lake(meanwhile)


def rows(*ids: int, city: str = "Rome") -> pa.Table:
    """Rows with these ids."""
    return pa.table({"id": pa.array(ids, pa.int64()), "city": [city] * len(ids)})


def ids(table: Table) -> list[int]:
    """All ids, sorted."""
    return sorted(row["id"] for row in table.scan().to_arrow().to_pylist())


@pytest.fixture
def plain(lake: Lake) -> Table:
    """Six files of two rows."""
    table: Table = lake.create(SCHEMA)
    for number in range(6):
        table.append(rows(number, number + 100))
    return table


@pytest.fixture
def by_city(lake: Lake) -> Table:
    """Six files of one row in each of two partitions."""
    table: Table = lake.create(SCHEMA, partition_spec=BY_CITY)
    for number in range(6):
        table.append(rows(number))
        table.append(rows(number + 100, city="Oslo"))
    return table


def test_an_append_meanwhile_is_kept(lake: Lake, meanwhile: Meanwhile, plain: Table) -> None:
    """The commit is planned again on the table as it is then."""
    before = ids(plain)
    meanwhile.act = lambda: lake.load().append(rows(7))
    assert lake.rewrite()["rewritten_data_files_count"] == 6
    assert ids(lake.load()) == sorted([*before, 7])
    assert len(lake.data_files()) == 2


def fails_and_leaves_no_trace(lake: Any, match: str) -> None:
    """The rewrite raises ConflictError, and its files are gone."""
    stored = len(lake.stored())
    with pytest.raises(ConflictError, match=match):
        lake.rewrite()
    new = lake.load().current_snapshot()
    assert new is None or new.summary.operation.value != "replace"
    unknown = lake.stored() - {path.removeprefix("file://") for path in known_files(lake.load())}
    assert len(lake.stored()) >= stored
    assert unknown == set()


def known_files(table: Table) -> set[str]:
    """Data and delete files of any snapshot."""
    return {
        entry.data_file.file_path
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }


def test_an_input_that_was_deleted_meanwhile_is_a_conflict(lake: Lake, meanwhile: Meanwhile, plain: Table) -> None:
    """Else its rows would come back."""
    meanwhile.act = lambda: lake.load().delete(EqualTo("id", 3))
    fails_and_leaves_no_trace(lake, "is no longer in the table")
    assert 3 not in ids(plain.refresh())
    assert lake.rewrite()["rewritten_data_files_count"] == 6


def test_rows_that_were_deleted_meanwhile_are_a_conflict(
    lake: Lake, meanwhile: Meanwhile, plain: Table, delete_positions: Callable[..., DataFile]
) -> None:
    """Else they would come back: the delete file names the old file."""
    path = lake.data_files()[0].file_path
    meanwhile.act = lambda: delete_positions(lake.load(), {path: [0]})
    fails_and_leaves_no_trace(lake, "were deleted meanwhile")
    assert len(ids(plain.refresh())) == 11


@pytest.mark.usefixtures("plain")
def test_deletes_of_other_files_do_no_harm(
    lake: Lake, meanwhile: Meanwhile, delete_positions: Callable[..., DataFile]
) -> None:
    """Here of a file that was appended meanwhile."""

    def act() -> None:
        lake.load().append(rows(7, 8))
        [path] = [file.file_path for file in lake.data_files() if file.lower_bounds[1] == b"\7" + bytes(7)]
        delete_positions(lake.load(), {path: [1]})

    meanwhile.act = act
    assert lake.rewrite()["rewritten_data_files_count"] == 6
    assert ids(lake.load())[:7] == [0, 1, 2, 3, 4, 5, 7]
    assert 8 not in ids(lake.load())


@pytest.mark.usefixtures("plain")
def test_equality_deletes_that_come_meanwhile_apply_to_the_new_files(
    lake: Lake, meanwhile: Meanwhile, delete_where_equal: Callable[..., DataFile]
) -> None:
    """Their sequence number is above that of the new files, which is the pinned one."""
    meanwhile.act = lambda: delete_where_equal(lake.load())
    assert lake.rewrite()["rewritten_data_files_count"] == 6
    table = lake.load()
    numbers = {
        entry.data_file.content.name: entry.sequence_number
        for manifest in current(table).manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    }
    assert numbers == {"DATA": 6, "EQUALITY_DELETES": 7}


def test_equality_deletes_apply_to_new_files_of_an_upgraded_table(
    lake: Lake, meanwhile: Meanwhile, delete_where_equal: Callable[..., DataFile]
) -> None:
    """What format version 1 wrote has the number 0, and so have the files that it is rewritten into."""
    table = lake.create(SCHEMA, properties={"format-version": "1"})
    for number in range(6):
        table.append(rows(number))
    with table.transaction() as upgrade:
        upgrade.upgrade_table_version(2)
    meanwhile.act = lambda: delete_where_equal(lake.load())
    lake.rewrite()
    table = lake.load()
    numbers = {
        entry.data_file.content.name: entry.sequence_number
        for manifest in current(table).manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    }
    assert numbers == {"DATA": 0, "EQUALITY_DELETES": 1}


@pytest.mark.usefixtures("plain")
def test_without_the_starting_number_equality_deletes_are_a_conflict(
    lake: Lake, meanwhile: Meanwhile, delete_where_equal: Callable[..., DataFile]
) -> None:
    """They would not apply to files that are newer than they are."""
    meanwhile.act = lambda: delete_where_equal(lake.load())
    with pytest.raises(ConflictError, match="were deleted meanwhile"):
        lake.rewrite(options={"use-starting-sequence-number": "false"})


def test_equality_deletes_of_an_old_partition_are_a_conflict(
    lake: Lake, meanwhile: Meanwhile, by_city: Table, delete_where_equal: Callable[..., DataFile]
) -> None:
    """Rows that move to another spec move out of their reach."""
    old = by_city.refresh()
    meanwhile.act = lambda: delete_where_equal(lake.load(), Record("Rome"))
    assert lake.rewrite(filter="city = 'Rome'")["rewritten_data_files_count"] == 6
    with old.update_spec() as update:
        update.remove_field("city")
    lake.load("t").append(rows(7))

    def act() -> None:
        table = lake.load()
        spec = table.metadata.specs()[0]
        assert spec.fields
        with table.update_spec() as update:
            update.add_identity("city")
        delete_where_equal(lake.load(), Record("Oslo"))

    meanwhile.act = act
    with pytest.raises(ConflictError, match="were deleted meanwhile"):
        lake.rewrite(filter="city = 'Oslo'", options={"output-spec-id": "1", "min-input-files": "2"})


def test_a_pinned_snapshot_that_expires_is_a_conflict(lake: Lake, meanwhile: Meanwhile, plain: Table) -> None:
    """Its manifest list is gone then, and nobody asks for it: the new files go again."""
    before, standing = ids(plain), lake.stored()

    def act() -> None:
        lake.load().append(rows(77))
        soon = datetime.now(timezone.utc) + timedelta(minutes=1)
        expire = lake.session.procedures.call
        expire("lake.system.expire_snapshots", schema="default", table_name="t", older_than=soon)

    meanwhile.act = act
    with pytest.raises(ConflictError, match=r"or that snapshot has expired. Nothing was changed"):
        lake.rewrite()
    assert ids(lake.load()) == sorted([*before, 77])
    assert len(lake.stored() - standing) == 1


def test_a_rollback_meanwhile_is_a_conflict(lake: Lake, meanwhile: Meanwhile, plain: Table) -> None:
    """What the rewrite was planned on is no longer part of the branch."""
    first = plain.refresh().metadata.snapshots[0].snapshot_id

    def act() -> None:
        with lake.load().manage_snapshots() as snapshots:
            snapshots.rollback_to_snapshot(first)

    meanwhile.act = act
    with pytest.raises(ConflictError, match="no longer goes back to snapshot"):
        lake.rewrite()
    assert ids(lake.load()) == [0, 100]


def test_with_partial_progress_only_the_group_in_conflict_fails(
    lake: Lake, meanwhile: Meanwhile, by_city: Table
) -> None:
    """The other group is committed, and the row tells of both."""
    before = ids(by_city)
    meanwhile.act = lambda: lake.load().delete(EqualTo("id", 3))
    row = lake.rewrite(options={"partial-progress.enabled": "true"})
    assert (row["rewritten_data_files_count"], row["failed_data_files_count"]) == (6, 6)
    assert row["message"].startswith("1 of 2 file groups failed: ")
    assert "is no longer in the table" in row["message"]
    assert ids(lake.load()) == [each for each in before if each != 3]
    assert lake.stored() == {path.removeprefix("file://") for path in known_files(lake.load())}


def test_partial_progress_makes_several_commits(lake: Lake, by_city: Table) -> None:
    """As many as there may be, a wave of groups each."""
    before = ids(by_city)
    options = {"partial-progress.enabled": "true", "max-concurrent-file-group-rewrites": "1"}
    row = lake.rewrite(options=options)
    assert (row["rewritten_data_files_count"], row["added_data_files_count"], row["message"]) == (12, 2, None)
    assert operations(lake.load())[-3:] == ["append", "replace", "replace"]
    assert ids(lake.load()) == before
    lake.load().append(rows(7))
    row = lake.rewrite(
        options={"rewrite-all": "true", "partial-progress.enabled": "true", "partial-progress.max-commits": "1"}
    )
    assert operations(lake.load())[-2:] == ["append", "replace"]


def test_a_later_failure_spares_what_is_committed(lake: Lake, meanwhile: Meanwhile, by_city: Table) -> None:
    """The first group's commit is rolled back before the second's: its files are still those of a snapshot."""
    pinned = by_city.refresh().metadata.snapshots[-2].snapshot_id

    def roll_back() -> None:
        with lake.load().manage_snapshots() as snapshots:
            snapshots.rollback_to_snapshot(pinned)

    def first() -> None:
        meanwhile.act = roll_back

    meanwhile.act = first
    options = {
        "partial-progress.enabled": "true",
        "partial-progress.max-failed-commits": "0",
        "max-concurrent-file-group-rewrites": "1",
    }
    with pytest.raises(ConflictError, match="no longer goes back"):
        lake.rewrite(options=options)
    assert operations(lake.load())[-1] == "replace"
    assert lake.stored() == {path.removeprefix("file://") for path in known_files(lake.load())}


def damage(file: DataFile) -> None:
    """Cut the file short."""
    path = Path(file.file_path.removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:-20])


def test_a_broken_file_fails_the_call_and_leaves_no_trace(lake: Lake, by_city: Table) -> None:
    """The error names it; what other tasks wrote is removed."""
    broken = next(file for file in lake.data_files() if file.partition == Record("Oslo"))
    damage(broken)
    before, stored = by_city.refresh().metadata_location, lake.stored()
    with pytest.raises(FormatError) as raised:
        lake.rewrite()
    assert broken.file_path in str(raised.value)
    assert (lake.load().metadata_location, lake.stored()) == (before, stored)


@pytest.mark.usefixtures("by_city")
def test_with_partial_progress_a_broken_file_fails_its_group(lake: Lake) -> None:
    """The others are rewritten; if all fail, the call does."""
    for broken in (file for file in lake.data_files() if file.partition == Record("Oslo")):
        damage(broken)
    row = lake.rewrite(options={"partial-progress.enabled": "true"})
    assert (row["rewritten_data_files_count"], row["failed_data_files_count"]) == (6, 6)
    assert len(lake.stored()) == 13
    with pytest.raises(ConflictError, match="no file group of lake.default.t could be rewritten"):
        lake.rewrite(options={"partial-progress.enabled": "true"})


def test_after_an_unknown_outcome_nothing_is_removed(lake: Lake, plain: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit landed, though nobody said so: its files are in use."""
    before = ids(plain)
    commit = TargetTable.commit

    def lose_the_answer(*arguments: Any) -> Table:
        commit(*arguments)
        raise OutcomeUnknownError("the answer was lost")

    monkeypatch.setattr(TargetTable, "commit", lose_the_answer)
    with pytest.raises(OutcomeUnknownError):
        lake.rewrite()
    assert ids(lake.load()) == before
    assert len(lake.data_files()) == 1


def test_rewrites_and_appends_of_several_threads_lose_nothing(lake: Lake, plain: Table) -> None:
    """Each lost race is planned again."""
    before = ids(plain)
    failures: list[BaseException] = []

    def append() -> None:
        try:
            for number in range(8):
                while True:
                    try:
                        lake.load().append(rows(1000 + number))
                        break
                    except Exception as error:
                        if type(error).__name__ != "CommitFailedException":
                            raise
        except BaseException as error:  # noqa: BLE001 - seen by the test
            failures.append(error)

    writer = threading.Thread(target=append)
    writer.start()
    rewritten = 0
    while writer.is_alive():
        rewritten += lake.rewrite(options={"min-input-files": "2"})["rewritten_data_files_count"]
    writer.join()
    assert failures == []
    assert ids(lake.load()) == sorted([*before, *range(1000, 1008)])
    assert rewritten >= 6


DRIVER = """
import sys
sys.path[:0] = [sys.argv[1]]
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.session import connect

class Waits(LocalEngine):
    def run(self, chunks, task, schema):
        yield from list(super().run(chunks, task, schema))
        print("written", flush=True)
        sys.stdin.read()

folder = sys.argv[2]
uri = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}
location = {"base_path": folder, "relative_path": "metastore"}
settings = Settings.from_mapping(
    {"drill.metastore.iceberg.location": location, "drill.metastore.catalogs.lake": uri}, environ={}
)
with connect(settings, engine=Waits(1)) as session:
    session.procedures.call("lake.system.rewrite_data_files", schema="default", table_name="t")
"""


@pytest.mark.integration
def test_a_killed_driver_leaves_the_table_as_it_was(lake: Lake, plain: Table) -> None:
    """And files that nobody names; the next rewrite does the work."""
    before, stored = ids(plain), lake.stored()
    version = lake.load().metadata_location
    root = str(Path(metastore.__file__).parents[1])
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, root, str(lake.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "written\n"
    driver.kill()
    driver.communicate()
    assert lake.load().metadata_location == version
    assert ids(lake.load()) == before
    assert len(lake.stored() - stored) == 1
    assert lake.rewrite()["rewritten_data_files_count"] == 6
    assert ids(lake.load()) == before
