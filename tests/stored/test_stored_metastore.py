"""What an earlier state of this package wrote is read, changed and cleaned up by this one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store
from services.s3 import S3Server
from support.stored_metastore import BUCKET, opened, seen, unpack

from metastore.session import Session

ALL_BUT_ONE = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
STORED = sorted(Path(__file__).parent.glob("*.zip"))


@pytest.fixture(scope="module", params=STORED, ids=lambda path: path.stem)
def stored(request: pytest.FixtureRequest) -> Path:
    """Each stored metastore."""
    path: Path = request.param
    return path


@pytest.fixture(scope="module")
def bucket(stored: Path, s3_server: S3Server) -> Iterator[S3Store]:
    """Its objects, in a bucket of the name that they know."""
    store = s3_server.create(BUCKET)
    unpack(stored.read_bytes(), store)
    yield store
    store.delete([entry["path"] for batch in store.list() for entry in batch])


@pytest.fixture
def session(bucket: S3Store, s3_server: S3Server) -> Iterator[Session]:
    """A session over it."""
    assert bucket is not None
    with opened(s3_server) as session:
        yield session


def test_all_is_seen_as_before(stored: Path, session: Session) -> None:
    """Rows, units, versions, tags and pruning are those that were stored, and the check finds nothing."""
    expected = json.loads(stored.with_suffix(".json").read_text())
    found = seen(session)
    assert list(found) == list(expected)
    for question, answer in expected.items():
        assert found[question] == answer, question
    assert session.check().findings == ()


def test_all_is_changed_and_cleaned_up(bucket: S3Store, session: Session) -> None:
    """Tables, units, views and publications go on from what was stored."""
    content = BytesIO()
    pq.write_table(pa.table({"id": [20], "amount": [30.0], "name": ["new"]}), content)
    bucket.put("lake/sales/day=4/a.parquet", content.getvalue())
    session.sql("ANALYZE TABLE s3.lake.sales REFRESH METADATA PUBLISH AS lake.published.sales")
    session.sql("REFRESH MATERIALIZED VIEW s3.lake.totals")
    for name in ("orders", "events"):
        session.sql(f"INSERT INTO lake.db.{name} VALUES (20, TIMESTAMP '2026-01-03 10:00:00', 'new', 2.5)")
        session.sql(f"UPDATE lake.db.{name} SET name = 'three' WHERE id = 3")
        session.sql(f"CALL lake.system.rewrite_data_files(table => 'db.{name}')")
        session.sql(f"CALL lake.system.expire_snapshots(table => 'db.{name}', {ALL_BUT_ONE})")
        rows = session.sql(f"SELECT id, name, more FROM lake.db.{name} ORDER BY id").to_pylist()
        assert [(row["id"], row["name"]) for row in rows] == [(1, "one"), (3, "three"), (20, "new")]
        assert [str(row["more"]) for row in rows] == ["None", "1.25", "2.50"]
        tagged = session.sql(f"SELECT id FROM lake.db.{name} FOR VERSION AS OF 'kept' ORDER BY id")
        assert tagged.column(0).to_pylist() == [1, 2, 3]
    session.sql(f"CALL metastore.system.expire_snapshots(table => 'components.tables', {ALL_BUT_ONE})")
    for name in ("s3.lake.sales", "lake.published.sales"):
        assert session.sql(f"SELECT count(*), max(id) FROM {name}").to_pylist() == [{"count_star()": 15, "max(id)": 20}]
    assert session.sql("SELECT total FROM s3.lake.totals WHERE day = 4").to_pylist() == [{"total": 30.0}]
    assert session.check().findings == ()
