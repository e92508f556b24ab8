"""What a load of a table costs once it was loaded: one look for the pointer, whatever the size of its metadata."""

from __future__ import annotations

import statistics
import time
import uuid
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from services.counting import counting
from services.s3 import S3Server
from support.served_lake import MakeLake

WARM_S = 0.01


@pytest.mark.parametrize(("kind", "requests"), [("filesystem", 1), ("sql", 0)])
def test_a_warm_load_asks_the_store_for_the_pointer_alone(
    make_lake: MakeLake, s3_server: S3Server, tmp_path: Path, kind: str, requests: int
) -> None:
    """One request where the store has the pointer, none where a database has it; 304 costs the same."""
    bucket = f"serve-{uuid.uuid4().hex[:8]}"
    s3_server.create(bucket)
    with counting(s3_server.endpoint) as seen:
        access = {f'"{key}"': value for key, value in s3_server.hadoop(seen.endpoint).items()}
        keys = {"type": kind, "warehouse": f"s3a://{bucket}/lake", **access}
        if kind == "sql":
            keys["uri"] = f"sqlite:///{tmp_path}/far.db"
        lake = make_lake(own={"far": keys}, catalogs=["far"])
        catalog = lake.session.catalogs.open("far")
        catalog.create_namespace("a")
        catalog.create_table(("a", "t"), Schema(NestedField(1, "id", LongType(), required=False)))
        lake.sql("INSERT INTO far.a.t VALUES (1)")
        path = "/v1/far/namespaces/a/tables/t"
        cold = lake.ask(path)
        seen.clear()
        assert lake.ask(path).body == cold.body
        assert len(seen.requests) == requests, seen.requests
        seen.clear()
        assert lake.ask(path, If_None_Match=cold.headers["etag"]).status == 304
        assert len(seen.requests) == requests, seen.requests
        lake.sql("INSERT INTO far.a.t VALUES (2)")
        assert lake.ask(path).body != cold.body


def test_a_warm_load_takes_milliseconds(make_lake: MakeLake) -> None:
    """Of 300 versions and 150 KB of metadata, to a client that keeps no connection: below 10 ms at the median."""
    lake = make_lake()
    lake.sql("CREATE SCHEMA folders.a", "CREATE TABLE folders.a.t (id BIGINT)")
    table = lake.session.catalogs.target("folders", "a", "t")
    for number in range(300):
        with table.load().transaction() as change:
            change.set_properties({f"p{number}": "x" * 500})
    path = "/v1/folders/namespaces/a/tables/t"
    assert len(lake.ask(path).body) > 100_000
    times = []
    for _ in range(101):
        started = time.perf_counter()
        assert lake.ask(path).status == 200
        times.append(time.perf_counter() - started)
    assert statistics.median(times) < WARM_S
