"""Data on every store whose server can be had: analyzed, scanned and listed by the keys of Hadoop's connectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import ObjectStore
from services.counting import counting
from support.store_server import StoreServer

from metastore.config.settings import Settings
from metastore.session import Session, connect

FILES, DIRECTORIES = 60, 6

OpenLake = Callable[..., Any]


@pytest.fixture
def open_lake(server: StoreServer, root: str, bucket: ObjectStore, tmp_path: Path) -> OpenLake:
    """Open a session whose plugin ``lake`` is the bucket, by ``endpoint``; table ``lake.w.t`` has small files."""
    for number in range(FILES):
        content = BytesIO()
        pq.write_table(pa.table({"x": [number * 10 + each for each in range(10)]}), content)
        bucket.put(f"w/t/k={number % DIRECTORIES}/{number}.parquet", content.getvalue())

    @contextmanager
    def open_(endpoint: str | None = None) -> Iterator[Session]:
        keys = {f'"{key}"': value for key, value in server.hadoop(endpoint or server.endpoint).items()}
        plugin = {"type": "file", "connection": root, "workspaces.w.location": "/w", "config": keys}
        base = {"iceberg.location.base_path": str(tmp_path / "m"), "engine.kind": "local", "storage.lake": plugin}
        with connect(Settings.from_mapping({"drill.metastore": base}, environ={})) as session:
            yield session

    return open_


def test_a_table_is_analyzed_and_read(open_lake: OpenLake, bucket: ObjectStore) -> None:
    """Its rows are those of its files, before and after one is added, and conditions skip files."""
    with open_lake() as ms:
        ms.analyze("lake.w.t")
        assert sorted(ms.tables.scan("lake.w.t", "x < 25").to_arrow()["x"].to_pylist()) == list(range(25))
        assert len(ms.prune("lake.w.t", "x < 25").paths) == 3
        large = BytesIO()
        pq.write_table(pa.table({"x": list(range(10_000, 90_000))}), large, compression="none", use_dictionary=False)
        bucket.put("w/t/k=0/large.parquet", large.getvalue())
        assert ms.analyze("lake.w.t").new == 1
        [told] = ms.sql("SELECT count(*) AS n, max(x) AS most FROM lake.w.t WHERE k = 0").to_pylist()
        assert told == {"n": 80_100, "most": 89_999}


def test_an_object_named_as_the_directory_hides_no_file(open_lake: OpenLake, bucket: ObjectStore) -> None:
    """Some tools mark a directory by an empty object of its name, without the slash."""
    bucket.put("w/t", b"")
    with open_lake() as ms:
        assert ms.analyze("lake.w.t").new == FILES
        assert ms.tables.scan("lake.w.t", "x < 25").to_arrow().num_rows == 25


def test_a_file_replaced_within_one_tick_of_the_stores_clock_is_another_file(
    open_lake: OpenLake, bucket: ObjectStore, root: str
) -> None:
    """Of the same size, too, right after ANALYZE: stores tell times in seconds or milliseconds, so ETags decide."""
    key = "w/t/k=0/0.parquet"

    def replaced(value: int) -> None:
        content = BytesIO()
        pq.write_table(pa.table({"x": [value] * 10}), content)
        bucket.put(key, content.getvalue())

    with open_lake() as ms:
        ms.analyze("lake.w.t")
        for value in range(5000, 5010):
            replaced(value)
            assert ms.tables.scan("lake.w.t", f"x = {value}").count() == 10
            assert ms.analyze("lake.w.t").changed == 1
            assert ms.analyze("lake.w.t", paths=[f"{root}/{key}"]).status == "up to date"
        [told] = ms.sql('SELECT DISTINCT "$file_modified_time" AS t FROM lake.w.t WHERE x = 5009').to_pylist()
        assert told["t"].microsecond % 1000 == 0


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
def test_requests_for_data(open_lake: OpenLake, server: StoreServer) -> None:
    """ANALYZE asks once for each footer and for pages of names; unchanged files are not asked again."""
    with counting(server.endpoint) as seen, open_lake(seen.endpoint) as ms:
        ms.analyze("lake.w.t")
        assert len(seen.requests) <= FILES + FILES / 1000 + 4, seen.requests
        assert sum(request.startswith("GET") and ".parquet" in request for request in seen.requests) == FILES
        seen.requests.clear()
        ms.analyze("lake.w.t")
        assert len(seen.requests) <= 4, seen.requests
        seen.requests.clear()
        assert ms.tables.scan("lake.w.t", "x = 7").to_arrow().num_rows == 1
        assert len(seen.requests) <= 4 + 2, seen.requests  # what pruning asks, and the file
