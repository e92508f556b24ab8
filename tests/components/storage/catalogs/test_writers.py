"""Processes and threads that write through one catalog at once: no update is lost, and every commit is one version."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pyiceberg.table.update import AddSnapshotUpdate

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.lake.iceberg.catalogs.catalog_entry import CatalogEntry
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]
COMMITS = 20

WRITER = """
import pickle, sys
from metastore.metastore import Metastore
from metastore.model.table_unit import TableMetadataUnit
settings, name, commits = pickle.load(sys.stdin.buffer)
def unit(table):
    return TableMetadataUnit(storage_plugin="dfs", workspace="tmp", table_name=table, metadata_type="TABLE",
        metadata_key="GENERAL_INFO", metadata_identifier="GENERAL_INFO")
with Metastore.open(settings) as metastore:
    for number in range(commits):
        metastore.tables.modify().overwrite([unit(f"{name}{number}"), unit("shared")]).execute()
"""


@pytest.mark.exhaustive
@pytest.mark.integration
def test_processes_lose_no_update(settings: Callable[..., Settings]) -> None:
    """Two processes begin together with nothing: one namespace, one table, and each commit in its history."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER], stdin=subprocess.PIPE) for _ in range(2)]
    for writer, name in zip(writers, "ab", strict=True):
        assert writer.stdin
        writer.stdin.write(pickle.dumps((settings(), name, COMMITS)))
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0, 0]
    with Metastore.open(settings()) as metastore:
        found = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
        expected = {f"{name}{number}" for name in "ab" for number in range(COMMITS)} | {"shared"}
        assert sorted(unit.table_name or "" for unit in found) == sorted(expected)
        assert len(metastore.tables.metadata.history()) == 2 * COMMITS


def test_threads_share_an_open_metastore(open_metastore: OpenMetastore, unit: MakeUnit) -> None:
    """Reads and writes at once: each thread sees its own commits, whatever connection the catalog's client has."""
    metastore, start = open_metastore(clock=None), Barrier(4)

    def work(name: str) -> list[bool]:
        start.wait()
        seen = []
        for number in range(3):
            metastore.tables.modify().overwrite([unit(f"{name}{number}")]).execute()
            found = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
            seen.append(f"{name}{number}" in {each.table_name for each in found})
        return seen

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, "abcd")) == [[True] * 3] * 4


def test_an_expiration_leaves_what_the_newest_version_needs(
    open_metastore: OpenMetastore, unit: MakeUnit, tmp_path: Path
) -> None:
    """And nothing more: metadata files of earlier versions go too, and those that lost commits left."""
    metastore, other = open_metastore(), open_metastore()
    for number in range(3):
        metastore.tables.modify().overwrite([unit(f"t{number}"), unit("again")]).execute()
        other.tables.modify().overwrite([unit("again")]).execute()
    folder = tmp_path / "metastore/tables"
    lost = folder / "metadata" / "00001-00000000-0000-4000-8000-000000000000.metadata.json"
    lost.write_text("{}")
    expired = metastore.tables.expiration.expire()
    assert len(expired.versions) == 5
    assert expired.failed == ()
    now = metastore.tables._backing.table.load()
    assert now is not None
    snapshot = now.metadata.current_snapshot()
    assert snapshot is not None
    needed = {now.metadata_location, snapshot.manifest_list}
    for manifest in snapshot.manifests(now.io):
        needed |= {manifest.manifest_path, *(e.data_file.file_path for e in manifest.fetch_manifest_entry(now.io))}
    # Hadoop's client, through which the REST server writes, keeps a checksum beside each file.
    found = {str(path) for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc"}
    assert found == {location.removeprefix("file:") for location in needed}
    assert len(metastore.tables.read().metadata_types(MetadataType.ALL).execute()) == 4


def test_a_writer_and_an_expiration_keep_out_of_each_others_way(
    open_metastore: OpenMetastore, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit between the mark and the expiration's commit makes it mark anew: what was written then is there."""
    metastore, other = open_metastore(), open_metastore()
    for number in range(3):
        metastore.tables.modify().overwrite([unit("a"), unit(f"t{number}")]).execute()
    expiring, handler = metastore.tables._backing.table.entry, metastore.tables.expiration
    commit, raced = type(expiring).commit, iter([True])

    def late(entry: CatalogEntry, *arguments: Any) -> object:
        if entry is expiring and next(raced, False):
            other.tables.modify().overwrite([unit("b")]).execute()
        return commit(entry, *arguments)

    monkeypatch.setattr(type(expiring), "commit", late)
    assert len(handler.expire().versions) == 3
    found = open_metastore().tables.read().metadata_types(MetadataType.ALL).execute()
    assert {each.table_name for each in found} == {"a", "b", "t0", "t1", "t2"}


@pytest.mark.integration
@pytest.mark.parametrize("kind", [pytest.param("rest", marks=pytest.mark.rest)], indirect=True)
def test_what_is_staged_behind_an_expirations_back_keeps_its_files(
    open_metastore: OpenMetastore, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server cannot be asked to refuse then; its answer shows the snapshot, and what it needs is not deleted."""
    metastore = open_metastore()
    for name in ("old", "new"):
        metastore.tables.modify().purge()
        metastore.tables.modify().overwrite([unit(name)]).execute()
    entry = metastore.tables._backing.table.entry
    table = entry.load()
    assert table is not None
    old = table.metadata.snapshots[0]
    staged = old.model_copy(update={"snapshot_id": 42, "parent_snapshot_id": None, "sequence_number": 99})
    commit, raced = type(entry).commit, iter([True])

    def late(entry: CatalogEntry, *arguments: Any) -> object:
        if next(raced, False):
            newest = staged.model_copy(update={"timestamp_ms": table.metadata.last_updated_ms})
            commit(entry, table, (), (AddSnapshotUpdate(snapshot=newest),))
        return commit(entry, *arguments)

    monkeypatch.setattr(type(entry), "commit", late)
    assert old.snapshot_id in metastore.tables.expiration.expire().versions
    after = entry.load()
    assert after is not None
    kept = after.metadata.snapshot_by_id(42)
    assert kept is not None
    [manifest] = kept.manifests(after.io)
    [data_file] = [each.data_file.file_path for each in manifest.fetch_manifest_entry(after.io)]
    assert len(after.io.new_input(data_file)) > 0
