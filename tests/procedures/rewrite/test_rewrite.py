"""rewrite_data_files on tables of a catalog: the same rows in other files, and the row that it returns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, timezone
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType, TimeType
from pyiceberg.utils.datetime import time_to_micros
from support.delete_files import delete_equal, with_ids
from support.rewriting_lake import Lake
from support.snapshots import current, summary_of

from metastore.errors import InvalidRequestError, NotFoundError, ProcedureError
from metastore.lake.iceberg.rows.live_files import LiveFile, live_files
from metastore.model.table_unit import TableMetadataUnit

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "city", StringType(), required=False),
    NestedField(3, "at", TimestamptzType(), required=False),
)
BY_CITY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))

Rows = list[tuple[Any, ...]]
Read = Callable[[Table], Rows]


def rows(*ids: int, city: str | None = "Rome") -> pa.Table:
    """Rows with these ids, a day apart."""
    at = [datetime(2021, 4, 1 + number % 28, tzinfo=timezone.utc) for number in ids]
    columns: list[Any] = [pa.array(ids, pa.int64()), pa.array([city] * len(ids), pa.string())]
    return pa.table([*columns, pa.array(at, pa.timestamp("us", "UTC"))], ["id", "city", "at"])


def by_pyiceberg(table: Table) -> Rows:
    """All rows, sorted, by PyIceberg's reader, which applies position deletes."""
    return sorted((tuple(row.values()) for row in table.scan().to_arrow().to_pylist()), key=repr)


@pytest.fixture
def small_files(lake: Lake) -> Table:
    """A table of six files with two rows each."""
    table: Table = lake.create(SCHEMA)
    for number in range(6):
        table.append(rows(number, number + 100))
    return table


def test_small_files_become_one(lake: Lake, small_files: Table, by_duckdb: Read) -> None:
    """Every row is there, the snapshot says replace, and the old files stay for the old snapshots."""
    before, old = by_duckdb(small_files), lake.data_files()
    row = lake.rewrite()
    assert row == {
        "rewritten_data_files_count": 6,
        "added_data_files_count": 1,
        "rewritten_bytes_count": sum(file.file_size_in_bytes for file in old),
        "failed_data_files_count": 0,
        "removed_delete_files_count": 0,
        "message": None,
    }
    table = lake.load()
    assert by_duckdb(table) == before
    assert len(lake.data_files()) == 1
    assert len(lake.stored()) == 7
    summary = summary_of(table)
    assert summary.operation.value == "replace"
    counts = summary.additional_properties
    assert (counts["added-records"], counts["deleted-records"], counts["total-records"]) == ("12", "12", "12")
    assert (counts["deleted-data-files"], counts["total-data-files"]) == ("6", "1")
    assert counts["total-files-size"] == str(lake.data_files()[0].file_size_in_bytes)


@pytest.mark.usefixtures("small_files")
def test_a_second_run_says_why_it_did_nothing(lake: Lake) -> None:
    """And makes no snapshot."""
    lake.rewrite()
    before = lake.load().metadata_location
    row = lake.rewrite()
    assert row["rewritten_data_files_count"] == 0
    assert row["message"] == (
        "nothing to rewrite: 1 in a group of fewer than 5 files (option rewrite-all takes them nevertheless)"
    )
    assert lake.load().metadata_location == before


@pytest.mark.parametrize("filter_", ["FALSE", "id > 1000", "city = 'Oslo'"])
@pytest.mark.usefixtures("small_files")
def test_a_filter_that_no_file_can_meet_leaves_all(lake: Lake, filter_: str) -> None:
    """Which the message says."""
    message = lake.rewrite(filter=filter_)["message"]
    assert message == "nothing to rewrite: no data file can hold a row that matches the filter"


def test_an_empty_table_has_nothing_to_rewrite(lake: Lake) -> None:
    """Not even a snapshot."""
    lake.create(SCHEMA)
    assert lake.rewrite()["message"] == "nothing to rewrite: the table is empty"


@pytest.mark.usefixtures("small_files")
def test_a_dry_run_tells_and_does_nothing(lake: Lake) -> None:
    """The counts are those that the run would return."""
    before, stored = lake.load().metadata_location, lake.stored()
    row = lake.rewrite(dry_run=True)
    assert (row["rewritten_data_files_count"], row["added_data_files_count"]) == (6, 1)
    assert row["message"].startswith("dry run: rewrites 6 files of ")
    assert (lake.load().metadata_location, lake.stored()) == (before, stored)


def test_explain_shows_the_plan(lake: Lake, small_files: Table) -> None:
    """Pinned to the snapshot, from the scan to the output."""
    explain = lake.session.procedures.explain
    plan = explain("lake.system.rewrite_data_files", schema="default", table_name="t")
    text = "\n".join(map(str, plan.column(0).to_pylist()))
    assert f"TableScan[snapshot {small_files.refresh().metadata.current_snapshot_id}, 1 " in text
    assert "rewrites 6 files" in text


def test_a_filter_picks_files_and_never_rows(lake: Lake, small_files: Table, by_duckdb: Read) -> None:
    """Files 0 and 1 can hold ids below 2; their other rows, 100 and 101, come along."""
    before = by_duckdb(small_files)
    row = lake.rewrite(filter="id < 2", options={"min-input-files": "2"})
    assert row["rewritten_data_files_count"] == 2
    assert by_duckdb(lake.load()) == before
    assert sorted(file.record_count for file in lake.data_files()) == [2, 2, 2, 2, 4]


def test_large_files_are_split(lake: Lake, by_duckdb: Read) -> None:
    """Into files of about the target size, each written by a task of its own."""
    table = lake.create(SCHEMA)
    table.append(rows(*range(20_000)))
    before = by_duckdb(table)
    size = lake.data_files()[0].file_size_in_bytes
    row = lake.rewrite(options={"target-file-size-bytes": str(size // 4), "max-file-size-bytes": str(size // 2)})
    assert row["added_data_files_count"] in (4, 5)
    assert by_duckdb(lake.load()) == before
    assert max(file.record_count for file in lake.data_files()) <= 5_000


def test_pieces_meet_inside_of_files(lake: Lake, by_duckdb: Read) -> None:
    """Three files become two of equal size, rows in their order."""
    table = lake.create(SCHEMA)
    for first in (0, 1000, 2000):
        table.append(rows(*range(first, first + 1000)))
    before = by_duckdb(table)
    size = sum(file.file_size_in_bytes for file in lake.data_files())
    target = {"target-file-size-bytes": str(size // 2 + 100), "min-file-size-bytes": "1", "rewrite-all": "true"}
    lake.rewrite(options=target)
    assert by_duckdb(lake.load()) == before
    assert [1400 < file.record_count < 1600 for file in lake.data_files()] == [True, True]
    assert lake.load().scan().to_arrow().num_rows == 3000


@pytest.mark.usefixtures("small_files")
def test_new_files_describe_themselves(lake: Lake) -> None:
    """Counts, bounds, sizes and split offsets as the footers have them; field ids in the file."""
    lake.rewrite()
    [file] = lake.data_files()
    assert (file.record_count, dict(file.value_counts)) == (12, {1: 12, 2: 12, 3: 12})
    assert dict(file.null_value_counts) == {1: 0, 2: 0, 3: 0}
    assert file.lower_bounds[1] == (0).to_bytes(8, "little")
    assert file.upper_bounds[1] == (105).to_bytes(8, "little")
    assert file.lower_bounds[2] == b"Rome"
    assert file.split_offsets == [4]
    path = Path(file.file_path.removeprefix("file://"))
    assert file.file_size_in_bytes == path.stat().st_size
    assert pq.read_schema(path).field("city").type == pa.string()
    ids = [(field.metadata or {})[b"PARQUET:field_id"] for field in pq.read_schema(path)]
    assert ids == [b"1", b"2", b"3"]


def test_groups_are_of_one_partition(lake: Lake, by_duckdb: Read) -> None:
    """New files lie in the folder of their partition, and carry its value."""
    table = lake.create(SCHEMA, partition_spec=BY_CITY)
    for number in range(5):
        for city in ("Rome", "Oslo", None):
            table.append(rows(number, city=city))
    before = by_duckdb(table)
    row = lake.rewrite()
    assert (row["rewritten_data_files_count"], row["added_data_files_count"]) == (15, 3)
    assert by_duckdb(lake.load()) == before
    places = {file.partition[0]: file.file_path for file in lake.data_files()}
    assert places.keys() == {"Rome", "Oslo", None}
    assert "/city=Rome/" in places["Rome"]


@pytest.mark.parametrize(
    ("transform", "source", "name"),
    [
        (DayTransform(), "at", "at_day"),
        (BucketTransform(3), "id", "id_bucket"),
        (TruncateTransform(1), "city", "city_trunc"),
        (IdentityTransform(), "at", "at"),
    ],
)
def test_files_of_an_old_spec_are_split_by_the_new_partitions(
    lake: Lake, by_duckdb: Read, transform: Any, source: str, name: str
) -> None:
    """Each new file holds rows of one partition of the current spec, as PyIceberg's transform of a value confirms."""
    table = lake.create(SCHEMA)
    for number in range(6):
        table.append(pa.concat_tables([rows(number, number + 7), rows(number + 50, city=None)]))
    with table.update_spec() as update:
        update.add_field(source, transform, name)
    before = by_duckdb(lake.load())
    lake.rewrite()
    table = lake.load()
    assert by_duckdb(table) == before
    kind = table.schema().find_type(source)
    position = [field.name for field in table.schema().fields].index(source)
    found = set()
    for file in lake.data_files():
        assert file.spec_id == table.spec().spec_id == 1
        content = pq.read_table(file.file_path.removeprefix("file://")).column(position).to_pylist()
        [value] = {transform.transform(kind)(_internal(each)) for each in content}
        assert file.partition[0] == value
        found.add(value)
    assert len(found) == len(lake.data_files()) > 1


@pytest.mark.parametrize("transform", [BucketTransform(3), IdentityTransform()])
def test_files_are_split_by_times_of_day(lake: Lake, transform: Any) -> None:
    """Partition values of times are the numbers that PyIceberg's transform of a number of microseconds gives."""
    table = lake.create(Schema(NestedField(1, "at", TimeType(), required=False)))
    times = [time(0), time(12, 30), time(23, 59, 59, 999999), None]
    table.append(pa.table({"at": pa.array(times, pa.time64("us"))}))
    with table.update_spec() as update:
        update.add_field("at", transform, "place")
    lake.rewrite(options={"rewrite-all": "true"})
    apply = transform.transform(TimeType())
    micros = [None if at is None else time_to_micros(at) for at in times]
    assert {file.partition[0] for file in lake.data_files()} == {apply(each) for each in micros}
    assert lake.load().scan("at = '12:30:00'").to_arrow()["at"].to_pylist() == [time(12, 30)]


def _internal(value: Any) -> Any:
    return int(value.timestamp() * 1_000_000) if isinstance(value, datetime) else value


def test_the_spec_of_the_output_can_be_an_older_one(lake: Lake, small_files: Table) -> None:
    """By its id; an unknown one is refused."""
    with small_files.update_spec() as update:
        update.add_identity("city")
    lake.rewrite(options={"output-spec-id": "0"})
    assert {file.spec_id for file in lake.data_files()} == {0}
    with pytest.raises(InvalidRequestError, match="has no partition spec 7"):
        lake.rewrite(options={"output-spec-id": "7"})


def test_a_spec_by_a_dropped_column_is_no_output(lake: Lake, small_files: Table) -> None:
    """Rows have no value of it any more."""
    with small_files.update_spec() as update:
        update.add_identity("city")
    with lake.load().update_spec() as update:
        update.remove_field("city")
    with lake.load().update_schema() as update:
        update.delete_column("city")
    with pytest.raises(InvalidRequestError, match="spec 1 of .* divides by columns that were dropped, for city"):
        lake.rewrite(options={"output-spec-id": "1"})


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["id"], [None, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (["id DESC"], [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, None]),
        (["id ASC NULLS LAST"], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, None]),
        (["id desc nulls first"], [None, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (["city", "id DESC"], [9, 7, 5, 3, 1, 10, 8, 6, 4, 2, None]),
    ],
)
def test_rows_are_sorted_on_request(lake: Lake, keys: list[str], expected: list[int | None]) -> None:
    """By any number of keys, nulls where they are wanted."""
    table = lake.create(SCHEMA)
    for number in (3, 8, 1, 10, 5, 2, 9, 4, 7, 6):
        table.append(rows(number, city="even" if number % 2 == 0 else "a"))
    table.append(pa.table({"id": [None], "city": ["even"], "at": [None]}, schema=rows(1).schema))
    row = lake.rewrite(strategy="sort", sorted_by=keys)
    assert row["rewritten_data_files_count"] == 11
    assert lake.load().scan().to_arrow().column("id").to_pylist() == expected


def test_the_order_of_the_table_is_the_default_of_sort(lake: Lake) -> None:
    """And the new files say that they have it."""
    order = SortOrder(
        SortField(1, BucketTransform(2), direction=SortDirection.ASC, null_order=NullOrder.NULLS_FIRST),
        SortField(1, IdentityTransform(), direction=SortDirection.DESC, null_order=NullOrder.NULLS_LAST),
    )
    table = lake.create(SCHEMA, sort_order=order)
    for number in range(6):
        table.append(rows(number))
    lake.rewrite(strategy="sort")
    ids = lake.load().scan().to_arrow().column("id").to_pylist()
    bucket = BucketTransform(2).transform(LongType())
    assert ids == sorted(range(6), key=lambda each: (bucket(each), -each))
    assert lake.data_files()[0].sort_order_id == table.sort_order().order_id == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "zorder"}, "unsupported strategy: zorder. Only binpack or sort is supported"),
        ({"strategy": "binpack", "sorted_by": ["id"]}, "sorted_by needs strategy => 'sort'"),
        ({"strategy": "sort"}, "has no sort order of its own"),
        ({"sorted_by": ["ide"]}, "there is no column 'ide'; there are id, city, at"),
        ({"options": {"z": "1"}}, "has no option 'z'"),
        ({"filter": "nothing = 1"}, "unknown column 'nothing' at position 1"),
        ({"filter": "id ="}, "syntax error at line 1, column 4"),
        ({"filter": "upper(city) = 'ROME'"}, "cannot choose files: not usable for pruning: UPPER(city)"),
        ({"filter": "id = 1 AND city = 5.5"}, "cannot choose files: not usable for pruning: city = 5.5"),
        ({"filter": ""}, "filter must not be empty when provided"),
        ({"filter": " \n"}, "filter must not be empty when provided"),
    ],
)
@pytest.mark.usefixtures("small_files")
def test_wrong_arguments_are_refused(lake: Lake, arguments: dict[str, Any], message: str) -> None:
    """Before anything is read, in words that say which."""
    before = lake.load().metadata_location
    with pytest.raises(InvalidRequestError) as raised:
        lake.rewrite(**arguments)
    assert message in str(raised.value)
    assert lake.load().metadata_location == before


def test_a_branch_is_rewritten_by_itself(lake: Lake, small_files: Table) -> None:
    """Main stays where it is, and the branch keeps how long its snapshots are to be kept."""
    head = small_files.refresh().metadata.current_snapshot_id
    assert head is not None
    with small_files.manage_snapshots() as snapshots:
        snapshots.create_branch(head, "audit", max_snapshot_age_ms=5_000)
    before = by_pyiceberg(lake.load())
    assert lake.rewrite(branch="audit")["rewritten_data_files_count"] == 6
    refs = lake.load().metadata.refs
    assert refs["main"].snapshot_id == head
    assert refs["audit"].max_snapshot_age_ms == 5_000
    scan = lake.load().scan(snapshot_id=refs["audit"].snapshot_id)
    assert len(list(scan.plan_files())) == 1
    assert sorted((tuple(row.values()) for row in scan.to_arrow().to_pylist()), key=repr) == before


def test_what_is_no_branch_is_refused(lake: Lake, small_files: Table) -> None:
    """A tag cannot move, and an unknown name is none."""
    head = small_files.refresh().metadata.current_snapshot_id
    assert head is not None
    with small_files.manage_snapshots() as snapshots:
        snapshots.create_tag(head, "v1")
    with pytest.raises(InvalidRequestError, match="Ref v1 is a tag not a branch"):
        lake.rewrite(branch="v1")
    for name in ("v2", ""):
        with pytest.raises(NotFoundError, match=f"has no branch '{name}'"):
            lake.rewrite(branch=name)


@pytest.mark.usefixtures("small_files")
def test_position_deletes_are_applied_and_go(lake: Lake, delete_positions: Callable[..., DataFile]) -> None:
    """A delete file goes when each file that it may name is rewritten."""
    paths = [file.file_path for file in lake.data_files()]
    delete_positions(lake.load(), {paths[0]: [0], paths[1]: [0, 1]})
    delete_positions(lake.load(), {paths[2]: [1]})
    before = by_pyiceberg(lake.load())
    assert len(before) == 8
    row = lake.rewrite()
    assert row["removed_delete_files_count"] == 2
    assert by_pyiceberg(lake.load()) == before
    assert [task.delete_files for task in lake.load().scan().plan_files()] == [set()]
    counts = summary_of(lake.load()).additional_properties
    assert (counts["added-records"], counts["removed-position-deletes"]) == ("8", "4")


@pytest.mark.usefixtures("small_files")
def test_a_delete_file_that_may_name_others_stays(lake: Lake, delete_positions: Callable[..., DataFile]) -> None:
    """It names rows of two files, of which one is rewritten."""
    files = sorted(lake.data_files(), key=lambda file: file.lower_bounds[1])
    delete_positions(lake.load(), {files[0].file_path: [0], files[5].file_path: [0]})
    before = by_pyiceberg(lake.load())
    row = lake.rewrite(filter="id < 2", options={"min-input-files": "2"})
    assert (row["rewritten_data_files_count"], row["removed_delete_files_count"]) == (2, 0)
    assert by_pyiceberg(lake.load()) == before


def test_a_file_with_many_deleted_rows_qualifies_whatever_its_size(
    lake: Lake, delete_positions: Callable[..., DataFile]
) -> None:
    """Three of ten rows, by delete files of its own."""
    table = lake.create(SCHEMA)
    table.append(rows(*range(10)))
    [file] = lake.data_files()
    sizes = {"min-file-size-bytes": "0"}
    assert lake.rewrite(options=sizes)["rewritten_data_files_count"] == 0
    delete_positions(lake.load(), {file.file_path: [1, 2, 3]})
    assert lake.rewrite(options=sizes)["rewritten_data_files_count"] == 1
    assert [row[0] for row in by_pyiceberg(lake.load())] == [0, 4, 5, 6, 7, 8, 9]


@pytest.mark.usefixtures("small_files")
def test_files_whose_rows_are_all_deleted_vanish(lake: Lake, delete_positions: Callable[..., DataFile]) -> None:
    """No file is made for no rows."""
    delete_positions(lake.load(), {file.file_path: [0, 1] for file in lake.data_files()})
    row = lake.rewrite()
    assert (row["added_data_files_count"], row["removed_delete_files_count"]) == (0, 1)
    assert lake.data_files() == []
    assert len(lake.stored()) == 7


@pytest.mark.usefixtures("small_files")
def test_dangling_deletes_go_on_request(lake: Lake, delete_positions: Callable[..., DataFile]) -> None:
    """One that names a file which is long gone, although no data file qualifies."""
    [path, *_] = [file.file_path for file in lake.data_files()]
    delete_positions(lake.load(), {path: [0]})
    assert lake.rewrite(options={"rewrite-all": "true"})["removed_delete_files_count"] == 1
    delete_positions(lake.load(), {path: [1]})
    assert lake.rewrite()["removed_delete_files_count"] == 0
    assert lake.rewrite(options={"remove-dangling-deletes": "true"})["removed_delete_files_count"] == 1
    manifests = current(lake.load()).manifests(lake.load().io)
    live = [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(lake.load().io)]
    assert [entry.data_file.content for entry in live] == [DataFileContent.DATA]


def test_new_files_carry_the_sequence_number_of_the_pinned_snapshot(lake: Lake, small_files: Table) -> None:
    """So that equality deletes which came before the commit still apply to them."""
    pinned = small_files.refresh().current_snapshot()
    assert pinned is not None
    lake.rewrite()
    table = lake.load()
    [manifest] = [each for each in current(table).manifests(table.io) if each.has_added_files()]
    [entry] = manifest.fetch_manifest_entry(table.io)
    assert entry.sequence_number == pinned.sequence_number == 6
    assert entry.file_sequence_number == current(table).sequence_number == 7
    assert manifest.min_sequence_number == 6


def keys(*ids: int) -> pa.Table:
    """Keys of the column ``id``."""
    return with_ids(pa.table({"id": pa.array(ids, pa.int64())}), 1)


def test_equality_deletes_are_applied_and_go(lake: Lake, small_files: Table, by_duckdb: Read) -> None:
    """With the files that they applied to; rows that were inserted again stay, as engines without us read them."""
    before = by_duckdb(small_files.refresh())
    gone = before[0]
    delete_equal(lake.load(), keys(gone[0]), [1])
    row = lake.rewrite()
    assert row["removed_delete_files_count"] == 1
    table = lake.load()
    assert by_duckdb(table) == before[1:]
    summary = current(table).summary
    assert summary is not None
    assert summary["removed-equality-deletes"] == "1"


def test_equality_deletes_stay_while_they_apply_to_a_file(lake: Lake, small_files: Table, by_duckdb: Read) -> None:
    """A filter leaves files of the table; what applies to one of these must stay, and is applied once."""
    rows = by_duckdb(small_files.refresh())
    delete_equal(lake.load(), keys(rows[0][0], rows[-1][0]), [1])
    lake.rewrite(filter="id <= 2", options={"rewrite-all": "true"})
    assert [live.file.content for live in equality(lake.load())] == [DataFileContent.EQUALITY_DELETES]
    assert lake.session.sql("SELECT * FROM lake.default.t ORDER BY id").num_rows == len(rows) - 2
    lake.rewrite(options={"rewrite-all": "true"})
    assert equality(lake.load()) == []
    assert by_duckdb(lake.load()) == rows[1:-1]


def test_equality_deletes_that_apply_to_nothing_go_when_asked(lake: Lake) -> None:
    """Those that are older than all data files; not one that a file may still have rows of."""
    table = lake.create(SCHEMA)
    table.append(rows(1, 2))
    table.delete("id > 0")
    delete_equal(lake.load(), keys(1), [1])
    lake.load().append(rows(3))
    delete_equal(lake.load(), keys(4), [1])
    options = {"remove-dangling-deletes": "true", "delete-file-threshold": "9"}
    assert lake.rewrite(options=options)["removed_delete_files_count"] == 1
    assert [live.sequence_number for live in equality(lake.load())] == [5]


def test_equality_deletes_of_a_large_file(lake: Lake, by_duckdb: Read) -> None:
    """Cut into pieces, each of which is applied the keys of its rows."""
    content = pa.table({"id": range(200_000), "text": [f"{n * 7919 % 200_003:x}" * 8 for n in range(200_000)]})
    lake.create(content.schema).append(content)
    delete_equal(lake.load(), keys(*range(0, 200_000, 2)), [1])
    lake.rewrite(options={"target-file-size-bytes": str(300_000), "rewrite-all": "true"})
    found = by_duckdb(lake.load())
    assert len(lake.data_files()) > 1
    assert sorted(row[0] for row in found) == list(range(1, 200_000, 2))


def equality(table: Table) -> list[LiveFile]:
    """The equality delete files of the current snapshot."""
    return list(live_files(table.metadata, table.io, current(table)).equality_deletes)


AVRO = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": ["null", "string"]}],
}


def test_files_of_every_format_become_parquet(lake: Lake, tmp_path: Path, by_duckdb: Read) -> None:
    """Each row once, cut into several files that begin and end inside of the old ones."""
    data = pa.table({"id": pa.array(range(50_000), pa.int64()), "s": [f"text {n}" for n in range(50_000)]})
    table = lake.create(data.schema)
    table.append(data)
    orc.write_table(data, tmp_path / "a.orc", stripe_size=1 << 16)
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, AVRO, data.to_pylist())
    for format_ in ("orc", "avro"):
        add: Any = {"schema": "default", "table_name": "t", "files": [str(tmp_path / f"a.{format_}")]}
        lake.session.call("lake.system.add_files", format=format_.upper(), **add)
    done = lake.rewrite(options={"rewrite-all": "true", "target-file-size-bytes": "400000"})
    assert (done["rewritten_data_files_count"], done["added_data_files_count"] > 2) == (3, True)
    assert {file.file_format for file in lake.data_files()} == {FileFormat.PARQUET}
    assert sorted(by_duckdb(lake.load())) == sorted(tuple(row.values()) for row in data.to_pylist() * 3)


def test_a_table_of_format_version_1_is_rewritten(lake: Lake, by_duckdb: Read) -> None:
    """It has no sequence numbers, and needs none."""
    table = lake.create(SCHEMA, properties={"format-version": "1"})
    for number in range(5):
        table.append(rows(number))
    before = by_duckdb(table)
    assert lake.rewrite()["added_data_files_count"] == 1
    assert by_duckdb(lake.load()) == before
    lake.load().append(rows(9))
    assert lake.load().scan().to_arrow().num_rows == 6


@pytest.fixture(params=["1", "2"])
def twice(lake: Lake, request: pytest.FixtureRequest) -> Table:
    """A table with one file in it twice in one manifest, once in another, and a file that is in it once."""
    path = f"{lake.folder}/a.parquet"
    pq.write_table(rows(1, 2), path)
    table: Table = lake.create(SCHEMA, properties={"format-version": request.param})
    table.append(rows(3))
    add = lake.session.procedures.call
    for files in ([path, path], [path]):
        given: dict[str, Any] = {"schema": "default", "table_name": "t", "files": files, "duplicate_file": "allow"}
        add("lake.system.add_files", **given)
    return table.refresh()


def test_a_file_that_is_in_the_table_several_times_is_replaced_as_often(lake: Lake, twice: Table) -> None:
    """Each entry has its rows, and a later run has nothing to do."""
    before = by_pyiceberg(twice)
    assert [row[0] for row in before] == [1, 1, 1, 2, 2, 2, 3]
    row = lake.rewrite(options={"rewrite-all": "true"})
    assert (row["rewritten_data_files_count"], row["added_data_files_count"]) == (4, 1)
    assert by_pyiceberg(lake.load()) == before
    assert len(lake.data_files()) == 1
    assert lake.rewrite()["rewritten_data_files_count"] == 0


@pytest.mark.parametrize("options", [{}, {"partial-progress.enabled": "true", "partial-progress.max-commits": "9"}])
def test_entries_of_one_file_may_be_in_several_groups(lake: Lake, twice: Table, options: dict[str, str]) -> None:
    """Each group replaces its own, whichever comes first."""
    before = by_pyiceberg(twice)
    one_by_one = {"max-file-group-size-bytes": "1", "rewrite-all": "true", **options}
    assert lake.rewrite(options=one_by_one)["rewritten_data_files_count"] == 4
    assert by_pyiceberg(lake.load()) == before
    assert len(lake.data_files()) == 4
    assert f"{lake.folder}/a.parquet" not in {file.file_path for file in lake.data_files()}


def test_deletes_of_a_file_are_not_those_of_its_later_entry(
    lake: Lake, delete_positions: Callable[..., DataFile]
) -> None:
    """Position deletes apply to what was there before them: the file that is added again has all its rows."""
    table = lake.create(SCHEMA)
    table.append(rows(1, 2))
    [path] = [file.file_path for file in lake.data_files()]
    delete_positions(lake.load(), {path: [0]})
    given: dict[str, Any] = {"schema": "default", "table_name": "t", "files": [path], "duplicate_file": "allow"}
    lake.session.procedures.call("lake.system.add_files", **given)
    lake.rewrite(options={"rewrite-all": "true"})
    assert [row[0] for row in by_pyiceberg(lake.load())] == [1, 2, 2]


def test_fields_that_version_1_keeps_as_void_are_null(lake: Lake) -> None:
    """Their column is gone, and they are still part of every spec."""
    table = lake.create(SCHEMA, properties={"format-version": "1"}, partition_spec=BY_CITY)
    for number in range(5):
        table.append(rows(number))
    with table.update_spec() as update:
        update.remove_field("city")
        update.add_field("id", BucketTransform(2), "shard")
    with table.update_schema() as schema_update:
        schema_update.delete_column("city")
    before = by_pyiceberg(lake.load())
    assert lake.rewrite()["rewritten_data_files_count"] == 5
    assert by_pyiceberg(lake.load()) == before
    assert {tuple(file.partition[position] for position in range(2)) for file in lake.data_files()} <= {
        (None, 0),
        (None, 1),
    }


def test_components_are_refused(lake: Lake) -> None:
    """They keep one file for each partition by themselves."""
    unit = TableMetadataUnit(
        storage_plugin="dfs",
        workspace="tmp",
        table_name="t",
        metadata_key="GENERAL_INFO",
        metadata_type="TABLE",
        metadata_identifier="GENERAL_INFO",
    )
    lake.session.tables.modify().overwrite([unit]).execute()
    with pytest.raises(ProcedureError, match="one file for each of its partitions"):
        lake.session.procedures.call("metastore.system.rewrite_data_files", "components", "tables")


def test_the_schema_of_the_new_files_is_the_current_one(lake: Lake, small_files: Table) -> None:
    """A column renamed, one widened, one dropped, one added: old files are brought up to date."""
    with small_files.update_schema() as update:
        update.rename_column("city", "town")
        update.delete_column("at")
        update.add_column("note", StringType())
    before = by_pyiceberg(lake.load())
    lake.rewrite()
    table = lake.load()
    assert by_pyiceberg(table) == before
    schema = pq.read_schema(lake.data_files()[0].file_path.removeprefix("file://"))
    assert schema.names == ["id", "town", "note"]


def test_columns_of_hive_tables_come_from_their_partition(lake: Lake) -> None:
    """Files added from a folder lack field ids and the partition column; the new ones have both."""
    table = lake.create(SCHEMA, partition_spec=BY_CITY)
    folder = lake.folder / "hive" / "city=Rome"
    folder.mkdir(parents=True)
    paths = []
    for number in range(5):
        paths.append(str(folder / f"{number}.parquet"))
        pq.write_table(rows(number, number + 10), paths[-1])
    table.add_files(paths)
    before = by_pyiceberg(lake.load())
    assert lake.rewrite()["rewritten_data_files_count"] == 5
    assert by_pyiceberg(lake.load()) == before
    assert lake.data_files()[0].partition == Record("Rome")
