"""Data on an object store: one table, whatever its location's scheme is called and whichever keys open it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from services.s3 import ACCESS_KEY, SECRET_KEY, S3Server

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError, MetastoreError
from metastore.session import Session, connect

DAYS = {day: [day * 100 + number for number in range(100)] for day in range(4)}
ROWS = [(x, day) for day, numbers in DAYS.items() for x in numbers]

Open = Callable[..., Session]


def hadoop(server: S3Server) -> dict[str, str]:
    """S3A's keys."""
    return server.hadoop(server.endpoint)


def of_pyiceberg(server: S3Server) -> dict[str, str]:
    """PyIceberg's keys."""
    return {
        "s3.endpoint": server.endpoint,
        "s3.region": "us-east-1",
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
    }


def of_pyarrow(server: S3Server) -> dict[str, str]:
    """Options of pyarrow's client."""
    host = server.endpoint.removeprefix("http://")
    own = {"endpoint_override": host, "scheme": "http", "region": "us-east-1"}
    return {**own, "access_key": ACCESS_KEY, "secret_key": SECRET_KEY}


@pytest.fixture
def bucket(s3_server: S3Server, tmp_path: Path) -> str:
    """The name of a bucket with the table ``sales`` in four directories."""
    name = str(tmp_path.name).replace("_", "-").lower()[:50].strip("-")
    store = s3_server.create(name)
    for day, numbers in DAYS.items():
        content = BytesIO()
        pq.write_table(pa.table({"x": numbers}), content)
        store.put(f"lake/sales/day={day}/part 0.parquet", content.getvalue())
    return name


@pytest.fixture
def open_session(tmp_path: Path) -> Open:
    """Open a session whose plugin ``s3`` has ``connection`` and keys, in ``config`` or ``properties``."""

    def open_(connection: str, **keys: Mapping[str, str]) -> Session:
        quoted = {name: {f'"{key}"': value for key, value in given.items()} for name, given in keys.items()}
        plugin = {"type": "file", "connection": connection, "workspaces.lake.location": "/lake", **quoted}
        base = {"iceberg.location.base_path": str(tmp_path / "metastore"), "storage.s3": plugin}
        return connect(Settings.from_mapping({"drill.metastore": base}, environ={}))

    return open_


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
@pytest.mark.parametrize("keys", [hadoop, of_pyiceberg, of_pyarrow])
@pytest.mark.parametrize("block", ["config", "properties"])
def test_every_door_reads_it(
    scheme: str, keys: Callable[..., Any], block: str, bucket: str, s3_server: S3Server, open_session: Open
) -> None:
    """ANALYZE, prune, scans, SQL, datasets, DuckDB and Polars give the rows of the files, and files are skipped."""
    with open_session(f"{scheme}://{bucket}", **{block: keys(s3_server)}) as ms:
        ms.analyze("s3.lake.sales")
        pruned = ms.prune("s3.lake.sales", "x >= 250")
        assert sorted(pruned.paths) == [f"{scheme}://{bucket}/lake/sales/day={day}/part 0.parquet" for day in (2, 3)]
        wanted = sorted(row for row in ROWS if row[0] >= 250)
        scan = ms.tables.scan("s3.lake.sales", "x >= 250", ["x", "day"])
        found = [
            scan.to_arrow(),
            scan.to_arrow_dataset().to_table(),
            scan.to_polars().to_arrow(),
            scan.to_duckdb(duckdb.connect()).to_arrow_table(),
        ]
        for rows in found:
            assert sorted(zip(rows["x"].to_pylist(), rows["day"].to_pylist(), strict=True)) == wanted
        [told] = ms.sql("SELECT count(*) AS n, sum(x) AS s FROM s3.lake.sales WHERE day IN (1, 3)").to_pylist()
        assert told == {"n": 200, "s": sum(DAYS[1]) + sum(DAYS[3])}


@pytest.mark.parametrize("analyzed", ["s3a", "s3"])
def test_a_table_has_one_identity(analyzed: str, bucket: str, s3_server: S3Server, open_session: Open) -> None:
    """A path in any scheme of S3 leads to the table of the workspace, and its files keep the workspace's scheme."""
    with open_session(f"{analyzed}://{bucket}", config=hadoop(s3_server)) as ms:
        for scheme in ("s3", "s3a", "s3n"):
            ms.analyze(f"{scheme}://{bucket}/lake/sales")
            assert ms.tables.scan(f"{scheme}://{bucket}/lake/sales").to_arrow().num_rows == len(ROWS)
        names = ms.sql("SELECT TABLE_NAME FROM INFORMATION_SCHEMA.`TABLES` WHERE TABLE_SCHEMA = 's3.lake'")
        assert names["TABLE_NAME"].to_pylist() == ["sales"]
        assert all(path.startswith(f"{analyzed}://") for path in ms.prune("s3.lake.sales", "x > 0").paths)


def test_properties_win_over_config(bucket: str, s3_server: S3Server, open_session: Open) -> None:
    """And PyIceberg's keys over pyarrow's, and those over Hadoop's; each wrong value would lead to no server."""
    wrong = "http://127.0.0.1:1"
    layers = [
        {"config": {**hadoop(s3_server), "fs.s3a.endpoint": wrong}, "properties": hadoop(s3_server)},
        {"config": {**hadoop(s3_server), "fs.s3a.endpoint": wrong, **of_pyarrow(s3_server)}},
        {"config": {**hadoop(s3_server), "endpoint_override": wrong, **of_pyiceberg(s3_server)}},
    ]
    for keys in layers:
        with open_session(f"s3a://{bucket}", **keys) as ms:
            ms.analyze("s3.lake.sales")
            assert ms.tables.scan("s3.lake.sales").count() == len(ROWS)


def test_no_error_tells_a_secret(open_session: Open) -> None:
    """Neither where nothing answers, nor where a key is misspelled."""
    keys = {"fs.s3a.endpoint": "http://127.0.0.1:1", "fs.s3a.access.key": ACCESS_KEY, "fs.s3a.secret.key": SECRET_KEY}
    with open_session("s3a://box", config=keys) as ms, pytest.raises(MetastoreError) as told:
        ms.analyze("s3.lake.sales")
    assert SECRET_KEY not in repr(told.value)
    with open_session("s3a://box", config={**keys, "secret_kye": SECRET_KEY}) as ms:
        with pytest.raises(
            InvalidRequestError, match="secret_kye is no option of s3a.*did you mean secret_key"
        ) as told_:
            ms.analyze("s3.lake.sales")
        assert SECRET_KEY not in repr(told_.value)
