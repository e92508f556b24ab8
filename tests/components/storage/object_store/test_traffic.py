"""The history's requests and bytes are those that the store has seen: of this process, and of helper processes."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from obstore.store import ObjectStore
from services.counting import Seen, counting
from support.store_server import StoreServer

from metastore.analyze.tasks.segments import make_segments
from metastore.config.settings import Settings
from metastore.daemon.process import run_once
from metastore.engines.engine import LocalEngine
from metastore.engines.traffic import traffic_so_far
from metastore.lake.stores.arrow import open_location
from metastore.session import connect

pytestmark = pytest.mark.parametrize("kind", ["s3"], indirect=True)

FILES = 40


@pytest.fixture
def seen(server: StoreServer) -> Iterator[Seen]:
    """A proxy that counts requests and bytes."""
    with counting(server.endpoint) as seen:
        yield seen


@pytest.fixture
def configured(seen: Seen, server: StoreServer, root: str, bucket: ObjectStore) -> Settings:
    """Data and metadata in the bucket, through the proxy; the daemon analyzes the table."""
    for number in range(FILES):
        put(bucket, number, [number])
    keys = {f'"{key}"': value for key, value in server.hadoop(seen.endpoint).items()}
    base = {
        "iceberg": {"location": {"base_path": root, "relative_path": "metastore"}, "config.properties": keys},
        "engine.kind": "local",
        "storage.lake": {"type": "file", "connection": root, "workspaces.w.location": "/w", "config": keys},
        "policies.catalogs.lake": {"analyze": {"enabled": True}},
    }
    return Settings.from_mapping({"drill.metastore": base}, environ={})


def put(bucket: ObjectStore, number: int, values: list[int]) -> None:
    """One of the files of the table."""
    content = BytesIO()
    pq.write_table(pa.table({"x": values}), content)
    bucket.put(f"w/t/k={number % 4}/{number}.parquet", content.getvalue())


def test_a_run_tells_what_the_store_has_seen(configured: Settings, seen: Seen, bucket: ObjectStore) -> None:
    """Of all files, of one that changed, and where nothing did; all but what the history itself takes."""
    counts: list[tuple[int, int, int]] = []
    with connect(configured) as ms:
        ms.analyze("lake.w.t")
        for values in (None, [7], [8]):
            if values is not None:
                put(bucket, 1, values)
            seen.clear()
            before = traffic_so_far()
            ms.analyze("lake.w.t")
            assert traffic_so_far().since(before) == (len(seen.requests), seen.received, seen.sent)
            counts.append(traffic_so_far().since(before))
    assert [counts[0][0] < 5, counts[1][0] > 9, counts[2][2] > 1_000] == [True] * 3


def test_helpers_return_their_counts(configured: Settings, seen: Seen, bucket: ObjectStore) -> None:
    """With their answers: the sum of all processes is what the store has seen."""
    with LocalEngine(2, helpers_pay_from=0) as engine, connect(configured, engine) as ms:
        ms.analyze("lake.w.t")
        while engine.ready_for(make_segments) < 2:
            for number in range(4):
                put(bucket, number, [traffic_so_far().requests])
            ms.analyze("lake.w.t")
        for number in range(FILES):
            put(bucket, number, [0])
        seen.clear()
        before = traffic_so_far()
        assert ms.analyze("lake.w.t").changed == FILES
        assert traffic_so_far().since(before) == (len(seen.requests), seen.received, seen.sent)


def test_pages_and_parts_count(seen: Seen, server: StoreServer, root: str, bucket: ObjectStore) -> None:
    """A listing of several pages, an object in parts, and deletions of many."""
    system, place = open_location(f"{root}/many", server.hadoop(seen.endpoint))
    for number in range(1_050):
        bucket.put(f"many/{number:04}", b"x")
    for work in (
        lambda: system.get_file_info(pafs.FileSelector(place)),
        lambda: system.get_file_info(pafs.FileSelector(place, recursive=True)),
        lambda: system.delete_dir_contents(place),
        lambda: written(system, f"{root}/large", 40 << 20),
        lambda: system.get_file_info(f"{root}/large"),
    ):
        seen.clear()
        before = traffic_so_far()
        work()
        counted = traffic_so_far().since(before)
        assert (counted.requests, counted.sent) == (len(seen.requests), seen.sent)


def written(system: pafs.FileSystem, path: str, size: int) -> None:
    """One object of ``size`` bytes."""
    with system.open_output_stream(path) as stream:
        stream.write(b"x" * size)


def test_the_daemons_history_has_them(configured: Settings, seen: Seen) -> None:
    """The run tells them, and so does the component that keeps it."""
    with connect(configured) as ms:
        [run] = run_once(ms, dry_run=False)
        assert (run.action, run.status) == ("analyze", "done")
        assert len(seen.requests) > (run.requests or 0) > FILES
        assert seen.received >= (run.bytes_received or 0) > 0
        assert seen.sent > (run.bytes_sent or 0) > 0
        kept = ms.sql("SELECT requests, bytesReceived, bytesSent FROM metastore.components.runs").to_pylist()
        assert [tuple(row.values()) for row in kept] == [(run.requests, run.bytes_received, run.bytes_sent)]
