"""Trino opens a published folder on an S3 server by name: rows are those of the plain files, and files are skipped."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store
from services.s3 import S3Server
from services.trino import TrinoServer, in_json

from metastore.config import Settings
from metastore.daemon.publications import renew
from metastore.serve.server import RestServer
from metastore.session import Session, connect

pytestmark = [pytest.mark.trino, pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]

FILES, ROWS = 40, 25
NOON = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Published:
    """One folder in a bucket and on the disk, published into the catalog ``lake`` that Trino knows as ``catalog``."""

    session: Session
    trino: TrinoServer
    store: S3Store
    plain: Path
    catalog: str
    log: pytest.LogCaptureFixture

    def write(self, name: str, table: pa.Table) -> None:
        """One file, here and there."""
        path = self.plain / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        self.store.put(f"data/sales/{name}", path.read_bytes())

    def publish(self) -> None:
        """Analyze and publish."""
        self.session.sql("ANALYZE TABLE far.shop.sales REFRESH METADATA PUBLISH AS lake.shop.sales")

    def theirs(self, columns: str, where: str) -> list[list[Any]]:
        """Rows of Trino."""
        return self.trino.rows(f"SELECT {columns} FROM {self.catalog}.shop.sales WHERE {where} ORDER BY 1")

    def ours(self, columns: str, where: str) -> list[list[Any]]:
        """Rows of DuckDB, of the plain files, in the forms of JSON."""
        files = f"read_parquet('{self.plain}/**/*.parquet', union_by_name = true, hive_partitioning = true)"
        with duckdb.connect() as engine:
            engine.execute("SET TimeZone = 'UTC'")
            rows = engine.sql(f"SELECT {columns} FROM {files} WHERE {where} ORDER BY 1").fetchall()
        return [[in_json(value) for value in row] for row in rows]

    def planned(self, where: str) -> int:
        """Files that Trino reads for a condition, by the reports that it posts."""
        self.log.clear()
        self.theirs("id", where)
        texts = [each.getMessage() for each in self.log.records if each.getMessage().startswith("report ")]
        metrics = [json.loads(text.removeprefix("report "))["metrics"] for text in texts]
        # It plans for the estimate of the query, too.
        [found] = {int(each["result-data-files"]["value"]) for each in metrics}
        return found


def sales(day: int, **more: Any) -> pa.Table:
    """The rows of one day."""
    ids = range(day * ROWS, (day + 1) * ROWS)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"name {number:05d}" for number in ids],
            "price": pa.array([Decimal(number) / 100 for number in ids], pa.decimal128(9, 2)),
            "sold": pa.array([NOON + timedelta(hours=number) for number in ids], pa.timestamp("us", "UTC")),
            "part": [{"x": number} if day % 2 else {"x": number, "y": str(number)} for number in ids],
            "tags": [[str(number), "all"] for number in ids],
            **more,
        }
    )


@pytest.fixture
def published(
    tmp_path: Path, s3_server: S3Server, trino: TrinoServer, caplog: pytest.LogCaptureFixture
) -> Iterator[Published]:
    """Forty files of forty days; half of them have the column ``extra``."""
    bucket, catalog = f"trino-{uuid.uuid4().hex[:8]}", f"lake_{uuid.uuid4().hex[:8]}"
    store = s3_server.create(bucket)
    keys = {f'"{key}"': value for key, value in s3_server.hadoop(s3_server.endpoint).items()}
    given = {
        "iceberg.location.base_path": str(tmp_path / "own"),
        "storage.far": {
            "type": "file",
            "connection": f"s3a://{bucket}",
            "config": keys,
            "workspaces.shop.location": "/data",
        },
        "catalogs.lake": {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/lake.db",
            "warehouse": f"s3a://{bucket}/lake",
            **keys,
        },
        "serve": {"catalogs": ["lake"], "port": 0, "metrics_reports": "log", "freshness": "0 seconds"},
    }
    settings = Settings.from_mapping({"drill.metastore": given}, environ={})
    with ExitStack() as opened:
        session = opened.enter_context(connect(settings))
        made = Published(session, trino, store, tmp_path / "plain", catalog, caplog)
        for day in range(FILES):
            more = {} if day % 2 else {"extra": pa.array([day] * ROWS, pa.int32())}
            made.write(f"day=2026-11-{day % 20 + 1:02d}/{day}.parquet", sales(day, **more))
        made.publish()
        server = opened.enter_context(RestServer(settings.serve, session.catalogs, renew=partial(renew, session)))
        caplog.set_level("INFO", "metastore.serve.handlers")
        rest = {
            "iceberg.catalog.type": "rest",
            "iceberg.rest-catalog.uri": server.url,
            "iceberg.rest-catalog.warehouse": "lake",
        }
        opened.enter_context(trino.catalog(catalog, s3_server, rest))
        yield made


ALL = "id, name, CAST(price AS VARCHAR) AS price, CAST(extra AS BIGINT) AS extra, CAST(day AS VARCHAR) AS day"
NESTED = "id, part.x AS x, part.y AS y, part IS NULL AS gone, tags[1] AS tag, cardinality(tags) AS tags"


def test_rows_are_those_of_the_plain_files(published: Published) -> None:
    """Of every column, also of one that half of the files lack, and of moments; then of a file that came since.

    Parts of structs and lists are found by the name mapping (trino#22347), also one that half of the files lack.
    """
    assert published.theirs(ALL, "true") == published.ours(ALL, "true")
    assert published.theirs(NESTED, "true") == published.ours(NESTED.replace("cardinality", "len"), "true")
    moments = "id, to_unixtime(sold)"
    ours = published.ours("id, epoch(sold)", "true")
    assert published.theirs(moments, "true") == ours
    published.write("day=2026-11-30/new.parquet", sales(FILES, extra=pa.array([2**40] * ROWS, pa.int64())))
    assert published.theirs(ALL, "true") == published.ours(ALL, "true")
    assert len(published.theirs("id", "true")) == (FILES + 1) * ROWS


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("id >= 250 AND id <= 260", 1),
        ("day = DATE '2026-11-03'", 2),
        ("name = 'name 00700'", 1),
        ("extra > 37", 1),
        ("price < 0.50", 2),
        ("id >= 0", FILES),
    ],
)
def test_files_are_skipped(published: Published, where: str, files: int) -> None:
    """By the reports that Trino posts about its scan; with the rows of the plain files."""
    assert published.theirs("id", where) == published.ours("id", where)
    assert published.planned(where) == files
    loaded = published.session.catalogs.table("lake", "shop", "sales").load()
    assert len(list(loaded.scan(where.replace("DATE ", "")).plan_files())) == files


@pytest.mark.parametrize(
    "statement",
    ["DROP TABLE {}", "DELETE FROM {}", "INSERT INTO {} (id) VALUES (1)", "ALTER TABLE {} ADD COLUMN y BIGINT"],
)
def test_a_write_is_refused(published: Published, statement: str) -> None:
    """No file of the folder goes or changes."""
    before = {each["path"]: each["e_tag"] for page in published.store.list("data/") for each in page}
    with pytest.raises(RuntimeError, match="(?i)endpoint|read-only|forbidden|failed|not support"):
        published.trino.rows(statement.format(f"{published.catalog}.shop.sales"))
    assert {each["path"]: each["e_tag"] for page in published.store.list("data/") for each in page} == before
