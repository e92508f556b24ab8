"""rewrite_table_path: what is copied by the list is the same table at another place, and needs nothing of the first."""

from __future__ import annotations

import csv
import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable, Table
from support.catalog_lake import Lake

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.procedures.expire.expire import expire_snapshots
from metastore.procedures.tables.drop_stats import drop_stats
from metastore.procedures.tables.register import register_table
from metastore.procedures.tables.rewrite_path import rewrite_table_path
from metastore.procedures.tables.table_stats import compute_table_stats


@pytest.fixture
def written(
    lake: Lake, rows: Callable[..., pa.Table], delete_positions: Callable[[Table, str, list[int]], Table]
) -> Table:
    """Appends, a delete of rows by position, statistics, and a tag on the first snapshot."""
    table: Table = lake.table()
    for each in (1, 2):
        table.append(rows(each, each + 10))
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "first").commit()
    path = next(task.file.file_path for task in table.scan().plan_files())
    delete_positions(table, path, [0])
    lake.call(compute_table_stats)
    return table.refresh()


def local(location: str) -> Path:
    """The path of a file URI."""
    return Path(location.removeprefix("file://"))


def copied(listing: str) -> set[str]:
    """Do what the list says; the data files among what was copied."""
    with local(listing).open() as lines:
        pairs = list(csv.reader(lines))
    for source, target in pairs:
        local(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(local(source), local(target))
    return {source for source, _ in pairs if source.endswith(".parquet") and "copy-table-staging" not in source}


def data_files(table: Table) -> set[str]:
    """The data files that the newest version has."""
    return {task.file.file_path for task in table.refresh().scan().plan_files()}


def ids(table: Any, **scan: Any) -> list[int]:
    """The ids in the table, as PyIceberg reads it."""
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())


def moved(tmp_path: Path, latest: str) -> StaticTable:
    """The table at the target."""
    return StaticTable.from_metadata(f"file://{tmp_path}/target/metadata/{latest}")


def test_the_copy_stands_alone(lake: Lake, written: Table, tmp_path: Path) -> None:
    """After the original is gone the copy has its rows, at every snapshot, with deletes applied."""
    first, expected = written.snapshots()[0].snapshot_id, ids(written)
    of_first = ids(written, snapshot_id=first)
    source, target = written.metadata.location, f"file://{tmp_path}/target"
    staging = f"file://{tmp_path}/staging"
    [row] = lake.call(rewrite_table_path, source_prefix=source, target_prefix=target, staging_location=staging)
    assert row["latest_version"] == written.metadata_location.rpartition("/")[2]
    assert (row["rewritten_manifest_file_paths_count"], row["rewritten_delete_file_paths_count"]) == (3, 1)
    copied(row["file_list_location"])
    shutil.rmtree(local(source))
    shutil.rmtree(local(staging))
    table = moved(tmp_path, row["latest_version"])
    assert ids(table) == expected
    assert len(expected) == 3
    assert ids(table, snapshot_id=first) == of_first
    text = "".join(path.read_text() for path in (tmp_path / "target/metadata").glob("*.json"))
    assert source not in text
    [statistics] = table.metadata.statistics
    assert local(statistics.statistics_path).exists()


def test_statistics_that_were_dropped_are_not_copied(lake: Lake, written: Table, tmp_path: Path) -> None:
    """Older versions still name them, and the file is gone; those that the latest version names are copied."""
    source, target = written.metadata.location, f"file://{tmp_path}/target"
    lake.call(drop_stats)
    lake.call(compute_table_stats, columns=["id"])
    [row] = lake.call(rewrite_table_path, source_prefix=source, target_prefix=target)
    copied(row["file_list_location"])
    [statistics] = moved(tmp_path, row["latest_version"]).metadata.statistics
    assert local(statistics.statistics_path).exists()
    assert len(list((tmp_path / "target").rglob("*.stats"))) == len(list(local(source).rglob("*.stats"))) == 1


def test_manifests_keep_what_they_say(lake: Lake, written: Table, tmp_path: Path) -> None:
    """Entries of the copy are the original's but for their paths, and lists say the lengths of the new manifests."""
    source, target = written.metadata.location, f"file://{tmp_path}/target"
    [row] = lake.call(rewrite_table_path, source_prefix=source, target_prefix=target)
    copied(row["file_list_location"])
    table = moved(tmp_path, row["latest_version"])
    originals, copies = written.current_snapshot(), table.current_snapshot()
    assert originals is not None
    assert copies is not None
    pairs = zip(originals.manifests(written.io), copies.manifests(table.io), strict=True)
    for before, after in pairs:
        assert local(after.manifest_path).stat().st_size == after.manifest_length
        assert (before.sequence_number, before.partitions) == (after.sequence_number, after.partitions)
        entries = zip(before.fetch_manifest_entry(written.io), after.fetch_manifest_entry(table.io), strict=True)
        for old, new in entries:
            assert new.data_file.file_path == old.data_file.file_path.replace(source, target)
            assert new.data_file.file_size_in_bytes == local(new.data_file.file_path).stat().st_size
            assert (new.sequence_number, new.snapshot_id) == (old.sequence_number, old.snapshot_id)
            assert dict(new.data_file.lower_bounds or {}) == dict(old.data_file.lower_bounds or {})


def test_only_what_is_new(lake: Lake, written: Table, rows: Callable[..., pa.Table], tmp_path: Path) -> None:
    """After a start version only data files of later snapshots are copied, onto a copy of what was before."""
    source, target = written.metadata.location, f"file://{tmp_path}/target"
    [row] = lake.call(rewrite_table_path, source_prefix=source, target_prefix=target)
    before = copied(row["file_list_location"])
    assert before == data_files(written)
    lake.table().append(rows(99))
    [row] = lake.call(
        rewrite_table_path, source_prefix=source, target_prefix=target, start_version=row["latest_version"]
    )
    assert copied(row["file_list_location"]) == data_files(lake.table()) - before
    assert ids(moved(tmp_path, row["latest_version"])) == [*ids(written), 99]


@pytest.mark.parametrize("version", ["1", "2"])
def test_only_what_is_new_after_an_expiration(
    lake: Lake, rows: Callable[..., pa.Table], tmp_path: Path, version: str
) -> None:
    """The same if snapshots had expired; in format version 1, where only they tell, their files are copied again."""
    table = lake.table(properties={"format-version": version})
    table.append(rows(1))
    first = data_files(table)
    table.append(rows(2))
    lake.later(10)
    [row] = lake.call(expire_snapshots)
    assert row["expired_snapshots_count"] == 1
    source, target = table.metadata.location, f"file://{tmp_path}/target"
    [row] = lake.call(rewrite_table_path, source_prefix=source, target_prefix=target)
    before = copied(row["file_list_location"])
    lake.table().append(rows(99))
    [row] = lake.call(
        rewrite_table_path, source_prefix=source, target_prefix=target, start_version=row["latest_version"]
    )
    again = first if version == "1" else set()
    assert copied(row["file_list_location"]) == data_files(lake.table()) - before | again
    assert ids(moved(tmp_path, row["latest_version"])) == [1, 2, 99]


def test_an_older_version(lake: Lake, written: Table, tmp_path: Path) -> None:
    """An end version is the newest that the copy has."""
    older = written.metadata.metadata_log[-3].metadata_file.rpartition("/")[2]
    target = f"file://{tmp_path}/target"
    [row] = lake.call(
        rewrite_table_path, source_prefix=written.metadata.location, target_prefix=target, end_version=older
    )
    copied(row["file_list_location"])
    assert row["latest_version"] == older
    assert ids(moved(tmp_path, older)) == [1, 2, 11, 12]


def test_refusals(lake: Lake, written: Table, tmp_path: Path) -> None:
    """Prefixes that are empty, the same, or not all files'; versions that there are not."""
    source, target = written.metadata.location, f"file://{tmp_path}/target"
    with pytest.raises(InvalidRequestError, match="must not be empty"):
        lake.call(rewrite_table_path, source_prefix="", target_prefix=target)
    with pytest.raises(InvalidRequestError, match="Source prefix cannot be the same as target prefix"):
        lake.call(rewrite_table_path, source_prefix=source, target_prefix=source + "/")
    with pytest.raises(ProcedureError, match="does not start with file:///elsewhere"):
        lake.call(rewrite_table_path, source_prefix="file:///elsewhere", target_prefix=target)
    with pytest.raises(InvalidRequestError, match="Cannot find provided version file v9"):
        lake.call(rewrite_table_path, source_prefix=source, target_prefix=target, end_version="v9")


@pytest.mark.parametrize("version", ["1", "2"])
def test_packed_metadata_of_both_versions(
    lake: Lake, rows: Callable[..., pa.Table], tmp_path: Path, version: str
) -> None:
    """Compressed metadata files stay compressed, in both format versions; the table itself is not changed."""
    table = lake.table(properties={"format-version": version})
    table.append(rows(1))
    packed = table.metadata_location.replace(".metadata.json", ".gz.metadata.json")
    local(packed).write_bytes(gzip.compress(local(table.metadata_location).read_bytes()))
    lake.call(register_table, table="packed", metadata_location=packed, force=True)
    target = f"file://{tmp_path}/target"
    [row] = lake.call(rewrite_table_path, table="packed", source_prefix=table.metadata.location, target_prefix=target)
    assert row["latest_version"] == packed.rpartition("/")[2]
    copied(row["file_list_location"])
    assert ids(moved(tmp_path, row["latest_version"])) == [1]
    assert lake.table("packed").metadata_location == packed


@pytest.mark.parametrize("spelled", ["file:{}", "file://{}", "file:///{}", "{}", "file://localhost{}"])
def test_any_spelling_of_the_prefix(lake: Lake, written: Table, tmp_path: Path, spelled: str) -> None:
    """One prefix fits files that are spelled otherwise; the tail stays as the file spells it."""
    root = str(local(written.metadata.location))
    [row] = lake.call(rewrite_table_path, source_prefix=spelled.format(root), target_prefix=f"file://{tmp_path}/target")
    copied(row["file_list_location"])
    expected = ids(written)
    shutil.rmtree(root)
    assert ids(moved(tmp_path, row["latest_version"])) == expected


def test_nothing_is_written_over(lake: Lake, written: Table, tmp_path: Path) -> None:
    """A staging place that holds a file of that name, the table's own folder too, is refused and stays as it is."""
    before = {path: local(path).read_bytes() for path in lake.files()}
    with pytest.raises(ProcedureError, match="exists already, with other content, and is not overwritten"):
        lake.call(
            rewrite_table_path,
            source_prefix=written.metadata.location,
            target_prefix=f"file://{tmp_path}/target",
            staging_location=written.metadata.location,
        )
    assert {path: local(path).read_bytes() for path in before} == before
