"""USE: names that are shorter begin with the current catalog and schema, in every statement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config import Settings
from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError
from metastore.session import Session, connect


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Two catalogs, of which ``lake`` has the table ``db.t`` of two snapshots, and the workspace ``dfs.shop``."""
    (tmp_path / "shop/sales").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "shop/sales/a.parquet")
    lakes = {
        name: {"type": "sql", "uri": f"sqlite:///{tmp_path}/{name}.db", "warehouse": f"file://{tmp_path}/{name}"}
        for name in ("lake", "side")
    }
    given = {
        "iceberg.location.base_path": str(tmp_path / "m"),
        "catalogs": lakes,
        "storage.dfs.workspaces.shop.location": str(tmp_path / "shop"),
    }
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        opened.sql("CREATE SCHEMA lake.db")
        opened.sql("CREATE TABLE lake.db.t (id BIGINT)")
        opened.sql("INSERT INTO lake.db.t VALUES (1)")
        opened.sql("INSERT INTO lake.db.t VALUES (2)")
        yield opened


def snapshots(session: Session) -> list[int]:
    """The ids of the snapshots, oldest first."""
    rows = session.sql('SELECT snapshot_id FROM lake.db."t$snapshots" ORDER BY committed_at').to_pylist()
    return [row["snapshot_id"] for row in rows]


def test_every_statement_takes_short_names(session: Session) -> None:
    """Of tables of catalogs: queries, rows, definitions, procedures, lists of columns."""
    session.sql("USE lake.db")
    first, _ = snapshots(session)
    for statement in (
        "CREATE TABLE u AS SELECT id FROM t",
        "INSERT INTO u SELECT a.id + b.id FROM t a JOIN db.t b USING (id)",
        "UPDATE u SET id = 9 WHERE id = 1",
        "DELETE FROM u WHERE id IN (SELECT max(id) FROM u)",
        "MERGE INTO u USING t ON u.id = t.id WHEN NOT MATCHED THEN INSERT *",
        "ALTER TABLE u ADD COLUMN n INTEGER",
        "DESCRIBE u",
        'SELECT * FROM "u$files"',
        f"CALL system.rollback_to_snapshot('db', 't', {first})",
    ):
        session.sql(statement)
    assert session.sql("SELECT id FROM u ORDER BY id").to_pylist() == [{"id": 1}, {"id": 2}, {"id": 2}, {"id": 4}]
    assert session.sql("SELECT id FROM t").to_pylist() == [{"id": 1}]
    session.sql("DROP TABLE u")
    assert session.catalogs.tables("lake", "db") == ["t"]


@pytest.mark.parametrize(
    "statement",
    [
        "SHOW TABLES",
        "SHOW CREATE TABLE t",
        "SHOW COLUMNS FROM t",
        "SHOW STATS FOR t",
        "SHOW TBLPROPERTIES t",
        "DESCRIBE EXTENDED t",
        "SELECT count(*) FROM t.snapshots",
    ],
)
def test_short_names_are_shown_as_the_whole_ones(session: Session, statement: str) -> None:
    """Each SHOW means the table of the chosen schema."""
    whole = statement.replace(" t", " lake.db.t").replace("TABLES", "TABLES FROM lake.db")
    expected = session.sql(whole).to_pylist()
    session.sql("USE lake.db")
    assert session.sql(statement).to_pylist() == expected


def test_names_of_a_workspace(session: Session) -> None:
    """ANALYZE, SELECT and views of plain files; names of three parts mean what they meant."""
    assert session.sql("USE dfs.shop").to_pylist() == [{"ok": True, "summary": "names begin with dfs.shop"}]
    session.sql("ANALYZE TABLE sales REFRESH METADATA")
    assert session.sql("SELECT sum(id) AS n FROM sales").to_pylist() == [{"n": 3}]
    assert session.sql("SELECT count(*) AS n FROM lake.db.t").to_pylist() == [{"n": 2}]
    session.sql("CREATE VIEW v AS SELECT id FROM dfs.shop.sales")
    assert session.sql("SELECT count(*) AS n FROM shop.v").to_pylist() == [{"n": 2}]
    assert session.sql("SELECT count(*) AS n FROM information_schema.tables WHERE table_name = 'v'").to_pylist() == [
        {"n": 1}
    ]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("USE nope", NotFoundError, r"line 1, column 5: catalog nope does not exist"),
        ("USE lake.dbb", NotFoundError, r"lake has no schema dbb; did you mean db\?"),
        ("USE dfs.shp", NotFoundError, r"dfs has no schema shp; did you mean shop\?"),
        ("USE", InvalidRequestError, "catalog, catalog.schema or plugin.workspace is expected, not the end"),
        ("USE lake db", InvalidRequestError, "the end of the statement is expected, not db"),
    ],
)
def test_what_cannot_be_used_changes_nothing(
    session: Session, text: str, error: type[MetastoreError], message: str
) -> None:
    """The error has near names, and the schema that was chosen before stays."""
    session.sql("USE lake.db")
    with pytest.raises(error, match=message):
        session.sql(text)
    assert session.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 2}]


def test_without_use_names_are_whole(session: Session) -> None:
    """Two catalogs are there, so none is current; with one alone, it is."""
    with pytest.raises(NotFoundError, match="unknown table db.t"):
        session.sql("SELECT * FROM db.t")
    with pytest.raises(InvalidRequestError, match="'system.expire_snapshots' does not name a procedure"):
        session.sql("CALL system.expire_snapshots('db', 't')")
    given = {"iceberg.location.base_path": "/nowhere", "catalogs.lake": {"type": "sql", "uri": "sqlite:///x.db"}}
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as alone:
        assert alone.catalogs.full(["db", "t"]) == ["lake", "db", "t"]
        assert alone.catalogs.full(["t"]) == ["t"]


def test_a_snapshot_or_branch_after_the_name(session: Session) -> None:
    """As Trino writes it; a table that has such a name itself is meant first."""
    first, second = snapshots(session)
    assert session.sql(f'SELECT id FROM lake.db."t@{first}"').to_pylist() == [{"id": 1}]
    session.sql(f"ALTER TABLE lake.db.t CREATE BRANCH dev AS OF VERSION {first}")
    assert session.sql('SELECT id FROM lake.db."t@dev"').to_pylist() == [{"id": 1}]
    session.sql('CREATE TABLE lake.db."t@dev" AS SELECT 7 AS id')
    assert session.sql('SELECT id FROM lake.db."t@dev"').to_pylist() == [{"id": 7}]
    with pytest.raises(NotFoundError):
        session.sql('SELECT id FROM lake.db."no@dev"')
    with pytest.raises(MetastoreError, match="no branch or tag"):
        session.sql('SELECT id FROM lake.db."t@nope"')
    assert second != first


def test_a_rollback_is_taken_back_by_the_same_procedure(session: Session) -> None:
    """Forward to a snapshot that follows the current one; another line of history is refused with the way."""
    first, second = snapshots(session)
    call = "CALL lake.system.rollback_to_snapshot('db', 't', {})"
    session.sql(call.format(first))
    session.sql(call.format(second))
    assert session.sql("SELECT id FROM lake.db.t ORDER BY id").to_pylist() == [{"id": 1}, {"id": 2}]
    session.sql(call.format(first))
    session.sql("INSERT INTO lake.db.t VALUES (3)")
    with pytest.raises(MetastoreError, match="not an ancestor of the current state: .*; set_current_snapshot goes"):
        session.sql(call.format(second))
