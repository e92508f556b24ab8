"""compute_table_stats and drop_stats: sketches that other libraries read, and files that go when they are dropped."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.table.snapshots import Snapshot
from support.apache_sketches import apache_sketches
from support.catalog_lake import Lake
from support.delete_files import delete_equal, with_ids

from metastore.errors import FormatError, InvalidRequestError, ProcedureError, StorageError
from metastore.procedures.expire.expire import expire_snapshots
from metastore.procedures.tables.drop_stats import drop_stats
from metastore.procedures.tables.table_stats import compute_table_stats


@pytest.fixture
def written(lake: Lake) -> Table:
    """Two files: 300 distinct ids of 400 rows, 7 cities, some nulls."""
    table: Table = lake.table()
    for part in (range(200), range(100, 300)):
        table.append(pa.table({"id": list(part), "city": [None if n % 10 == 9 else f"c{n % 7}" for n in part]}))
    return table.refresh()


def local(location: str) -> Path:
    """The path of a file URI."""
    return Path(location.removeprefix("file://"))


def head(table: Table) -> Snapshot:
    """The table's current snapshot, which it must have."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot


def ndv(row: dict[str, Any]) -> dict[str, int]:
    """Distinct values by column, as the procedure says them."""
    return {each["column"]: each["ndv"] for each in row["columns"]}


def test_sketches_are_exact_for_few_values(lake: Lake, written: Table) -> None:
    """Counts are those that DuckDB gets; the file is the snapshot's statistics, and PyIceberg reads it as Puffin."""
    [row] = lake.call(compute_table_stats)
    with duckdb.connect() as duck:
        duck.register("rows", written.scan().to_arrow())
        duck.execute("SELECT count(DISTINCT id), count(DISTINCT city) FROM rows")
        [expected] = duck.fetchall()
    assert ndv(row) == dict(zip(("id", "city"), expected, strict=True))
    [attached] = lake.table().metadata.statistics
    assert attached.statistics_path == row["statistics_file"]
    assert attached.snapshot_id == row["snapshot_id"] == head(written).snapshot_id
    content = local(row["statistics_file"]).read_bytes()
    assert attached.file_size_in_bytes == len(content)
    puffin = PuffinFile(content)
    assert [(blob.type, blob.fields) for blob in puffin.footer.blobs] == [
        ("apache-datasketches-theta-v1", [1]),
        ("apache-datasketches-theta-v1", [2]),
    ]
    assert content[-attached.file_footer_size_in_bytes :][:4] == b"PFA1"


def test_datasketches_reads_and_joins_them(lake: Lake, written: Table) -> None:
    """The library's own sketch of the same values, joined with ours, counts no value twice."""
    [row] = lake.call(compute_table_stats, columns=["id"])
    puffin = PuffinFile(local(row["statistics_file"]).read_bytes())
    [blob] = puffin.footer.blobs
    ours = apache_sketches().compact_theta_sketch.deserialize(puffin.get_blob_payload(blob))
    theirs = apache_sketches().update_theta_sketch()
    for value in range(250, 350):
        theirs.update(value)
    union = apache_sketches().theta_union()
    union.update(ours)
    union.update(theirs)
    assert ours.get_estimate() == 300
    assert union.get_result().get_estimate() == 350
    assert blob.properties["ndv"] == "300"
    assert written.metadata.statistics == []


@pytest.mark.parametrize("distinct", [4_096, 4_097, 50_000])
def test_sketches_are_of_the_size_of_spark(lake: Lake, distinct: int) -> None:
    """Exact up to 4,096 values; above, the sketch is that of DataSketches with 2^12 entries."""
    table = lake.table()
    for part in (range(distinct // 2), range(distinct // 3, distinct)):
        table.append(pa.table({"id": list(part), "city": ["x"] * len(part)}))
    [row] = lake.call(compute_table_stats, columns=["id"])
    puffin = PuffinFile(local(row["statistics_file"]).read_bytes())
    sketch = apache_sketches().compact_theta_sketch.deserialize(puffin.get_blob_payload(puffin.footer.blobs[0]))
    assert sketch.num_retained == min(distinct, 4_096)
    if distinct <= 4_096:
        assert ndv(row)["id"] == distinct
    else:
        assert abs(ndv(row)["id"] - distinct) < 4 * distinct / 64  # four standard errors


def test_deleted_rows_do_not_count(
    lake: Lake, rows: Callable[..., pa.Table], delete_positions: Callable[[Table, str, list[int]], Table]
) -> None:
    """Position deletes are applied before values are counted."""
    table = lake.table()
    table.append(rows(1, 2, 3))
    [task] = table.scan().plan_files()
    delete_positions(table, task.file.file_path, [0, 2])
    [row] = lake.call(compute_table_stats)
    assert ndv(row) == {"id": 1, "city": 1}


def test_rows_that_equality_deletes_take_do_not_count(lake: Lake, written: Table) -> None:
    """Nor do they in a snapshot of before, which has them."""
    ids = pa.array(range(150, 250), pa.int64())
    delete_equal(written, with_ids(pa.table({"id": ids}), 1), [1])
    [row] = lake.call(compute_table_stats)
    assert ndv(row)["id"] == 200
    [row] = lake.call(compute_table_stats, snapshot_id=head(written).snapshot_id)
    assert ndv(row)["id"] == 300


def test_a_chosen_snapshot(lake: Lake, written: Table) -> None:
    """An older snapshot has its own statistics beside the current one's."""
    first = written.snapshots()[0].snapshot_id
    [row] = lake.call(compute_table_stats, snapshot_id=first)
    lake.call(compute_table_stats)
    assert ndv(row) == {"id": 200, "city": 7}
    assert {file.snapshot_id for file in lake.table().metadata.statistics} == {
        first,
        head(written).snapshot_id,
    }


def test_refusals(lake: Lake, written: Table) -> None:
    """Unknown columns and snapshots are named; a table without a snapshot has nothing to count."""
    with pytest.raises(InvalidRequestError, match="columns must not be empty when provided"):
        lake.call(compute_table_stats, columns=[])
    with pytest.raises(InvalidRequestError, match="has no column nope; it has id, city"):
        lake.call(compute_table_stats, columns=["nope"])
    with pytest.raises(InvalidRequestError, match="has no snapshot 7"):
        lake.call(compute_table_stats, snapshot_id=7)
    lake.table("empty")
    assert lake.call(compute_table_stats, table="empty") == []
    nested = lake.table("nested", schema=pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int64()))]))
    nested.append(pa.table({"id": [1], "l": [[1]]}))
    [row] = lake.call(compute_table_stats, table="nested")
    assert ndv(row) == {"id": 1}
    with pytest.raises(InvalidRequestError, match="only columns of plain values"):
        lake.call(compute_table_stats, table="nested", columns=["l"])
    assert written.refresh().metadata.statistics == []


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("damage", ["missing", "junk", "other type"])
def test_an_unreadable_file_is_named(lake: Lake, written: Table, which: int, damage: str) -> None:
    """Whichever of those that are read together it is; the table is as it was."""
    path = [task.file.file_path for task in written.scan().plan_files()][which]
    if damage == "missing":
        local(path).unlink()
    elif damage == "other type":
        ids = pa.field("id", pa.string(), metadata={"PARQUET:field_id": "1"})
        pq.write_table(pa.table({"id": ["one"]}, pa.schema([ids])), local(path))
    else:
        local(path).write_bytes(b"no Parquet, of whatever kind")
    with pytest.raises(StorageError if damage == "missing" else FormatError, match=re.escape(path)):
        lake.call(compute_table_stats)
    assert written.refresh().metadata.statistics == []


def test_statistics_expire_with_their_snapshot(lake: Lake, written: Table) -> None:
    """A statistics file is one of the snapshot's files."""
    [old] = lake.call(compute_table_stats, snapshot_id=written.snapshots()[0].snapshot_id)
    [new] = lake.call(compute_table_stats)
    [row] = lake.call(expire_snapshots, older_than=lake.now.replace(year=lake.now.year + 1))
    assert row["deleted_statistics_files_count"] == 1
    assert not local(old["statistics_file"]).exists()
    assert local(new["statistics_file"]).exists()


def test_drop_stats(lake: Lake, written: Table) -> None:
    """Dropped statistics leave metadata and disk; a dry run names the files with their sizes and leaves them."""
    [first] = lake.call(compute_table_stats, snapshot_id=written.snapshots()[0].snapshot_id)
    [last] = lake.call(compute_table_stats)
    sizes = {name: os.path.getsize(local(name)) for name in (first["statistics_file"], last["statistics_file"])}
    dry = lake.call(drop_stats, dry_run=True)
    assert {row["statistics_file"]: row["file_size_in_bytes"] for row in dry} == sizes
    assert len(lake.table().metadata.statistics) == 2
    [row] = lake.call(drop_stats, snapshot_id=first["snapshot_id"])
    assert row["deleted"]
    assert [local(name).exists() for name in sizes] == [False, True]
    lake.call(drop_stats)
    assert lake.table().metadata.statistics == []
    assert lake.call(drop_stats) == []
    with pytest.raises(InvalidRequestError, match="has no snapshot 7"):
        lake.call(drop_stats, snapshot_id=7)


def test_drop_stats_of_shared_files(lake: Lake, written: Table) -> None:
    """Files of a table without GC stay where they are, and in its metadata."""
    lake.call(compute_table_stats)
    written.refresh().transaction().set_properties({"gc.enabled": "false"}).commit_transaction()
    with pytest.raises(ProcedureError, match="Cannot drop statistics: GC is disabled"):
        lake.call(drop_stats)
