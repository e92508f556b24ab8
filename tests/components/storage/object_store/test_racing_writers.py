"""Of any number of writers of one version one wins, and no update is lost, on an object store too."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import obstore
import pytest
from obstore.store import ObjectStore

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.lake.iceberg.catalogs.version_files import VersionFiles
from metastore.lake.stores.objects.object_store import ObjectPointers
from metastore.model.vocabulary import MetadataType

WRITERS = 32

RACE = """
import pickle, sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from metastore.lake.stores.hadoop_properties import file_io_properties
from metastore.lake.stores.objects.object_store import ObjectPointers
from metastore.lake.stores.objects.object_store_client import Buckets
location, hadoop, writers = pickle.load(sys.stdin.buffer)
pointers = ObjectPointers(Buckets(file_io_properties(location, hadoop)))
pointers.create_if_absent(f"{location}.warm.{writers[0]}", b"")
start = Barrier(len(writers))
def write(writer):
    start.wait()
    return writer if pointers.create_if_absent(location, str(writer).encode()) else None
print("ready", flush=True)
sys.stdin.buffer.read(1)
with ThreadPoolExecutor(len(writers)) as threads:
    print([writer for writer in threads.map(write, writers) if writer is not None])
"""

COMMITS = """
import pickle, sys
from metastore.model.table_unit import TableMetadataUnit
settings, name = pickle.load(sys.stdin.buffer)
from metastore.metastore import Metastore
with Metastore.open(settings) as metastore:
    for number in range(20):
        unit = TableMetadataUnit(storage_plugin="dfs", workspace="tmp", table_name=f"{name}{number}",
            metadata_type="TABLE", metadata_key="GENERAL_INFO", metadata_identifier="GENERAL_INFO")
        metastore.tables.modify().overwrite([unit]).execute()
"""


def test_one_of_racing_threads_wins(pointers: ObjectPointers, root: str) -> None:
    """The winner's content stands, and all others are told that they lost."""
    location, start = f"{root}/t/metadata/v2.metadata.json", Barrier(WRITERS)

    def write(writer: int) -> bool:
        start.wait()
        return pointers.create_if_absent(location, str(writer).encode()) is not None

    with ThreadPoolExecutor(WRITERS) as threads:
        won = list(threads.map(write, range(WRITERS)))
    [winner] = [writer for writer in range(WRITERS) if won[writer]]
    assert pointers.read(location) == str(winner).encode()


@pytest.mark.integration
def test_one_of_racing_processes_wins(pointers: ObjectPointers, root: str, hadoop: dict[str, str]) -> None:
    """Four processes of eight writers each, let go together."""
    location = f"{root}/t/metadata/v2.metadata.json"
    groups = [range(first, first + 8) for first in range(0, WRITERS, 8)]
    pipe = subprocess.PIPE
    racers = [subprocess.Popen([sys.executable, "-c", RACE], stdin=pipe, stdout=pipe) for _ in groups]
    for racer, group in zip(racers, groups, strict=True):
        assert racer.stdin
        racer.stdin.write(pickle.dumps((location, hadoop, group)))
        racer.stdin.flush()
    for racer in racers:
        assert racer.stdout
        assert racer.stdout.readline() == b"ready\n"
    for racer in racers:
        assert racer.stdin
        racer.stdin.write(b".")
        racer.stdin.flush()
    told = [racer.communicate()[0].decode() for racer in racers]
    assert sorted(told) == sorted(["[]\n"] * 3 + [f"[{pointers.read(location).decode()}]\n"])


@pytest.mark.integration
def test_processes_lose_no_update(settings: Callable[..., Settings]) -> None:
    """Two processes commit twenty times each, with no error, and every commit is in the table and its history."""
    writers = [subprocess.Popen([sys.executable, "-c", COMMITS], stdin=subprocess.PIPE) for _ in range(2)]
    for writer, name in zip(writers, "ab", strict=True):
        assert writer.stdin
        writer.stdin.write(pickle.dumps((settings(), name)))
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0, 0]
    with Metastore.open(settings()) as metastore:
        found = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
        assert {unit.table_name for unit in found} == {f"{name}{number}" for name in "ab" for number in range(20)}
        assert len(metastore.tables.metadata.history()) == 40


@pytest.mark.parametrize("hint", [b"1", b"2", b"no number", None], ids=repr)
def test_the_hint_may_be_anything(pointers: ObjectPointers, root: str, bucket: ObjectStore, hint: bytes | None) -> None:
    """Stale, broken or missing: the newest version is found."""
    versions = VersionFiles(f"{root}/t", pointers)
    assert versions.current() is None
    assert all(versions.publish(version, str(version).encode()) for version in (1, 2, 3))
    if hint is None:
        obstore.delete(bucket, "t/metadata/version-hint.text")
    else:
        obstore.put(bucket, "t/metadata/version-hint.text", hint)
    assert versions.current() == (3, versions.location_of(3))


def test_old_versions_go(pointers: ObjectPointers, root: str) -> None:
    """Those before the one given, and a writer that slept through it cannot bring an old one back."""
    versions = VersionFiles(f"{root}/t", pointers)
    for version in (1, 2, 3):
        versions.publish(version, str(version).encode())
    assert versions.remove_before(3) == (2, [])
    assert not versions.publish(2, b"late")
    assert pointers.entries(versions.folder).files == {"v3.metadata.json", "version-hint.text"}
