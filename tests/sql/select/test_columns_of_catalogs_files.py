"""``$path`` and its like on Iceberg tables of catalogs: the rows of DuckDB, from the files that are meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from support.delete_files import delete_equal, with_ids

import metastore
from metastore.config import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session

NAMES = ("$path", "fqn", "filepath", "filename", "suffix")


class Lake:
    """A session with the table ``lake.db.t`` of four files, one row of which is deleted."""

    def __init__(self, folder: Path) -> None:
        lake = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh"}
        settings = {"iceberg.location.base_path": str(folder / "m"), "catalogs.lake": lake}
        self.session: Session = metastore.connect(Settings.from_mapping({"drill.metastore": settings}, environ={}))
        self.catalog: Catalog = self.session.catalogs.open("lake")
        self.catalog.create_namespace("db")
        content = pa.table({"id": [0, 1, 2], "k": ["a", None, "b"]})
        table = self.catalog.create_table("db.t", content.schema)
        for _ in range(4):
            table.append(content)
        delete_equal(table, with_ids(pa.table({"id": [0]}), 1), [1])
        self.paths = sorted(
            str(path) for path in (folder / "wh/db/t/data").glob("*.parquet") if "equal" not in path.name
        )

    def by_duckdb(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query of ``t``, from the files themselves."""
        with duckdb.connect() as connection:
            rows = []
            for path in self.paths:
                folder, _, name = path.rpartition("/")
                values = {"$path": path, "fqn": path, "filepath": folder, "filename": name, "suffix": "parquet"}
                rows += [{**row, **values} for row in pq.read_table(path).to_pylist() if row["id"] != 0]
            connection.register("t", pa.Table.from_pylist(rows))
            return sorted(connection.sql(query).fetchall(), key=repr)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The lake, which no test changes."""
    made = Lake(tmp_path_factory.mktemp("lake"))
    with made.session:
        yield made


CONDITIONS = {
    "\"$path\" = '{path}'": 1,
    "filename = '{name}' AND id = 1": 1,
    "\"$path\" <> '{path}' AND id > 1": 3,
    "NOT (filename = '{name}' OR id = 1)": 3,
    "\"$path\" IN ('{path}', 'x') OR id = 2": 4,
    "suffix = 'orc'": 0,
    "suffix IS NULL": 0,
    "upper(suffix) = 'PARQUET'": 4,
    "filename LIKE '{name}%' AND k IS NULL": 1,
    "filepath = fqn": 4,
}


@pytest.mark.parametrize("where", CONDITIONS)
def test_rows_are_those_of_duckdb(lake: Lake, where: str) -> None:
    """Whatever the condition says of files and of the table's columns; EXPLAIN has the number of files."""
    path = lake.paths[1]
    asked = where.format(path=path, name=path.rpartition("/")[2])
    columns = ", ".join(f'"{name}"' for name in NAMES)
    query = f"SELECT id, k, {columns} FROM {{}} WHERE {asked}"
    found = lake.session.sql(query.format("lake.db.t"))
    assert sorted((tuple(row.values()) for row in found.to_pylist()), key=repr) == lake.by_duckdb(query.format("t"))
    told = map(str, lake.session.sql(f"EXPLAIN {query.format('lake.db.t')}").column(0).to_pylist())
    [line] = [each.strip() for each in told if each.strip().startswith("files:")]
    assert line.startswith(f"files: {CONDITIONS[where]} of 4 read") or CONDITIONS[where] == 4


def test_a_star_does_not_show_them(lake: Lake) -> None:
    """Beside it they are shown where they are named."""
    assert lake.session.sql("SELECT * FROM lake.db.t WHERE suffix = 'parquet'").column_names == ["id", "k"]
    assert lake.session.sql("SELECT *, filename FROM lake.db.t").column_names == ["id", "k", "filename"]
    assert lake.session.sql("SELECT filename, count(*) FROM lake.db.t GROUP BY filename").num_rows == 4


def test_a_column_of_the_table_hides_them(lake: Lake) -> None:
    """Also in another case."""
    content = pa.table({"Filename": ["mine"]})
    lake.catalog.create_table("db.own", content.schema).append(content)
    found = lake.session.sql('SELECT filename, "$path" FROM lake.db.own').to_pylist()
    assert found[0]["Filename" if "Filename" in found[0] else "filename"] == "mine"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("$partition", "select its partition columns"),
        ("$file_modified_time", "and ask the store for the time"),
        ("$row_id", "select .path and a key of the rows"),
    ],
)
def test_what_a_catalogs_table_cannot_have_is_refused(lake: Lake, name: str, hint: str) -> None:
    """With why, and what to ask for instead."""
    with pytest.raises(InvalidRequestError, match=f"there is no column .{name[1:]} of lake.db.t: .*{hint}"):
        lake.session.sql(f'SELECT "{name}" FROM lake.db.t')


def test_the_file_alone_has_as_many_rows_as_its_columns(lake: Lake) -> None:
    """No column of the table is read then, yet its rows count."""
    told: list[Any] = lake.session.sql('SELECT "$path" FROM lake.db.t')["$path"].to_pylist()
    assert sorted(told) == [path for (path,) in lake.by_duckdb('SELECT "$path" FROM t')]
