"""Views and materialized views over tables of catalogs that nobody has analyzed; PyIceberg changes the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from metastore.config import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """With ``lake.db.t`` of two rows, and the writable workspace ``dfs.shop``."""
    (tmp_path / "shop").mkdir()
    given = {
        "iceberg.location.base_path": str(tmp_path / "m"),
        "catalogs.lake": {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/wh"},
        "storage.dfs.workspaces.shop": {"location": str(tmp_path / "shop"), "writable": True},
    }
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        opened.sql("CREATE SCHEMA lake.db")
        opened.sql("CREATE TABLE lake.db.t (id BIGINT, s VARCHAR)")
        opened.sql("INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b')")
        yield opened


def append(session: Session, **values: Any) -> None:
    """Add one row, as another program does."""
    table = session.catalogs.open("lake").load_table("db.t")
    table.append(pa.Table.from_pylist([values]))


def read(session: Session, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query, in order."""
    return sorted(tuple(row.values()) for row in session.sql(query).to_pylist())


def test_a_view_shows_the_newest_rows(session: Session) -> None:
    """Without ANALYZE, through another view, and pruned by the condition on the view."""
    session.sql("CREATE VIEW dfs.shop.v AS SELECT id * 2 AS twice, id FROM lake.db.t")
    session.sql("CREATE VIEW dfs.shop.w AS SELECT v.twice, t.s FROM dfs.shop.v v JOIN lake.db.t t ON v.id = t.id")
    append(session, id=3, s="c")
    assert read(session, "SELECT * FROM dfs.shop.w") == [(2, "a"), (4, "b"), (6, "c")]
    lines = [row["plan"] for row in session.sql("EXPLAIN SELECT twice FROM dfs.shop.v WHERE id > 2").to_pylist()]
    assert lines[:2] == ["Fetch lake.db.t (id) where id > 2", "  files: 1 of 2 read, 1 skipped"]


def test_a_view_needs_the_columns_that_it_reads(session: Session) -> None:
    """A lost column is an error of the view, and says so; other columns do not matter."""
    session.sql("CREATE VIEW dfs.shop.v AS SELECT s FROM lake.db.t")
    session.sql("ALTER TABLE lake.db.t DROP COLUMN id")
    assert read(session, "SELECT * FROM dfs.shop.v") == [("a",), ("b",)]
    session.sql("ALTER TABLE lake.db.t ADD COLUMN n INTEGER, DROP COLUMN s")
    with pytest.raises(InvalidRequestError, match=r"view dfs\.shop\.v reads column s of lake\.db\.t, which has no"):
        session.sql("SELECT * FROM dfs.shop.v")


def test_an_unknown_table_is_an_error_of_its_place(session: Session) -> None:
    """As for analyzed tables."""
    with pytest.raises(InvalidRequestError, match="line 1, column 41: unknown table or view lake.db.u"):
        session.sql("CREATE VIEW dfs.shop.v AS SELECT 1 FROM lake.db.u")


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_materialized_view_is_read_while_it_is_fresh(session: Session, mode: str) -> None:
    """Its rows stand for the query until the table changes, by new files or by deletes; a refresh renews them."""
    session.sql(f"ALTER TABLE lake.db.t SET PROPERTIES 'write.delete.mode' = '{mode}'")
    session.sql("CREATE MATERIALIZED VIEW dfs.shop.m AS SELECT s, count(*) AS n FROM lake.db.t GROUP BY s")
    expected = [("a", 1), ("b", 1)]
    query = "SELECT s, n FROM dfs.shop.m"
    for change, after in (
        (lambda: append(session, id=3, s="a"), [("a", 2), ("b", 1)]),
        (lambda: session.sql("DELETE FROM lake.db.t WHERE id = 1"), [("a", 1), ("b", 1)]),
    ):
        assert read(session, query) == expected
        session.sql("REFRESH MATERIALIZED VIEW dfs.shop.m")
        assert not _reads_the_table(session, query)
        assert read(session, query) == expected
        change()
        assert _reads_the_table(session, query)
        expected = after
    assert read(session, query) == expected


def _reads_the_table(session: Session, query: str) -> bool:
    return any("lake.db.t" in row["plan"] for row in session.sql(f"EXPLAIN {query}").to_pylist())
