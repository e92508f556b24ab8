"""Of any number of writers of one version one wins, on HDFS too, and a writer that dies leaves what was there."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.lake.stores.hdfs.hdfs import HdfsPointers
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

pytestmark = pytest.mark.hdfs

WRITERS = 32

RACE = """
import pickle, sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from metastore.lake.stores.hdfs.hdfs import HdfsPointers
from metastore.lake.stores.hdfs.webhdfs import Clusters
location, hadoop, writers = pickle.load(sys.stdin.buffer)
pointers = HdfsPointers(Clusters(hadoop))
start = Barrier(len(writers))
def write(writer):
    start.wait()
    return writer if pointers.create_if_absent(location, str(writer).encode()) else None
print("ready", flush=True)
sys.stdin.buffer.read(1)
with ThreadPoolExecutor(len(writers)) as threads:
    print([writer for writer in threads.map(write, writers) if writer is not None])
"""

DIES = """
import os, pickle, signal, sys
from metastore.metastore import Metastore
from metastore.lake.stores.hdfs.webhdfs import WebHdfs
settings, unit, after = pickle.load(sys.stdin.buffer)
rename = WebHdfs.rename
def last_act(self, source, target, *, overwrite=False):
    if target.endswith("v3.metadata.json"):
        if after:
            rename(self, source, target, overwrite=overwrite)
        os.kill(os.getpid(), signal.SIGKILL)
    rename(self, source, target, overwrite=overwrite)
WebHdfs.rename = last_act
with Metastore.open(settings) as metastore:
    metastore.tables.modify().overwrite([unit]).execute()
"""


def test_one_of_racing_threads_wins(pointers: HdfsPointers, root: str) -> None:
    """The winner's content stands, all others are told that they lost, and nothing else is left of them."""
    folder, start = f"{root}/t/metadata", Barrier(WRITERS)

    def write(writer: int) -> bool:
        start.wait()
        return pointers.create_if_absent(f"{folder}/v2.metadata.json", str(writer).encode()) is not None

    with ThreadPoolExecutor(WRITERS) as threads:
        won = list(threads.map(write, range(WRITERS)))
    [winner] = [writer for writer in range(WRITERS) if won[writer]]
    assert pointers.read(f"{folder}/v2.metadata.json") == str(winner).encode()
    assert pointers.entries(folder).files == {"v2.metadata.json"}


@pytest.mark.integration
def test_one_of_racing_processes_wins(pointers: HdfsPointers, root: str, hadoop: dict[str, str]) -> None:
    """Two processes of sixteen writers each, let go together."""
    location = f"{root}/t/metadata/v2.metadata.json"
    groups = [range(WRITERS // 2), range(WRITERS // 2, WRITERS)]
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
    assert sorted(told) == sorted(["[]\n", f"[{pointers.read(location).decode()}]\n"])


@pytest.mark.integration
@pytest.mark.parametrize("after", [False, True], ids=["before its rename", "after its rename"])
def test_a_writer_that_is_killed(
    settings: Callable[..., Settings], unit: Callable[..., TableMetadataUnit], after: bool
) -> None:
    """The table is at the version before or after, whole, and others go on from there."""
    with Metastore.open(settings()) as metastore:
        metastore.tables.modify().overwrite([unit("a")]).execute()
        given = pickle.dumps((settings(), unit("b"), after))
        done = subprocess.run([sys.executable, "-c", DIES], input=given, check=False, capture_output=True)
        assert (done.returncode, done.stderr) == (-signal.SIGKILL, b"")
        before = ["a", "b"] if after else ["a"]
        for expected in (before, [*before, "c"]):
            found = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
            assert sorted(str(each.table_name) for each in found) == expected
            metastore.tables.modify().overwrite([unit("c")]).execute()
