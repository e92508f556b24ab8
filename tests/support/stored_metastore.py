"""A metastore on an object store, with one of everything that it keeps; and what its owner sees in it.

Paths in a metastore are absolute. On an object store they are the same on every machine, so the objects of a bucket can
be kept as data and put into the bucket of another server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import obstore
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from obstore.store import S3Store
from services.s3 import S3Server

from metastore.config.settings import Settings
from metastore.session import Session, connect

BUCKET: Final = "stored-metastore"

QUESTIONS: Final = {
    "files in directories": "SELECT * FROM s3.lake.sales ORDER BY id",
    "delimited text with its options": "SELECT * FROM s3.lake.notes ORDER BY id",
    "a view": "SELECT * FROM s3.lake.large ORDER BY id",
    "a materialized view": "SELECT * FROM s3.lake.totals ORDER BY day",
    "version 2, with deleted rows": "SELECT * FROM lake.db.orders ORDER BY id",
    "version 2, first version": "SELECT * FROM lake.db.orders FOR VERSION AS OF {first} ORDER BY id",
    "version 2, a tag": "SELECT * FROM lake.db.orders FOR VERSION AS OF 'kept' ORDER BY id",
    "version 3, with row ids": "SELECT * FROM lake.db.events ORDER BY id",
    "published": "SELECT * FROM lake.published.sales ORDER BY id",
    "units": "SELECT table_name, table_type, num_rows FROM information_schema.`tables` "
    "WHERE table_schema = 's3.lake' ORDER BY table_name",
    "columns": "SELECT column_name, data_type, num_nulls, ndv FROM information_schema.columns "
    "WHERE table_name = 'sales' AND column_name <> 'day' ORDER BY ordinal_position",
    "file units": "SELECT table_name, metadata_key, path, num_rows, length FROM information_schema.files "
    "WHERE table_name IN ('sales', 'notes') ORDER BY path",
    "row groups": "SELECT path, row_group_index, num_rows FROM information_schema.row_groups "
    "WHERE table_name = 'sales' ORDER BY path",
}
"""What is asked by name; ``{first}`` is the first snapshot of the table."""


def opened(server: S3Server) -> Session:
    """A session over the bucket's metastore, its folder of tables and its catalog."""
    keys = {f'"{name}"': value for name, value in server.hadoop(server.endpoint).items()}
    root = server.root(BUCKET)
    given = {
        "iceberg.location.base_path": f"{root}/metastore",
        "iceberg.config.properties": keys,
        "storage.s3": {
            "connection": root,
            "config": keys,
            "workspaces.lake": {"location": "/lake", "writable": "true"},
        },
        "catalogs.lake": {"type": "filesystem", "warehouse": f"{root}/warehouse", **keys},
    }
    return connect(Settings.from_mapping({"drill.metastore": given}, environ={}))


def fill(store: S3Store, session: Session) -> None:
    """Make one of everything that a metastore keeps, with the history of some changes."""
    for day, ids in {1: range(4), 2: range(4, 8), 3: range(8, 12)}.items():
        _put(store, f"lake/sales/day={day}/a.parquet", _sales(list(ids)))
    store_text = BytesIO()
    pa.csv.write_csv(pa.table({"id": [1, 2], "note": ["with ; and 'quotes'", None]}), store_text)
    store.put("lake/notes/a.csv", store_text.getvalue())
    session.sql("ANALYZE TABLE s3.lake.sales REFRESH METADATA COMPUTE STATISTICS (id, amount)")
    session.sql("ANALYZE TABLE s3.lake.notes (HEADER => TRUE) REFRESH METADATA 'file' LEVEL")
    session.sql("CREATE VIEW s3.lake.large AS SELECT id, amount FROM s3.lake.sales WHERE amount > 5")
    session.sql(
        "CREATE MATERIALIZED VIEW s3.lake.totals AS SELECT day, sum(amount) total FROM s3.lake.sales GROUP BY day"
    )
    _put(store, "lake/sales/day=3/b.parquet", _sales([12, 13]))
    session.sql("ANALYZE TABLE s3.lake.sales REFRESH METADATA PUBLISH AS lake.published.sales")
    session.sql("REFRESH MATERIALIZED VIEW s3.lake.totals")
    session.sql("CREATE SCHEMA lake.db")
    for name, version in (("orders", 2), ("events", 3)):
        session.sql(
            f"CREATE TABLE lake.db.{name} (id BIGINT, at TIMESTAMP, name VARCHAR) "
            f"WITH (format_version = {version}, partitioning = ARRAY['day(at)'])"
        )
        session.sql(
            f"INSERT INTO lake.db.{name} VALUES (1, TIMESTAMP '2026-01-01 10:00:00', 'one'), "
            "(2, TIMESTAMP '2026-01-01 11:00:00', 'two'), (3, TIMESTAMP '2026-01-02 10:00:00', NULL)"
        )
        session.sql(f"ALTER TABLE lake.db.{name} CREATE TAG kept")
        session.sql(f"ALTER TABLE lake.db.{name} ADD COLUMN more DECIMAL(9, 2)")
        session.sql(f"DELETE FROM lake.db.{name} WHERE id = 2")
        session.sql(f"UPDATE lake.db.{name} SET more = 1.25 WHERE id = 3")


def seen(session: Session) -> dict[str, Any]:
    """The answer to each question, and what pruning keeps by the units alone."""
    first = session.sql('SELECT snapshot_id FROM lake.db."orders$snapshots" ORDER BY committed_at').column(0)[0]
    answers: dict[str, Any] = {
        what: json.loads(json.dumps(session.sql(text.format(first=first)).to_pylist(), default=str))
        for what, text in QUESTIONS.items()
    }
    for where in ("day = 2", "id > 9", "amount = 100.5"):
        kept = session.prune("s3.lake.sales", where, list_files=False)
        answers[where] = sorted(file.path for file in kept.files)
    return answers


def packed(store: S3Store) -> bytes:
    """All objects of the bucket as an archive: the same bytes for the same objects."""
    content = BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as archive:
        for path in sorted(entry["path"] for batch in obstore.list(store) for entry in batch):
            archive.writestr(ZipInfo(path), bytes(obstore.get(store, path).bytes()), ZIP_DEFLATED)
    return content.getvalue()


def unpack(archive: bytes, store: S3Store) -> None:
    """Put each object of the archive."""
    for path, content in _members(archive):
        store.put(path, content)


def _members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    with ZipFile(BytesIO(archive)) as opened_archive:
        for info in opened_archive.infolist():
            yield info.filename, opened_archive.read(info)


def _sales(ids: list[int]) -> pa.Table:
    amounts = pa.array([each * 1.5 for each in ids])
    return pa.table({"id": ids, "amount": amounts, "name": [None if each % 3 == 0 else f"n{each}" for each in ids]})


def _put(store: S3Store, path: str, table: pa.Table) -> None:
    content = BytesIO()
    pq.write_table(table, content)
    store.put(path, content.getvalue())
