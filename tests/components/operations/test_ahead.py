"""Partitions written ahead: a transaction like any other, of which nothing stays unless it is carried out."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metastore.components.metastore import Metastore
from metastore.components.storage.partition_writer import PartitionWriter
from metastore.errors import ConflictError
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.model.mapping.schema import iceberg_schema, partition_spec
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType


def keys_of(metastore: Metastore) -> set[tuple[str | None, str | None]]:
    """Table and key of every unit."""
    units = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
    return {(unit.table_name, unit.metadata_key) for unit in units}


def data_files(folder: Path) -> set[Path]:
    """All data files on disk."""
    return set(folder.rglob("*.parquet"))


def test_it_is_one_snapshot_with_all_else(metastore: Metastore, unit: Callable[..., Any], tmp_path: Path) -> None:
    """What is written ahead and what is not become one version, in the order in which they were asked for."""
    metastore.tables.modify().overwrite([unit("old"), unit("kept")]).execute()
    modify = metastore.tables.modify().overwrite_ahead([unit("a"), unit("old")]).delete("tableName = 'old'")
    modify.overwrite([unit("b")]).overwrite_ahead([unit("c")])
    assert {name for name, _ in keys_of(metastore)} == {"old", "kept"}
    modify.execute()
    assert {name for name, _ in keys_of(metastore)} == {"kept", "a", "b", "c"}
    # Of the deleted table there is the file of the first version; the one that was written ahead is gone.
    on_disk = Counter(path.parent.name for path in data_files(tmp_path))
    assert on_disk == Counter(["old", "kept", "a", "b", "c"])
    assert len(metastore.tables.metadata.history()) == 2


@pytest.fixture
def writing_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of the thread that writes, for each file."""
    names: list[str] = []
    write_one = PartitionWriter.write_one

    def write_and_tell(writer: PartitionWriter, partition: Any, files: Any) -> Any:
        names.append(threading.current_thread().name)
        return write_one(writer, partition, files)

    monkeypatch.setattr(PartitionWriter, "write_one", write_and_tell)
    return names


@pytest.mark.parametrize(("count", "in_threads"), [(1, 0), (6, 5)])
def test_whoever_would_wait_writes_the_last_file(
    metastore: Metastore, unit: Callable[..., Any], writing_threads: list[str], count: int, in_threads: int
) -> None:
    """A single partition, as of a small increment, costs no thread; of several, all but the last are begun at once."""
    names = [f"t{number}" for number in range(count)]
    metastore.tables.modify().overwrite_ahead([unit(name) for name in names]).execute()
    assert {name for name, _ in keys_of(metastore)} == set(names)
    assert sum(name.startswith("metastore-writer") for name in writing_threads) == in_threads
    assert writing_threads.count(threading.current_thread().name) == 1


def test_what_is_overtaken_before_it_was_begun_is_not_written(
    metastore: Metastore, unit: Callable[..., Any], writing_threads: list[str], tmp_path: Path
) -> None:
    """The last partition, deleted again in the same transaction, never has a file, and is not waited for."""
    metastore.tables.modify().overwrite_ahead([unit("a")]).delete("tableName = 'a'").overwrite([unit("b")]).execute()
    assert len(writing_threads) == 1
    assert [path.parent.name for path in data_files(tmp_path)] == ["b"]


def test_files_of_a_table_that_is_gone_are_not_committed(
    metastore: Metastore, unit: Callable[..., Any], tmp_path: Path
) -> None:
    """Another program removes the table and creates one: our files have the columns of the first."""
    metastore.tables.modify().overwrite([unit("old")]).execute()
    modify = metastore.tables.modify().overwrite_ahead([unit("new")])
    catalog = FileSystemCatalog("test", str(tmp_path / "metastore"))
    shutil.rmtree(tmp_path / "metastore/tables/metadata")
    catalog.create_table("tables", iceberg_schema(TableMetadataUnit), partition_spec=partition_spec(TableMetadataUnit))
    with pytest.raises(ConflictError, match="created again while"):
        modify.execute()
    assert (keys_of(metastore), metastore.tables.metadata.version) == (set(), 0)


def test_what_is_abandoned_leaves_no_file(metastore: Metastore, unit: Callable[..., Any], tmp_path: Path) -> None:
    """Abandoned, or refused for a version that is not current: the files on disk are those of before."""
    version = metastore.tables.modify().overwrite([unit("kept")]).execute()
    before = data_files(tmp_path)
    modify = metastore.tables.modify().overwrite_ahead([unit(f"t{number}") for number in range(40)])
    modify.abandon()
    assert data_files(tmp_path) == before
    refused = metastore.tables.modify().overwrite_ahead([unit("t")])
    with pytest.raises(ConflictError):
        refused.execute(if_version=version + 1)
    assert (data_files(tmp_path), metastore.tables.metadata.version) == (before, version)
