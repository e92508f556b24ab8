"""Views name what the file of a row says, and row ids: kept, shown, pruned by, at every door that reads views."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet as pq

from metastore.errors import InvalidRequestError
from metastore.session import Session

AddFile = Callable[..., Path]
VIEW = "dfs.tmp.files"
TABLE = "dfs.tmp.sales"


@pytest.fixture
def files(session: Session, add_sales: AddFile) -> Session:
    """The session with a second file of sales, all analyzed."""
    add_sales("second", range(10, 14))
    session.analyze(TABLE)
    return session


def define(session: Session, query: str) -> None:
    """The view of ``query``."""
    session.views.define(VIEW, query, replace=True)


def values(session: Session, query: str) -> list[Any]:
    """The values of the one column of a query, sorted."""
    found: list[Any] = session.sql(query)[0].to_pylist()
    return sorted(found)


def skipped(session: Session, query: str) -> str:
    """The first line of EXPLAIN that counts files."""
    lines: list[Any] = session.sql(f"EXPLAIN {query}")["plan"].to_pylist()
    return next(str(line).strip() for line in lines if line.strip().startswith("files:"))


def test_a_view_names_the_file_of_its_rows(files: Session) -> None:
    """As columns and in conditions, which skip files; a star beside them leaves them out."""
    define(files, f"SELECT id, filename AS f FROM {TABLE} WHERE filename LIKE 'second%'")
    assert files.sql(f"SELECT DISTINCT f FROM {VIEW}").to_pylist() == [{"f": "second.parquet"}]
    assert values(files, f"SELECT id FROM {VIEW}") == [10, 11, 12, 13]
    assert "1 of 2" in skipped(files, f"SELECT * FROM {VIEW}")
    define(files, f"SELECT * FROM {TABLE} WHERE `$path` LIKE '%/first.parquet'")
    assert files.sql(f"SELECT * FROM {VIEW}").column_names == ["id", "Region", "amount", "weight", "item name"]
    assert len(files.sql(f"SELECT * FROM {VIEW}")) == 10


def test_row_ids_and_times_are_columns_of_views_too(files: Session) -> None:
    """Those of a scan, and the files' own."""
    define(files, f"SELECT `$row_id` AS r, `$file_modified_time` AS t, `$partition` AS p, id FROM {TABLE}")
    found = files.sql(f"SELECT r, t, p FROM {VIEW} WHERE id = 3").to_pylist()
    [right] = (
        files.tables.scan(TABLE, "id = 3", ["$row_id", "$file_modified_time"][1:], row_id=True).to_arrow().to_pylist()
    )
    assert found == [{"r": right["$row_id"], "t": right["$file_modified_time"], "p": None}]


def test_a_source_with_more_columns_keeps_what_its_files_say(files: Session, data: Path) -> None:
    """A view is read through the columns that it was made with; those of files are none that a source can lose."""
    define(files, f"SELECT id, filename AS f FROM {TABLE}")
    table = pq.read_table(data / "sales" / "second.parquet")
    pq.write_table(table.append_column("fresh", table["id"]), data / "sales" / "second.parquet")
    files.analyze(TABLE)
    assert values(files, f"SELECT DISTINCT f FROM {VIEW}") == ["first.parquet", "second.parquet"]


def test_stored_rows_of_a_view_say_their_sources_files(files: Session, add_sales: AddFile) -> None:
    """Refreshed in full and by new files."""
    files.materialized_views.define("dfs.tmp.kept", f"SELECT id, filename AS f FROM {TABLE} WHERE filename <> 'x'")
    assert files.materialized_views.refresh("dfs.tmp.kept").rows == 14
    add_sales("third", [20])
    files.analyze(TABLE)
    result = files.materialized_views.refresh("dfs.tmp.kept")
    assert (result.mode, result.rows) == ("incremental", 15)
    assert files.sql("SELECT f FROM dfs.tmp.kept WHERE id = 20").to_pylist() == [{"f": "third.parquet"}]


@pytest.mark.parametrize("name", ["filename", "`$path`", "`$row_id`"])
def test_rows_of_a_view_have_no_file(files: Session, name: str) -> None:
    """The error says where the name can stand."""
    define(files, f"SELECT id FROM {TABLE}")
    with pytest.raises(InvalidRequestError, match="no file of their own; name it in the query that reads the table"):
        files.views.define("dfs.tmp.outer", f"SELECT {name} AS f FROM {VIEW}")
